//! State of the log at an earlier revision: lifecycles and settings. Documents are immutable.

use std::collections::HashMap;

use registry_core::{
    ChainHash, Key, Lifecycle, RegistryId, Revision, SettingChange, Settings, Timestamp,
};

use super::{
    EntityEvent, Error,
    backend::{Backend, run},
    read,
    row::{EventRow, HeadRow, SettingRow, revision, stored},
    sql,
    sql_timestamp::SqlTimestamp,
};

/// State at an earlier revision.
#[derive(Debug, Clone)]
pub struct Past {
    /// The revision and its chain hash.
    pub position: (Revision, ChainHash),
    /// Lifecycles of entities that were deprecated, retired or restored up to the revision.
    pub changed: HashMap<Key, Lifecycle>,
    /// Settings at the revision.
    pub settings: Settings,
}

/// Reads the state at a revision; `None` if the revision does not exist.
pub(super) async fn past(
    backend: &Backend,
    registry: &RegistryId,
    revision: Revision,
) -> Result<Option<Past>, Error> {
    let Some(chain) = read::chain_after(backend, registry, revision).await? else {
        return Ok(None);
    };
    let rows: Vec<EventRow> =
        run!(Backend(backend), EventRow, sql::LIFECYCLES, [stored(revision)], fetch_all)
            .map_err(|e| backend.explain(&e))?;
    let mut changed = HashMap::new();
    for row in rows {
        let event = EntityEvent::try_from(row)?;
        let lifecycle = Lifecycle::after(&event.action, (event.revision, event.committed_at));
        changed.insert(event.key, lifecycle);
    }
    let rows: Vec<SettingRow> =
        run!(Backend(backend), SettingRow, sql::SETTINGS, [0_i64, stored(revision)], fetch_all)
            .map_err(|e| backend.explain(&e))?;
    let settings = fold(rows)?;
    Ok(Some(Past { position: (revision, chain), changed, settings }))
}

/// Folds settings in the order of the log.
pub(super) fn fold(rows: Vec<SettingRow>) -> Result<Settings, Error> {
    let mut settings = Settings::default();
    for row in rows {
        let (revision, change): (Revision, SettingChange) = row.try_into()?;
        settings.apply(&change, revision);
    }
    Ok(settings)
}

/// Last revision at or before a time.
pub(super) async fn revision_at(backend: &Backend, time: Timestamp) -> Result<Revision, Error> {
    let row: Option<HeadRow> =
        run!(Backend(backend), HeadRow, sql::REVISION_AT, [SqlTimestamp(time)], fetch_optional)
            .map_err(|e| backend.explain(&e))?;
    row.map_or(Ok(Revision(0)), |row| revision(row.revision))
}
