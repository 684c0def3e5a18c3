//! The catalog: the state of the registry after a revision, as an immutable value.
//!
//! [`Catalog::apply`] is the only fold over the log. Servers, gateways, the command line and the
//! tests all use it. A clone shares structure and is cheap.

mod apply;
mod ascending;
mod attested;
mod compare;
mod content;
mod delta;
mod digest;
mod past;

use std::{
    cmp::Reverse,
    ops::Bound,
    sync::{Arc, OnceLock},
};

use imbl::{OrdMap, OrdSet};
use schema_compat::name::SchemaName;
use serde_json::Value;

pub use apply::ApplyError;
pub use compare::{EntityDifference, SettingDifference};
pub use delta::CatalogDelta;

pub(crate) use ascending::Ascending;

use content::Content;

use crate::{
    attestation::Attestation,
    chain::{ChainHash, Position, RegistryId, Revision},
    document::Document,
    entity::Tool,
    kind::Kind,
    lifecycle::{Lifecycle, LifecycleState},
    name::Name,
    reference::Key,
    scope::Scope,
    setting::Settings,
    timestamp::Timestamp,
    version::Version,
};

/// A registered entity with its owner and lifecycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The canonical document.
    pub document: Arc<Document>,
    /// Owner of the name at the time of registration.
    pub owner: Arc<str>,
    /// The revision that registered it.
    pub registered: Revision,
    /// The time of that commit.
    pub registered_at: Timestamp,
    /// The current lifecycle state.
    pub lifecycle: Lifecycle,
}

impl Record {
    /// Whether it is neither deprecated nor retired.
    pub fn is_active(&self) -> bool {
        self.lifecycle.state == LifecycleState::Active
    }

    /// Whether calls can use it: deprecated entities can be called, retired ones cannot.
    pub fn is_usable(&self) -> bool {
        self.lifecycle.state != LifecycleState::Retired
    }
}

/// The state of a registry after a revision.
#[derive(Debug, Clone)]
pub struct Catalog {
    registry: RegistryId,
    revision: Revision,
    chain: ChainHash,
    records: OrdMap<Key, Arc<Record>>,
    /// Pairs of (dependency, dependent). One set costs less memory than a set per key, which would
    /// exceed the entities themselves.
    dependents: OrdSet<(Key, Key)>,
    settings: Settings,
    scope: Arc<Scope>,
    /// The tree of the content digest, built on first use.
    content: OnceLock<Content>,
    attestation: Option<Attestation>,
}

/// Attestations do not affect equality.
impl PartialEq for Catalog {
    fn eq(&self, other: &Self) -> bool {
        let Self { registry, revision, chain, records, dependents, settings, scope, .. } = self;
        (registry, revision, chain) == (&other.registry, &other.revision, &other.chain)
            && (records, dependents) == (&other.records, &other.dependents)
            && (settings, scope) == (&other.settings, &other.scope)
    }
}

impl Catalog {
    /// The catalog of revision 0.
    pub fn empty(registry: RegistryId) -> Self {
        let chain = ChainHash::genesis(&registry);
        let (records, dependents) = (OrdMap::new(), OrdSet::new());
        Self {
            registry,
            revision: Revision(0),
            chain,
            records,
            dependents,
            settings: Settings::default(),
            scope: Arc::default(),
            content: OnceLock::new(),
            attestation: None,
        }
    }

    /// Restores a catalog from a snapshot: all records at a revision with its chain hash. The
    /// caller has verified the snapshot's digest.
    pub fn restore(
        registry: RegistryId,
        revision: Revision,
        chain: ChainHash,
        records: impl IntoIterator<Item = Record>,
    ) -> Self {
        let mut catalog = Self { revision, chain, ..Self::empty(registry) };
        for record in records {
            catalog.put(Arc::new(record));
        }
        catalog
    }

    /// Replaces the settings.
    pub fn with_settings(self, settings: Settings) -> Self {
        Self { settings, content: OnceLock::new(), ..self }
    }

    /// The catalog without these entities, for hypothetical changes. Its revision stays the same.
    pub(crate) fn without<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) -> Self {
        let mut rest = self.clone();
        for key in keys {
            if let Some(record) = self.records.get(key) {
                rest.remove(key, record);
            }
        }
        rest
    }

    /// The registry's id.
    pub fn registry(&self) -> &RegistryId {
        &self.registry
    }

    /// The revision of the last applied commit.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The chain hash after that revision.
    pub fn chain(&self) -> ChainHash {
        self.chain
    }

    /// The time of the last commit that changed an entity, or `None` without entities. Settings
    /// carry no time. Cost: linear in the number of entities.
    pub fn committed_at(&self) -> Option<Timestamp> {
        let lifecycles = self.records.values().map(|record| &record.lifecycle);
        let mut last = lifecycles.filter(|lifecycle| lifecycle.revision == self.revision);
        last.next().map(|lifecycle| lifecycle.changed_at)
    }

    /// The registry's signature over this state, if it has one.
    pub fn attestation(&self) -> Option<&Attestation> {
        self.attestation.as_ref()
    }

    /// Attaches an attestation, which the caller has verified.
    #[must_use]
    pub fn with_attestation(self, attestation: Option<Attestation>) -> Self {
        Self { attestation, ..self }
    }

    /// The subset of the registry that this catalog contains.
    pub fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }

    /// Marks the catalog as the subset selected by this scope, which the caller has verified.
    #[must_use]
    pub fn with_scope(self, scope: Arc<Scope>) -> Self {
        Self { scope, attestation: None, ..self }
    }

    /// Settings of names, namespaces and the whole registry.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The owner of a name, or `None` if the name is unclaimed. An explicitly set owner takes
    /// precedence over the first registrant, and that one over the owner of the namespace.
    pub fn owner(&self, kind: Kind, name: &Name) -> Option<Arc<str>> {
        let first = || self.versions(kind, name).min_by_key(|(_, record)| record.registered);
        if let Some(owner) = self.settings.owner_by_name(kind, name) {
            return Some(owner.into());
        }
        match first() {
            Some((_, record)) => Some(record.owner.clone()),
            None => self.settings.owner_of_namespace(name.as_str()).map(Arc::from),
        }
    }

    /// The current owner of a record's name.
    pub fn owner_of<'a>(&'a self, record: &'a Record) -> &'a str {
        let Key { kind, name, .. } = record.document.key();
        self.settings.owner_by_name(*kind, name).unwrap_or(&record.owner)
    }

    /// Like [`Catalog::owner_of`]. An owner that was not assigned is shared with the record.
    pub fn shared_owner_of(&self, record: &Record) -> Arc<str> {
        let Key { kind, name, .. } = record.document.key();
        let assigned = self.settings.owner_by_name(*kind, name);
        assigned.map_or_else(|| Arc::clone(&record.owner), Arc::from)
    }

    /// The number of entities.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether the catalog has no entities.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The entity with this key.
    pub fn find(&self, key: &Key) -> Option<&Arc<Record>> {
        self.records.get(key)
    }

    /// Whether gateways accept calls of an entity: it is not retired, nor is the server of a tool. A
    /// registry file can contain tools without their server.
    pub fn is_callable(&self, record: &Record) -> bool {
        let is_of_retired_server = || {
            let source = record.document.entity().as_tool().and_then(Tool::source);
            let server = source.and_then(|source| self.find(&source.server_key()));
            server.is_some_and(|server| !server.is_usable())
        };
        record.is_usable() && !is_of_retired_server()
    }

    /// The JSON Schema registered under this name.
    pub fn json_schema(&self, name: &SchemaName) -> Option<&Value> {
        self.find(&Key::for_schema(name)?)?.document.entity().as_schema()
    }

    /// All entities, ordered by kind, name and version.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<Record>)> {
        self.records.iter()
    }

    /// The entities after this key in the order of [`Catalog::iter`]; all of them for `None`.
    pub fn after<'a>(
        &'a self,
        key: Option<&Key>,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Record>)> + use<'a> {
        let first = key.map_or(Bound::Unbounded, |key| Bound::Excluded(key.clone()));
        self.records.range((first, Bound::Unbounded))
    }

    /// The entities of one kind.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Arc<Record>)> {
        self.starting_at(kind, None).take_while(move |(key, _)| key.kind == kind)
    }

    /// All versions of one name, lowest first.
    pub fn versions<'a>(
        &'a self,
        kind: Kind,
        name: &'a Name,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Record>)> {
        self.starting_at(kind, Some(name))
            .take_while(move |(key, _)| key.kind == kind && key.name == *name)
    }

    /// The usable versions of a name, best first: active before deprecated, so that a deprecation
    /// breaks no caller; releases before pre-releases; newer before older.
    pub fn usable_versions<'a>(&'a self, kind: Kind, name: &'a Name) -> Vec<&'a Arc<Record>> {
        let usable = self.versions(kind, name).filter(|(_, record)| record.is_usable());
        let mut usable: Vec<_> = usable.collect();
        usable.sort_by_cached_key(|(key, record)| {
            Reverse((record.is_active(), !key.version.is_prerelease(), key.version.clone()))
        });
        usable.into_iter().map(|(_, record)| record).collect()
    }

    /// The usable versions of a name, best first. In a scope, none that a version outside of the scope
    /// could precede, with other dependencies, tags and annotations.
    pub fn preferred_versions<'a>(&'a self, kind: Kind, name: &'a Name) -> Vec<&'a Arc<Record>> {
        let mut versions = self.usable_versions(kind, name);
        if *self.scope != Scope::Everything {
            // Scopes select active versions. Deprecated ones are dependencies, and others can be missing.
            let has_all = self.scope.has_all_versions(kind, name);
            versions.retain(|record| has_all && record.is_active());
        }
        versions
    }

    /// The names of usable entities next to this name in the order of names. At most `most` entities
    /// are visited in each direction.
    pub(crate) fn names_around<'a>(
        &'a self,
        kind: Kind,
        name: &Name,
        most: usize,
    ) -> impl Iterator<Item = &'a Name> + use<'a> {
        let at = Key::new(kind, name.clone(), Version::lowest());
        let before = self.records.range(..at.clone()).rev().take(most);
        let after = self.records.range(at..).take(most);
        let near = before.chain(after);
        let usable = near.filter(move |(key, record)| key.kind == kind && record.is_usable());
        usable.map(|(key, _)| &key.name)
    }

    fn starting_at(
        &self,
        kind: Kind,
        name: Option<&Name>,
    ) -> impl Iterator<Item = (&Key, &Arc<Record>)> {
        let first = Key::new(kind, name.cloned().unwrap_or_else(Name::lowest), Version::lowest());
        self.records_from(&first)
    }

    /// The direct dependents of this key, even if the key itself is not registered.
    pub fn dependents<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = &'a Key> {
        self.dependents_from(key)
            .take_while(move |(target, _)| *target == key)
            .map(|(_, dependent)| dependent)
    }

    /// Pairs of dependency and dependent in order, from this dependency on.
    pub(crate) fn dependents_from<'a>(
        &'a self,
        key: &Key,
    ) -> impl Iterator<Item = (&'a Key, &'a Key)> + use<'a> {
        let first = (key.clone(), Key::lowest());
        let pairs = self.dependents.range((Bound::Included(first), Bound::Unbounded));
        pairs.map(|(dependency, dependent)| (dependency, dependent))
    }

    /// The entities from this key on, in order.
    pub(crate) fn records_from<'a>(
        &'a self,
        key: &Key,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Record>)> + use<'a> {
        self.records.range::<_, Key>((Bound::Included(key), Bound::Unbounded))
    }
}

impl Position {
    /// The position of this catalog in its registry's log.
    pub fn of_catalog(catalog: &Catalog) -> Self {
        Self {
            registry: catalog.registry().clone(),
            revision: catalog.revision(),
            chain: catalog.chain(),
        }
    }
}

#[cfg(test)]
mod tests;
