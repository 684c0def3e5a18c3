//! Converts registry types to those of a history.

use history_check::state::{Entity, Lifecycle, SettingState};
use registry_core::{Catalog, LifecycleState, Record, Scope, Selector, setting::SelectorSettings};

pub(crate) fn entity(record: &Record) -> Entity {
    let Record { document, owner, registered, registered_at, lifecycle } = record;
    let is_untouched = lifecycle.state == LifecycleState::Active
        && lifecycle.revision == *registered
        && lifecycle.notice.is_none();
    let notice = lifecycle
        .notice
        .as_deref()
        .map(|notice| serde_json::to_value(notice).expect("a notice is plain texts"));
    let written = Lifecycle {
        state: lifecycle.state.to_string(),
        notice,
        revision: lifecycle.revision.0,
        changed_at: lifecycle.changed_at.to_string(),
    };
    Entity {
        key: document.key().to_string(),
        digest: document.digest().to_string(),
        owner: owner.to_string(),
        registered: registered.0,
        registered_at: registered_at.to_string(),
        lifecycle: (!is_untouched).then_some(written),
    }
}

pub(crate) fn entities(catalog: &Catalog) -> Vec<Entity> {
    catalog.iter().map(|(_, record)| entity(record)).collect()
}

pub(crate) fn settings(catalog: &Catalog) -> Vec<SettingState> {
    catalog.settings().iter().map(|(target, set)| self::set(target, set)).collect()
}

/// The new and changed settings of a delta.
pub(crate) fn changed_settings(
    settings: &[(Selector, Option<SelectorSettings>)],
) -> Vec<SettingState> {
    settings.iter().filter_map(|(target, set)| Some(self::set(target, set.as_ref()?))).collect()
}

/// The targets of removed settings of a delta.
pub(crate) fn removed_settings(settings: &[(Selector, Option<SelectorSettings>)]) -> Vec<String> {
    let removed = settings.iter().filter(|(_, set)| set.is_none());
    removed.map(|(target, _)| target.to_string()).collect()
}

fn set(target: &Selector, set: &SelectorSettings) -> SettingState {
    SettingState {
        target: target.to_string(),
        archived: set.archived,
        owner: set.owner.clone(),
        compatibility: set.compatibility.map(|mode| mode.to_string()),
        revision: set.revision.0,
    }
}

/// The roots of a scope; empty for everything.
pub(crate) fn roots(scope: &Scope) -> Vec<String> {
    match scope {
        Scope::Everything => Vec::new(),
        scope @ Scope::Roots(_) => scope.roots().map(ToString::to_string).collect(),
    }
}
