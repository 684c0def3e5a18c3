//! List what is set about names, namespaces and everything.

use std::sync::Arc;

use registry_core::{Catalog, PointInTime, Selector, setting::SelectorSettings};

use super::{Catalogs, ReadError, page};

/// A page of settings.
#[derive(Debug)]
pub struct Listed {
    /// In the order of their selectors.
    pub settings: Vec<(Selector, SelectorSettings)>,
    /// Where to go on; empty at the end.
    pub next_page_token: String,
    /// What was read.
    pub catalog: Arc<Catalog>,
}

/// Lists settings.
pub async fn list(
    catalogs: &Catalogs,
    at: Option<PointInTime>,
    size: usize,
    token: &str,
) -> Result<Listed, ReadError> {
    let mark = format!("settings {at:?}");
    let after = page::cursor(&mark, token, |cursor| cursor.parse::<Selector>().ok())?;
    let catalog = catalogs.at(at).await?;
    let mut rest = catalog.settings().after(after.as_ref());
    let settings: Vec<_> =
        rest.by_ref().take(size).map(|(on, set)| (on.clone(), set.clone())).collect();
    let more = rest.next().is_some();
    let next_page_token = page::next(&mark, &settings, more, |(on, _)| on.to_string());
    Ok(Listed { settings, next_page_token, catalog: catalog.clone() })
}
