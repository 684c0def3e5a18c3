//! Commits that await the registry's signature: it signs the last commit of each batch that it
//! publishes, and none that it reads from its log.
//!
//! If a key is required, none of them is served before the signature.

use std::sync::Arc;

use registry_core::{Catalog, SealedCommit};

/// Maximum size of unsigned commits with documents, in bytes.
const BYTES: usize = 512 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct UnsignedCommits {
    catalog: Option<Arc<Catalog>>,
    commits: Vec<SealedCommit>,
    bytes: usize,
}

impl UnsignedCommits {
    /// The state after the last unsigned commit. `None`: there are none.
    pub(super) fn catalog(&self) -> Option<Arc<Catalog>> {
        self.catalog.clone()
    }

    /// Adds a commit and the state after it. Fails at the size limit.
    pub(super) fn push(&mut self, catalog: Catalog, commit: SealedCommit) -> Result<(), String> {
        let documents: usize = commit.documents().iter().map(|d| d.bytes().len()).sum();
        self.bytes += commit.bytes().len() + documents;
        self.catalog = Some(Arc::new(catalog));
        self.commits.push(commit);
        if self.bytes > BYTES {
            let (count, bytes) = (self.commits.len(), self.bytes);
            return Err(format!(
                "{count} unsigned commits have {bytes} bytes; the maximum is {BYTES}"
            ));
        }
        Ok(())
    }

    /// Removes and returns the commits.
    pub(super) fn release(&mut self) -> Vec<SealedCommit> {
        std::mem::take(self).commits
    }
}
