//! Positions in the log: registry, revision and chain hash.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::document::Digest;

/// The sequence number of a commit: 1, 2, 3 … without gaps. 0 is the empty registry.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Revision(pub u64);

impl Revision {
    /// The successor of this revision.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The identity of a registry: a UUID that its store assigns at creation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RegistryId(Arc<str>);

impl RegistryId {
    /// Wraps an id read from the store or the wire; the format is not checked.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RegistryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The hash over a commit and all commits before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChainHash(Digest);

impl ChainHash {
    /// The hash before the first commit, derived from the registry's id.
    pub fn genesis(registry: &RegistryId) -> Self {
        Self(Digest::compute(format!("registry:{registry}").as_bytes()))
    }

    /// The hash after appending a commit with these canonical bytes.
    pub fn append(&self, commit: &[u8]) -> Self {
        let hash = Sha256::new().chain_update(self.0.as_bytes()).chain_update(commit).finalize();
        Self(Digest::from_bytes(hash.into()))
    }

    /// Wraps the raw 32 bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Digest::from_bytes(bytes))
    }

    /// The raw 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A position in the log of one registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The registry's id.
    pub registry: RegistryId,
    /// The revision of the last commit up to here.
    pub revision: Revision,
    /// The chain hash after that revision.
    pub chain: ChainHash,
}
