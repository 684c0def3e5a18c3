//! The filters of a search, evaluated once: sets of entities for graph and tag filters, and a check
//! per entry for the others.
//!
//! The filters on provided tools, dependencies and users consider only direct references;
//! [`registry_core::graph`] handles transitive ones.

use std::collections::BTreeSet;

use registry_core::{
    kind::Kind, lifecycle::LifecycleState, name::Name, reference::Key, version::Version,
};

use crate::{
    entry::{Entry, States},
    index::Index,
    postings::Doc,
    query::{Query, Target},
    terms::tag_term,
};

pub(super) struct Filter<'a> {
    index: &'a Index,
    query: &'a Query,
    states: States,
    /// The entities that satisfy the graph and tag filters, in order; `None` if there are none of
    /// these filters.
    among: Option<Vec<Doc>>,
}

impl<'a> Filter<'a> {
    pub(super) fn new(index: &'a Index, query: &'a Query) -> Self {
        let states = match query.lifecycle.as_slice() {
            [] => States::new([LifecycleState::Active, LifecycleState::Deprecated]),
            wanted => States::new(wanted.iter().copied()),
        };
        let tags = query.tags.iter().map(|tag| index.docs_with(&tag_term(tag)));
        let graph = [
            query.provides.as_ref().map(|tool| index.users(tool, |kind| kind == Kind::Server)),
            query.depends_on.as_ref().map(|key| index.users(key, |kind| kind != Kind::Server)),
            query.used_by.as_ref().map(|user| index.parts(user)),
        ];
        let among = tags.chain(graph.into_iter().flatten()).reduce(|mut left, right| {
            left.retain(|doc| right.binary_search(doc).is_ok());
            left
        });
        Self { index, query, states, among }
    }

    /// The entities that satisfy the graph and tag filters; `None` for all.
    pub(super) fn among(&self) -> Option<&[Doc]> {
        self.among.as_deref()
    }

    /// Whether an entity satisfies the filters.
    pub(super) fn accepts(&self, doc: Doc, entry: &Entry) -> bool {
        let Query { kinds, owner, .. } = self.query;
        let is_among = || self.among.as_ref().is_none_or(|docs| docs.binary_search(&doc).is_ok());
        (kinds.is_empty() || kinds.contains(&entry.kind))
            && self.states.has(entry.state)
            && (self.query.lists_versions() || entry.represents(self.states))
            && is_among()
            && owner
                .as_ref()
                .is_none_or(|owner| self.index.catalog.owner_of(&entry.record) == owner)
    }
}

impl Index {
    /// The direct users of a target with certain kinds.
    fn users(&self, target: &Target, wanted: impl Fn(Kind) -> bool) -> Vec<Doc> {
        let mut users = BTreeSet::new();
        for key in self.keys_of(target) {
            users.extend(self.catalog.dependents(&key).filter(|key| wanted(key.kind)).cloned());
        }
        self.docs(&users)
    }

    /// The direct references of a target, without the tools that a server provides.
    fn parts(&self, target: &Target) -> Vec<Doc> {
        let keys = self.keys_of(target).into_iter().filter(|key| key.kind != Kind::Server);
        let mut parts = BTreeSet::new();
        for record in keys.filter_map(|key| self.catalog.find(&key).cloned()) {
            parts.extend(record.document.edges().iter().cloned());
        }
        self.docs(&parts)
    }

    fn keys_of(&self, target: &Target) -> Vec<Key> {
        let Target { kind, name, version } = target;
        match version {
            Some(version) => vec![key(*kind, name, version)],
            None => self.catalog.versions(*kind, name).map(|(key, _)| key.clone()).collect(),
        }
    }

    fn docs(&self, keys: &BTreeSet<Key>) -> Vec<Doc> {
        let mut docs: Vec<Doc> = keys.iter().filter_map(|key| self.find_doc(key)).collect();
        docs.sort_unstable();
        docs
    }
}

fn key(kind: Kind, name: &Name, version: &Version) -> Key {
    Key::new(kind, name.clone(), version.clone())
}
