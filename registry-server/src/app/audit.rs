//! Signs checkpoints, proves commits and verifies the log.
//!
//! The leaves of the Merkle tree are read on first use and cached, with 64 bytes per commit. Each leaf is
//! computed from the bytes of its commit, and the chain must match the served catalog. A checkpoint
//! therefore never signs an edited log.

use std::{sync::Arc, time::Duration};

use aws_lc_rs::signature::Ed25519KeyPair;
use registry_core::{
    Catalog, ChainHash, Checkpoint, Digest, RegistryId, Revision,
    checkpoint::VerifierKey,
    merkle::{self, Node, Tree},
    proof::Proof,
};
use tokio::{
    sync::{MappedMutexGuard, Mutex, MutexGuard, mpsc},
    time::timeout,
};

use super::{NoCommit, run_blocking};
use crate::{
    clock::Clock,
    feed::Hub,
    store::{self, Findings, Progress, ServedState, Store},
};

/// The longest time between the commit of a transaction and its publication.
const PUBLISHED: Duration = Duration::from_secs(2);

/// Signs checkpoints, proves commits and verifies the log.
pub struct Auditor {
    key: Key,
    hub: Arc<Hub>,
    store: Store,
    clock: Arc<dyn Clock>,
    proved: Mutex<Option<Proved>>,
}

/// The signing key.
pub enum Key {
    /// A key of this server.
    Own(Arc<Ed25519KeyPair>),
    /// The key of the upstream registry. A relay does not have its private part.
    Upstream {
        /// The public key.
        key: Arc<VerifierKey>,
        /// The address of the upstream registry.
        address: String,
    },
}

/// The Merkle tree of verified commits, and the chain hash after them.
struct Proved {
    tree: Tree,
    chain: ChainHash,
}

/// The reason why nothing is signed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The commit does not exist.
    #[error(transparent)]
    NoCommit(#[from] NoCommit),
    /// The revision of the checkpoint does not exist.
    #[error("{absent}; if you have a checkpoint of revision {}, the log was truncated", absent.wanted)]
    NoCheckpoint {
        /// The revision without a commit.
        absent: NoCommit,
    },
    /// The database was damaged or edited.
    #[error(
        "nothing is signed, because the log was damaged or edited at {place}: {problem}; \
         `registryctl audit verify` lists all that does not fit"
    )]
    Unproven {
        /// The first damaged revision.
        place: String,
        /// The problem.
        problem: String,
    },
    /// This server is a relay, and only the registry signs.
    #[error(
        "this server is a relay and signs nothing; ask its registry: `registryctl --registry {0}`, or, where \
         that is a relay too, whom that follows"
    )]
    Relay(String),
    /// The database.
    #[error(transparent)]
    Store(store::Error),
    /// A bug in the server.
    #[error("the proof could not be made: {0}")]
    Internal(String),
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Corrupt { what, detail } => {
                Self::Unproven { place: what, problem: detail }
            }
            error => Self::Store(error),
        }
    }
}

impl Proved {
    fn nothing(registry: &RegistryId) -> Self {
        Self { tree: Tree::default(), chain: ChainHash::genesis(registry) }
    }

    fn until(&self) -> Revision {
        Revision(self.tree.len() as u64)
    }
}

impl Auditor {
    /// An auditor that signs with this key.
    pub fn new(key: Key, hub: Arc<Hub>, store: Store, clock: Arc<dyn Clock>) -> Self {
        Self { key, hub, store, clock, proved: Mutex::default() }
    }

    /// The key that verifies checkpoints.
    pub fn verifier_key(&self) -> VerifierKey {
        match &self.key {
            Key::Own(pair) => Checkpoint::verifier_key(self.store.registry(), pair),
            Key::Upstream { key, .. } => (**key).clone(),
        }
    }

    /// Verifies the database against the log and against the served catalog.
    pub async fn verify(
        &self,
        told: mpsc::Sender<Progress>,
    ) -> Result<(Progress, Findings), store::Error> {
        let catalog = self.hub.catalog();
        let head = (catalog.revision(), catalog.chain());
        let known = ServedState { head, key: self.verifier_key() };
        let (progress, mut findings) = self.store.verify(known, told).await?;
        if !self.store.is_shared() {
            self.find_foreign(progress.revision, &mut findings).await;
        }
        Ok((progress, findings))
    }

    /// If no other server appends, commits that this server never publishes are not its own.
    async fn find_foreign(&self, end: Revision, findings: &mut Findings) {
        let mut served = self.hub.watch();
        // A commit of this server can be stored and not yet published.
        if timeout(PUBLISHED, served.wait_for(|served| *served >= end)).await.is_err() {
            let served = *served.borrow();
            let problem = format!(
                "this server alone writes this database, and it serves revision {served}: what \
                 is after that, up to revision {end}, was put there by somebody else"
            );
            findings.report(format_args!("revision {}", served.next()), problem);
        }
    }

    /// Signs the head of the log.
    pub async fn checkpoint(&self) -> Result<String, Error> {
        let head = self.hub.catalog();
        let root =
            self.proved(&head).await?.tree.root(size(head.revision())).ok_or_else(no_root)?;
        self.signed(&head, root)
    }

    /// Proves that a commit is in the log, and that the log extends its state after `since`.
    pub async fn prove(&self, wanted: Revision, since: Revision) -> Result<Proof, Error> {
        let catalog = self.hub.catalog();
        let head = catalog.revision();
        let absent = |wanted| Error::from(NoCommit { wanted, head });
        if since > head {
            return Err(Error::NoCheckpoint { absent: NoCommit { wanted: since, head } });
        }
        if wanted > head {
            return Err(absent(wanted));
        }
        // Checked first, so that the error names the first edited revision.
        drop(self.proved(&catalog).await?);
        let commit = self.store.commit(wanted).await?.ok_or_else(|| absent(wanted))?;
        // The leaf proves it together with the commit.
        let before = match Revision(wanted.0 - 1) {
            Revision(0) => ChainHash::genesis(self.store.registry()),
            before => self.store.stored_chain(before).await?.ok_or_else(|| absent(before))?,
        };
        let (root, inclusion, consistency) = {
            let proved = self.proved(&catalog).await?;
            let (tree, index, length) = (&proved.tree, size(wanted) - 1, size(head));
            if tree.leaf(index) != Some(&merkle::leaf(&before.append(&commit.canonical))) {
                let problem = "it is another commit than the one that this server has proved there";
                return Err(unproven(wanted, problem));
            }
            let root = tree.root(length).ok_or_else(no_root)?;
            (root, tree.inclusion(index, length), tree.consistency(size(since), length))
        };
        let digests = |nodes: Vec<Node>| nodes.into_iter().map(Digest::from_bytes).collect();
        Ok(Proof {
            checkpoint: self.signed(&catalog, root)?,
            previous_chain: before,
            // Canonical JSON is UTF-8.
            commit: String::from_utf8_lossy(&commit.canonical).into_owned(),
            inclusion: digests(inclusion),
            consistency: digests(consistency),
        })
    }

    fn signed(&self, head: &Catalog, root: Node) -> Result<String, Error> {
        let pair = match &self.key {
            Key::Own(pair) => pair,
            Key::Upstream { address, .. } => return Err(Error::Relay(address.clone())),
        };
        let (registry, time) = (head.registry().clone(), self.clock.now());
        let (revision, chain) = (head.revision(), head.chain());
        Ok(Checkpoint { registry, revision, root, chain, time }.sign(pair))
    }

    /// The tree, at least up to what is served. Its leaves agree with what was served when they were read,
    /// so none of an edited log is ever among them.
    async fn proved(&self, served: &Catalog) -> Result<MappedMutexGuard<'_, Proved>, Error> {
        let kept = self.proved.lock().await;
        let nothing = || Proved::nothing(self.store.registry());
        let mut proved = MutexGuard::map(kept, |kept| kept.get_or_insert_with(nothing));
        let (from, until) = (proved.until(), served.revision());
        if from >= until {
            return Ok(proved);
        }
        let (mut chains, mut at, mut chain) = (Vec::new(), from, proved.chain);
        while at < until {
            let page = self.store.chains_after((at, chain)).await?;
            chain = *page.last().ok_or_else(|| unproven(at.next(), "it is missing"))?;
            at = Revision(at.0 + page.len() as u64);
            chains.extend(page);
        }
        chains.truncate(size(until) - size(from));
        if chains.last() != Some(&served.chain()) {
            return Err(unproven(until, "it is another commit than the one that is served"));
        }
        proved.chain = served.chain();
        let mut tree = std::mem::take(&mut proved.tree);
        let extend = move || {
            for chain in &chains {
                tree.push(merkle::leaf(chain));
            }
            tree
        };
        match run_blocking(extend).await {
            Ok(tree) => proved.tree = tree,
            Err(failed) => {
                *proved = nothing();
                return Err(Error::Internal(failed.to_string()));
            }
        }
        Ok(proved)
    }
}

fn no_root() -> Error {
    Error::Internal("the tree has fewer commits than are served".to_owned())
}

fn unproven(revision: Revision, problem: &str) -> Error {
    Error::Unproven { place: format!("revision {revision}"), problem: problem.to_owned() }
}

/// The number of leaves of the tree at a revision.
fn size(revision: Revision) -> usize {
    usize::try_from(revision.0).unwrap_or(usize::MAX)
}
