//! Earlier states of a catalog: rewinding, and changes since then.

use std::{collections::HashMap, sync::Arc};

use super::{Catalog, Record, digest::entity_line};
use crate::{
    chain::{ChainHash, Revision},
    lifecycle::Lifecycle,
    reference::Key,
    setting::Settings,
};

impl Catalog {
    /// The state after an earlier revision. `changed` has the lifecycles at that revision of all
    /// entities that were deprecated, retired or restored before it.
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

    /// New and changed records since an earlier catalog of the same history. Structural sharing
    /// makes the cost proportional to the changes. Returns `None` if an entity has disappeared,
    /// because then `earlier` has another history.
    pub fn changed_since(&self, earlier: &Self) -> Option<Vec<Arc<Record>>> {
        let step = self.delta_from(earlier);
        step.removed.is_empty().then_some(step.put)
    }
}
