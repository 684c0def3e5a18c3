//! Appends to Postgres in one statement, so in one transaction and one round trip.
//!
//! Moving the head takes its row's lock, which holds until the commit: the next append waits, so commits become
//! visible in revision order, and access events in the order of their numbers. The head moves only from the revision
//! that the caller knows, and only if the first commit is chained to it. Otherwise no row comes back and nothing is
//! done.
//!
//! The statement has only the parts with rows. A part is a subquery whose columns are values for a single registration,
//! and arrays for others. Arrays are unpacked in the target list: as functions in `FROM`, Postgres would first copy each
//! one into a store of its own. Postgres plans each form of the statement once per connection.

use registry_core::{Revision, limits};
use sqlx::{
    Encode, Executor as _, PgPool, Postgres, QueryBuilder, Transaction, Type,
    postgres::{PgBindIterExt as _, PgHasArrayType},
    query_builder::Separated,
};
use tokio::sync::Notify;

use super::{PostgresStore, errors};
use crate::store::{
    CommitEvent,
    backend::{AppendFailure, AppendResult},
    batch::{Batch, NewChange, NewCommit, NewEntity, NewLifecycle, NewSetting},
    row::{HeadRow, corrupt, revision, stored},
    sql,
    sql_timestamp::SqlTimestamp,
};

/// Minimum number of rows of a column with equal values that is one value instead of an array. With fewer rows, a further
/// form of the statement costs more than it saves.
const MANY_ROWS: usize = 64;

/// Transaction that holds the lock on the head row.
pub(in crate::store) struct HeadTransaction(Transaction<'static, Postgres>);

/// An append that may be stored. Its end requests a notification, also if its outcome is unknown because of an error or
/// a timeout. A notification without a commit is harmless.
struct PossibleCommit<'a>(Option<&'a Notify>);

impl PossibleCommit<'_> {
    /// Ends an append that stored nothing.
    fn reject(mut self) {
        self.0 = None;
    }
}

impl Drop for PossibleCommit<'_> {
    fn drop(&mut self) {
        if let Some(appended) = self.0 {
            appended.notify_one();
        }
    }
}

/// Begins a transaction with the lock on the head row. Commits wait for it, so its own waits for rows are short.
pub(super) async fn begin_with_head(
    pool: &PgPool,
) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    // A server that stops while it has the lock must not block others for long.
    let limit = "SET LOCAL idle_in_transaction_session_timeout = '5s'";
    sqlx::query(limit).execute(&mut *transaction).await?;
    let lock = "SELECT revision FROM head FOR UPDATE; SET LOCAL lock_timeout = '2s'";
    transaction.execute(lock).await?;
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
        let mut statement = Statement::new(expected, batch);
        statement.add_commits(&batch.commits);
        statement.add_entities(&batch.entities);
        statement.add_changes(&batch.changes);
        statement.add_lifecycles(&batch.lifecycles);
        statement.add_settings(&batch.settings);
        statement.add_requests(batch);
        statement.add_events(batch.events());
        statement.text.push(" SELECT revision FROM moved");
        let append = statement.text.build();
        let possible = PossibleCommit(Some(&self.appended));
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
                let mut taken = self.take_append_connection().await.map_err(failed)?;
                let done = append.execute(&mut taken.connection).await;
                if done.as_ref().err().is_none_or(errors::is_used_request_id) {
                    self.keep_append_connection(taken);
                }
                done.map_err(failed)?
            }
        };
        if done.rows_affected() == 1 {
            return Ok(AppendResult::Stored);
        }
        possible.reject();
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

/// A statement under construction.
struct Statement {
    text: QueryBuilder<Postgres>,
    /// Whether no part has several rows.
    is_single: bool,
}

impl Statement {
    /// Moves the head.
    fn new(expected: Revision, batch: &Batch<'_>) -> Self {
        let counts = [
            batch.commits.len(),
            batch.entities.len(),
            batch.changes.len(),
            batch.lifecycles.len(),
            batch.settings.len(),
            batch.requests.len(),
            batch.events().len(),
        ];
        let first = batch.commits.first();
        let mut text = QueryBuilder::<Postgres>::new("WITH moved AS (UPDATE head SET revision = ");
        text.push_bind(stored(batch.head))
            .push(", chain = ")
            .push_bind(batch.chain.to_string())
            .push(" WHERE revision = ")
            .push_bind(stored(expected))
            .push(" AND sha256(decode(substr(chain, 8), 'hex') || ")
            .push_bind(first.map(|commit| commit.canonical))
            .push(") = decode(substr(")
            .push_bind(first.map(|commit| commit.chain.as_str()))
            .push(", 8), 'hex') RETURNING revision)");
        Self { text, is_single: counts.iter().all(|count| *count <= 1) }
    }

    /// Adds a part: its text before the rows, the columns of the rows, and its text after them.
    fn add<'q, R>(
        &mut self,
        rows: &'q [R],
        (before, after): (&str, &str),
        columns: impl FnOnce(&mut Columns<'_, 'q, R>),
    ) {
        if rows.is_empty() {
            return;
        }
        let is_single = self.is_single;
        self.text.push(before).push("(SELECT ");
        columns(&mut Columns { rows, is_single, list: self.text.separated(", ") });
        self.text.push(")").push(after);
    }

    fn add_commits(&mut self, commits: &[NewCommit<'_>]) {
        let before = ", new_commits AS (
            INSERT INTO commits
                (revision, author, committed_at, message, request_id, changes, chain, canonical)
            SELECT new.* FROM moved, ";
        self.add(commits, (before, " AS new)"), |columns| {
            columns
                .add(|c| c.revision)
                .add(|c| c.author)
                .add(|c| c.committed_at)
                .add(|c| c.message)
                .add(|c| c.request_id)
                .add(|c| c.changes)
                .add(|c| c.chain.as_str())
                .add(|c| c.canonical);
        });
    }

    fn add_entities(&mut self, entities: &[NewEntity<'_>]) {
        let before = ", new_entities AS (
            INSERT INTO entities
                (kind, name, version, digest, owner, registered_revision, lifecycle,
                 lifecycle_revision, lifecycle_reason, lifecycle_notice, document)
            SELECT new.* FROM moved, ";
        self.add(entities, (before, " AS new)"), |columns| {
            columns
                .add(|e| e.key.kind)
                .add(|e| e.key.name)
                .add(|e| e.key.version.as_str())
                .add(|e| e.digest.as_str())
                .add(|e| e.owner)
                .add(|e| e.registered_revision)
                .add(|e| e.state.lifecycle)
                .add(|e| e.state.revision)
                .add(|e| e.state.reason)
                .add(|e| e.state.notice.as_deref())
                .add(|e| e.document);
        });
    }

    fn add_changes(&mut self, changes: &[NewChange<'_>]) {
        // Preparing the lookup takes a tenth of the time of a single registration.
        let digest = if changes.iter().all(|change| change.digest.is_some()) {
            "new.digest"
        } else {
            "coalesce(new.digest, (
                SELECT digest FROM entities
                WHERE kind = new.kind AND name = new.name AND version = new.version
            ))"
        };
        let before = format!(
            ", new_changes AS (
            INSERT INTO changes
                (revision, ordinal, action, kind, name, version, digest, reason, detail)
            SELECT new.revision, new.ordinal, new.action, new.kind, new.name, new.version,
                {digest}, new.reason, new.detail
            FROM moved, "
        );
        let after = " AS new
            (revision, ordinal, action, kind, name, version, digest, reason, detail))";
        self.add(changes, (before.as_str(), after), |columns| {
            columns
                .add(|c| c.revision)
                .add(|c| c.ordinal)
                .add(|c| c.action)
                .add(|c| c.key.kind)
                .add(|c| c.key.name)
                .add(|c| c.key.version.as_str())
                .add(|c| c.digest.as_deref())
                .add(|c| c.reason)
                .add(|c| c.detail.as_deref());
        });
    }

    fn add_lifecycles(&mut self, lifecycles: &[NewLifecycle<'_>]) {
        let before = ", new_lifecycles AS (
            UPDATE entities
            SET lifecycle = new.lifecycle, lifecycle_revision = new.revision,
                lifecycle_reason = new.reason, lifecycle_notice = new.notice
            FROM moved, ";
        let after = " AS new (kind, name, version, lifecycle, revision, reason, notice)
            WHERE entities.kind = new.kind AND entities.name = new.name
              AND entities.version = new.version)";
        self.add(lifecycles, (before, after), |columns| {
            columns
                .add(|l| l.key.kind)
                .add(|l| l.key.name)
                .add(|l| l.key.version.as_str())
                .add(|l| l.state.lifecycle)
                .add(|l| l.state.revision)
                .add(|l| l.state.reason)
                .add(|l| l.state.notice.as_deref());
        });
    }

    fn add_settings(&mut self, settings: &[NewSetting]) {
        let before = ", new_settings AS (
            INSERT INTO setting_changes (revision, ordinal, selector, setting)
            SELECT new.* FROM moved, ";
        self.add(settings, (before, " AS new)"), |columns| {
            columns
                .add(|s| s.revision)
                .add(|s| s.ordinal)
                .add(|s| s.selector.as_str())
                .add(|s| s.setting.as_str());
        });
    }

    fn add_requests(&mut self, batch: &Batch<'_>) {
        let before = ", new_requests AS (
            INSERT INTO requests (author, request_id, revision, committed_at)
            SELECT new.* FROM moved, ";
        // Revision 0 violates a constraint, and so rejects a request that made a commit before and has not expired.
        // Commits of another registry keep their requests.
        let is_other = if batch.is_copy() {
            "true".to_owned()
        } else {
            let expiry = limits::REQUEST_ID_MILLIS;
            format!("requests.committed_at <= excluded.committed_at - {expiry} * interval '1 ms'")
        };
        let after = format!(
            " AS new
            ON CONFLICT (author, request_id) DO UPDATE
                SET revision = CASE WHEN {is_other} THEN excluded.revision ELSE 0 END,
                    committed_at = excluded.committed_at)"
        );
        self.add(&batch.requests, (before, after.as_str()), |columns| {
            columns
                .add(|r| r.author)
                .add(|r| r.request_id)
                .add(|r| r.revision)
                .add(|r| r.committed_at);
        });
    }

    fn add_events(&mut self, events: &[CommitEvent]) {
        let before = ", new_events AS (
            INSERT INTO access_events (at, principal, method, address, event, subject, detail)
            SELECT new.at, new.principal, new.method, new.address, 'committed', new.subject, ''
            FROM moved, ";
        let after = " AS new (at, principal, method, address, subject))";
        self.add(events, (before, after), |columns| {
            columns
                .add(|e| SqlTimestamp(e.what.at))
                .add(|e| e.what.principal.as_str())
                .add(|e| e.what.method.as_str())
                .add(|e| e.what.address.as_str())
                .add(|e| e.revision.to_string());
        });
    }
}

/// Columns of rows: single values, or arrays.
struct Columns<'a, 'q, R> {
    rows: &'q [R],
    is_single: bool,
    list: Separated<'a, Postgres, &'static str>,
}

impl<'q, R> Columns<'_, 'q, R> {
    fn add<T>(&mut self, value: impl Fn(&'q R) -> T) -> &mut Self
    where
        T: Encode<'q, Postgres> + Type<Postgres> + PgHasArrayType + PartialEq,
    {
        let rows = self.rows;
        match rows {
            [row] if self.is_single => self.list.push_bind(value(row)),
            [first, rest @ ..]
                if rows.len() >= MANY_ROWS && rest.iter().all(|row| value(row) == value(first)) =>
            {
                self.list.push_bind(value(first))
            }
            rows => {
                let values = rows.iter().map(value).bind_iter();
                self.list.push("unnest(").push_bind_unseparated(values).push_unseparated(")")
            }
        };
        self
    }
}
