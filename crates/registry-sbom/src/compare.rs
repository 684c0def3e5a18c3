//! Differences between two bills of materials.

use std::collections::{BTreeMap, BTreeSet};

use crate::read::{Entry, Inventory};

/// A kind of difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Only the newer bill lists the component.
    Added,
    /// Only the older bill lists the component.
    Removed,
    /// The version differs.
    Version,
    /// The version is the same, but the content differs.
    Digest,
    /// The license differs.
    License,
    /// The supplier differs.
    Supplier,
    /// The lifecycle state differs.
    Lifecycle,
}

impl Change {
    /// The serialized name: `added`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Version => "version",
            Self::Digest => "digest",
            Self::License => "license",
            Self::Supplier => "supplier",
            Self::Lifecycle => "lifecycle",
        }
    }
}

/// A difference between two bills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The name of the component: `tool/fetch`.
    pub name: String,
    /// The kind of difference.
    pub change: Change,
    /// The old value; for removed components their versions.
    pub old: Option<String>,
    /// The new value; for added components their versions.
    pub new: Option<String>,
}

/// All differences by name. A name with one removed and one added version has a changed version.
/// With several of them, the correspondence is unknown, so they are reported as removed and added.
pub fn compare(old: &Inventory, new: &Inventory) -> Vec<Difference> {
    let mut found = Vec::new();
    let (old, new) = (by_name(old), by_name(new));
    let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    let nothing = BTreeMap::new();
    for name in names {
        let old = old.get(name).unwrap_or(&nothing);
        let new = new.get(name).unwrap_or(&nothing);
        compare_versions(name, old, new, &mut found);
    }
    found
}

type Versions<'a> = BTreeMap<&'a str, &'a Entry>;

fn by_name(inventory: &Inventory) -> BTreeMap<&str, Versions<'_>> {
    let mut found: BTreeMap<&str, Versions<'_>> = BTreeMap::new();
    for ((name, version), entry) in inventory {
        found.entry(name).or_default().insert(version, entry);
    }
    found
}

fn compare_versions(
    name: &str,
    old: &Versions<'_>,
    new: &Versions<'_>,
    found: &mut Vec<Difference>,
) {
    let mut differ = |change, old: Option<&str>, new: Option<&str>| {
        let (old, new) = (old.map(str::to_owned), new.map(str::to_owned));
        found.push(Difference { name: name.to_owned(), change, old, new });
    };
    let gone: Vec<&str> = old.keys().filter(|v| !new.contains_key(*v)).copied().collect();
    let come: Vec<&str> = new.keys().filter(|v| !old.contains_key(*v)).copied().collect();
    let mut pairs: Vec<(&Entry, &Entry)> = Vec::new();
    if let ([gone], [come]) = (gone.as_slice(), come.as_slice()) {
        differ(Change::Version, Some(gone), Some(come));
        pairs.push((old[gone], new[come]));
    } else {
        for version in gone {
            differ(Change::Removed, Some(version), None);
        }
        for version in come {
            differ(Change::Added, None, Some(version));
        }
    }
    let stayed: Vec<_> = old.iter().filter_map(|(v, was)| Some((*was, *new.get(v)?))).collect();
    for (was, is) in &stayed {
        if was.digest != is.digest {
            differ(Change::Digest, was.digest.as_deref(), is.digest.as_deref());
        }
    }
    pairs.extend(stayed);
    for (was, is) in pairs {
        for (change, old, new) in [
            (Change::License, &was.license, &is.license),
            (Change::Supplier, &was.supplier, &is.supplier),
            (Change::Lifecycle, &was.lifecycle, &is.lifecycle),
        ] {
            if old != new {
                differ(change, old.as_deref(), new.as_deref());
            }
        }
    }
}
