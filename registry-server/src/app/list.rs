//! List entities: filtered, in the order of their keys, a page at a time.
//!
//! Deliberately absent: full-text search, and consistency between pages: each is read at the
//! revision that it names.

use std::sync::Arc;

use registry_core::{At, Catalog, Key, Kind, LifecycleState, Name, Record};

use super::{
    App, at, beside,
    page::{self, InvalidPage},
};

/// Which entities.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Only this kind.
    pub kind: Option<Kind>,
    /// Only this name; empty: all.
    pub name: String,
    /// Only names that begin so.
    pub name_prefix: String,
    /// Only these states; none: all.
    pub lifecycle: Vec<LifecycleState>,
    /// Only this owner's; empty: all.
    pub owner: String,
    /// Whether the canonical documents are wanted beside the entities.
    pub with_documents: bool,
    /// As they were then.
    pub at: Option<At>,
}

/// A page of entities.
#[derive(Debug)]
pub struct Listed {
    /// In the order of their keys.
    pub records: Vec<Arc<Record>>,
    /// Where to go on; empty at the end.
    pub next_page_token: String,
    /// What was read.
    pub catalog: Arc<Catalog>,
}

/// Lists entities.
pub async fn list(app: &App, query: ListQuery, size: usize, token: &str) -> Result<Listed, Error> {
    let mark = format!("{query:?}");
    let after = page::cursor(&mark, token, |cursor| cursor.parse::<Key>().ok())?;
    let catalog = app.catalog_at(query.at).await?;
    let source = catalog.clone();
    // A filter that matches little may look at everything, which is too long for the runtime.
    let looking = move || query.page(&source, after.as_ref(), size);
    let (records, more) = beside(looking, Error::Internal).await?;
    let last = records.last().filter(|_| more == More::Yes);
    let next_page_token =
        last.map(|last| page::token(&mark, &last.document.key().to_string())).unwrap_or_default();
    Ok(Listed { records, next_page_token, catalog })
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The page cannot be.
    #[error(transparent)]
    Page(#[from] InvalidPage),
    /// The past.
    #[error(transparent)]
    Past(#[from] at::Error),
    /// A bug here.
    #[error("looking through the catalog failed: {0}")]
    Internal(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum More {
    Yes,
    No,
}

impl ListQuery {
    fn page(
        &self,
        catalog: &Catalog,
        after: Option<&Key>,
        size: usize,
    ) -> (Vec<Arc<Record>>, More) {
        let (mut records, mut bytes) = (Vec::new(), 0);
        let matching =
            self.candidates(catalog, after).filter(|record| self.matches(catalog, record));
        for record in matching {
            bytes += record.document.bytes().len() * if self.with_documents { 2 } else { 1 };
            let full = records.len() == size || bytes > page::PAGE_BYTES;
            if full && !records.is_empty() {
                return (records, More::Yes);
            }
            records.push(record.clone());
        }
        (records, More::No)
    }

    /// The entities that may match, found by their keys where that is possible.
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
            (Some(after), _) => {
                Box::new(catalog.after(after).take_while(move |(k, _)| is_kind(k)).map(|(_, r)| r))
            }
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

/// All versions of a name; a text that is no name has none.
fn versions<'a>(catalog: &'a Catalog, kind: Kind, name: &str) -> Vec<&'a Arc<Record>> {
    let Ok(name) = Name::parse(kind, name) else { return Vec::new() };
    let keys: Vec<Key> = catalog.versions(kind, &name).map(|(key, _)| key.clone()).collect();
    keys.iter().filter_map(|key| catalog.find(key)).collect()
}
