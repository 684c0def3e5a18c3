//! The content of a bill of materials.

use std::{collections::BTreeSet, sync::Arc};

use registry_core::{
    catalog::{Catalog, Record},
    graph,
    kind::Kind,
    reference::Key,
    timestamp::Timestamp,
};

/// The property that explains the hashes of a bill.
pub(super) const HASHES: &str = "SHA-256 of the registered document (RFC 8785)";

/// The content of a bill of materials, independent of its format.
#[derive(Debug, Clone)]
pub struct Bill {
    pub(super) catalog: Catalog,
    pub(super) time: Timestamp,
    pub(super) root: Option<Key>,
    /// Ordered by key.
    pub(super) records: Vec<Arc<Record>>,
    /// The policies in force.
    pub(super) policies: Vec<Arc<Record>>,
}

impl Bill {
    /// The bill of one entity, or of the whole registry; `None` if the root is not registered, or is
    /// a policy. Policies are no components. `time` is the commit time of the catalog's revision.
    pub fn build(catalog: &Catalog, time: Timestamp, root: Option<&Key>) -> Option<Self> {
        let is_component = |key: &Key| key.kind != Kind::Policy;
        let records = match root.filter(|root| is_component(root)) {
            None if root.is_some() => return None,
            None => {
                let components = catalog.iter().filter(|(key, _)| is_component(key));
                components.map(|(_, record)| record.clone()).collect()
            }
            Some(root) => {
                let first = catalog.find(root)?;
                closure(catalog, first)
            }
        };
        let policies = catalog.policies_in_force().cloned().collect();
        Some(Self { catalog: catalog.clone(), time, root: root.cloned(), records, policies })
    }

    /// The keys of the listed entities in order.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.records.iter().map(|record| record.document.key())
    }

    /// The display name of the bill.
    pub(super) fn name(&self) -> String {
        match &self.root {
            Some(root) => root.to_string(),
            None => format!("registry {}", self.catalog.registry()),
        }
    }

    /// The registry and its state, one `name=value` per line.
    pub(super) fn describe_source(&self) -> String {
        let Self { catalog, .. } = self;
        let (registry, revision, chain) = (catalog.registry(), catalog.revision(), catalog.chain());
        format!(
            "registry:id={registry}\nregistry:revision={revision}\nregistry:chain={chain}\n\
             registry:hashes={HASHES}"
        )
    }

    pub(super) fn lists(&self, key: &Key) -> bool {
        self.records.binary_search_by(|record| record.document.key().cmp(key)).is_ok()
    }

    /// The references of an entity within the bill, ordered and without duplicates: dependencies
    /// or, for a server, the provided tools.
    pub(super) fn edges<'a>(&self, record: &'a Record) -> Vec<&'a Key> {
        let mut keys: Vec<&Key> = record.document.edges().iter().collect();
        keys.retain(|key| self.lists(key) && *key != record.document.key());
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The subjects of the bill: its root, or all entities without dependents.
    pub(super) fn subjects(&self) -> Vec<&Key> {
        if let Some(root) = &self.root {
            return vec![root];
        }
        let dependents =
            self.records.iter().filter(|record| record.document.key().kind != Kind::Server);
        let needed: BTreeSet<&Key> =
            dependents.flat_map(|record| record.document.edges().iter()).collect();
        self.keys().filter(|key| !needed.contains(key)).collect()
    }
}

/// The root with its dependencies; for a server also the provided tools with theirs.
fn closure(catalog: &Catalog, root: &Arc<Record>) -> Vec<Arc<Record>> {
    // A closure does not follow `provides`, so the references of the root are added. Those of other
    // kinds are dependencies anyway.
    let roots = root.document.edges().iter().chain([root.document.key()]);
    graph::closure(catalog, roots).iter().filter_map(|key| catalog.find(key).cloned()).collect()
}
