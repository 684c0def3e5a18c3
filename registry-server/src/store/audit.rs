//! Reading the whole log again, to prove that the database holds what was stored.
//!
//! One unchanging state of the database is read page by page; what does not fit is listed, and the
//! reading goes on. Deliberately absent: repair.

mod verifier;

use registry_core::{ChainHash, RegistryId, Revision};
use tokio::{sync::mpsc, task::spawn_blocking};
use verifier::Verifier;

use super::{
    Error,
    backend::{Backend, Snapshot, run},
    read::finished,
    row::{CommitRow, EntityRow, EventRow, HeadRow, SettingRow, chain, revision, stored},
    sql,
};

/// How many commits or entities are read at a time.
const AT_ONCE: i64 = 2_000;

/// Something in the database that is not what was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where: `revision 17`, `tool/fetch@1.0.0`, `the table head`.
    pub place: String,
    /// What does not fit.
    pub problem: String,
}

/// How far a verification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Up to which revision.
    pub revision: Revision,
    /// Where it ends.
    pub head: Revision,
}

/// Verifies everything; `told` hears how far it is, and ends it by going away.
pub(super) async fn verify(
    backend: &Backend,
    registry: &RegistryId,
    told: mpsc::Sender<Progress>,
) -> Result<(Progress, Vec<Finding>), Error> {
    let explain = |e: sqlx::Error| backend.explain(&e);
    let mut snapshot = backend.snapshot().await?;
    let head: HeadRow =
        run!(Snapshot(&mut snapshot), HeadRow, sql::HEAD, [], fetch_one).map_err(explain)?;
    let mut progress = Progress { revision: Revision(0), head: revision(head.revision)? };
    let mut verifier = Verifier::new(registry);
    loop {
        let after = stored(progress.revision);
        let page = commits(backend, &mut snapshot, after).await?;
        let Some(last) = page.commits.last().map(|row| row.revision) else { break };
        verifier = finished(spawn_blocking(move || Ok(verifier.commits(page)))).await?;
        progress.revision = revision(last)?;
        if told.send(progress).await.is_err() {
            return Ok((progress, Vec::new()));
        }
    }
    let mut last = (String::new(), String::new(), String::new());
    loop {
        let (kind, name, version) = &last;
        let rows: Vec<EntityRow> = run!(
            Snapshot(&mut snapshot),
            EntityRow,
            sql::ENTITIES,
            [kind, name, version, AT_ONCE],
            fetch_all
        )
        .map_err(explain)?;
        let Some(EntityRow { kind, name, version, .. }) = rows.last() else { break };
        last = (kind.clone(), name.clone(), version.clone());
        verifier = finished(spawn_blocking(move || Ok(verifier.entities(rows)))).await?;
    }
    Ok((progress, verifier.finish(&head)))
}

/// Commits with everything that the database says of them.
struct Page {
    commits: Vec<CommitRow>,
    events: Vec<EventRow>,
    settings: Vec<SettingRow>,
}

async fn commits(backend: &Backend, snapshot: &mut Snapshot, after: i64) -> Result<Page, Error> {
    let explain = |e: sqlx::Error| backend.explain(&e);
    let commits: Vec<CommitRow> =
        run!(Snapshot(&mut *snapshot), CommitRow, sql::COMMITS, [after, AT_ONCE], fetch_all)
            .map_err(explain)?;
    let last = commits.last().map_or(after, |row| row.revision);
    let events: Vec<EventRow> =
        run!(Snapshot(&mut *snapshot), EventRow, sql::EVENTS, [after, last], fetch_all)
            .map_err(explain)?;
    let settings: Vec<SettingRow> =
        run!(Snapshot(&mut *snapshot), SettingRow, sql::SETTINGS, [after, last], fetch_all)
            .map_err(explain)?;
    Ok(Page { commits, events, settings })
}

/// The chain hashes after a revision, in order; at most so many as are read at a time.
pub(super) async fn chains_after(
    backend: &Backend,
    after: Revision,
) -> Result<Vec<ChainHash>, Error> {
    let rows: Vec<HeadRow> =
        run!(Backend(backend), HeadRow, sql::CHAINS, [stored(after), AT_ONCE], fetch_all)
            .map_err(|e| backend.explain(&e))?;
    let read = |row: &HeadRow| chain(format!("revision {}", row.revision), &row.chain);
    rows.iter().map(read).collect()
}
