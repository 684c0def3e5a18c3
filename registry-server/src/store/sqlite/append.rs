//! Appends to SQLite in one immediate transaction, with many rows in one statement.

use registry_core::Revision;
use sqlx::{Connection as _, QueryBuilder, Sqlite, SqliteConnection};

use super::SqliteStore;
use crate::store::{
    CommitEvent, Error,
    backend::{AppendFailure, AppendResult},
    batch::{Batch, NewKey, NewSetting},
    row::{HeadRow, chain, corrupt, revision, stored},
    sql,
    sql_timestamp::SqlTimestamp,
};

/// Rows in one statement, enough to amortize the switch to the SQLite thread.
const ROWS: usize = 250;

impl SqliteStore {
    pub(in crate::store) async fn append(
        &self,
        expected: Revision,
        batch: &Batch<'_>,
    ) -> Result<AppendResult, AppendFailure> {
        let failed = |e: sqlx::Error| AppendFailure::Store(super::errors::explain(&self.name, &e));
        self.check_file().map_err(failed)?;
        let mut connection = self.writer.acquire().await.map_err(failed)?;
        let appended = self.append_on(&mut connection, expected, batch).await;
        let is_moved = |failure: &AppendFailure| {
            matches!(
                failure,
                AppendFailure::Lost(_) | AppendFailure::Store(Error::FileReplaced { .. })
            )
        };
        // A new connection would not find lost files.
        if appended.as_ref().is_err_and(|failure| !is_moved(failure)) {
            // After some failures, such as a full disk, SQLite rolls back by itself and the driver still assumes an
            // open transaction.
            connection.close_on_drop();
        }
        appended
    }

    async fn append_on(
        &self,
        connection: &mut SqliteConnection,
        expected: Revision,
        batch: &Batch<'_>,
    ) -> Result<AppendResult, AppendFailure> {
        let failed = |e: sqlx::Error| AppendFailure::Store(super::errors::explain(&self.name, &e));
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
        let head: HeadRow =
            sqlx::query_as(sql::HEAD).fetch_one(&mut *transaction).await.map_err(failed)?;
        if head.revision != stored(expected) {
            return revision(head.revision)
                .map(AppendResult::HeadMoved)
                .map_err(AppendFailure::Store);
        }
        check_chain(&head, batch)?;
        if !batch.is_copy() && is_any_taken(&mut transaction, batch).await.map_err(failed)? {
            return Err(AppendFailure::RequestId);
        }
        write(&mut transaction, batch).await.map_err(failed)?;
        self.check_file().map_err(failed)?;
        transaction.commit().await.map_err(failed)?;
        // A file lost since the previous check may or may not have the commit.
        self.check_file().map_err(|e| AppendFailure::Lost(self.explain(&e)))?;
        Ok(AppendResult::Stored)
    }
}

/// Checks the chain hash of the head, not only its revision.
fn check_chain(head: &HeadRow, batch: &Batch<'_>) -> Result<(), AppendFailure> {
    let what = "the table head";
    let previous = chain(what, &head.chain).map_err(AppendFailure::Store)?;
    match batch.commits.first() {
        Some(first) if previous.append(first.canonical).to_string() != first.chain => {
            let detail = format!(
                "revision {} has another chain hash than the one read before",
                head.revision
            );
            Err(AppendFailure::Store(corrupt(what, detail)))
        }
        _ => Ok(()),
    }
}

/// Whether an earlier commit has a request id of the batch.
async fn is_any_taken(
    connection: &mut SqliteConnection,
    batch: &Batch<'_>,
) -> Result<bool, sqlx::Error> {
    for request in &batch.requests {
        let taken = sqlx::query(
            "SELECT 1 FROM requests
             WHERE author = $1 AND request_id = $2 AND committed_at > $3",
        )
        .bind(request.author)
        .bind(request.request_id)
        .bind(request.retries_since);
        if taken.fetch_optional(&mut *connection).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn write(connection: &mut SqliteConnection, batch: &Batch<'_>) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE head SET revision = $1, chain = $2")
        .bind(stored(batch.head))
        .bind(batch.chain.to_string())
        .execute(&mut *connection)
        .await?;
    insert_commits(connection, batch).await?;
    insert_entities(connection, batch).await?;
    insert_changes(connection, batch).await?;
    for lifecycle in &batch.lifecycles {
        let NewKey { kind, name, version } = &lifecycle.key;
        sqlx::query(
            "UPDATE entities SET lifecycle = $1, lifecycle_revision = $2, lifecycle_reason = $3,
             lifecycle_notice = $4
             WHERE kind = $5 AND name = $6 AND version = $7",
        )
        .bind(lifecycle.state.lifecycle)
        .bind(lifecycle.state.revision)
        .bind(lifecycle.state.reason)
        .bind(lifecycle.state.notice.as_deref())
        .bind(*kind)
        .bind(*name)
        .bind(version.as_str())
        .execute(&mut *connection)
        .await?;
    }
    for NewSetting { revision, ordinal, selector, setting } in &batch.settings {
        sqlx::query(sql::INSERT_SETTING)
            .bind(revision)
            .bind(ordinal)
            .bind(selector)
            .bind(setting)
            .execute(&mut *connection)
            .await?;
    }
    for request in &batch.requests {
        sqlx::query(
            "INSERT INTO requests (author, request_id, revision, committed_at)
             VALUES ($1, $2, $3, $4) ON CONFLICT (author, request_id) DO UPDATE
             SET revision = excluded.revision, committed_at = excluded.committed_at",
        )
        .bind(request.author)
        .bind(request.request_id)
        .bind(request.revision)
        .bind(request.committed_at)
        .execute(&mut *connection)
        .await?;
    }
    for CommitEvent { revision, what } in batch.events() {
        sqlx::query(sql::NEW_ACCESS_EVENT)
            .bind(SqlTimestamp(what.at))
            .bind(what.principal.as_str())
            .bind(what.method.as_str())
            .bind(what.address.as_str())
            .bind(sql::COMMITTED)
            .bind(revision.to_string())
            .bind(what.detail.as_str())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

async fn insert_commits(
    connection: &mut SqliteConnection,
    batch: &Batch<'_>,
) -> Result<(), sqlx::Error> {
    for chunk in batch.commits.chunks(ROWS) {
        QueryBuilder::<Sqlite>::new(
            "INSERT INTO commits
                 (revision, author, committed_at, message, request_id, changes, chain, canonical) ",
        )
        .push_values(chunk, |mut row, commit| {
            row.push_bind(commit.revision)
                .push_bind(commit.author)
                .push_bind(commit.committed_at)
                .push_bind(commit.message)
                .push_bind(commit.request_id)
                .push_bind(commit.changes)
                .push_bind(commit.chain.as_str())
                .push_bind(commit.canonical);
        })
        .build()
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

async fn insert_entities(
    connection: &mut SqliteConnection,
    batch: &Batch<'_>,
) -> Result<(), sqlx::Error> {
    for chunk in batch.entities.chunks(ROWS) {
        QueryBuilder::<Sqlite>::new(
            "INSERT INTO entities (kind, name, version, digest, owner, registered_revision,
             lifecycle, lifecycle_revision, lifecycle_reason, lifecycle_notice, document) ",
        )
        .push_values(chunk, |mut row, entity| {
            row.push_bind(entity.key.kind)
                .push_bind(entity.key.name)
                .push_bind(entity.key.version.as_str())
                .push_bind(entity.digest.as_str())
                .push_bind(entity.owner)
                .push_bind(entity.registered_revision)
                .push_bind(entity.state.lifecycle)
                .push_bind(entity.state.revision)
                .push_bind(entity.state.reason)
                .push_bind(entity.state.notice.as_deref())
                .push_bind(entity.document);
        })
        .build()
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

async fn insert_changes(
    connection: &mut SqliteConnection,
    batch: &Batch<'_>,
) -> Result<(), sqlx::Error> {
    for chunk in batch.changes.chunks(ROWS) {
        QueryBuilder::<Sqlite>::new(
            "INSERT INTO changes
                 (revision, ordinal, action, kind, name, version, digest, reason, detail)
             SELECT column1, column2, column3, column4, column5, column6,
                    coalesce(column7, (SELECT digest FROM entities
                        WHERE kind = column4 AND name = column5 AND version = column6)),
                    column8, column9
             FROM (",
        )
        .push_values(chunk, |mut row, change| {
            row.push_bind(change.revision)
                .push_bind(change.ordinal)
                .push_bind(change.action)
                .push_bind(change.key.kind)
                .push_bind(change.key.name)
                .push_bind(change.key.version.as_str())
                .push_bind(change.digest.as_deref())
                .push_bind(change.reason)
                .push_bind(change.detail.as_deref());
        })
        .push(")")
        .build()
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use registry_core::ChainHash;

    use super::*;
    use crate::store::{batch::CommitSource, schema::SchemaMode};

    #[tokio::test]
    async fn files_lost_during_commit_leave_outcome_unknown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("registry.db");
        for lost in ["registry.db-wal", "registry.db"] {
            let (store, registry) =
                SqliteStore::open(&path, "test".to_owned(), SchemaMode::Migrate).await.unwrap();
            let lost = directory.path().join(lost);
            let mut connection = store.writer.acquire().await.unwrap();
            connection.lock_handle().await.unwrap().set_commit_hook(move || {
                let _ = fs::remove_file(&lost);
                true
            });
            drop(connection);
            let batch = Batch {
                head: Revision(0),
                chain: ChainHash::genesis(&registry),
                commits: Vec::new(),
                changes: Vec::new(),
                entities: Vec::new(),
                lifecycles: Vec::new(),
                settings: Vec::new(),
                requests: Vec::new(),
                repeats_request: false,
                source: CommitSource::Local(&[]),
            };
            let appended = store.append(Revision(0), &batch).await;
            assert!(matches!(appended, Err(AppendFailure::Lost(Error::FileReplaced { .. }))));
            let appended = store.append(Revision(0), &batch).await;
            assert!(matches!(appended, Err(AppendFailure::Store(Error::FileReplaced { .. }))));
            store.close().await;
        }
    }
}
