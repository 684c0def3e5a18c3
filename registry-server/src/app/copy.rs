//! A copy of the catalog as it was at a point in history, in pages, with what proves it.

use std::sync::Arc;

use registry_core::{Catalog, Digest, PointInTime, Record, Selector, setting::SelectorSettings};

use super::{
    Catalogs, ReadError,
    compare::{Place, read_place},
    page, run_blocking,
};

/// A page of a copy.
#[derive(Debug)]
pub struct Copied {
    /// Entities by their keys, then settings by their selectors.
    pub parts: Vec<Part>,
    /// The digest of the whole; on the first page.
    pub digest: Option<Digest>,
    /// Where to go on; empty at the end.
    pub next_page_token: String,
    /// What is copied.
    pub catalog: Arc<Catalog>,
}

/// A part of a catalog.
#[derive(Debug)]
pub enum Part {
    /// An entity.
    Entity(Arc<Record>),
    /// What is set about a name, a namespace or everything.
    Setting(Selector, SelectorSettings),
}

/// Copies a part of a catalog.
pub async fn copy(
    catalogs: &Catalogs,
    at: Option<PointInTime>,
    token: &str,
) -> Result<Copied, ReadError> {
    let catalog = catalogs.at(at).await?;
    let mark = format!("copy {}", catalog.revision());
    let place = page::cursor(&mark, token, read_place)?;
    let source = catalog.clone();
    let reading = move || {
        let digest = place.is_none().then(|| source.digest());
        (fill(&source, &place.unwrap_or(Place::Start)), digest)
    };
    let ((parts, more), digest) = run_blocking(reading).await?;
    let next_page_token = page::next(&mark, &parts, more, Part::place);
    Ok(Copied { parts, digest, next_page_token, catalog })
}

/// As many as go into one message, and whether there are more.
fn fill(catalog: &Catalog, place: &Place) -> (Vec<Part>, bool) {
    let (key, selector) = place.parts();
    let entities = catalog.after(key).take_while(|_| selector.is_none());
    let entities = entities.map(|(_, record)| Part::Entity(record.clone()));
    let settings = catalog.settings().after(selector);
    let settings = settings.map(|(on, set)| Part::Setting(on.clone(), set.clone()));
    page::fill(entities.chain(settings), usize::MAX, Part::bytes)
}

impl Part {
    /// Where the next page goes on.
    fn place(&self) -> String {
        match self {
            Self::Entity(record) => record.document.key().to_string(),
            Self::Setting(on, _) => on.to_string(),
        }
    }

    /// About how much room it takes in an answer.
    fn bytes(&self) -> usize {
        match self {
            Self::Entity(record) => record.document.bytes().len() + page::outline_bytes(record),
            Self::Setting(..) => page::OUTLINE_BYTES,
        }
    }
}
