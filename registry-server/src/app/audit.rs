//! Sign where the log is, prove what is in it, and verify all of it.
//!
//! The Merkle tree's leaves are read when they are first needed and kept: 32 bytes a commit.
//! Deliberately absent: who may ask.

use std::sync::Arc;

use aws_lc_rs::signature::Ed25519KeyPair;
use registry_core::{
    Catalog, Checkpoint, Digest, Revision,
    checkpoint::VerifierKey,
    merkle::{self, Node},
    proof::Proof,
};
use tokio::sync::Mutex;

use super::{App, beside};
use crate::{clock::Clock, store};

/// Signs checkpoints.
pub struct Signer {
    pair: Ed25519KeyPair,
    clock: Arc<dyn Clock>,
    leaves: Mutex<Arc<Vec<Node>>>,
}

/// Why nothing can be proved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such commit.
    #[error("there is no revision {wanted}, the registry is at {head}")]
    NoCommit {
        /// The revision asked for.
        wanted: Revision,
        /// The last one.
        head: Revision,
    },
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A bug here.
    #[error("the proof could not be made: {0}")]
    Internal(String),
}

impl Signer {
    /// Signs with this key.
    pub fn new(pair: Ed25519KeyPair, clock: Arc<dyn Clock>) -> Self {
        Self { pair, clock, leaves: Mutex::default() }
    }
}

impl App {
    /// The key that checkpoints are checked with.
    pub fn verifier_key(&self) -> VerifierKey {
        Checkpoint::verifier_key(self.registry(), &self.signer.pair)
    }

    /// Signs where the log is now.
    pub async fn checkpoint(&self) -> Result<String, Error> {
        let head = self.catalog();
        let (leaves, length) = (self.leaves(head.revision()).await?, size(head.revision()));
        let root = beside(move || merkle::root(&leaves[..length]), Error::Internal).await?;
        Ok(self.signed(&head, root))
    }

    /// Proves that a commit is in the log, and that the log continues what it was after `since`.
    pub async fn prove(&self, wanted: Revision, since: Revision) -> Result<Proof, Error> {
        let catalog = self.catalog();
        let head = catalog.revision();
        let absent = |wanted| Error::NoCommit { wanted, head };
        if since > head {
            return Err(absent(since));
        }
        let commit = self.store.commit(wanted).await?.ok_or_else(|| absent(wanted))?;
        let before = Revision(wanted.0 - 1);
        let before = self.store.chain_after(before).await?.ok_or_else(|| absent(before))?;
        let leaves = self.leaves(head).await?;
        let prove = move || {
            let leaves = &leaves[..size(head)];
            let inclusion = merkle::inclusion(leaves, size(wanted) - 1);
            (merkle::root(leaves), inclusion, merkle::consistency(leaves, size(since)))
        };
        let (root, inclusion, consistency) = beside(prove, Error::Internal).await?;
        let digests = |nodes: Vec<Node>| nodes.into_iter().map(Digest::from_bytes).collect();
        Ok(Proof {
            checkpoint: self.signed(&catalog, root),
            previous_chain: before,
            // Canonical JSON is UTF-8.
            commit: String::from_utf8_lossy(&commit.canonical).into_owned(),
            inclusion: digests(inclusion),
            consistency: digests(consistency),
        })
    }

    fn signed(&self, head: &Catalog, root: Node) -> String {
        let (registry, time) = (head.registry().clone(), self.signer.clock.now());
        let (revision, chain) = (head.revision(), head.chain());
        Checkpoint { registry, revision, root, chain, time }.sign(&self.signer.pair)
    }

    /// The tree's leaves, at least up to a revision that is in the log.
    async fn leaves(&self, until: Revision) -> Result<Arc<Vec<Node>>, Error> {
        let mut kept = self.signer.leaves.lock().await;
        while kept.len() < size(until) {
            let after = Revision(kept.len() as u64);
            let chains = self.store.chains_after(after).await?;
            if chains.is_empty() {
                return Err(Error::NoCommit { wanted: after.next(), head: until });
            }
            Arc::make_mut(&mut kept).extend(chains.iter().map(merkle::leaf));
        }
        Ok(kept.clone())
    }
}

/// How many leaves the tree of a revision has.
fn size(revision: Revision) -> usize {
    usize::try_from(revision.0).unwrap_or(usize::MAX)
}
