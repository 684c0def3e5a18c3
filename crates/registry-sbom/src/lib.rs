//! Bills of materials (SBOM): the components of an agent, a tool, a server, a schema or the whole registry
//! at a revision, as CycloneDX or SPDX.
//!
//! A bill is a pure function of the catalog, the time of its revision and the root: whoever writes
//! it again gets the same bytes. What a bill holds is its *closure*: everything that the root needs,
//! by the graph's edges; for a server also the tools that it provides, with all that they need,
//! because they are what it offers. A server that is only needed brings none of its other tools.
//! Metadata that cannot be used is left out, never an error; `docs/sbom.md` has the rules.

mod compare;
mod cyclonedx;
mod holders;
mod id;
mod item;
mod license;
mod metadata;
mod purl;
mod read;
mod spdx2;
mod spdx3;
mod stream;
#[cfg(test)]
mod tests;
mod url;

use std::{collections::BTreeSet, fmt, io, str::FromStr, sync::Arc};

use registry_core::{
    catalog::{Catalog, Record},
    graph,
    kind::Kind,
    reference::Key,
    timestamp::Timestamp,
};

pub use compare::{Change, Difference, compare};
pub use holders::{Holder, Holders, holders};
pub use read::{Entry, InvalidBill, Inventory, read};

/// What the hashes of a bill are of.
const HASHES: &str = "SHA-256 of the registered document (RFC 8785)";

/// In which form a bill is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// CycloneDX 1.6 JSON.
    CycloneDx16,
    /// CycloneDX 1.7 JSON.
    CycloneDx17,
    /// SPDX 2.3 JSON.
    Spdx23,
    /// SPDX 3.0.1 JSON-LD.
    Spdx30,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::CycloneDx16, Self::CycloneDx17, Self::Spdx23, Self::Spdx30];

    /// Its name: `cyclonedx-1.6`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CycloneDx16 => "cyclonedx-1.6",
            Self::CycloneDx17 => "cyclonedx-1.7",
            Self::Spdx23 => "spdx-2.3",
            Self::Spdx30 => "spdx-3.0",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a format; the formats are cyclonedx-1.6, cyclonedx-1.7, spdx-2.3 and spdx-3.0"
)]
pub struct InvalidFormat(String);

impl FromStr for Format {
    type Err = InvalidFormat;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|format| format.as_str() == text);
        found.ok_or_else(|| InvalidFormat(text.to_owned()))
    }
}

/// What a bill of materials lists, before it has a form.
#[derive(Debug, Clone)]
pub struct Bill {
    catalog: Catalog,
    time: Timestamp,
    root: Option<Key>,
    /// In the order of their keys.
    records: Vec<Arc<Record>>,
}

impl Bill {
    /// The bill of one entity, or of everything; `None` where the root is not registered. `time`
    /// is when the catalog's revision was committed.
    pub fn of(catalog: &Catalog, time: Timestamp, root: Option<&Key>) -> Option<Self> {
        let records = match root {
            None => catalog.iter().map(|(_, record)| record.clone()).collect(),
            Some(root) => {
                let first = catalog.find(root)?;
                closure(catalog, first)
            }
        };
        Some(Self { catalog: catalog.clone(), time, root: root.cloned(), records })
    }

    /// Everything that the bill lists, in order.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.records.iter().map(|record| record.document.key())
    }

    /// Writes the bill as JSON, indented, in one pass and without holding it in memory.
    pub fn write(&self, format: Format, out: impl io::Write) -> io::Result<()> {
        match format {
            Format::CycloneDx16 | Format::CycloneDx17 => cyclonedx::write(self, format, out),
            Format::Spdx23 => spdx2::write(self, out),
            Format::Spdx30 => spdx3::write(self, out),
        }
    }

    /// What the bill is called.
    fn name(&self) -> String {
        match &self.root {
            Some(root) => root.to_string(),
            None => format!("registry {}", self.catalog.registry()),
        }
    }

    /// Which state of which registry it shows, one `name=value` a line.
    fn about(&self) -> String {
        let Self { catalog, .. } = self;
        let (registry, revision, chain) = (catalog.registry(), catalog.revision(), catalog.chain());
        format!(
            "registry:id={registry}\nregistry:revision={revision}\nregistry:chain={chain}\n\
             registry:hashes={HASHES}"
        )
    }

    fn lists(&self, key: &Key) -> bool {
        self.records.binary_search_by(|record| record.document.key().cmp(key)).is_ok()
    }

    /// What an entity of the bill refers to within the bill, each once, in order: what it needs or,
    /// for a server, the tools that it provides.
    fn edges<'a>(&self, record: &'a Record) -> Vec<&'a Key> {
        let mut keys: Vec<&Key> = record.document.edges().iter().collect();
        keys.retain(|key| self.lists(key) && *key != record.document.key());
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// What the bill is about: its root; for everything whatever nothing else in it needs.
    fn tops(&self) -> Vec<&Key> {
        if let Some(root) = &self.root {
            return vec![root];
        }
        let needy = self.records.iter().filter(|record| record.document.key().kind != Kind::Server);
        let needed: BTreeSet<&Key> =
            needy.flat_map(|record| record.document.edges().iter()).collect();
        self.keys().filter(|key| !needed.contains(key)).collect()
    }
}

/// The root and everything that it needs; for a server everything that it offers, too.
fn closure(catalog: &Catalog, root: &Arc<Record>) -> Vec<Arc<Record>> {
    // A closure does not spread through `provides`: what a server can do is not what it needs. What
    // anything else refers to, it needs anyway.
    let roots = root.document.edges().iter().chain([root.document.key()]);
    graph::closure(catalog, roots).iter().filter_map(|key| catalog.find(key).cloned()).collect()
}
