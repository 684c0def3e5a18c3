//! The log: commits of changes, each sealed to all before it by a chain hash.
//!
//! `chain(n) = SHA-256(chain(n-1) ‖ canonical commit n)`, and `chain(0)` is derived from the
//! registry's id, so two registries never share a chain. A commit lists its changes by digest:
//! a copy without some of the documents can still verify the chain.

mod change;

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use change::{Action, Change};

use crate::{
    chain::{ChainHash, Revision},
    document::{Digest, Document, canonical_bytes},
    reference::Key,
    setting::SettingChange,
    timestamp::Timestamp,
};

/// An atomic batch of changes: applied whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Commit {
    /// Its number.
    pub revision: Revision,
    /// Who made it.
    pub author: String,
    /// When the server accepted it.
    pub committed_at: Timestamp,
    /// Why, in the author's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The author's own id of the request, by which a retry is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The digest of what was asked for under that id, and by whom: a retry asks for the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_digest: Option<Digest>,
    /// By which way its author came. Absent: nobody was authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// What it changes, in order.
    pub changes: Vec<Change>,
    /// What it sets, in order, after its changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<SettingChange>,
}

/// How the author of a commit was authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Origin {
    /// What proved it: `token 3f9a12c04b7d`, `certificate`, `oidc https://issuer.example`.
    pub method: String,
    /// The team for which the author acted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// The address of the caller's end of the connection, without its port. Only commits of earlier
    /// servers have one. The trail of access has the addresses of new commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// A commit with the canonical bytes that the chain covers, the chain hash after it, and the
/// documents of the entities that it registers, in the order of its changes.
#[derive(Debug, Clone, PartialEq)]
pub struct SealedCommit {
    commit: Commit,
    bytes: Bytes,
    chain: ChainHash,
    documents: Vec<Arc<Document>>,
}

/// Why bytes are not the commit that they should be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidCommit {
    /// The bytes are not a commit.
    #[error("the commit cannot be read: {0}")]
    Unreadable(String),
    /// The bytes are what the chain covers, and have what this version does not know.
    #[error("a newer version made the commit ({0}); upgrade this program")]
    Newer(String),
    /// The bytes, after the previous chain hash, do not give the chain hash that was promised.
    #[error("the chain breaks at revision {revision}: it gives {actual}, not {expected}")]
    Chain {
        /// The revision that the bytes claim.
        revision: Revision,
        /// What was promised.
        expected: ChainHash,
        /// What the bytes give.
        actual: ChainHash,
    },
    /// A registered document is missing, superfluous or another one.
    #[error("revision {revision} does not come with the document of {key}")]
    Document {
        /// The revision.
        revision: Revision,
        /// The entity without its document.
        key: Key,
    },
    /// More documents than registered entities.
    #[error("revision {revision} comes with {extra} documents that it does not register")]
    Superfluous {
        /// The revision.
        revision: Revision,
        /// How many are too many.
        extra: usize,
    },
}

impl SealedCommit {
    /// Seals a new commit after the given chain hash.
    pub fn seal(
        previous: &ChainHash,
        commit: Commit,
        documents: Vec<Arc<Document>>,
    ) -> Result<Self, InvalidCommit> {
        // A commit is strings, numbers and lists of them, all of which serialize.
        let value = serde_json::to_value(&commit).expect("a commit is always JSON");
        let bytes = Bytes::from(canonical_bytes(&value));
        let chain = previous.then(&bytes);
        Self { commit, bytes, chain, documents }.with_matching_documents()
    }

    /// Takes a commit from the store or a stream, and proves it against the chain hash before it.
    pub fn verify(
        previous: &ChainHash,
        bytes: Bytes,
        expected: ChainHash,
        documents: Vec<Arc<Document>>,
    ) -> Result<Self, InvalidCommit> {
        let (parsed, actual) = (Self::parse(&bytes), previous.then(&bytes));
        let commit = match parsed {
            Err(InvalidCommit::Unreadable(e)) if actual == expected => {
                return Err(InvalidCommit::Newer(e));
            }
            parsed => parsed?,
        };
        if actual != expected {
            return Err(InvalidCommit::Chain { revision: commit.revision, expected, actual });
        }
        Self { commit, bytes, chain: expected, documents }.with_matching_documents()
    }

    /// Reads the canonical bytes of a commit, without proving anything.
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

    /// The commit itself.
    pub fn commit(&self) -> &Commit {
        &self.commit
    }

    /// Its number.
    pub fn revision(&self) -> Revision {
        self.commit.revision
    }

    /// The canonical bytes that the chain covers.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The chain hash after it.
    pub fn chain(&self) -> ChainHash {
        self.chain
    }

    /// The documents that it registers, in the order of its changes.
    pub fn documents(&self) -> &[Arc<Document>] {
        &self.documents
    }
}

/// The first character that a message of a commit or of a lifecycle change must not have: databases
/// and terminals do not take control characters, but for tabs and line breaks.
pub fn unfit_for_message(text: &str) -> Option<char> {
    text.chars().find(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r'))
}

#[cfg(test)]
mod tests;
