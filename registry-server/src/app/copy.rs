//! Exports the catalog at a point in history in pages, with its digest.

use std::sync::Arc;

use registry_core::{
    Catalog, Digest, PointInTime, Record, Revision, Selector, setting::SelectorSettings,
};

use super::{
    Catalogs, ReadError,
    compare::{Place, read_place},
    page::{self, PageRequest},
    run_blocking,
};

/// A page of an export.
#[derive(Debug)]
pub struct Copied {
    /// Entities by their keys, then settings by their selectors.
    pub parts: Vec<Part>,
    /// The digest of the catalog; on the first page only.
    pub digest: Option<Digest>,
    /// The token of the next page; empty on the last page.
    pub next_page_token: String,
    /// The exported catalog.
    pub catalog: Arc<Catalog>,
}

/// A part of a catalog.
#[derive(Debug)]
pub enum Part {
    /// An entity.
    Entity(Arc<Record>),
    /// The settings of a target.
    Setting(Selector, SelectorSettings),
}

/// Exports a page of a catalog.
pub async fn copy(
    catalogs: &Catalogs,
    at: Option<PointInTime>,
    page: &PageRequest,
) -> Result<Copied, ReadError> {
    // Every page exports the revision of the first one.
    let (at, place) = match page.cursor(read_cursor)? {
        Some((revision, place)) => (Some(PointInTime::Revision(revision)), Some(place)),
        None => (at, None),
    };
    let catalog = catalogs.at(at).await?;
    let source = catalog.clone();
    let reading = move || {
        let digest = place.is_none().then(|| source.digest());
        (fill(&source, &place.unwrap_or(Place::Start)), digest)
    };
    let ((parts, more), digest) = run_blocking(reading).await?;
    let next_page_token =
        page.next_token(&parts, more, |last| format!("{} {}", catalog.revision(), last.place()));
    Ok(Copied { parts, digest, next_page_token, catalog })
}

fn read_cursor(cursor: &str) -> Option<(Revision, Place)> {
    let (revision, place) = cursor.split_once(' ')?;
    Some((Revision(revision.parse().ok()?), read_place(place)?))
}

/// The parts that fit into one message, and whether there are more.
fn fill(catalog: &Catalog, place: &Place) -> (Vec<Part>, bool) {
    let (key, selector) = place.parts();
    let entities = catalog.after(key).take_while(|_| selector.is_none());
    let entities = entities.map(|(_, record)| Part::Entity(record.clone()));
    let settings = catalog.settings().after(selector);
    let settings = settings.map(|(target, set)| Part::Setting(target.clone(), set.clone()));
    page::fill(entities.chain(settings), usize::MAX, Part::bytes)
}

impl Part {
    /// The cursor of the next page.
    fn place(&self) -> String {
        match self {
            Self::Entity(record) => record.document.key().to_string(),
            Self::Setting(target, _) => target.to_string(),
        }
    }

    /// The approximate size in a response.
    fn bytes(&self) -> usize {
        match self {
            Self::Entity(record) => record.document.bytes().len() + page::outline_bytes(record),
            Self::Setting(..) => page::OUTLINE_BYTES,
        }
    }
}
