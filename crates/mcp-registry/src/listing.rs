//! The server versions that clients see, their order, and the latest version.
//!
//! All data comes from one catalog. A cursor is a position in the order of names and versions
//! instead of a count, so that concurrent registrations neither repeat nor hide entries.

use std::{borrow::Cow, iter::Peekable, sync::Arc};

use registry_core::{
    catalog::{Catalog, Record},
    entity::Entity,
    kind::Kind,
    lifecycle::LifecycleState,
    name::Name,
    reference::Key,
    timestamp::Timestamp,
    version::Version,
};
use serde::{Deserialize, Serialize};

use crate::namespace::Namespace;

/// Maximum size of a page in bytes of documents.
const PAGE_BYTES: usize = 3 << 20;

/// The version alias of the latest version.
const LATEST: &str = "latest";

/// A filter of versions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Filter {
    /// Only servers whose name or description contains this text, in lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// Only this version of each server: exact, or `latest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Only versions changed at or after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_since: Option<Timestamp>,
    /// Whether deleted versions are included.
    pub include_deleted: bool,
}

/// The position at the end of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The last name.
    pub name: String,
    /// The last version of that name.
    pub version: Version,
}

/// One version of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The served name.
    pub name: String,
    /// The registered entity.
    pub record: Arc<Record>,
    /// Whether it is the latest version.
    pub is_latest: bool,
    /// The time of the last change, including a change of whether it is the latest version.
    pub changed_at: Timestamp,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The entries, ordered by name and version.
    pub entries: Vec<Entry>,
    /// The cursor of the next page, if there is one.
    pub next: Option<Cursor>,
}

/// The order of versions for `latest`, highest last: versions that are not deleted, then releases,
/// then semver precedence.
type Rank<'a> = (bool, bool, &'a Version);

/// All versions of a server.
struct Versions<'a> {
    /// The versions with the times of their last changes.
    ranked: Vec<(Rank<'a>, Timestamp)>,
}

/// The servers of a catalog as clients see them.
#[derive(Debug, Clone, Copy)]
pub struct Listing<'a> {
    catalog: &'a Catalog,
    namespace: &'a Namespace,
}

impl<'a> Versions<'a> {
    /// `None` if there are no versions.
    fn new(records: impl Iterator<Item = &'a Arc<Record>>) -> Option<Self> {
        let ranked = records.map(|record| (rank(record), record.lifecycle.changed_at));
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_unstable();
        let newest = ranked.iter().map(|(_, changed_at)| *changed_at).max()?;
        // A version stopped being the latest when the first higher one appeared. The current latest
        // may have become so by any change.
        let mut first_above = None;
        for (_, changed_at) in ranked.iter_mut().rev() {
            let own = *changed_at;
            *changed_at = first_above.map_or(newest, |above| own.max(above));
            first_above = Some(first_above.map_or(own, |above| own.min(above)));
        }
        Some(Self { ranked })
    }

    fn latest(&self) -> Option<&'a Version> {
        self.ranked.last().map(|((.., version), _)| *version)
    }

    fn changed_at(&self, record: &Record) -> Timestamp {
        let found = self.ranked.binary_search_by(|(other, _)| other.cmp(&rank(record)));
        found.map_or(record.lifecycle.changed_at, |at| self.ranked[at].1)
    }
}

fn rank(record: &Record) -> Rank<'_> {
    let version = &record.document.key().version;
    (record.lifecycle.state != LifecycleState::Retired, !version.is_prerelease(), version)
}

impl Entry {
    fn new(served: &str, record: &Arc<Record>, versions: &Versions<'_>) -> Self {
        let is_latest = versions.latest() == Some(&record.document.key().version);
        let changed_at = versions.changed_at(record);
        Self { name: served.to_owned(), record: record.clone(), is_latest, changed_at }
    }

    fn is_deleted(&self) -> bool {
        self.record.lifecycle.state == LifecycleState::Retired
    }

    fn version(&self) -> &Version {
        &self.record.document.key().version
    }
}

impl Filter {
    fn matches(&self, entry: &Entry) -> bool {
        (self.include_deleted || !entry.is_deleted())
            && self.updated_since.is_none_or(|since| entry.changed_at >= since)
            && match self.version.as_deref() {
                None => true,
                Some(LATEST) => entry.is_latest,
                Some(exact) => entry.version().to_string() == exact,
            }
            && self.search.as_deref().is_none_or(|text| {
                let Entity::Server(server) = entry.record.document.entity() else { return false };
                let description = server.description.as_deref().unwrap_or_default();
                [&entry.name, description].iter().any(|t| t.to_lowercase().contains(text))
            })
    }
}

impl<'a> Listing<'a> {
    /// The servers of this catalog. Servers without a namespace are served under this one.
    pub fn new(catalog: &'a Catalog, namespace: &'a Namespace) -> Self {
        Self { catalog, namespace }
    }

    /// The versions after a cursor that match a filter.
    pub fn page(&self, filter: &Filter, after: Option<&Cursor>, limit: usize) -> Page {
        let (mut entries, mut bytes) = (Vec::<Entry>::new(), 0);
        let mut shown = None;
        for (served, record) in self.in_order(after).by_ref() {
            let name = &record.document.key().name;
            if shown.as_ref().is_none_or(|(last, _)| last != name) {
                shown = Some((name.clone(), self.together_as(name, &served)));
            }
            let Some((_, Some(versions))) = &shown else { continue };
            let entry = Entry::new(&served, record, versions);
            if !filter.matches(&entry) {
                continue;
            }
            bytes += record.document.bytes().len();
            if entries.len() == limit || (bytes > PAGE_BYTES && !entries.is_empty()) {
                let next = entries.last().map(|last| Cursor {
                    name: last.name.clone(),
                    version: last.version().clone(),
                });
                return Page { entries, next };
            }
            entries.push(entry);
        }
        Page { entries, next: None }
    }

    /// All versions of a server, by descending registration.
    pub fn versions(&self, served: &str, include_deleted: bool) -> Vec<Entry> {
        let Some(name) = self.namespace.entity(self.catalog, served) else { return Vec::new() };
        let Some(together) = self.together(&name) else { return Vec::new() };
        let mut entries: Vec<_> = self
            .catalog
            .versions(Kind::Server, &name)
            .map(|(_, record)| Entry::new(served, record, &together))
            .filter(|entry| include_deleted || !entry.is_deleted())
            .collect();
        let age = |entry: &Entry| (entry.record.registered, entry.version().clone());
        entries.sort_by_cached_key(|entry| std::cmp::Reverse(age(entry)));
        entries
    }

    /// One version of a server: exact, or `latest`.
    pub fn find(&self, served: &str, version: &str, include_deleted: bool) -> Option<Entry> {
        let name = self.namespace.entity(self.catalog, served)?;
        let versions = self.together(&name)?;
        let version = if version == LATEST {
            versions.latest()?.clone()
        } else {
            Version::parse(version).ok()?
        };
        let record = self.catalog.find(&Key::new(Kind::Server, name.clone(), version))?;
        let entry = Entry::new(served, record, &versions);
        (include_deleted || !entry.is_deleted()).then_some(entry)
    }

    /// The versions of a name. The latest is the highest that is not deleted, with releases above
    /// pre-releases; if all are deleted, the highest of them.
    fn together<'n>(&self, name: &'n Name) -> Option<Versions<'n>>
    where
        'a: 'n,
    {
        Versions::new(self.catalog.versions(Kind::Server, name).map(|(_, record)| record))
    }

    /// The versions, unless the name is served for another entity.
    fn together_as<'n>(&self, name: &'n Name, served: &str) -> Option<Versions<'n>>
    where
        'a: 'n,
    {
        if self.namespace.is_hidden(self.catalog, name, served) {
            None
        } else {
            self.together(name)
        }
    }

    /// The versions after a cursor by served name. All names without a namespace get the same one,
    /// so each half is already ordered.
    fn in_order(&self, after: Option<&Cursor>) -> InOrder<'a> {
        let bare = after.and_then(|place| {
            let (namespace, rest) = place.name.split_once('/')?;
            (namespace == self.namespace.to_string()).then_some(rest)
        });
        let half = |has_namespace: bool, from: Option<&str>| {
            let place = after.cloned();
            let namespace = self.namespace;
            let beyond = move |served: &str, version: &Version| {
                place.as_ref().is_none_or(|p| (served, version) > (p.name.as_str(), &p.version))
            };
            let records: Records<'a> = Box::new(
                self.from(from, after)
                    .filter(move |(key, _)| key.name.as_str().contains('/') == has_namespace)
                    .filter_map(move |(key, record)| {
                        let served = namespace.served(&key.name)?;
                        beyond(&served, &key.version).then_some((served, record))
                    }),
            );
            records.peekable()
        };
        let named = half(true, after.map(|place| place.name.as_str()));
        InOrder { named, bare: half(false, bare) }
    }

    /// The server entities after one with this name; all if it is not a valid name.
    fn from(
        &self,
        name: Option<&str>,
        after: Option<&Cursor>,
    ) -> Box<dyn Iterator<Item = (&'a Key, &'a Arc<Record>)> + 'a> {
        let name = name.and_then(|name| Name::parse(Kind::Server, name).ok());
        match name.zip(after) {
            Some((name, place)) => {
                let key = Key::new(Kind::Server, name, place.version.clone());
                let is_server = |(key, _): &(&Key, _)| key.kind == Kind::Server;
                Box::new(self.catalog.after(Some(&key)).take_while(is_server))
            }
            None => Box::new(self.catalog.of_kind(Kind::Server)),
        }
    }
}

type Records<'a> = Box<dyn Iterator<Item = (Cow<'a, str>, &'a Arc<Record>)> + 'a>;

/// Merges two ordered halves.
struct InOrder<'a> {
    named: Peekable<Records<'a>>,
    bare: Peekable<Records<'a>>,
}

impl<'a> Iterator for InOrder<'a> {
    type Item = (Cow<'a, str>, &'a Arc<Record>);

    fn next(&mut self) -> Option<Self::Item> {
        fn place<'b>((served, record): &'b (Cow<'_, str>, &Arc<Record>)) -> (&'b str, &'b Version) {
            (served, &record.document.key().version)
        }
        let is_named = match (self.named.peek(), self.bare.peek()) {
            (Some(named), Some(bare)) => place(named) <= place(bare),
            (named, _) => named.is_some(),
        };
        if is_named { self.named.next() } else { self.bare.next() }
    }
}
