//! Say who contains an entity, a page at a time.
//!
//! Version ranges are not supported. Pages are not consistent with each other: each page names the
//! revision that it was read at.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use registry_core::{Catalog, Key, Kind, Name, PointInTime, Record, Revision, Version};
use registry_sbom::{Consumer, Consumers, consumers};

use super::{Catalogs, ReadError, page, run_blocking};

/// What is looked for.
#[derive(Debug, Clone)]
pub struct WhoHas {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: Name,
    /// Only this version.
    pub version: Option<Version>,
    /// Only holders of this kind.
    pub holder_kind: Option<Kind>,
    /// As of when; `None`: now.
    pub at: Option<PointInTime>,
}

/// A page of holders.
#[derive(Debug)]
pub struct Held {
    /// By the version that they contain, then by their keys; each with its record.
    pub holders: Vec<(Consumer, Arc<Record>)>,
    /// Where to go on; empty at the end.
    pub next_page_token: String,
    /// The revision that was read.
    pub revision: Revision,
}

/// The holders that were found last: who reads one page reads the next one, and finding them costs
/// in proportion to all of them.
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
        // What is in it is whole at any time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lists who contains it.
pub async fn who_has(
    catalogs: &Catalogs,
    recent: &Recent,
    query: WhoHas,
    size: usize,
    token: &str,
) -> Result<Held, ReadError> {
    let mark = format!("{query:?}");
    let after = page::cursor(&mark, token, read_place)?;
    let catalog = catalogs.at(query.at).await?;
    let revision = catalog.revision();
    // What much depends on has many holders, which is too long for the runtime.
    let recent = recent.clone();
    let looking = move || query.page(&catalog, &recent, after.as_ref(), size);
    let (found, more) = run_blocking(looking).await??;
    let next_page_token = page::next(&mark, &found, more, |(holder, _)| place(holder));
    Ok(Held { holders: found, next_page_token, revision })
}

/// The version that is contained, and who contains it.
fn place(holder: &Consumer) -> String {
    let held = holder.path.last().unwrap_or(&holder.key);
    format!("{} {}", held.version, holder.key)
}

fn read_place(cursor: &str) -> Option<(Version, Key)> {
    let (version, key) = cursor.split_once(' ')?;
    Some((Version::parse(version).ok()?, key.parse().ok()?))
}

type Page = (Vec<(Consumer, Arc<Record>)>, bool);

impl WhoHas {
    /// A page, and whether there are more. Versions are looked at one after the other, so a page
    /// costs no more than what is on it and one version's holders.
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
            let wanted = |key: &Key| self.holder_kind.is_none_or(|kind| key.kind == kind);
            for holder in holders.after(last).filter(|holder| wanted(&holder.key)) {
                // Consumers are registered: they are found by what they refer to.
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
