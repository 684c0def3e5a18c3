//! What calls have shown of tools: arguments and results that break their schemas.
//!
//! Counted by tool for as long as the process lives. Metrics by tool are not exported: the number
//! of tools is unbounded.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use registry_core::{Catalog, Key};
use serde::Serialize;

/// What was seen of one tool's calls.
#[derive(Debug, Default, Serialize)]
pub struct Observed {
    /// Calls whose arguments broke the input schema.
    arguments: AtomicU64,
    /// Results that broke the output schema.
    results: AtomicU64,
}

impl Observed {
    /// Notes arguments that break the input schema.
    pub fn note_arguments(&self) {
        self.arguments.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a result that breaks the output schema.
    pub fn note_result(&self) {
        self.results.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether anything was noted.
    pub fn is_any(&self) -> bool {
        self.arguments.load(Ordering::Relaxed) + self.results.load(Ordering::Relaxed) > 0
    }
}

/// What was seen of all tools that somebody asked about.
#[derive(Debug, Default)]
pub(super) struct AllObserved(Mutex<BTreeMap<Key, Arc<Observed>>>);

impl AllObserved {
    pub(super) fn of(&self, tool: &Key) -> Arc<Observed> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(observed) = all.get(tool) {
            return observed.clone();
        }
        all.entry(tool.clone()).or_default().clone()
    }

    /// Those of which anything was noted.
    pub(super) fn noted(&self) -> BTreeMap<Key, Arc<Observed>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let noted = all.iter().filter(|(_, observed)| observed.is_any());
        noted.map(|(tool, observed)| (tool.clone(), observed.clone())).collect()
    }

    /// Forgets tools that are gone.
    pub(super) fn prune(&self, catalog: &Catalog) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() > catalog.len() {
            all.retain(|tool, _| catalog.find(tool).is_some());
        }
    }
}
