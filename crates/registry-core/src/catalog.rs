//! The catalog: the state of the registry after a revision, as an immutable value.
//!
//! [`Catalog::apply`] is the only fold over the log; servers, gateways, the command line and the
//! tests all use it. Cloning shares structure and is cheap.

mod apply;
mod attested;
mod compare;
mod content;
mod digest;
mod part;
mod past;

use std::{
    ops::Bound,
    sync::{Arc, OnceLock},
};

use imbl::{OrdMap, OrdSet};
use schema_compat::name::SchemaName;
use serde_json::Value;

pub use apply::ApplyError;
pub use compare::{EntityDifference, SettingDifference};
pub use part::Step;

use content::Content;

use crate::{
    attestation::Attestation,
    chain::{ChainHash, Position, RegistryId, Revision},
    document::Document,
    entity::Entity,
    kind::Kind,
    lifecycle::{Lifecycle, LifecycleState},
    name::Name,
    reference::Key,
    scope::Scope,
    setting::Settings,
    timestamp::Timestamp,
    version::Version,
};

/// An entity in the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The document.
    pub document: Arc<Document>,
    /// Who owned its name when it was registered.
    pub owner: Arc<str>,
    /// In which revision.
    pub registered: Revision,
    /// When.
    pub registered_at: Timestamp,
    /// Its lifecycle.
    pub lifecycle: Lifecycle,
}

impl Record {
    /// Whether it is neither deprecated nor retired.
    pub fn is_active(&self) -> bool {
        self.lifecycle.state == LifecycleState::Active
    }
}

/// The state of a registry after a revision.
#[derive(Debug, Clone)]
pub struct Catalog {
    registry: RegistryId,
    revision: Revision,
    chain: ChainHash,
    records: OrdMap<Key, Arc<Record>>,
    /// (what is referred to, what refers to it): one set, because a set for each key would cost
    /// more than the entities themselves.
    dependents: OrdSet<(Key, Key)>,
    settings: Settings,
    scope: Arc<Scope>,
    /// What the content digest is of, once somebody has asked for it.
    content: OnceLock<Content>,
    attestation: Option<Attestation>,
}

/// Who vouches for it makes no difference.
impl PartialEq for Catalog {
    fn eq(&self, other: &Self) -> bool {
        let Self { registry, revision, chain, records, dependents, settings, scope, .. } = self;
        (registry, revision, chain) == (&other.registry, &other.revision, &other.chain)
            && (records, dependents) == (&other.records, &other.dependents)
            && (settings, scope) == (&other.settings, &other.scope)
    }
}

impl Catalog {
    /// The empty registry.
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

    /// A catalog from a snapshot: all records at a revision and its chain hash. Whoever calls it
    /// has verified the snapshot's digest.
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

    /// The same catalog with these settings instead of its own.
    pub fn with_settings(self, settings: Settings) -> Self {
        Self { settings, content: OnceLock::new(), ..self }
    }

    /// The same without these entities, for a look at what would be; no revision is ever so.
    pub(crate) fn without<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) -> Self {
        let mut rest = self.clone();
        for key in keys {
            if let Some(record) = self.records.get(key) {
                rest.remove(key, record);
            }
        }
        rest
    }

    /// Which registry.
    pub fn registry(&self) -> &RegistryId {
        &self.registry
    }

    /// After which revision.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The chain hash after that revision.
    pub fn chain(&self) -> ChainHash {
        self.chain
    }

    /// When the last commit was made, if it changed an entity; settings keep no time. Looks at every
    /// entity.
    pub fn committed_at(&self) -> Option<Timestamp> {
        let lifecycles = self.records.values().map(|record| &record.lifecycle);
        let mut last = lifecycles.filter(|lifecycle| lifecycle.revision == self.revision);
        last.next().map(|lifecycle| lifecycle.changed_at)
    }

    /// The registry's signed word that this is its state.
    pub fn attestation(&self) -> Option<&Attestation> {
        self.attestation.as_ref()
    }

    /// The same with the registry's word on it. Whoever relies on that has verified it.
    #[must_use]
    pub fn attested(self, attestation: Option<Attestation>) -> Self {
        Self { attestation, ..self }
    }

    /// Which part of the registry this is.
    pub fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }

    /// The same as the part of a registry that is in this scope. Whoever calls it has verified that.
    #[must_use]
    pub fn as_part(self, scope: Arc<Scope>) -> Self {
        Self { scope, attestation: None, ..self }
    }

    /// What is set about names, namespaces and everything.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Who owns a name: whoever it was given to, else whoever registered it first, else whoever its
    /// namespace was given to. `None`: it is free.
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

    /// Who owns the name of something registered.
    pub fn owner_of<'a>(&'a self, record: &'a Record) -> &'a str {
        let Key { kind, name, .. } = record.document.key();
        self.settings.owner_by_name(*kind, name).unwrap_or(&record.owner)
    }

    /// How many entities there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The entity with this key.
    pub fn find(&self, key: &Key) -> Option<&Arc<Record>> {
        self.records.get(key)
    }

    /// The registered JSON Schema with this name.
    pub fn json_schema(&self, name: &SchemaName) -> Option<&Value> {
        match self.find(&Key::of_schema(name)?)?.document.entity() {
            Entity::Schema(schema) => Some(&schema.schema),
            _ => None,
        }
    }

    /// All entities, by kind, name and version.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<Record>)> {
        self.records.iter()
    }

    /// The entities after this key, in the order of [`Catalog::iter`]; `None`: all.
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

    /// The highest active version of a name; a release before any pre-release.
    pub fn newest_active<'a>(&'a self, kind: Kind, name: &'a Name) -> Option<&'a Arc<Record>> {
        self.versions(kind, name)
            .filter(|(_, record)| record.is_active())
            .max_by_key(|(key, _)| (!key.version.is_prerelease(), key.version.clone()))
            .map(|(_, record)| record)
    }

    fn starting_at(
        &self,
        kind: Kind,
        name: Option<&Name>,
    ) -> impl Iterator<Item = (&Key, &Arc<Record>)> {
        let first = Key::new(kind, name.cloned().unwrap_or_else(Name::lowest), Version::lowest());
        self.records.range((Bound::Included(first), Bound::Unbounded))
    }

    /// What refers directly to this key, whether or not the key itself is registered.
    pub fn dependents<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = &'a Key> {
        let first = (key.clone(), Key::lowest());
        self.dependents
            .range((Bound::Included(first), Bound::Unbounded))
            .take_while(move |(target, _)| target == key)
            .map(|(_, dependent)| dependent)
    }
}

impl Position {
    /// The position of a catalog.
    pub fn of(catalog: &Catalog) -> Self {
        Self {
            registry: catalog.registry().clone(),
            revision: catalog.revision(),
            chain: catalog.chain(),
        }
    }
}

#[cfg(test)]
mod tests;
