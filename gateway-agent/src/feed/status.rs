//! How the source is doing, for `/readyz`, the metrics and the log, where each change of state is
//! one line and its repetition none.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The states of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceState {
    /// It was not heard of yet.
    Connecting,
    /// What it says is what is served.
    Live,
    /// It cannot be reached, or broke off.
    Down,
    /// What it says cannot be used; an operator must act.
    Refused,
}

impl SourceState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Connecting, Self::Live, Self::Down, Self::Refused];

    /// The state in lower case: `live`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Live => "live",
            Self::Down => "down",
            Self::Refused => "refused",
        }
    }
}

impl fmt::Display for SourceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A state and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The state.
    pub state: SourceState,
    /// Why it is not live.
    pub reason: Option<String>,
}

/// The present state; clones share it.
#[derive(Debug, Clone)]
pub struct Status {
    name: Arc<str>,
    report: Arc<Mutex<Report>>,
}

impl Status {
    /// The status of a source that was not heard of yet.
    pub fn new(name: &str) -> Self {
        let report = Report { state: SourceState::Connecting, reason: None };
        Self { name: name.into(), report: Arc::new(Mutex::new(report)) }
    }

    /// The present state.
    pub fn report(&self) -> Report {
        self.lock().clone()
    }

    /// Says whether it is a change.
    pub(crate) fn live(&self) -> bool {
        let is_change = self.change(SourceState::Live, None);
        if is_change {
            tracing::info!(source = %self.name, "following the registry");
        }
        is_change
    }

    pub(crate) fn down(&self, reason: &str) {
        if self.change(SourceState::Down, Some(reason)) {
            tracing::warn!(
                source = %self.name,
                "the registry cannot be followed, the last good catalog stays: {reason}",
            );
        }
    }

    pub(crate) fn refused(&self, reason: &str) {
        if self.change(SourceState::Refused, Some(reason)) {
            tracing::error!(
                source = %self.name,
                "what the registry sends is refused, the last good catalog stays: {reason}",
            );
        }
    }

    /// Says whether it is a change.
    fn change(&self, state: SourceState, reason: Option<&str>) -> bool {
        let mut report = self.lock();
        if report.state == state && report.reason.as_deref() == reason {
            return false;
        }
        *report = Report { state, reason: reason.map(str::to_owned) };
        true
    }

    fn lock(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
