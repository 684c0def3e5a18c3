//! Lists entities in the order of their keys.
//!
//! Pages are not consistent with each other: each page has the revision that it was read at.

use std::sync::Arc;

use registry_core::{Catalog, Key, Kind, LifecycleState, Name, PointInTime, Record};

use super::{
    Catalogs, ReadError,
    page::{self, PageRequest},
    run_blocking,
};

/// Selects entities.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// The kind; `None` selects all.
    pub kind: Option<Kind>,
    /// An exact name; empty: all.
    pub name: String,
    /// The prefix of the name.
    pub name_prefix: String,
    /// The states; empty: all.
    pub lifecycle: Vec<LifecycleState>,
    /// An exact owner; empty: all.
    pub owner: String,
    /// Includes the canonical documents in addition to the entities.
    pub with_documents: bool,
    /// The point in history; `None` is the present.
    pub at: Option<PointInTime>,
}

/// A page of entities.
#[derive(Debug)]
pub struct Listed {
    /// In the order of their keys.
    pub records: Vec<Arc<Record>>,
    /// The token of the next page; empty on the last page.
    pub next_page_token: String,
    /// The catalog that was read.
    pub catalog: Arc<Catalog>,
}

/// Lists entities.
pub async fn list(
    catalogs: &Catalogs,
    query: ListQuery,
    page: PageRequest,
) -> Result<Listed, ReadError> {
    let after = page.cursor(|cursor| cursor.parse::<Key>().ok())?;
    let catalog = catalogs.at(query.at).await?;
    let source = catalog.clone();
    // A filter with few matches can scan the whole catalog, which would block the runtime.
    let size = page.size;
    let looking = move || query.page(&source, after.as_ref(), size);
    let (records, more) = run_blocking(looking).await?;
    let cursor = |last: &Arc<Record>| last.document.key().to_string();
    let next_page_token = page.next_token(&records, more, cursor);
    Ok(Listed { records, next_page_token, catalog })
}

impl ListQuery {
    /// A page, and whether there are more.
    fn page(
        &self,
        catalog: &Catalog,
        after: Option<&Key>,
        size: usize,
    ) -> (Vec<Arc<Record>>, bool) {
        let matching =
            self.candidates(catalog, after).filter(|record| self.matches(catalog, record));
        let copies = if self.with_documents { 2 } else { 1 };
        page::fill(matching.cloned(), size, |record| copies * record.document.bytes().len())
    }

    /// The entities that can match, by an index if possible.
    fn candidates<'a>(
        &self,
        catalog: &'a Catalog,
        after: Option<&'a Key>,
    ) -> Box<dyn Iterator<Item = &'a Arc<Record>> + 'a> {
        let kind = self.kind;
        if !self.name.is_empty() {
            let kinds = Kind::ALL.into_iter().filter(|k| kind.is_none_or(|kind| kind == *k));
            let versions = kinds.flat_map(|kind| versions(catalog, kind, &self.name));
            let beyond = move |r: &&Arc<Record>| after.is_none_or(|after| r.document.key() > after);
            return Box::new(versions.collect::<Vec<_>>().into_iter().filter(beyond));
        }
        let is_kind = move |key: &Key| kind.is_none_or(|kind| key.kind == kind);
        match (after, kind) {
            (Some(after), _) => Box::new(
                catalog.after(Some(after)).take_while(move |(k, _)| is_kind(k)).map(|(_, r)| r),
            ),
            (None, Some(kind)) => Box::new(catalog.of_kind(kind).map(|(_, record)| record)),
            (None, None) => Box::new(catalog.iter().map(|(_, record)| record)),
        }
    }

    fn matches(&self, catalog: &Catalog, record: &Record) -> bool {
        record.document.key().name.as_str().starts_with(&self.name_prefix)
            && (self.lifecycle.is_empty() || self.lifecycle.contains(&record.lifecycle.state))
            && (self.owner.is_empty() || catalog.owner_of(record) == self.owner)
    }
}

/// All versions of a name. An invalid name has none.
fn versions<'a>(catalog: &'a Catalog, kind: Kind, name: &str) -> Vec<&'a Arc<Record>> {
    let Ok(name) = Name::parse(kind, name) else { return Vec::new() };
    let keys: Vec<Key> = catalog.versions(kind, &name).map(|(key, _)| key.clone()).collect();
    keys.iter().filter_map(|key| catalog.find(key)).collect()
}
