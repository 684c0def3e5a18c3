//! A relay: a server whose log is a copy of another one's. It serves reads and streams, and takes no
//! writes.
//!
//! A commit is stored and served only after the chain and the registry's signature on a later state prove it.
//! A server in between can therefore neither invent nor hide commits. A relay serves its copy while the
//! registry is unreachable.

mod copy;
mod introduction;
mod settings;
mod staging;
mod witness;

use std::{
    path::PathBuf,
    str::FromStr as _,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use registry_core::{Catalog, Revision, Timestamp, checkpoint::VerifierKey};
use registry_follow::{Follower, StreamState};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use settings::RelayConfig;

use crate::{
    feed::{Contact, Voucher, Witness},
    registrar::{self, Parts, Registrar},
    store::{self, Store},
};

/// Why a server cannot be a relay.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database has commits of a registry of its own, or another registry's.
    #[error(
        "the database is not that of a relay of this registry: it is known by the key {known}, the \
         registry to follow by {theirs}; give the relay a database of its own (--data-dir, --database)"
    )]
    OtherKey {
        /// The key that the database knows.
        known: String,
        /// The key to follow.
        theirs: String,
    },
    /// The database is that of a registry of its own.
    #[error(
        "the database is not that of a relay: it is a registry of its own, known by the key {0}; give \
         the relay a database of its own (--data-dir, --database)"
    )]
    OwnRegistry(String),
    /// The key that the database knows cannot be read.
    #[error("the key {0:?} in the database cannot be read; give the relay a new database")]
    BadKey(String),
    /// The address of the registry is invalid.
    #[error(
        "`{0}` is no registry to follow; write grpc(s)://host:port, at most 16 of its servers with \
         commas between"
    )]
    Address(String),
    /// The token could be read on the network.
    #[error("the token for {0} would go to another machine in plain text; use grpcs://")]
    PlainToken(String),
    /// A file of the settings is unusable.
    #[error("{path:?} cannot be used: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// What makes a server a relay.
#[derive(Clone)]
pub struct Relay {
    follower: Arc<Follower>,
    key: Arc<VerifierKey>,
    name: Arc<str>,
    status: Arc<Mutex<Option<String>>>,
    contact: Arc<Contact>,
    /// Most bytes of commits that wait for the registry's signature.
    max_unsigned_bytes: usize,
}

impl Relay {
    /// Makes the store that of a relay: a new one waits for the registry, to hear which it is.
    pub async fn open(
        store: Store,
        follower: Follower,
        pinned: Option<VerifierKey>,
        name: String,
        max_unsigned_bytes: usize,
    ) -> Result<(Self, Store), Error> {
        let store = if store.known_checkpoint_key().await?.is_some() {
            store
        } else {
            let key = match &pinned {
                Some(key) => key.clone(),
                None => introduction::ask(&follower, &name).await,
            };
            store.adopt(&key.registry(), &key.to_string()).await?
        };
        // Another server of the database may have been first, also as a registry.
        let known = store.known_checkpoint_key().await?.unwrap_or_default();
        if !store.is_relay().await? {
            return Err(Error::OwnRegistry(known));
        }
        let key = VerifierKey::from_str(&known).map_err(|_| Error::BadKey(known))?;
        if let Some(theirs) = pinned.filter(|pinned| *pinned != key) {
            return Err(Error::OtherKey { known: key.to_string(), theirs: theirs.to_string() });
        }
        let status = Arc::new(Mutex::new(Some("it was not heard of yet".to_owned())));
        let contact = Arc::new(Contact::new(Duration::MAX));
        let (follower, key, name) = (follower.into(), key.into(), name.into());
        let relay = Self { follower, key, name, status, contact, max_unsigned_bytes };
        Ok((relay, store))
    }

    /// The key of the registry.
    pub fn key(&self) -> &Arc<VerifierKey> {
        &self.key
    }

    /// Where the registry is, for people.
    pub fn upstream(&self) -> String {
        self.follower.addresses.join(",")
    }

    /// Why the registry is not followed at the moment, if it is not.
    pub fn problem(&self) -> Option<String> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What vouches for states: the registry's signatures, passed on.
    pub fn voucher(&self, stop: CancellationToken) -> Voucher {
        let relay = self.clone();
        let witness: Witness = Arc::new(move |scope| witness::follow(&relay, scope, stop.clone()));
        Voucher::Upstream { witness, key: self.key.clone(), contact: self.contact.clone() }
    }

    /// The latest state of what is stored on which the registry's signature was kept, with it. What
    /// follows on it was stored in part only: it comes again.
    pub async fn attested(
        &self,
        store: &Store,
        catalog: Catalog,
        now: Timestamp,
    ) -> Result<Catalog, Error> {
        let mut kept = store.attestations().await?;
        kept.sort_by_key(|(revision, _)| *revision);
        while let Some((revision, kept)) = kept.pop() {
            let state = if revision == catalog.revision() {
                catalog.clone()
            } else if revision > catalog.revision() {
                continue;
            } else if let Some(past) = store.past(revision).await? {
                catalog.rewound(past.position, &past.changed, past.settings)
            } else {
                continue;
            };
            if kept.verify(&state, &self.key).is_ok() {
                self.contact.heard(now.since(kept.time));
                return Ok(state.attested(Some(kept)));
            }
        }
        if catalog.revision() > Revision(0) {
            tracing::warn!(
                "no signature of the registry on what is held was kept; followers wait until the registry is there"
            );
        }
        Ok(catalog)
    }

    /// Follows the registry until it is stopped; and the registrar, which takes no writes.
    pub async fn start(
        &self,
        parts: Parts,
        stop: CancellationToken,
    ) -> Result<(Registrar, JoinHandle<()>), store::Error> {
        let (hub, store) = (parts.hub.clone(), parts.store.clone());
        let (registrar, importer) = registrar::start_relay(parts, self.upstream()).await?;
        let copy = copy::Copy::new(self.clone(), (hub, store), importer);
        let follower = self.follower.clone();
        Ok((registrar, tokio::spawn(async move { follower.run(copy, stop).await })))
    }

    /// Notes how the registry's stream is.
    fn note(&self, heard: StreamState<'_>) {
        let now = match heard {
            // The server between may be there, and its registry as silent as a stream that is dead.
            StreamState::Live if self.contact.age() < self.follower.timing.silence => None,
            StreamState::Live => Some(format!(
                "{} is a relay too, and has not heard of the registry for a while",
                self.upstream()
            )),
            StreamState::Nacked => return,
            StreamState::Down(reason)
            | StreamState::ScopeLimit(reason)
            | StreamState::Rejected(reason) => Some(reason.to_owned()),
        };
        crate::metrics::upstream(now.is_none());
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        if *status == now {
            return;
        }
        match &now {
            None => tracing::info!("following the registry"),
            Some(reason) => tracing::warn!(
                "the registry cannot be followed, what is held is served on: {reason}"
            ),
        }
        *status = now;
    }
}
