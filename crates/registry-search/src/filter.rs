//! The filters of a search, worked out once: sets of entities for what the graph and tags say, and
//! a look at the entry for the rest.
//!
//! What something provides, depends on or is used by is read from direct references only; what
//! leads there through others is the business of [`registry_core::graph`].

use std::collections::BTreeSet;

use registry_core::{
    kind::Kind, lifecycle::LifecycleState, name::Name, reference::Key, version::Version,
};

use super::{
    Index, Query, Target, Versions,
    entry::{Entry, States},
    postings::Doc,
    terms::tag_term,
};

/// What a search lets through.
pub(super) struct Filter<'a> {
    index: &'a Index,
    query: &'a Query,
    states: States,
    /// What the graph and tags leave, in order; `None`: everything.
    among: Option<Vec<Doc>>,
}

impl<'a> Filter<'a> {
    pub(super) fn new(index: &'a Index, query: &'a Query) -> Self {
        let states = match query.lifecycle.as_slice() {
            [] => States::of([LifecycleState::Active, LifecycleState::Deprecated]),
            wanted => States::of(wanted.iter().copied()),
        };
        let tags = query.tags.iter().map(|tag| index.docs_of(&tag_term(tag)));
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

    /// The entities that the graph and tags leave; `None`: all.
    pub(super) fn among(&self) -> Option<&[Doc]> {
        self.among.as_deref()
    }

    /// The entity, if the filters let it through.
    pub(super) fn pass(&self, doc: Doc) -> Option<&'a Entry> {
        let Query { kinds, owner, versions, .. } = self.query;
        let entry = self.index.entry(doc)?;
        let is_among = || self.among.as_ref().is_none_or(|docs| docs.binary_search(&doc).is_ok());
        let stands = match versions {
            Versions::Newest => entry.represents(self.states),
            Versions::All => true,
        };
        let passes = (kinds.is_empty() || kinds.contains(&entry.kind))
            && self.states.has(entry.state)
            && stands
            && is_among()
            && owner
                .as_ref()
                .is_none_or(|owner| self.index.catalog.owner_of(&entry.record) == owner);
        passes.then_some(entry)
    }
}

impl Index {
    /// What refers directly to a target, of some kinds.
    fn users(&self, target: &Target, wanted: impl Fn(Kind) -> bool) -> Vec<Doc> {
        let mut users = BTreeSet::new();
        for key in self.keys_of(target) {
            users.extend(self.catalog.dependents(&key).filter(|key| wanted(key.kind)).cloned());
        }
        self.docs(&users)
    }

    /// What a target refers to directly. What a server provides is no part of it.
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
        let mut docs: Vec<Doc> = keys.iter().filter_map(|key| self.doc_of(key)).collect();
        docs.sort_unstable();
        docs
    }
}

fn key(kind: Kind, name: &Name, version: &Version) -> Key {
    Key::new(kind, name.clone(), version.clone())
}
