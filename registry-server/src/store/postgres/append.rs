//! Appending to Postgres: one statement, see `append.sql`.

use registry_core::Revision;
use sqlx::{
    Postgres, Transaction,
    postgres::{PgArguments, PgBindIterExt as _},
    query::Query,
};

use super::{PostgresStore, WRITER};
use crate::store::{
    CommitEvent,
    at::At,
    backend::{Appended, Refusal},
    batch::{Batch, NewChange, NewCommit, NewEntity, NewLifecycle, NewSetting},
    row::{HeadRow, corrupt, revision, stored},
    sql,
};

/// The log's head with its lock: nobody else appends until this is used or dropped.
pub(in crate::store) struct HeldHead(Transaction<'static, Postgres>);

type Append<'q> = Query<'q, Postgres, PgArguments>;

impl PostgresStore {
    /// Waits for its turn at the head's lock, which is given in the order of asking.
    pub(in crate::store) async fn hold_head(&self) -> Result<HeldHead, sqlx::Error> {
        let mut transaction = self.pool.begin().await?;
        // Whoever stops while it holds the head must not stop everybody else for long.
        let limit = "SET LOCAL idle_in_transaction_session_timeout = '5s'";
        sqlx::query(limit).execute(&mut *transaction).await?;
        sqlx::query("SELECT revision FROM head FOR UPDATE").execute(&mut *transaction).await?;
        Ok(HeldHead(transaction))
    }

    pub(in crate::store) async fn append(
        &self,
        hold: Option<HeldHead>,
        expected: Revision,
        batch: &Batch<'_>,
    ) -> Result<Appended, Refusal> {
        let refused = |e: sqlx::Error| super::refusal::refusal(&self.name, &e);
        let append = sqlx::query(include_str!("append.sql"));
        let append = bind_head(append, expected, batch);
        let append = bind_commits(append, &batch.commits);
        let append = bind_entities(append, &batch.entities);
        let append = bind_changes(append, &batch.changes);
        let append = bind_lifecycles(append, &batch.lifecycles);
        let append = bind_settings(append, &batch.settings);
        let append = bind_requests(append, batch);
        let append = bind_events(append, batch.events());
        let is_appended = match hold {
            None => append.execute(&self.pool).await.map_err(refused)?.rows_affected() == 1,
            Some(HeldHead(mut transaction)) => {
                let done = append.execute(&mut *transaction).await.map_err(refused)?;
                transaction.commit().await.map_err(refused)?;
                done.rows_affected() == 1
            }
        };
        if is_appended {
            return Ok(Appended::Yes);
        }
        let head: HeadRow =
            sqlx::query_as(sql::HEAD).fetch_one(&self.pool).await.map_err(refused)?;
        if head.revision != stored(expected) {
            return revision(head.revision).map(Appended::HeadMoved).map_err(Refusal::Store);
        }
        if !batch.is_copy() && self.is_any_taken(batch).await.map_err(refused)? {
            return Err(Refusal::RequestId);
        }
        let detail = format!("revision {} is not the one that was read", head.revision);
        Err(Refusal::Store(corrupt("the table head", detail)))
    }
}

impl PostgresStore {
    /// Whether a request of the batch made a commit already.
    async fn is_any_taken(&self, batch: &Batch<'_>) -> Result<bool, sqlx::Error> {
        let taken = sqlx::query_scalar(
            "SELECT EXISTS (
                 SELECT 1 FROM requests JOIN unnest($1::text[], $2::text[], $3::timestamptz[])
                     AS new (author, request_id, since) USING (author, request_id)
                 WHERE committed_at > since)",
        )
        .bind(batch.requests.iter().map(|r| r.author).bind_iter())
        .bind(batch.requests.iter().map(|r| r.request_id).bind_iter())
        .bind(batch.requests.iter().map(|r| r.retries_since).bind_iter());
        taken.fetch_one(&self.pool).await
    }
}

fn bind_head<'q>(append: Append<'q>, expected: Revision, batch: &Batch<'_>) -> Append<'q> {
    let first = batch.commits.first();
    append
        .bind(stored(expected))
        .bind(stored(batch.head))
        .bind(batch.chain.to_string())
        .bind(first.map(|commit| commit.canonical.to_vec()))
        .bind(first.map(|commit| commit.chain.clone()))
}

fn bind_commits<'q>(append: Append<'q>, commits: &'q [NewCommit<'_>]) -> Append<'q> {
    append
        .bind(commits.iter().map(|c| c.revision).bind_iter())
        .bind(commits.iter().map(|c| c.author).bind_iter())
        .bind(commits.iter().map(|c| c.committed_at).bind_iter())
        .bind(commits.iter().map(|c| c.message).bind_iter())
        .bind(commits.iter().map(|c| c.request_id).bind_iter())
        .bind(commits.iter().map(|c| c.changes).bind_iter())
        .bind(commits.iter().map(|c| c.chain.as_str()).bind_iter())
        .bind(commits.iter().map(|c| c.canonical).bind_iter())
        .bind(commits.iter().map(|c| c.retries_since).bind_iter())
}

fn bind_entities<'q>(append: Append<'q>, entities: &'q [NewEntity<'_>]) -> Append<'q> {
    append
        .bind(entities.iter().map(|e| e.key.kind).bind_iter())
        .bind(entities.iter().map(|e| e.key.name).bind_iter())
        .bind(entities.iter().map(|e| e.key.version.as_str()).bind_iter())
        .bind(entities.iter().map(|e| e.digest.as_str()).bind_iter())
        .bind(entities.iter().map(|e| e.owner).bind_iter())
        .bind(entities.iter().map(|e| e.registered_revision).bind_iter())
        .bind(entities.iter().map(|e| e.state.lifecycle).bind_iter())
        .bind(entities.iter().map(|e| e.state.revision).bind_iter())
        .bind(entities.iter().map(|e| e.state.reason).bind_iter())
        .bind(entities.iter().map(|e| e.state.notice.as_deref()).bind_iter())
        .bind(entities.iter().map(|e| e.document).bind_iter())
}

fn bind_changes<'q>(append: Append<'q>, changes: &'q [NewChange<'_>]) -> Append<'q> {
    append
        .bind(changes.iter().map(|c| c.revision).bind_iter())
        .bind(changes.iter().map(|c| c.ordinal).bind_iter())
        .bind(changes.iter().map(|c| c.action).bind_iter())
        .bind(changes.iter().map(|c| c.key.kind).bind_iter())
        .bind(changes.iter().map(|c| c.key.name).bind_iter())
        .bind(changes.iter().map(|c| c.key.version.as_str()).bind_iter())
        .bind(changes.iter().map(|c| c.digest.as_deref()).bind_iter())
        .bind(changes.iter().map(|c| c.reason).bind_iter())
        .bind(changes.iter().map(|c| c.detail.as_deref()).bind_iter())
}

fn bind_lifecycles<'q>(append: Append<'q>, lifecycles: &'q [NewLifecycle<'_>]) -> Append<'q> {
    append
        .bind(lifecycles.iter().map(|l| l.key.kind).bind_iter())
        .bind(lifecycles.iter().map(|l| l.key.name).bind_iter())
        .bind(lifecycles.iter().map(|l| l.key.version.as_str()).bind_iter())
        .bind(lifecycles.iter().map(|l| l.state.lifecycle).bind_iter())
        .bind(lifecycles.iter().map(|l| l.state.revision).bind_iter())
        .bind(lifecycles.iter().map(|l| l.state.reason).bind_iter())
        .bind(lifecycles.iter().map(|l| l.state.notice.as_deref()).bind_iter())
}

fn bind_settings<'q>(append: Append<'q>, settings: &'q [NewSetting]) -> Append<'q> {
    append
        .bind(settings.iter().map(|s| s.revision).bind_iter())
        .bind(settings.iter().map(|s| s.ordinal).bind_iter())
        .bind(settings.iter().map(|s| s.selector.as_str()).bind_iter())
        .bind(settings.iter().map(|s| s.setting.as_str()).bind_iter())
}

fn bind_requests<'q>(append: Append<'q>, batch: &'q Batch<'_>) -> Append<'q> {
    let requests = &batch.requests;
    append
        .bind(requests.iter().map(|r| r.author).bind_iter())
        .bind(requests.iter().map(|r| r.request_id).bind_iter())
        .bind(requests.iter().map(|r| r.revision).bind_iter())
        .bind(requests.iter().map(|r| r.committed_at).bind_iter())
        .bind(requests.iter().map(|r| r.retries_since).bind_iter())
        .bind(batch.is_copy())
}

fn bind_events<'q>(append: Append<'q>, events: &'q [CommitEvent]) -> Append<'q> {
    append
        .bind(events.iter().map(|e| At(e.what.at)).bind_iter())
        .bind(events.iter().map(|e| e.what.principal.as_str()).bind_iter())
        .bind(events.iter().map(|e| e.what.method.as_str()).bind_iter())
        .bind(events.iter().map(|e| e.what.address.as_str()).bind_iter())
        .bind(sql::COMMITTED)
        .bind(events.iter().map(|e| e.revision.to_string()).bind_iter())
        .bind(events.iter().map(|_| WRITER).bind_iter())
}
