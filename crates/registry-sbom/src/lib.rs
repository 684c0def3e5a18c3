//! Software bills of materials (SBOM) in CycloneDX or SPDX: the components of an agent, a tool, a
//! server, a schema or the whole registry at a revision.
//!
//! A bill is a pure function of the catalog, the time of its revision and the root, so it is
//! reproducible byte for byte. It lists the root and its transitive dependencies, and for a server
//! also the provided tools with theirs. A server that is only a dependency contributes none of its
//! other tools. Unusable metadata is omitted and never an error; `docs/sbom.md` has the rules.

mod bill;
mod compare;
mod consumers;
mod cyclonedx;
mod format;
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
mod write;

pub use bill::Bill;
pub use compare::{Change, Difference, compare};
pub use consumers::{Consumer, Consumers, consumers};
pub use format::{Format, InvalidFormat};
pub use read::{Entry, InvalidBill, Inventory, read};
