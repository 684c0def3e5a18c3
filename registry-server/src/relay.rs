//! Relay: a read-only server whose log is a copy of an upstream registry's log.
//!
//! A relay stores and serves a commit only after the chain and a signature of the registry on a later state
//! verify it. A server in between can therefore neither insert nor hide commits. A relay serves its copy while
//! the registry is unreachable.

mod commit_buffer;
mod copy;
mod introduction;
mod scope_signatures;
mod settings;

use std::{
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
    feed::{ScopeSignatureSource, StateSigner, UpstreamContact},
    registrar::{self, Parts, Registrar},
    store::{self, Store},
};

/// The advice if the upstream registry rejects the credentials.
const CREDENTIALS_ADVICE: &str =
    "check --follow-token-file, or --follow-cert and --follow-cert-key";

/// A relay that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A database with another key than the upstream registry.
    #[error(
        "the database belongs to a registry with the key {known}, but the upstream registry has the key \
         {upstream}; use a new database for the relay (--data-dir, --database)"
    )]
    OtherKey {
        /// Public key in the database.
        known: String,
        /// Public key of the upstream registry.
        upstream: String,
    },
    /// A database of a registry, not of a relay.
    #[error(
        "the database belongs to a registry with the key {0}, not to a relay; use a new database for the \
         relay (--data-dir, --database)"
    )]
    OwnRegistry(String),
    /// An invalid key in the database.
    #[error("invalid key {0:?} in the database; use a new database for the relay")]
    BadKey(String),
    /// An invalid address of the upstream registry.
    #[error(
        "invalid upstream registry `{0}`: use grpc(s)://HOST:PORT, with at most 16 servers separated by \
         commas"
    )]
    Address(String),
    /// A token that would be sent without encryption.
    #[error("refusing to send the token to {0} in plain text; use grpcs://")]
    PlainToken(String),
    /// An unusable token file.
    #[error("--follow-token-file: {0}")]
    Token(std::io::Error),
    /// An unusable file of the settings.
    #[error(transparent)]
    File(#[from] registry_tls::InvalidFile),
    /// A database failure.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// State of a relay.
#[derive(Clone)]
pub struct Relay {
    follower: Arc<Follower>,
    key: Arc<VerifierKey>,
    name: Arc<str>,
    status: Arc<Mutex<Option<String>>>,
    contact: Arc<UpstreamContact>,
    /// Maximum bytes of commits without a signed state.
    buffer_bytes: usize,
}

impl Relay {
    /// Turns the store into that of a relay. A new store waits for the registry to learn its id.
    pub async fn open(
        store: Store,
        follower: Follower,
        pinned: Option<VerifierKey>,
        name: String,
        buffer_bytes: usize,
    ) -> Result<(Self, Store), Error> {
        let store = if store.known_checkpoint_key().await?.is_some() {
            store
        } else {
            let key = match &pinned {
                Some(key) => key.clone(),
                None => introduction::fetch_key(&follower, &name).await,
            };
            store.set_upstream(&key.registry(), &key.to_string()).await?
        };
        // Another server may have initialized the database first, also as a registry.
        let known = store.known_checkpoint_key().await?.unwrap_or_default();
        if !store.is_relay().await? {
            return Err(Error::OwnRegistry(known));
        }
        let key = VerifierKey::from_str(&known).map_err(|_| Error::BadKey(known))?;
        if let Some(upstream) = pinned.filter(|pinned| *pinned != key) {
            return Err(Error::OtherKey { known: key.to_string(), upstream: upstream.to_string() });
        }
        let status = Arc::new(Mutex::new(Some("not connected yet".to_owned())));
        let contact = Arc::new(UpstreamContact::new(Duration::MAX));
        let (follower, key, name) = (follower.into(), key.into(), name.into());
        let relay = Self { follower, key, name, status, contact, buffer_bytes };
        Ok((relay, store))
    }

    /// Public key of the registry.
    pub fn key(&self) -> &Arc<VerifierKey> {
        &self.key
    }

    /// The time since the upstream last confirmed the state of this relay. `Duration::MAX`: never.
    pub fn age(&self) -> Duration {
        self.contact.age()
    }

    /// The connection settings of the registry.
    pub fn follower(&self) -> &Follower {
        &self.follower
    }

    /// Addresses of the registry, for display.
    pub fn upstream(&self) -> String {
        self.follower.addresses.join(",")
    }

    /// Reason why the registry is not followed at the moment, if any.
    pub fn problem(&self) -> Option<String> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Signer that forwards the signatures of the registry.
    pub fn signer(&self, stop: CancellationToken) -> StateSigner {
        let relay = self.clone();
        let scope_signatures: ScopeSignatureSource =
            Arc::new(move |scope| scope_signatures::follow(&relay, scope, stop.clone()));
        StateSigner::Upstream {
            scope_signatures,
            key: self.key.clone(),
            contact: self.contact.clone(),
        }
    }

    /// Latest stored state with a stored signature. Later commits were stored partially and are received again.
    pub async fn latest_signed(
        &self,
        store: &Store,
        catalog: Catalog,
        now: Timestamp,
    ) -> Result<Catalog, Error> {
        let mut stored = store.attestations().await?;
        stored.sort_by_key(|(revision, _)| *revision);
        while let Some((revision, stored)) = stored.pop() {
            let state = if revision == catalog.revision() {
                catalog.clone()
            } else if revision > catalog.revision() {
                continue;
            } else if let Some(past) = store.past(revision).await? {
                catalog.rewound(past.position, &past.changed, past.settings)
            } else {
                continue;
            };
            if stored.verify(&state, &self.key).is_ok() {
                self.contact.record(now.since(stored.time));
                return Ok(state.with_attestation(Some(stored)));
            }
        }
        if catalog.revision() > Revision(0) {
            tracing::warn!(
                "no signature of the stored state is available; followers wait until the upstream registry is reachable"
            );
        }
        Ok(catalog)
    }

    /// Starts to follow the registry. Returns a registrar that rejects writes.
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

    /// Records the state of the stream from the registry.
    fn record(&self, event: StreamState<'_>) {
        let now = match event {
            // A relay in between may be reachable while its own registry is not.
            StreamState::Live if self.contact.age() < self.follower.timing.silence => None,
            StreamState::Live => {
                Some(format!("{} is a relay that has lost its upstream registry", self.upstream()))
            }
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
            None => tracing::info!("following the upstream registry"),
            Some(reason) => tracing::warn!(
                "cannot follow the upstream registry, serving the local copy: {reason}"
            ),
        }
        *status = now;
    }
}
