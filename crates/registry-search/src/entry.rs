//! An indexed entity, and whether it represents its name in results.

use std::sync::Arc;

use registry_core::{catalog::Record, kind::Kind, lifecycle::LifecycleState};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) record: Arc<Record>,
    pub(super) kind: Kind,
    pub(super) state: LifecycleState,
    /// Whether it is the newest version of its name in its lifecycle state.
    newest: bool,
    /// The lifecycle states of all versions of its name.
    states: States,
}

impl Entry {
    /// The only version of its name. [`rank_versions`] compares several, except for names that have no
    /// term because there are too many terms.
    pub(super) fn new(record: Arc<Record>) -> Self {
        let (kind, state) = (record.document.key().kind, record.lifecycle.state);
        Self { record, kind, state, newest: true, states: States::new([state]) }
    }

    /// Whether it is the newest version of its name in its lifecycle state.
    pub(super) fn is_newest(&self) -> bool {
        self.newest
    }

    /// Whether it represents its name among versions in the requested states: the newest one in the
    /// best available state.
    pub(super) fn represents(&self, wanted: States) -> bool {
        let better = LifecycleState::Active..self.state;
        let is_best =
            !STATES.into_iter().any(|s| better.contains(&s) && wanted.has(s) && self.states.has(s));
        self.newest && is_best
    }
}

const STATES: [LifecycleState; 3] =
    [LifecycleState::Active, LifecycleState::Deprecated, LifecycleState::Retired];

/// A set of lifecycle states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct States([bool; 3]);

impl States {
    pub(super) fn new(states: impl IntoIterator<Item = LifecycleState>) -> Self {
        let mut set = Self::default();
        states.into_iter().for_each(|state| set.0[state as usize] = true);
        set
    }

    pub(super) fn has(self, state: LifecycleState) -> bool {
        self.0[state as usize]
    }
}

/// Determines the representative versions of one name.
pub(super) fn rank_versions(versions: &mut [Entry]) {
    let states = States::new(versions.iter().map(|entry| entry.state));
    let newest = STATES.map(|state| {
        let of_state = versions.iter().enumerate().filter(|(_, entry)| entry.state == state);
        of_state.max_by_key(|(_, entry)| rank(&entry.record)).map(|(i, _)| i)
    });
    for (i, entry) in versions.iter_mut().enumerate() {
        entry.newest = newest[entry.state as usize] == Some(i);
        entry.states = states;
    }
}

/// Any release ranks above all pre-releases, as in [`registry_core::Catalog::usable_versions`].
fn rank(record: &Record) -> (bool, &registry_core::Version) {
    let version = &record.document.key().version;
    (!version.is_prerelease(), version)
}
