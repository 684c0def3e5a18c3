//! A copy of the catalog as it was at a point in history, in pages, with what proves it.
//!
//! Deliberately absent: following it from there on; the Sync stream does that from the present.

use std::sync::Arc;

use registry_core::{At, Catalog, Digest, Key, Record};

use super::{
    App, at, beside,
    page::{self, InvalidPage},
};

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The page cannot be.
    #[error(transparent)]
    Page(#[from] InvalidPage),
    /// The past.
    #[error(transparent)]
    Past(#[from] at::Error),
    /// A bug here.
    #[error("copying the catalog failed: {0}")]
    Internal(String),
}

/// A page of a copy.
#[derive(Debug)]
pub struct Copied {
    /// In the order of their keys.
    pub records: Vec<Arc<Record>>,
    /// The digest of the whole; on the first page.
    pub digest: Option<Digest>,
    /// Where to go on; empty at the end.
    pub next_page_token: String,
    /// What is copied.
    pub catalog: Arc<Catalog>,
}

/// Copies a part of a catalog.
pub async fn copy(app: &App, at: Option<At>, token: &str) -> Result<Copied, Error> {
    let catalog = app.catalog_at(at).await?;
    let mark = format!("copy {}", catalog.revision());
    let after = page::cursor(&mark, token, |cursor| cursor.parse::<Key>().ok())?;
    let source = catalog.clone();
    let reading = move || {
        let digest = after.is_none().then(|| source.digest());
        let records = match &after {
            Some(after) => fill(source.after(after)),
            None => fill(source.iter()),
        };
        (records, digest)
    };
    let (records, digest) = beside(reading, Error::Internal).await?;
    let next = |last: &Arc<Record>| {
        let last = last.document.key();
        let more = catalog.after(last).next().is_some();
        more.then(|| page::token(&mark, &last.to_string()))
    };
    let next_page_token = records.last().and_then(next).unwrap_or_default();
    Ok(Copied { records, digest, next_page_token, catalog })
}

/// As many as go into one message: at least one.
fn fill<'a>(records: impl Iterator<Item = (&'a Key, &'a Arc<Record>)>) -> Vec<Arc<Record>> {
    let mut bytes = 0;
    let fits = |record: &&Arc<Record>| {
        let is_first = bytes == 0;
        let said = record.lifecycle.notice.as_ref().map_or(0, |notice| notice.text_bytes());
        bytes += record.document.bytes().len() + said + 512;
        is_first || bytes <= page::PAGE_BYTES
    };
    records.map(|(_, record)| record).take_while(fits).cloned().collect()
}
