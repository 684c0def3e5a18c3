//! The state of the source, for `/readyz`, metrics and the log. Each change of state is logged
//! once.

use std::{
    fmt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The state of the connection to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceState {
    /// No contact yet.
    Connecting,
    /// Connected and up to date.
    Live,
    /// Unreachable or disconnected.
    Down,
    /// Reachable, but its content is rejected; an operator must act.
    Rejected,
}

impl SourceState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Connecting, Self::Live, Self::Down, Self::Rejected];

    /// The value in metrics and `/readyz`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Live => "live",
            Self::Down => "down",
            Self::Rejected => "rejected",
        }
    }
}

impl fmt::Display for SourceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A state and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceReport {
    /// The current state.
    pub state: SourceState,
    /// The reason, unless the state is live.
    pub reason: Option<String>,
}

/// The current state. Clones share it.
#[derive(Debug, Clone)]
pub struct Status {
    name: Arc<str>,
    cache: Arc<Path>,
    report: Arc<Mutex<SourceReport>>,
}

impl Status {
    /// The status of a source before first contact. The path of the cache is for the log.
    pub fn new(name: &str, cache: &Path) -> Self {
        let report = SourceReport { state: SourceState::Connecting, reason: None };
        Self { name: name.into(), cache: cache.into(), report: Arc::new(Mutex::new(report)) }
    }

    /// The state for readiness and the admin API.
    pub fn report(&self) -> SourceReport {
        self.lock().clone()
    }

    /// Returns whether the state changed.
    pub(crate) fn live(&self) -> bool {
        let is_change = self.change(SourceState::Live, None);
        if is_change {
            tracing::info!(source = %self.name, "the catalog's source is up to date");
        }
        is_change
    }

    pub(crate) fn down(&self, reason: &str) {
        if self.change(SourceState::Down, Some(reason)) {
            tracing::warn!(
                source = %self.name,
                "cannot follow the catalog's source; the last valid catalog, if any, stays in effect: {reason}",
            );
        }
    }

    pub(crate) fn rejected(&self, reason: &str) {
        if self.change(SourceState::Rejected, Some(reason)) {
            tracing::error!(
                source = %self.name,
                cache = %self.cache.display(),
                "cannot use the catalog's source; the last valid catalog, if any, stays in effect: {reason}",
            );
        }
    }

    /// Returns whether the state or reason changed.
    fn change(&self, state: SourceState, reason: Option<&str>) -> bool {
        let mut report = self.lock();
        if report.state == state && report.reason.as_deref() == reason {
            return false;
        }
        *report = SourceReport { state, reason: reason.map(str::to_owned) };
        true
    }

    fn lock(&self) -> MutexGuard<'_, SourceReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
