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

/// How long a stored commit may take to be served.
const PUBLISHED: Duration = Duration::from_secs(2);

/// Signs checkpoints, proves commits and verifies the log.
pub struct Auditor {
    key: Key,
    hub: Arc<Hub>,
    store: Store,
    clock: Arc<dyn Clock>,
    proved: Mutex<Option<Proved>>,
}

/// What signs.
pub enum Key {
    /// This server's key.
    Own(Arc<Ed25519KeyPair>),
    /// The key of the registry that this server is a relay of, which only that has.
    Upstream {
        /// The key that its signatures are checked with.
        key: Arc<VerifierKey>,
        /// Where it is.
        address: String,
    },
}

/// The tree over commits that are proved, and the chain hash after them.
struct Proved {
    tree: Tree,
    chain: ChainHash,
}

/// Why nothing can be proved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such commit.
    #[error(transparent)]
    NoCommit(#[from] NoCommit),
    /// The database holds something else than what was stored.
    #[error(
        "nothing is signed, because the log was damaged or edited at {place}: {problem}; \
         `registryctl audit verify` lists all that does not fit"
    )]
    Unproven {
        /// The first revision that does not fit.
        place: String,
        /// What does not fit.
        problem: String,
    },
    /// Only the registry signs, and this is a relay.
    #[error(
        "this server is a relay and signs nothing; ask its registry: `registryctl --registry {0}`, or, where \
         that is a relay too, whom that follows"
    )]
    Relay(String),
    /// The database.
    #[error(transparent)]
    Store(store::Error),
    /// A bug here.
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

    /// Proves everything that the database holds, by the log and by what this server serves.
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

    /// Where nobody else appends, commits that this server does not come to serve are not from it.
    async fn find_foreign(&self, end: Revision, findings: &mut Findings) {
        let mut served = self.hub.watch();
        // One of its own may be stored and not published yet.
        if timeout(PUBLISHED, served.wait_for(|served| *served >= end)).await.is_err() {
            let served = *served.borrow();
            let problem = format!(
                "this server alone writes this database, and it serves revision {served}: what \
                 is after that, up to revision {end}, was put there by somebody else"
            );
            findings.report(format_args!("revision {}", served.next()), problem);
        }
    }

    /// Signs where the log is now.
    pub async fn checkpoint(&self) -> Result<String, Error> {
        let head = self.hub.catalog();
        let root =
            self.proved(&head).await?.tree.root(size(head.revision())).ok_or_else(no_root)?;
        self.signed(&head, root)
    }

    /// Proves that a commit is in the log, and that the log continues what it was after `since`.
    pub async fn prove(&self, wanted: Revision, since: Revision) -> Result<Proof, Error> {
        let catalog = self.hub.catalog();
        let head = catalog.revision();
        let absent = |wanted| Error::from(NoCommit { wanted, head });
        let last = wanted.max(since);
        if last > head {
            return Err(absent(last));
        }
        // First, so that the first revision that was edited is named.
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
            if tree.leaf(index) != Some(&merkle::leaf(&before.then(&commit.canonical))) {
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

/// How many leaves the tree of a revision has.
fn size(revision: Revision) -> usize {
    usize::try_from(revision.0).unwrap_or(usize::MAX)
}
