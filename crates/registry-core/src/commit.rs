//! The log: commits of changes, each chained to its predecessors by a hash.
//!
//! `chain(n) = SHA-256(chain(n-1) ‖ canonical commit n)`, and `chain(0)` is derived from the
//! registry's id, so two registries never share a chain. A commit lists its changes by digest, so a
//! copy without some of the documents can still verify the chain.

mod change;

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use change::{Action, Change};

use crate::{
    chain::{ChainHash, Revision},
    document::{Digest, Document},
    reference::Key,
    setting::SettingChange,
    timestamp::Timestamp,
};

/// An atomic batch of changes. Its members are in canonical order, so its JSON text is canonical.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Commit {
    /// The authenticated principal, or the name that an unauthenticated caller gave.
    pub author: String,
    /// Entity changes in order.
    pub changes: Vec<Change>,
    /// When the server accepted it.
    pub committed_at: Timestamp,
    /// The author's explanation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The authentication of the author; absent if authentication was disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The digest of the request and its author. A retry with the same id must have the same
    /// digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_digest: Option<Digest>,
    /// The author's idempotency key, which identifies retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Its sequence number.
    pub revision: Revision,
    /// Setting changes in order, applied after the entity changes.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "change::serialize_settings"
    )]
    pub settings: Vec<SettingChange>,
}

/// The authentication of a commit's author. Its members are in canonical order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Origin {
    /// The IP address of the caller. Only commits of earlier servers have one; the access log has
    /// the addresses of new commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The credential: `token 3f9a12c04b7d`, `certificate` or `oidc https://issuer.example`.
    pub method: String,
    /// The team that the author acted for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
}

/// A commit with its canonical bytes, the chain hash after it, and the documents of the registered
/// entities in the order of its changes.
#[derive(Debug, Clone, PartialEq)]
pub struct SealedCommit {
    commit: Commit,
    bytes: Bytes,
    chain: ChainHash,
    documents: Vec<Arc<Document>>,
}

/// A parsed commit with its bytes, before its verification.
#[derive(Debug)]
pub struct UnverifiedCommit {
    commit: Commit,
    bytes: Bytes,
}

impl UnverifiedCommit {
    /// Parses the canonical bytes of a commit.
    pub fn parse(bytes: Bytes) -> Result<Self, InvalidCommit> {
        SealedCommit::parse(&bytes).map(|commit| Self { commit, bytes })
    }

    /// The commit.
    pub fn commit(&self) -> &Commit {
        &self.commit
    }

    /// Verifies the commit against the chain hash before it.
    pub fn verify(
        self,
        previous: &ChainHash,
        expected: ChainHash,
        documents: Vec<Arc<Document>>,
    ) -> Result<SealedCommit, InvalidCommit> {
        let Self { commit, bytes } = self;
        let actual = previous.append(&bytes);
        if actual != expected {
            return Err(InvalidCommit::Chain { revision: commit.revision, expected, actual });
        }
        SealedCommit { commit, bytes, chain: expected, documents }.with_matching_documents()
    }
}

/// Bytes do not verify as the expected commit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidCommit {
    /// The bytes are not a commit.
    #[error("cannot parse the commit: {0}")]
    Unreadable(String),
    /// The chain hash matches, but the commit has fields that this version does not know.
    #[error("the commit has content of a newer version ({0}); upgrade this program")]
    Newer(String),
    /// The bytes do not produce the expected chain hash.
    #[error("chain hash mismatch at revision {revision}: computed {actual}, expected {expected}")]
    Chain {
        /// The revision in the bytes.
        revision: Revision,
        /// The expected chain hash.
        expected: ChainHash,
        /// The computed chain hash.
        actual: ChainHash,
    },
    /// A registered document is missing or another document is in its place.
    #[error("revision {revision} lacks the document of {key}")]
    Document {
        /// The commit's revision.
        revision: Revision,
        /// The entity without its document.
        key: Key,
    },
    /// There are more documents than registrations.
    #[error("revision {revision} has {extra} documents that it does not register")]
    Superfluous {
        /// The commit's revision.
        revision: Revision,
        /// The number of surplus documents.
        extra: usize,
    },
}

impl SealedCommit {
    /// Seals a new commit onto the given chain hash.
    pub fn seal(
        previous: &ChainHash,
        commit: Commit,
        documents: Vec<Arc<Document>>,
    ) -> Result<Self, InvalidCommit> {
        // A commit consists only of serializable strings, numbers and lists.
        let bytes = Bytes::from(serde_json::to_vec(&commit).expect("a commit is always JSON"));
        let chain = previous.append(&bytes);
        Self { commit, bytes, chain, documents }.with_matching_documents()
    }

    /// Verifies a commit from the store or a stream against the chain hash before it.
    pub fn verify(
        previous: &ChainHash,
        bytes: Bytes,
        expected: ChainHash,
        documents: Vec<Arc<Document>>,
    ) -> Result<Self, InvalidCommit> {
        match Self::parse(&bytes) {
            Err(InvalidCommit::Unreadable(e)) if previous.append(&bytes) == expected => {
                Err(InvalidCommit::Newer(e))
            }
            parsed => {
                UnverifiedCommit { commit: parsed?, bytes }.verify(previous, expected, documents)
            }
        }
    }

    /// Parses the canonical bytes of a commit without verification.
    pub fn parse(bytes: &[u8]) -> Result<Commit, InvalidCommit> {
        serde_json::from_slice(bytes).map_err(|e| InvalidCommit::Unreadable(e.to_string()))
    }

    fn with_matching_documents(self) -> Result<Self, InvalidCommit> {
        let revision = self.commit.revision;
        let mut documents = self.documents.iter();
        for Change { key, action } in &self.commit.changes {
            let Action::Register { digest, .. } = action else { continue };
            if !documents.next().is_some_and(|d| d.digest() == *digest && d.key() == key) {
                return Err(InvalidCommit::Document { revision, key: key.clone() });
            }
        }
        match documents.count() {
            0 => Ok(self),
            extra => Err(InvalidCommit::Superfluous { revision, extra }),
        }
    }

    /// The commit.
    pub fn commit(&self) -> &Commit {
        &self.commit
    }

    /// The commit's revision.
    pub fn revision(&self) -> Revision {
        self.commit.revision
    }

    /// The canonical bytes that the chain covers.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The chain hash after this commit.
    pub fn chain(&self) -> ChainHash {
        self.chain
    }

    /// The documents of the registered entities in the order of the changes.
    pub fn documents(&self) -> &[Arc<Document>] {
        &self.documents
    }
}

/// The first character that is not allowed in the message of a commit or lifecycle change: a
/// control character other than a tab or line break. Databases and terminals cannot handle those.
pub fn invalid_message_char(text: &str) -> Option<char> {
    text.chars().find(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r'))
}

#[cfg(test)]
mod tests;
