//! A catalog with a batch on top, which the rules inspect.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{Proposed, UnreadEntity};
use crate::{
    catalog::{Catalog, Record},
    diagnostic::Diagnostic,
    document::Document,
    edges::{Reference, references},
    entity::Entity,
    kind::Kind,
    lifecycle::{LifecycleState, Notice},
    name::Name,
    parallel,
    reference::Key,
    suggest::closest,
    version::Version,
};

/// Maximum number of unknown names in a batch that are compared with other names.
const COMPARED_NAMES: usize = 10;
/// Maximum number of entities in each direction whose names are compared with an unknown name.
const NEIGHBORS: usize = 200;

pub(super) struct Proposal<'a> {
    catalog: &'a Catalog,
    /// The entities that the batch newly registers, in order.
    pub(super) new: Vec<NewEntity<'a>>,
    /// Registered entities that the batch restores: to active, or from retired to deprecated.
    pub(super) restored: Vec<NewEntity<'a>>,
    /// Entities that are proposed, but could not be read.
    unread: &'a [UnreadEntity],
    by_key: HashMap<&'a Key, usize>,
    by_name: BTreeMap<(Kind, &'a Name), Vec<&'a Version>>,
    /// The last lifecycle change of each key in the batch with its index.
    lifecycles: Lifecycles<'a>,
    /// The number of unknown names that were compared with other names.
    compared: AtomicUsize,
}

type Lifecycles<'a> = HashMap<&'a Key, (LifecycleState, &'a Notice, usize)>;

/// An entity that the batch registers or restores.
pub(super) struct NewEntity<'a> {
    change: usize,
    document: &'a Document,
    /// The references of the entity.
    pub(super) references: Vec<Reference>,
}

impl<'a> NewEntity<'a> {
    pub(super) fn key(&self) -> &'a Key {
        self.document.key()
    }

    pub(super) fn entity(&self) -> &'a Entity {
        self.document.entity()
    }

    pub(super) fn document(&self) -> &'a Document {
        self.document
    }

    /// The index of its change in the batch.
    pub(super) fn change(&self) -> usize {
        self.change
    }

    /// Reports a finding about this entity.
    pub(super) fn report(&self, found: &mut Vec<Diagnostic>, diagnostic: Diagnostic) {
        found.push(diagnostic.for_change(self.change, self.key()));
    }
}

impl<'a> Proposal<'a> {
    pub(super) fn new(
        catalog: &'a Catalog,
        batch: &'a [Proposed],
        unread: &'a [UnreadEntity],
    ) -> Self {
        let (mut new, mut lifecycles) = (Vec::with_capacity(batch.len()), HashMap::new());
        let mut by_key = HashMap::with_capacity(batch.len());
        let mut by_name = BTreeMap::<_, Vec<_>>::new();
        // Documents that are already registered are not inspected.
        let references_of = |proposed: &Proposed| {
            let document = proposed.document()?;
            let same = |record: &Arc<Record>| record.document.digest() == document.digest();
            let is_new = !catalog.find(document.key()).is_some_and(same);
            is_new.then(|| {
                // After a conflict, documents are parsed again, here on all processors.
                let entity = document.entity();
                if document.edges().is_empty() { Vec::new() } else { references(entity) }
            })
        };
        let all = parallel::map(batch.iter().collect(), references_of);
        for ((change, proposed), references) in batch.iter().enumerate().zip(all) {
            match proposed {
                Proposed::Register(document) => {
                    let Some(references) = references else { continue };
                    let Key { kind, name, version } = document.key();
                    by_key.entry(document.key()).or_insert(new.len());
                    by_name.entry((*kind, name)).or_default().push(version);
                    new.push(NewEntity { change, document, references });
                }
                Proposed::SetLifecycle { key, state, notice } => {
                    lifecycles.insert(key, (*state, notice, change));
                }
            }
        }
        let restored = restored(catalog, &lifecycles);
        let compared = AtomicUsize::new(0);
        Self { catalog, new, restored, unread, by_key, by_name, lifecycles, compared }
    }

    /// The document with this key, in the batch or in the catalog.
    pub(super) fn document(&self, key: &Key) -> Option<&'a Document> {
        match self.by_key.get(key) {
            Some(&i) => Some(self.new[i].document),
            None => self.catalog.find(key).map(|record| &*record.document),
        }
    }

    /// Whether there may be an entity with this key.
    pub(super) fn is_known(&self, key: &Key) -> bool {
        self.document(key).is_some() || self.unread.iter().any(|unread| unread.may_be(key))
    }

    /// The entity with this key. `document` avoids parsing if only existence matters.
    pub(super) fn find(&self, key: &Key) -> Option<&'a Entity> {
        self.document(key).map(Document::entity)
    }

    /// The index in `new` of the entity with this key.
    pub(super) fn position(&self, key: &Key) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    /// The lifecycle state after the batch, and its reason.
    pub(super) fn lifecycle(&self, key: &Key) -> (LifecycleState, Option<&str>) {
        if let Some((state, notice, _)) = self.lifecycles.get(key) {
            return (*state, notice.message.as_deref());
        }
        match self.catalog.find(key) {
            Some(record) => (record.lifecycle.state, record.lifecycle.message()),
            None => (LifecycleState::Active, None),
        }
    }

    /// The active entity that replaces a deprecated or retired one after the batch.
    pub(super) fn replacement<'k>(&'k self, key: &Key) -> Option<&'k Key> {
        let replacement = match self.lifecycles.get(key) {
            Some((_, notice, _)) => notice.replacement.as_ref(),
            None => self.catalog.find(key)?.lifecycle.replacement(),
        };
        replacement.filter(|replacement| self.lifecycle(replacement).0 == LifecycleState::Active)
    }

    /// Registered entities that the batch retires, with the index of the change.
    pub(super) fn retired(&self) -> impl Iterator<Item = (&'a Key, &'a Notice, usize)> {
        let retired = self.lifecycles.iter().filter(|(key, after)| {
            after.0 == LifecycleState::Retired && self.position(key).is_none()
        });
        retired.map(|(key, (_, notice, change))| (*key, *notice, *change))
    }

    /// Whether the batch retires this entity despite its dependents.
    pub(super) fn is_forced(&self, key: &Key) -> bool {
        self.lifecycles.get(key).is_some_and(|(_, notice, _)| notice.force_reason.is_some())
    }

    /// The direct dependents of this key in the catalog.
    pub(super) fn dependents(&self, key: &'a Key) -> impl Iterator<Item = &'a Key> {
        self.catalog.dependents(key)
    }

    /// Whether an entity in the catalog refers to this key.
    pub(super) fn is_used_in_catalog(&self, key: &Key) -> bool {
        self.catalog.dependents(key).next().is_some()
    }

    /// The remedy for an unresolved reference, with the registered versions of the name or of a
    /// similar one.
    pub(super) fn help_for_unknown(&self, key: &Key) -> String {
        self.help_without(key, None)
    }

    /// The remedy for an unknown replacement of an entity, which cannot replace itself.
    pub(super) fn help_for_unknown_replacement(&self, key: &Key, of: &Key) -> String {
        self.help_without(key, Some(of))
    }

    /// `unfit` is not suggested.
    fn help_without(&self, key: &Key, unfit: Option<&Key>) -> String {
        let kind = key.kind;
        let known = self.known_versions(kind, &key.name, unfit);
        if !known.is_empty() {
            return format!(
                "register {key} in the same batch, or refer to a registered version: {}",
                known.join(", ")
            );
        }
        let register = format!("register {key} first, or in the same batch");
        let Some(similar) = self.similar_name(kind, &key.name) else { return register };
        let versions = self.known_versions(kind, similar, unfit);
        if versions.is_empty() {
            return register;
        }
        format!("did you mean {kind}/{similar} ({})? otherwise {register}", versions.join(", "))
    }

    /// The name that was likely meant. A large registry has no suggestion for a typo at the start of
    /// a name, because only neighbors in the order of names are compared.
    fn similar_name<'n>(&'n self, kind: Kind, name: &'n Name) -> Option<&'n Name> {
        if self.compared.fetch_add(1, Ordering::Relaxed) >= COMPARED_NAMES {
            return None;
        }
        let before = self.by_name.range(..(kind, name)).rev().take(NEIGHBORS);
        let after = self.by_name.range((kind, name)..).take(NEIGHBORS);
        let in_batch = before.chain(after).map(|(key, _)| *key);
        let in_batch = in_batch.filter(|(other, _)| *other == kind).map(|(_, name)| name);
        let registered = self.catalog.names_around(kind, name, NEIGHBORS);
        let names: Vec<&Name> = registered.chain(in_batch).collect();
        let similar = closest(name.as_str(), names.iter().map(|name| name.as_str()))?;
        names.iter().copied().find(|name| name.as_str() == similar)
    }

    pub(super) fn catalog(&self) -> &'a Catalog {
        self.catalog
    }

    /// All versions of a name, those of the catalog first.
    pub(super) fn versions<'n>(
        &'n self,
        kind: Kind,
        name: &'n Name,
    ) -> impl Iterator<Item = &'n Version> {
        let in_batch = self.by_name.get(&(kind, name)).into_iter().flatten().copied();
        self.catalog.versions(kind, name).map(|(key, _)| &key.version).chain(in_batch)
    }

    /// At most five versions of a name, the newest last.
    fn known_versions(&self, kind: Kind, name: &Name, unfit: Option<&Key>) -> Vec<String> {
        let is_unfit = |version: &Version| {
            unfit.is_some_and(|key| (key.kind, &key.name, &key.version) == (kind, name, version))
        };
        let mut versions: Vec<_> = self.versions(kind, name).collect();
        versions.retain(|version| !is_unfit(version));
        versions.sort();
        versions.dedup();
        let from = versions.len().saturating_sub(5);
        versions[from..].iter().map(ToString::to_string).collect()
    }
}

fn restored<'a>(catalog: &'a Catalog, lifecycles: &Lifecycles<'a>) -> Vec<NewEntity<'a>> {
    let restored = |(key, after): (&&Key, &(LifecycleState, &Notice, usize))| {
        let (state, _, change) = *after;
        let record = catalog.find(key)?;
        let was = record.lifecycle.state;
        let becomes =
            state != was && (state == LifecycleState::Active || was == LifecycleState::Retired);
        let document = &*record.document;
        becomes.then(|| NewEntity { change, document, references: references(document.entity()) })
    };
    lifecycles.iter().filter_map(restored).collect()
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::{
        super::testing::{found_of, server, set, source_tool},
        COMPARED_NAMES, NEIGHBORS, Proposed,
    };
    use crate::{diagnostic::Code, lifecycle::LifecycleState};

    /// The number of findings about sources that suggest the server `files`.
    fn suggestions(registered: &[Proposed], batch: &[Proposed]) -> usize {
        found_of(Code::SourceUnknown, registered, batch).matches("server/files (1.0.0)").count()
    }

    #[test]
    fn suggestions_are_usable_names_of_registry_and_batch() {
        let (files, tool) = (server("files", &[]), source_tool("read", "fles"));
        let retired = set("server/files@1.0.0", LifecycleState::Retired, None);
        assert_eq!(suggestions(from_ref(&files), from_ref(&tool)), 1);
        assert_eq!(suggestions(&[], &[files.clone(), tool.clone()]), 1);
        assert_eq!(suggestions(&[files.clone(), retired], &[tool]), 0);
        assert_eq!(suggestions(&[files], &[source_tool("read", "archive")]), 0);
    }

    #[test]
    fn suggestions_compare_limited_number_of_names() {
        let tool = |i: usize| source_tool(&format!("t{i}"), "fles");
        let tools: Vec<_> = (0..2 * COMPARED_NAMES).map(tool).collect();
        assert_eq!(suggestions(&[server("files", &[])], &tools), COMPARED_NAMES);
        let other = |i: usize| server(&format!("m{i}"), &[]);
        let mut large: Vec<_> = (0..2 * NEIGHBORS).map(other).collect();
        large.push(server("files", &[]));
        assert_eq!(suggestions(&large, &[source_tool("read", "fils")]), 1);
        assert_eq!(suggestions(&large, &[source_tool("read", "xfiles")]), 0);
    }
}
