//! The subset of a catalog that a scope selects, updated incrementally.
//!
//! It contains the policies that may select something in it, and the settings of its names, which
//! include their owners. For a commit outside of the scope the cost is proportional to the commit's
//! changes and to the policies, and otherwise to the subset, never to the registry.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use imbl::OrdSet;

use crate::{
    catalog::{Catalog, Record},
    entity::Entity,
    graph,
    kind::Kind,
    policies::{self, EffectiveVersions, ResourceNames},
    reference::Key,
    scope::{Root, Scope},
    setting::Selector,
    tags::{has_any_tag, has_tag},
};

/// The subset of a catalog that a scope selects.
#[derive(Debug, Clone)]
pub struct ScopedCatalog {
    scope: Arc<Scope>,
    source: Catalog,
    /// The registered entities that match a root directly.
    named: OrdSet<Key>,
    catalog: Catalog,
}

impl ScopedCatalog {
    /// Selects the subset. Cost: linear in the number of entities.
    pub fn select(scope: Arc<Scope>, source: &Catalog) -> Self {
        let named = scope.named(source);
        Self::from_named(scope, source, named)
    }

    /// Like `select`, but returns `None` as soon as `is_wanted` returns false, which is called for
    /// each entity.
    pub fn select_while(
        scope: Arc<Scope>,
        source: &Catalog,
        is_wanted: impl Fn() -> bool,
    ) -> Option<Self> {
        let named = scope.named_while(source, &is_wanted)?;
        is_wanted().then(|| Self::from_named(scope, source, named))
    }

    fn from_named(scope: Arc<Scope>, source: &Catalog, named: OrdSet<Key>) -> Self {
        let catalog = source.filtered(scope.clone(), &content(source, &named));
        Self { scope, source: source.clone(), named, catalog }
    }

    /// The selected entities at the revision of the source.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The complete catalog of the last update.
    pub fn source(&self) -> &Catalog {
        &self.source
    }

    /// Advances to a later catalog of the same registry, which differs in these records
    /// ([`Catalog::changed_since`]). Returns whether anything in scope may have changed.
    pub fn advance(&mut self, source: &Catalog, changed: Option<&[Arc<Record>]>) -> bool {
        let Some(changed) = changed else {
            *self = Self::select(self.scope.clone(), source);
            return true;
        };
        let mut is_touched = false;
        for record in changed {
            let key = record.document.key();
            let moved = if self.scope.names(record) {
                self.named.insert(key.clone()).is_none()
            } else {
                self.named.remove(key).is_some()
            };
            // Any other entity can enter the scope only by matching a root itself. A tool behind an
            // alias is provided by a server in scope, which is its dependent.
            let is_in_sight =
                || key.kind == Kind::Policy || self.catalog.dependents(key).next().is_some();
            is_touched |= moved || self.catalog.find(key).is_some() || is_in_sight();
        }
        let is_held = |on: &Selector| match on {
            Selector::Name(kind, name) => self.catalog.versions(*kind, name).next().is_some(),
            Selector::Everything | Selector::Namespace(_) => false,
        };
        is_touched |=
            source.settings().changes_since(self.source.settings()).any(|(on, _)| is_held(on));
        self.source = source.clone();
        if is_touched {
            self.catalog.advance_filtered(source, &content(source, &self.named));
        } else {
            self.catalog = self.catalog.at(source.revision(), source.chain());
        }
        is_touched
    }
}

impl Scope {
    /// The keys in scope.
    pub fn keys(&self, catalog: &Catalog) -> BTreeSet<Key> {
        let named = self.named(catalog);
        match self {
            Self::Everything => named.into_iter().collect(),
            Self::Roots(_) => content(catalog, &named),
        }
    }

    /// The roots that match no entity themselves, perhaps because of a typo. Cost: linear in the
    /// number of entities, for each of these roots.
    pub fn unmatched_roots(&self, catalog: &Catalog) -> BTreeSet<Root> {
        let mut unmatched: BTreeSet<_> = self.roots().cloned().collect();
        for (_, record) in catalog.iter() {
            if unmatched.is_empty() {
                break;
            }
            unmatched.retain(|root| !root.names(record));
        }
        unmatched
    }

    /// The registered entities that match a root. Cost: linear in the number of entities.
    fn named(&self, catalog: &Catalog) -> OrdSet<Key> {
        self.named_while(catalog, &|| true).unwrap_or_default()
    }

    /// Like `named`, but returns `None` as soon as `is_wanted` returns false.
    fn named_while(&self, catalog: &Catalog, is_wanted: &dyn Fn() -> bool) -> Option<OrdSet<Key>> {
        let tags: HashSet<&str> = self.roots().filter_map(Root::tag).collect();
        let others: Vec<_> = self.roots().filter(|root| root.tag().is_none()).collect();
        let is_named = |record: &Record| {
            *self == Self::Everything
                || others.iter().any(|root| root.names(record))
                || !tags.is_empty()
                    && record.document.key().kind != Kind::Policy
                    && record.is_active()
                    && has_any_tag(&record.document, &tags)
        };
        let mut named = OrdSet::new();
        for (key, record) in catalog.iter() {
            if !is_wanted() {
                return None;
            }
            if is_named(record) {
                named.insert(key.clone());
            }
        }
        Some(named)
    }

    /// Whether an entity matches a root itself, not only as a dependency.
    fn names(&self, record: &Record) -> bool {
        match self {
            Self::Everything => true,
            Self::Roots(roots) => roots.iter().any(|root| root.names(record)),
        }
    }
}

/// The entities with all their dependencies, and the policies about them.
fn content(catalog: &Catalog, named: &OrdSet<Key>) -> BTreeSet<Key> {
    let mut keys = closure(catalog, named);
    let policies = policies_about(catalog, &keys);
    keys.extend(policies);
    keys
}

/// The effective policies without a selector of tools, skills and servers, and those whose selector
/// matches one of these entities. Other parts of a selector depend on the call.
fn policies_about(catalog: &Catalog, keys: &BTreeSet<Key>) -> Vec<Key> {
    let effective = catalog.effective_policies().into_iter().flat_map(EffectiveVersions::iter);
    let (mut waiting, mut found): (Vec<_>, Vec<_>) = effective
        .filter_map(|record| match record.document.entity() {
            Entity::Policy(policy) => Some((record.document.key(), &policy.applies_to)),
            _ => None,
        })
        .partition(|(_, selector)| selector.names_resources());
    for record in keys.iter().filter_map(|key| catalog.find(key)) {
        if waiting.is_empty() {
            break;
        }
        // Parsed for this call only, because the cached entity is larger than its document.
        let document = record.document.without_entity();
        let Some(names) = ResourceNames::of(document.entity()) else { continue };
        let selected = waiting.extract_if(.., |(_, selector)| selector.selects(&names));
        found.extend(selected);
    }
    found.into_iter().map(|(key, _)| key.clone()).collect()
}

/// The entities with all their dependencies. A server in scope includes the tools that it provides,
/// and an alias the tool behind it, whose effect and tags policies use.
fn closure(catalog: &Catalog, named: &OrdSet<Key>) -> BTreeSet<Key> {
    let servers = named.iter().filter(|key| key.kind == Kind::Server);
    let provided = servers.filter_map(|key| catalog.find(key)).flat_map(|r| r.document.edges());
    let mut keys = BTreeSet::new();
    let mut new = graph::closure(catalog, named.iter().chain(provided));
    while !new.is_empty() {
        let behind: BTreeSet<Key> = new.iter().flat_map(|key| tools_behind(catalog, key)).collect();
        keys.append(&mut new);
        new = graph::closure(catalog, behind.iter().filter(|key| !keys.contains(*key)));
        new.retain(|key| !keys.contains(key));
    }
    keys
}

fn tools_behind(catalog: &Catalog, key: &Key) -> Vec<Key> {
    let record = catalog.find(key).filter(|_| key.kind == Kind::Tool);
    let Some(record) = record else { return Vec::new() };
    // Parsed for this call only, as in `policies_about`.
    let document = record.document.without_entity();
    let Some(tool) = document.entity().as_tool() else { return Vec::new() };
    policies::tools_behind(tool, &|key| catalog.find(key).map(|record| &*record.document))
}

impl Root {
    /// Whether the root matches the entity itself. No root matches a policy.
    fn names(&self, record: &Record) -> bool {
        let Key { kind, name, .. } = record.document.key();
        if *kind == Kind::Policy {
            return false;
        }
        match self {
            Self::Version(key) => key == record.document.key(),
            Self::Name(of_kind, of_name) => {
                record.is_active() && of_kind == kind && of_name == name
            }
            Self::Namespace(selector) => record.is_active() && selector.covers(*kind, name),
            Self::Tag(tag) => record.is_active() && has_tag(&record.document, tag),
        }
    }
}

#[cfg(test)]
mod tests;
