//! Lists the entities that contain a component.
//!
//! Version ranges are not supported. Pages are not consistent with each other: each page has the revision that
//! it was read at.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use registry_core::{Catalog, Key, Kind, Name, PointInTime, Record, Revision, Version};
use registry_sbom::{Consumer, Consumers, consumers};

use super::{Catalogs, ReadError, page::PageRequest, run_blocking};

/// A component and the kind of its users.
#[derive(Debug, Clone)]
pub struct ComponentQuery {
    /// The kind of the component.
    pub kind: Kind,
    /// The name of the component.
    pub name: Name,
    /// The version of the component; `None` matches all versions.
    pub version: Option<Version>,
    /// The kind of the users; `None` matches all kinds.
    pub user_kind: Option<Kind>,
    /// The point in history; `None` is the present.
    pub at: Option<PointInTime>,
}

/// A page of users of a component.
#[derive(Debug)]
pub struct ComponentUsers {
    /// By the version that they contain, then by their keys; each with its record.
    pub users: Vec<(Consumer, Arc<Record>)>,
    /// The token of the next page; empty on the last page.
    pub next_page_token: String,
    /// The revision that was read.
    pub revision: Revision,
}

/// The last result. The client of one page usually requests the next one, and each search costs in proportion
/// to all users.
#[derive(Debug, Default, Clone)]
pub struct Recent(Arc<Mutex<Option<Found>>>);

#[derive(Debug)]
struct Found {
    revision: Revision,
    target: Key,
    holders: Arc<Consumers>,
}

impl Recent {
    fn consumers(&self, catalog: &Catalog, target: &Key) -> Arc<Consumers> {
        let revision = catalog.revision();
        let is_it = |found: &&Found| found.revision == revision && found.target == *target;
        if let Some(found) = self.lock().as_ref().filter(is_it) {
            return found.holders.clone();
        }
        let holders = Arc::new(consumers(catalog, target));
        let found = Found { revision, target: target.clone(), holders: holders.clone() };
        *self.lock() = Some(found);
        holders
    }

    fn lock(&self) -> MutexGuard<'_, Option<Found>> {
        // The value is consistent even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lists the users of a component.
pub async fn find(
    catalogs: &Catalogs,
    recent: &Recent,
    query: ComponentQuery,
    page: &PageRequest,
) -> Result<ComponentUsers, ReadError> {
    let after = page.cursor(read_cursor)?;
    let catalog = catalogs.at(query.at).await?;
    let revision = catalog.revision();
    // A popular component has many users, and collecting them would block the runtime.
    let (recent, size) = (recent.clone(), page.size);
    let looking = move || query.page(&catalog, &recent, after.as_ref(), size);
    let (found, more) = run_blocking(looking).await??;
    let next_page_token = page.next_token(&found, more, |(holder, _)| cursor(holder));
    Ok(ComponentUsers { users: found, next_page_token, revision })
}

/// The version of the component and the key of the user.
fn cursor(holder: &Consumer) -> String {
    let held = holder.path.last().unwrap_or(&holder.key);
    format!("{} {}", held.version, holder.key)
}

fn read_cursor(cursor: &str) -> Option<(Version, Key)> {
    let (version, key) = cursor.split_once(' ')?;
    Some((Version::parse(version).ok()?, key.parse().ok()?))
}

type Page = (Vec<(Consumer, Arc<Record>)>, bool);

impl ComponentQuery {
    /// A page, and whether there are more. Versions are read one after the other, so a page costs no more than
    /// its items and the users of one version.
    fn page(
        &self,
        catalog: &Catalog,
        recent: &Recent,
        after: Option<&(Version, Key)>,
        size: usize,
    ) -> Result<Page, ReadError> {
        let mut found: Vec<(Consumer, Arc<Record>)> = Vec::new();
        for target in self.targets(catalog)? {
            let last = match after {
                Some((version, _)) if target.version < *version => continue,
                Some((version, key)) if target.version == *version => Some(key),
                _ => None,
            };
            let holders = recent.consumers(catalog, &target);
            let wanted = |key: &Key| self.user_kind.is_none_or(|kind| key.kind == kind);
            for holder in holders.after(last).filter(|holder| wanted(&holder.key)) {
                // Users are registered: they are found by their references.
                let Some(record) = catalog.find(&holder.key) else { continue };
                if found.len() == size {
                    return Ok((found, true));
                }
                let record = record.clone();
                found.push((holder, record));
            }
        }
        Ok((found, false))
    }

    fn targets(&self, catalog: &Catalog) -> Result<Vec<Key>, ReadError> {
        let Self { kind, name, version, .. } = self;
        let is_wanted = |key: &&Key| version.as_ref().is_none_or(|version| key.version == *version);
        let found: Vec<Key> =
            catalog.versions(*kind, name).map(|(key, _)| key).filter(is_wanted).cloned().collect();
        if found.is_empty() {
            let version = version.as_ref().map(|version| format!("@{version}")).unwrap_or_default();
            let what = format!("{kind}/{name}{version}");
            return Err(ReadError::not_registered(catalog, what, *kind, name));
        }
        Ok(found)
    }
}
