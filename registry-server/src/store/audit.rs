//! Verifies the database against the log.
//!
//! Reads a snapshot page by page and compares its rows with the rows that the log implies. Lists mismatches and
//! continues. Repair is not supported. Tokens and access events are not verified, because the log does not
//! contain them.

mod findings;
mod location;
mod row;
mod structure;
mod text;
mod verifier;

use registry_core::{ChainHash, RegistryId, Revision, checkpoint::VerifierKey};
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    task::spawn_blocking,
};
use verifier::Verifier;

use super::{
    CommitQuery, Error,
    backend::{Backend, Snapshot, run},
    read::{ENOUGH_CHANGES, finished, seals},
    row::{SealRow, chain, corrupt, stored},
    sql,
};
pub use findings::{Finding, Findings};
use row::{ChangeRow, CommitRow, HeadRow, SetRow, StateRow};
use text::Text;

/// Commits or entities in one page.
const AT_ONCE: i64 = 2_000;

/// State of a server that does not come from the database.
#[derive(Debug, Clone)]
pub struct ServedState {
    /// Last served commit and its chain hash.
    pub head: (Revision, ChainHash),
    /// Public key of its checkpoints.
    pub key: VerifierKey,
}

/// Progress of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Last verified revision.
    pub revision: Revision,
    /// Last revision of the log.
    pub head: Revision,
}

/// Verifies the database. Sends its progress, and stops if the receiver is dropped.
pub(super) async fn verify(
    backend: &Backend,
    registry: &RegistryId,
    known: ServedState,
    updates: mpsc::Sender<Progress>,
) -> Result<(Progress, Findings), Error> {
    let mut snapshot = backend.snapshot().await?;
    let missing = structure::missing_tables(backend, &mut snapshot).await?;
    if !missing.listed.is_empty() {
        return Ok((Progress { revision: Revision(0), head: known.head.0 }, missing));
    }
    let head: Option<HeadRow> =
        run!(Snapshot(&mut snapshot), HeadRow, sql::HEAD, [], fetch_optional)
            .map_err(|e| backend.explain(&e))?;
    let end = head.as_ref().map_or(known.head.0, |head| position(head.revision));
    let mut progress = Progress { revision: Revision(0), head: end };
    let mut verifier = Verifier::new(registry, known.head);
    // Revisions start at 1, but an edited log may contain lower ones.
    let mut after = i64::MIN;
    loop {
        let page = commits(backend, &mut snapshot, after).await?;
        let Some(last) = page.commits.last().map(|row| row.revision) else { break };
        verifier = finished(spawn_blocking(move || Ok(verifier.commits(page)))).await?;
        after = last;
        progress.revision = position(last);
        // A slow receiver misses updates; a dropped one stops the verification.
        if let Err(TrySendError::Closed(_)) = updates.try_send(progress) {
            return Ok((progress, Findings::default()));
        }
    }
    let mut last = (Text::default(), Text::default(), Text::default());
    loop {
        let rows = states(backend, &mut snapshot, &last).await?;
        let Some(StateRow { kind, name, version, .. }) = rows.last() else { break };
        last = (kind.clone(), name.clone(), version.clone());
        verifier = finished(spawn_blocking(move || Ok(verifier.entities(&rows)))).await?;
    }
    let mut findings = verifier.finish(head.as_ref());
    structure::verify(backend, &mut snapshot, (registry, &known.key), &mut findings).await?;
    Ok((progress, findings))
}

/// Converts a revision for display, even if it is invalid.
fn position(stored: i64) -> Revision {
    Revision(u64::try_from(stored).unwrap_or_default())
}

/// A page of commits with their rows.
struct Page {
    commits: Vec<CommitRow>,
    changes: Vec<ChangeRow>,
    settings: Vec<SetRow>,
}

async fn commits(backend: &Backend, snapshot: &mut Snapshot, after: i64) -> Result<Page, Error> {
    let explain = |e: sqlx::Error| backend.explain(&e);
    let commits: Vec<CommitRow> = run!(
        Snapshot(&mut *snapshot),
        CommitRow,
        sql::COMMITS,
        [after, AT_ONCE, ENOUGH_CHANGES],
        fetch_all
    )
    .map_err(explain)?;
    let last = commits.last().map_or(after, |row| row.revision);
    let changes: Vec<ChangeRow> =
        run!(Snapshot(&mut *snapshot), ChangeRow, sql::CHANGES, [after, last], fetch_all)
            .map_err(explain)?;
    let settings: Vec<SetRow> =
        run!(Snapshot(&mut *snapshot), SetRow, sql::SETS, [after, last], fetch_all)
            .map_err(explain)?;
    Ok(Page { commits, changes, settings })
}

async fn states(
    backend: &Backend,
    snapshot: &mut Snapshot,
    (kind, name, version): &(Text, Text, Text),
) -> Result<Vec<StateRow>, Error> {
    run!(Snapshot(snapshot), StateRow, sql::STATES, [kind, name, version, AT_ONCE], fetch_all)
        .map_err(|e| backend.explain(&e))
}

/// Reads a page of chain hashes after a position, each verified with the previous one; empty at the end.
pub(super) async fn chains_after(
    backend: &Backend,
    (after, chain): (Revision, ChainHash),
) -> Result<Vec<ChainHash>, Error> {
    let limit = usize::try_from(AT_ONCE).unwrap_or(usize::MAX);
    let query = CommitQuery::following(after, limit);
    let rows = seals(backend, &query).await?;
    finished(spawn_blocking(move || proved(after, chain, &rows))).await
}

fn proved(
    mut revision: Revision,
    mut previous: ChainHash,
    rows: &[SealRow],
) -> Result<Vec<ChainHash>, Error> {
    let mut chains = Vec::with_capacity(rows.len());
    for row in rows {
        revision = revision.next();
        let what = format!("revision {revision}");
        if row.revision != stored(revision) {
            return Err(corrupt(what, format!("it is missing before revision {}", row.revision)));
        }
        previous = previous.append(&row.canonical);
        if chain(&what, &row.chain)? != previous {
            return Err(corrupt(what, "its content does not match its chain hash"));
        }
        chains.push(previous);
    }
    Ok(chains)
}
