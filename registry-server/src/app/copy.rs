//! A copy of the catalog as it was at a point in history, in pages, with what proves it.
//!
//! Deliberately absent: following it from there on; the Sync stream does that from the present.

use std::sync::Arc;

use registry_core::{At, Catalog, Digest, Key, Record};

use super::{
    App, beside,
    page::{self, Error},
};

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
    let ((records, more), digest) = beside(reading, Error::Internal).await?;
    let cursor = |last: &Arc<Record>| last.document.key().to_string();
    let next_page_token = page::next(&mark, &records, more, cursor);
    Ok(Copied { records, digest, next_page_token, catalog })
}

/// As many as go into one message, and whether there are more.
fn fill<'a>(records: impl Iterator<Item = (&'a Key, &'a Arc<Record>)>) -> (Vec<Arc<Record>>, bool) {
    let records = records.map(|(_, record)| record.clone());
    let bytes = |record: &Arc<Record>| record.document.bytes().len() + page::outline_bytes(record);
    page::fill(records, usize::MAX, bytes)
}
