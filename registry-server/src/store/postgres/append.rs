//! Appends to Postgres in one statement (`append.sql`).

use registry_core::{Revision, limits};
use sqlx::{
    PgPool, Postgres, Transaction,
    postgres::{PgArguments, PgBindIterExt as _},
    query::Query,
};

use super::{PostgresStore, errors};
use crate::store::{
    CommitEvent,
    backend::{AppendFailure, AppendResult},
    batch::{Batch, NewChange, NewCommit, NewEntity, NewLifecycle, NewSetting},
    row::{HeadRow, corrupt, revision, stored},
    sql,
    sql_timestamp::SqlTimestamp,
};

/// Transaction that holds the lock on the head row.
pub(in crate::store) struct HeadTransaction(Transaction<'static, Postgres>);

type Append<'q> = Query<'q, Postgres, PgArguments>;

/// Begins a transaction with the lock on the head row.
pub(super) async fn begin_with_head(
    pool: &PgPool,
) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    // A server that stops while it has the lock must not block others for long.
    let limit = "SET LOCAL idle_in_transaction_session_timeout = '5s'";
    sqlx::query(limit).execute(&mut *transaction).await?;
    sqlx::query("SELECT revision FROM head FOR UPDATE").execute(&mut *transaction).await?;
    Ok(transaction)
}

impl PostgresStore {
    /// Waits for the lock on the head row, which is granted in order of arrival.
    pub(in crate::store) async fn lock_head(&self) -> Result<HeadTransaction, sqlx::Error> {
        begin_with_head(&self.pool).await.map(HeadTransaction)
    }

    pub(in crate::store) async fn append(
        &self,
        lock: Option<HeadTransaction>,
        expected: Revision,
        batch: &Batch<'_>,
    ) -> Result<AppendResult, AppendFailure> {
        let failed = |e: sqlx::Error| self.append_failure(&e);
        let append = sqlx::query(include_str!("append.sql"));
        let append = bind_head(append, expected, batch);
        let append = bind_commits(append, &batch.commits);
        let append = bind_entities(append, &batch.entities);
        let append = bind_changes(append, &batch.changes);
        let append = bind_lifecycles(append, &batch.lifecycles);
        let append = bind_settings(append, &batch.settings);
        let append = bind_requests(append, batch);
        let append = bind_events(append, batch.events());
        let done = match lock {
            Some(HeadTransaction(mut transaction)) => {
                let done = append.execute(&mut *transaction).await.map_err(failed)?;
                transaction.commit().await.map_err(failed)?;
                done
            }
            // The best plan for lifecycle changes depends on the number of entities, which may have grown since a
            // reusable plan was made.
            None if !batch.lifecycles.is_empty() => {
                append.execute(&self.pool).await.map_err(failed)?
            }
            None => {
                let mut connection = self.take_append_connection().await.map_err(failed)?;
                let done = append.execute(&mut connection).await;
                if done.as_ref().err().is_none_or(errors::is_used_request_id) {
                    self.keep_append_connection(connection);
                }
                done.map_err(failed)?
            }
        };
        if done.rows_affected() == 1 {
            return Ok(AppendResult::Stored);
        }
        let head: HeadRow =
            sqlx::query_as(sql::HEAD).fetch_one(&self.pool).await.map_err(failed)?;
        if head.revision != stored(expected) {
            return revision(head.revision)
                .map(AppendResult::HeadMoved)
                .map_err(AppendFailure::Store);
        }
        let detail =
            format!("revision {} has another chain hash than the one read before", head.revision);
        Err(AppendFailure::Store(corrupt("the table head", detail)))
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
        .bind(limits::REQUEST_ID_MILLIS)
        .bind(batch.is_copy())
}

fn bind_events<'q>(append: Append<'q>, events: &'q [CommitEvent]) -> Append<'q> {
    append
        .bind(events.iter().map(|e| SqlTimestamp(e.what.at)).bind_iter())
        .bind(events.iter().map(|e| e.what.principal.as_str()).bind_iter())
        .bind(events.iter().map(|e| e.what.method.as_str()).bind_iter())
        .bind(events.iter().map(|e| e.what.address.as_str()).bind_iter())
        .bind(events.iter().map(|e| e.revision.to_string()).bind_iter())
}
