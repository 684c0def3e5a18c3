//! What the log says of an earlier revision, beside the documents, which never change: the
//! lifecycles and the settings of that time.

use std::collections::HashMap;

use registry_core::{
    ChainHash, Key, Lifecycle, RegistryId, Revision, SettingChange, Settings, Timestamp,
};

use super::{
    EntityEvent, Error,
    at::At,
    backend::{Backend, run},
    read,
    row::{EventRow, HeadRow, SettingRow, revision, stored},
    sql,
};

/// An earlier revision.
#[derive(Debug, Clone)]
pub struct Past {
    /// Which, and its chain hash.
    pub position: (Revision, ChainHash),
    /// The lifecycles of what had been deprecated, retired or restored by then.
    pub changed: HashMap<Key, Lifecycle>,
    /// What was set.
    pub settings: Settings,
}

/// Reads the past as of a revision; `None`: there is no such commit.
pub(super) async fn past(
    backend: &Backend,
    registry: &RegistryId,
    wanted: Revision,
) -> Result<Option<Past>, Error> {
    let Some(chain) = read::chain_after(backend, registry, wanted).await? else {
        return Ok(None);
    };
    let rows: Vec<EventRow> =
        run!(Backend(backend), EventRow, sql::LIFECYCLES, [stored(wanted)], fetch_all)
            .map_err(|e| backend.explain(&e))?;
    let mut changed = HashMap::new();
    for row in rows {
        let event = EntityEvent::try_from(row)?;
        let lifecycle = Lifecycle::after(&event.action, (event.revision, event.committed_at));
        changed.insert(event.key, lifecycle);
    }
    let rows: Vec<SettingRow> =
        run!(Backend(backend), SettingRow, sql::SETTINGS, [0_i64, stored(wanted)], fetch_all)
            .map_err(|e| backend.explain(&e))?;
    let settings = fold(rows)?;
    Ok(Some(Past { position: (wanted, chain), changed, settings }))
}

/// Folds rows in the order of the log.
pub(super) fn fold(rows: Vec<SettingRow>) -> Result<Settings, Error> {
    let mut settings = Settings::default();
    for row in rows {
        let (revision, change): (Revision, SettingChange) = row.try_into()?;
        settings.apply(&change, revision);
    }
    Ok(settings)
}

/// The last revision at a time or before it.
pub(super) async fn revision_at(backend: &Backend, time: Timestamp) -> Result<Revision, Error> {
    let row: Option<HeadRow> =
        run!(Backend(backend), HeadRow, sql::REVISION_AT, [At(time)], fetch_optional)
            .map_err(|e| backend.explain(&e))?;
    row.map_or(Ok(Revision(0)), |row| revision(row.revision))
}
