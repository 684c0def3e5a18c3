//! Reads from either database.
//!
//! Verification of documents and chains is CPU-bound and runs on the blocking pool.

use std::sync::Arc;

use bytes::Bytes;
use registry_core::{
    Catalog, ChainHash, Document, Name, Record, RegistryId, Revision, SealedCommit, Selector,
    Timestamp, Version, commit::InvalidCommit,
};
use tokio::task::{JoinHandle, spawn_blocking};

use super::{
    CommitFilter, CommitQuery, EntityEvent, Error, HistoryQuery, Order, SettingEvent, StoredCommit,
    StoredCommitHeader,
    backend::{Backend, Snapshot, run},
    batch::retries_since,
    past,
    row::{
        DocumentRow, EntityRow, EventRow, HeadRow, HeaderRow, SealRow, SettingEventRow, SettingRow,
        chain, corrupt, newer, revision, stored,
    },
    sql,
    sql_timestamp::SqlTimestamp,
};

/// Changes after which a page of commits ends.
pub(super) const ENOUGH_CHANGES: i64 = 10_000;
/// Entities in one page.
const ENTITIES_A_TIME: usize = 2_000;

pub(super) async fn check(backend: &Backend) -> Result<(), Error> {
    run!(Backend(backend), HeadRow, sql::HEAD, [], fetch_one)
        .map(drop)
        .map_err(|e| backend.explain(&e))
}

/// Stored head.
pub(super) async fn stored_head(backend: &Backend) -> Result<(Revision, ChainHash), Error> {
    let row = run!(Backend(backend), HeadRow, sql::HEAD, [], fetch_one)
        .map_err(|e| backend.explain(&e))?;
    Ok((revision(row.revision)?, chain("the table head", &row.chain)?))
}

/// Stored chain hash of a revision.
pub(super) async fn stored_chain(
    backend: &Backend,
    revision: Revision,
) -> Result<Option<ChainHash>, Error> {
    let row: Option<(String,)> =
        run!(Backend(backend), (String,), sql::CHAIN, [stored(revision)], fetch_optional)
            .map_err(|e| backend.explain(&e))?;
    row.map(|(text,)| chain(format!("revision {revision}"), &text)).transpose()
}

pub(super) async fn load(backend: &Backend, registry: &RegistryId) -> Result<Catalog, Error> {
    let mut snapshot = backend.snapshot().await?;
    let (revision, chain) = head(backend, &mut snapshot, registry).await?;
    let records = entities(backend, &mut snapshot).await?;
    let registrations = registrations(backend, &mut snapshot).await?;
    if i64::try_from(records.len()) != Ok(registrations) {
        let detail = format!("the log registers {registrations}, there are {}", records.len());
        return Err(corrupt("the table entities", detail));
    }
    let settings: Vec<SettingRow> = run!(
        Snapshot(&mut snapshot),
        SettingRow,
        sql::SETTINGS,
        [0_i64, stored(revision)],
        fetch_all
    )
    .map_err(|e| backend.explain(&e))?;
    let settings = past::fold(settings)?;
    let registry = registry.clone();
    let restore =
        move || Ok(Catalog::restore(registry, revision, chain, records).with_settings(settings));
    finished(spawn_blocking(restore)).await
}

async fn registrations(backend: &Backend, snapshot: &mut Snapshot) -> Result<i64, Error> {
    let counted: Result<(i64,), _> =
        run!(Snapshot(snapshot), (i64,), sql::REGISTRATIONS, [], fetch_one);
    counted.map(|(count,)| count).map_err(|e| backend.explain(&e))
}

/// Stored head, checked against the last commit.
async fn head(
    backend: &Backend,
    snapshot: &mut Snapshot,
    registry: &RegistryId,
) -> Result<(Revision, ChainHash), Error> {
    let explain = |e: sqlx::Error| backend.explain(&e);
    let row = run!(Snapshot(snapshot), HeadRow, sql::HEAD, [], fetch_one).map_err(explain)?;
    let last: Option<(String,)> =
        run!(Snapshot(snapshot), (String,), sql::CHAIN, [row.revision], fetch_optional)
            .map_err(explain)?;
    let last = match last {
        Some((chain,)) => chain,
        None if row.revision == 0 && registrations(backend, snapshot).await? == 0 => {
            ChainHash::genesis(registry).to_string()
        }
        None => return Err(corrupt(format!("revision {}", row.revision), "it is missing")),
    };
    if row.chain != last {
        let detail =
            format!("it has the chain hash {}, revision {} {last}", row.chain, row.revision);
        return Err(corrupt("the table head", detail));
    }
    Ok((revision(row.revision)?, chain("the table head", &row.chain)?))
}

/// Loads all entities, verifying each page while the next one is read.
async fn entities(backend: &Backend, snapshot: &mut Snapshot) -> Result<Vec<Record>, Error> {
    let mut pages: Vec<JoinHandle<Result<Vec<Record>, Error>>> = Vec::new();
    let mut last = (String::new(), String::new(), String::new());
    let limit = i64::try_from(ENTITIES_A_TIME).unwrap_or(i64::MAX);
    loop {
        let (kind, name, version) = &last;
        let rows: Vec<EntityRow> = run!(
            Snapshot(&mut *snapshot),
            EntityRow,
            sql::ENTITIES,
            [kind, name, version, limit],
            fetch_all
        )
        .map_err(|e| backend.explain(&e))?;
        let Some(EntityRow { kind, name, version, .. }) = rows.last() else { break };
        last = (kind.clone(), name.clone(), version.clone());
        pages.push(spawn_blocking(move || rows.into_iter().map(Record::try_from).collect()));
    }
    let mut records = Vec::with_capacity(pages.len() * ENTITIES_A_TIME);
    for page in pages {
        records.extend(finished(page).await?);
    }
    Ok(records)
}

pub(super) async fn commits_after(
    backend: &Backend,
    (after, chain): (Revision, ChainHash),
    limit: usize,
) -> Result<Vec<SealedCommit>, Error> {
    let query = CommitQuery::following(after, limit);
    let seals = seals(backend, &query).await?;
    let Some(last) = seals.last() else { return Ok(Vec::new()) };
    let documents: Vec<DocumentRow> = run!(
        Backend(backend),
        DocumentRow,
        sql::DOCUMENTS,
        [stored(after), last.revision],
        fetch_all
    )
    .map_err(|e| backend.explain(&e))?;
    finished(spawn_blocking(move || proved(after, chain, seals, documents))).await
}

/// Joins commits with their documents and verifies the chain.
fn proved(
    mut revision: Revision,
    mut chain: ChainHash,
    seals: Vec<SealRow>,
    documents: Vec<DocumentRow>,
) -> Result<Vec<SealedCommit>, Error> {
    let mut commits = Vec::with_capacity(seals.len());
    let mut documents = documents.into_iter().peekable();
    for seal in seals {
        revision = revision.next();
        let what = format!("revision {revision}");
        if seal.revision != stored(revision) {
            return Err(corrupt(what, format!("it is missing before revision {}", seal.revision)));
        }
        let mut registered: Vec<Arc<Document>> = Vec::new();
        while let Some(row) = documents.next_if(|row| row.revision == seal.revision) {
            registered.push(row.try_into()?);
        }
        let expected = super::row::chain(&what, &seal.chain)?;
        let sealed = SealedCommit::verify(&chain, seal.canonical.into(), expected, registered)
            .map_err(|e| match e {
                InvalidCommit::Newer(detail) => newer(&what, detail),
                other => corrupt(&what, other),
            })?;
        if sealed.revision() != revision {
            return Err(corrupt(what, format!("it contains revision {}", sealed.revision())));
        }
        chain = sealed.chain();
        commits.push(sealed);
    }
    Ok(commits)
}

pub(super) async fn find_request(
    backend: &Backend,
    (author, request_id): (&str, &str),
    now: Timestamp,
) -> Result<Option<StoredCommitHeader>, Error> {
    let since = SqlTimestamp(retries_since(now));
    run!(Backend(backend), HeaderRow, sql::REQUEST, [author, request_id, since], fetch_optional)
        .map_err(|e| backend.explain(&e))?
        .map(StoredCommitHeader::try_from)
        .transpose()
}

pub(super) async fn commit(
    backend: &Backend,
    registry: &RegistryId,
    wanted: Revision,
) -> Result<Option<StoredCommit>, Error> {
    let before = Some(Revision(wanted.0.saturating_add(1)));
    let after = Revision(wanted.0.saturating_sub(1));
    let query = CommitQuery { before, ..CommitQuery::following(after, 1) };
    Ok(list_commits(backend, registry, &query).await?.pop())
}

/// Verified chain hash after a revision; `None` if the revision does not exist.
pub(super) async fn chain_after(
    backend: &Backend,
    registry: &RegistryId,
    revision: Revision,
) -> Result<Option<ChainHash>, Error> {
    if revision == Revision(0) {
        return Ok(Some(ChainHash::genesis(registry)));
    }
    Ok(commit(backend, registry, revision).await?.map(|commit| commit.chain))
}

pub(super) async fn list_commits(
    backend: &Backend,
    registry: &RegistryId,
    query: &CommitQuery,
) -> Result<Vec<StoredCommit>, Error> {
    let seals = seals(backend, query).await?;
    let genesis = ChainHash::genesis(registry);
    let prove = move || seals.into_iter().map(|seal| stored_commit(&genesis, seal)).collect();
    finished(spawn_blocking(prove)).await
}

/// Verifies a commit against the previous chain hash.
fn stored_commit(genesis: &ChainHash, seal: SealRow) -> Result<StoredCommit, Error> {
    let what = format!("revision {}", seal.revision);
    let previous = match seal.previous {
        Some(previous) => chain(&what, &previous)?,
        None if seal.revision == 1 => *genesis,
        None => return Err(corrupt(&what, "the previous revision is missing")),
    };
    let (canonical, chain) = (Bytes::from(seal.canonical), chain(&what, &seal.chain)?);
    if previous.append(&canonical) != chain {
        return Err(corrupt(&what, "its content does not match its chain hash"));
    }
    let commit = SealedCommit::parse(&canonical).map_err(|e| newer(&what, e))?;
    if stored(commit.revision) != seal.revision {
        return Err(corrupt(&what, format!("it contains revision {}", commit.revision)));
    }
    Ok(StoredCommit { commit, chain, canonical })
}

/// Commits in the form covered by the chain.
pub(super) async fn seals(backend: &Backend, query: &CommitQuery) -> Result<Vec<SealRow>, Error> {
    let CommitQuery { after, before, author, filter, order, limit } = query;
    let sql = match (order, author) {
        (Order::OldestFirst, _) if filter.is_some() => sql::OLDEST_FILTERED_COMMITS,
        (Order::NewestFirst, _) if filter.is_some() => sql::NEWEST_FILTERED_COMMITS,
        (Order::OldestFirst, None) => sql::OLDEST_COMMITS,
        (Order::NewestFirst, None) => sql::NEWEST_COMMITS,
        (Order::OldestFirst, Some(_)) => sql::OLDEST_COMMITS_BY,
        (Order::NewestFirst, Some(_)) => sql::NEWEST_COMMITS_BY,
    };
    let (after, before) = (after.map_or(0, stored), before.map_or(i64::MAX, stored));
    let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
    let (first, last) = filter.as_ref().and_then(CommitFilter::selectors).unzip();
    let entity = match filter {
        Some(CommitFilter::Entity(filter)) => Some(filter),
        Some(CommitFilter::Setting(_)) | None => None,
    };
    let kind = entity.map(|filter| filter.kind.as_str());
    let name = entity.and_then(|filter| filter.name.as_ref()).map(Name::as_str);
    let version = entity.and_then(|filter| filter.version.as_ref()).map(Version::to_string);
    run!(
        Backend(backend),
        SealRow,
        sql,
        [after, before, limit, ENOUGH_CHANGES, author, kind, name, &version, &first, &last],
        fetch_all
    )
    .map_err(|e| backend.explain(&e))
}

pub(super) async fn entity_history(
    backend: &Backend,
    query: &HistoryQuery,
) -> Result<Vec<EntityEvent>, Error> {
    let HistoryQuery { kind, name, version, after, until, limit } = query;
    let (kind, name) = (kind.as_str(), name.as_str());
    let version = version.as_ref().map(ToString::to_string);
    let (revision, ordinal) =
        after.map_or((0, -1), |(revision, ordinal)| (stored(revision), i64::from(ordinal)));
    let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
    let rows: Vec<EventRow> = run!(
        Backend(backend),
        EventRow,
        sql::HISTORY,
        [kind, name, &version, revision, ordinal, stored(*until), limit],
        fetch_all
    )
    .map_err(|e| backend.explain(&e))?;
    rows.into_iter().map(EntityEvent::try_from).collect()
}

/// Settings of a name; none for a single version.
pub(super) async fn setting_history(
    backend: &Backend,
    query: &HistoryQuery,
) -> Result<Vec<SettingEvent>, Error> {
    let HistoryQuery { kind, name, version, after, until, limit } = query;
    if version.is_some() {
        return Ok(Vec::new());
    }
    let selector = Selector::Name(*kind, name.clone()).to_string();
    let (revision, ordinal) =
        after.map_or((0, -1), |(revision, ordinal)| (stored(revision), i64::from(ordinal)));
    let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
    let rows: Vec<SettingEventRow> = run!(
        Backend(backend),
        SettingEventRow,
        sql::SETTING_HISTORY,
        [&selector, revision, ordinal, stored(*until), limit],
        fetch_all
    )
    .map_err(|e| backend.explain(&e))?;
    rows.into_iter().map(SettingEvent::try_from).collect()
}

/// Result of blocking work; propagates panics.
pub(super) async fn finished<T>(work: JoinHandle<Result<T, Error>>) -> Result<T, Error> {
    match work.await {
        Ok(result) => result,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::Unavailable {
                database: "-".to_owned(),
                detail: "the program is shutting down".to_owned(),
            }),
        },
    }
}
