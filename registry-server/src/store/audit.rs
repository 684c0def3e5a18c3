//! Reads the whole log, and verifies the database against it.
//!
//! One snapshot of the database is read page by page and compared with the rows that the log implies. The
//! verification lists mismatches and continues. Repair is not supported. Tokens and their trail are not
//! verified, because the log does not contain them.

mod findings;
mod place;
mod row;
mod surroundings;
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

/// How many commits or entities are read at a time.
const AT_ONCE: i64 = 2_000;

/// What a server knows without the database.
#[derive(Debug, Clone)]
pub struct Known {
    /// The last commit that it serves, and the chain hash after it.
    pub head: (Revision, ChainHash),
    /// The key that it signs checkpoints with.
    pub key: VerifierKey,
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
    known: Known,
    told: mpsc::Sender<Progress>,
) -> Result<(Progress, Findings), Error> {
    let mut snapshot = backend.snapshot().await?;
    let missing = surroundings::missing_tables(backend, &mut snapshot).await?;
    if !missing.listed.is_empty() {
        return Ok((Progress { revision: Revision(0), head: known.head.0 }, missing));
    }
    let head: Option<HeadRow> =
        run!(Snapshot(&mut snapshot), HeadRow, sql::HEAD, [], fetch_optional)
            .map_err(|e| backend.explain(&e))?;
    let end = head.as_ref().map_or(known.head.0, |head| position(head.revision));
    let mut progress = Progress { revision: Revision(0), head: end };
    let mut verifier = Verifier::new(registry, known.head);
    // Nothing is before the first revision, but somebody may have put something there.
    let mut after = i64::MIN;
    loop {
        let page = commits(backend, &mut snapshot, after).await?;
        let Some(last) = page.commits.last().map(|row| row.revision) else { break };
        verifier = finished(spawn_blocking(move || Ok(verifier.commits(page)))).await?;
        after = last;
        progress.revision = position(last);
        // Whoever is slow to listen misses steps; whoever is gone needs no answer.
        if let Err(TrySendError::Closed(_)) = told.try_send(progress) {
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
    surroundings::verify(backend, &mut snapshot, (registry, &known.key), &mut findings).await?;
    Ok((progress, findings))
}

/// A revision to be shown, however strange it is.
fn position(stored: i64) -> Revision {
    Revision(u64::try_from(stored).unwrap_or_default())
}

/// Commits with everything that the database says of them.
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

/// A page of the chain hashes after a position, in order, each proved by the one before it and its
/// commit's bytes; none at the end.
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
        previous = previous.then(&row.canonical);
        if chain(&what, &row.chain)? != previous {
            return Err(corrupt(what, "its bytes do not give its chain hash"));
        }
        chains.push(previous);
    }
    Ok(chains)
}
