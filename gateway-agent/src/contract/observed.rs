//! Schema violations of calls, counted per tool while the process runs.
//!
//! They are not metrics, because the number of tools is unbounded.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use registry_core::{Catalog, Key};
use serde::Serialize;

/// The violations of one tool.
#[derive(Debug, Default, Serialize)]
pub struct ViolationCounter {
    /// Calls whose arguments violate the input schema.
    arguments: AtomicU64,
    /// Results that violate the output schema.
    results: AtomicU64,
}

impl ViolationCounter {
    /// Counts arguments that violate the live schema.
    pub fn count_arguments(&self) {
        self.arguments.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a result that violates the live schema.
    pub fn count_result(&self) {
        self.results.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether any call violated a live schema.
    pub fn has_violations(&self) -> bool {
        self.arguments.load(Ordering::Relaxed) + self.results.load(Ordering::Relaxed) > 0
    }
}

#[derive(Debug, Default)]
pub(super) struct ViolationCounters(Mutex<BTreeMap<Key, Arc<ViolationCounter>>>);

impl ViolationCounters {
    pub(super) fn for_tool(&self, tool: &Key) -> Arc<ViolationCounter> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(observed) = all.get(tool) {
            return observed.clone();
        }
        all.entry(tool.clone()).or_default().clone()
    }

    /// The tools with violations.
    pub(super) fn noted(&self) -> BTreeMap<Key, Arc<ViolationCounter>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let noted = all.iter().filter(|(_, observed)| observed.has_violations());
        noted.map(|(tool, observed)| (tool.clone(), observed.clone())).collect()
    }

    /// Drops tools that the catalog no longer contains.
    pub(super) fn prune(&self, catalog: &Catalog) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() > catalog.len() {
            all.retain(|tool, _| catalog.find(tool).is_some());
        }
    }
}
