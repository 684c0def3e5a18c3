//! Commits that have come and that the registry has not signed for yet: it signs the last of those
//! that it publishes together, and none that it reads from its log.
//!
//! Where a key is pinned, nothing of them is served before that.

use std::sync::Arc;

use registry_core::{Catalog, SealedCommit};

/// Most bytes of commits and documents that wait for a signature.
const BYTES: usize = 512 * 1024 * 1024;

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    catalog: Option<Arc<Catalog>>,
    commits: Vec<SealedCommit>,
    bytes: usize,
}

impl Ahead {
    /// The state after all that waits; `None`: nothing does.
    pub(super) fn catalog(&self) -> Option<Arc<Catalog>> {
        self.catalog.clone()
    }

    /// Adds a commit and the state after it. Fails where too much waits.
    pub(super) fn push(&mut self, catalog: Catalog, commit: SealedCommit) -> Result<(), String> {
        let documents: usize = commit.documents().iter().map(|d| d.bytes().len()).sum();
        self.bytes += commit.bytes().len() + documents;
        self.catalog = Some(Arc::new(catalog));
        self.commits.push(commit);
        if self.bytes > BYTES {
            let (count, bytes) = (self.commits.len(), self.bytes);
            return Err(format!(
                "{count} commits of {bytes} bytes came without a signature, {BYTES} bytes may wait for one"
            ));
        }
        Ok(())
    }

    /// Gives the commits that waited.
    pub(super) fn release(&mut self) -> Vec<SealedCommit> {
        std::mem::take(self).commits
    }
}
