//! Lists the settings of names, namespaces and the whole registry.

use std::sync::Arc;

use registry_core::{Catalog, PointInTime, Selector, setting::SelectorSettings};

use super::{Catalogs, ReadError, page::PageRequest};

/// A page of settings.
#[derive(Debug)]
pub struct Listed {
    /// In the order of their selectors.
    pub settings: Vec<(Selector, SelectorSettings)>,
    /// The token of the next page; empty on the last page.
    pub next_page_token: String,
    /// The catalog that was read.
    pub catalog: Arc<Catalog>,
}

/// Lists settings.
pub async fn list(
    catalogs: &Catalogs,
    at: Option<PointInTime>,
    page: &PageRequest,
) -> Result<Listed, ReadError> {
    let after = page.cursor(|cursor| cursor.parse::<Selector>().ok())?;
    let catalog = catalogs.at(at).await?;
    let mut rest = catalog.settings().after(after.as_ref());
    let settings: Vec<_> =
        rest.by_ref().take(page.size).map(|(target, set)| (target.clone(), set.clone())).collect();
    let more = rest.next().is_some();
    let next_page_token = page.next_token(&settings, more, |(target, _)| target.to_string());
    Ok(Listed { settings, next_page_token, catalog: catalog.clone() })
}
