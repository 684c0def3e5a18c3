//! A catalog and an earlier one of the same history: going back, and what has changed since.

use std::{collections::HashMap, sync::Arc};

use super::{Catalog, Record, digest::entity_line};
use crate::{
    chain::{ChainHash, Revision},
    lifecycle::Lifecycle,
    reference::Key,
    setting::Settings,
};

impl Catalog {
    /// The state after an earlier revision. `changed` has the lifecycles of that time for what was
    /// deprecated, retired or restored before it.
    pub fn rewound(
        &self,
        (revision, chain): (Revision, ChainHash),
        changed: &HashMap<Key, Lifecycle>,
        settings: Settings,
    ) -> Self {
        let mut catalog = self.at(revision, chain).with_settings(settings);
        for (key, record) in &self.records {
            if record.registered > revision {
                catalog.remove(key, record);
            } else if record.lifecycle.revision > revision {
                let registered = || Lifecycle::active((record.registered, record.registered_at));
                let lifecycle = changed.get(key).cloned().unwrap_or_else(registered);
                let record = Record { lifecycle, ..Record::clone(record) };
                catalog.records.insert(key.clone(), Arc::new(record));
            }
        }
        catalog
    }

    pub(super) fn remove(&mut self, key: &Key, record: &Record) {
        for edge in record.document.edges() {
            self.dependents.remove(&(edge.clone(), key.clone()));
        }
        self.records.remove(key);
        let before = self.content.get().map(|_| entity_line(record));
        self.count(before.as_deref(), None);
    }

    /// The records that are new or changed since an earlier catalog of the same history, found by
    /// what the two share; `None` where something is gone, so that it was no earlier one.
    pub fn changed_since(&self, earlier: &Self) -> Option<Vec<Arc<Record>>> {
        let step = self.step_from(earlier);
        step.removed.is_empty().then_some(step.put)
    }
}
