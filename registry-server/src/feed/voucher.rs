//! The registry's word on the states that followers are told: signed here by whoever has the key, or
//! passed on by a relay.
//!
//! A signature says when the state was the latest. One that is no older than a second is shared.

use std::{sync::Arc, time::Duration};

use aws_lc_rs::signature::Ed25519KeyPair;
use registry_core::{
    Attestation, Catalog, ChainHash, Checkpoint, Digest, RegistryId, Revision, Scope,
    checkpoint::VerifierKey,
};
use tokio::sync::watch;

use super::Contact;
use crate::clock::Clock;

/// For how long a signature is used, in milliseconds.
const FRESH_MILLIS: i64 = 1_000;

/// Who gives the registry's word.
#[derive(Clone)]
pub enum Voucher {
    /// This server, which has the key.
    Key(Arc<Ed25519KeyPair>, Arc<dyn Clock>),
    /// The registry that this server is a relay of. What it says of everything comes with the commits.
    Upstream {
        /// What it says of scopes.
        witness: Witness,
        /// The key that signs it.
        key: Arc<VerifierKey>,
        /// When it was heard of last.
        contact: Arc<Contact>,
    },
}

/// Where a relay hears what the registry says of a scope, for as long as it listens.
pub type Witness = Arc<dyn Fn(Scope) -> watch::Receiver<Said> + Send + Sync>;

/// What was heard of a scope.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// The registry's latest word.
    pub word: Option<Word>,
    /// Why there is none now, where whoever is asked has no room for the scope.
    pub no_room: Option<Arc<str>>,
}

/// What the registry says of a scope.
#[derive(Debug, Clone, PartialEq)]
pub struct Word {
    /// Of which state.
    pub place: (Revision, ChainHash),
    /// The digest of what is in scope then.
    pub content: Digest,
    /// Its signature.
    pub attestation: Attestation,
}

impl Voucher {
    /// Signs a state as the latest, where that is done here. Looks at every entity if its content
    /// digest was never asked for.
    pub(super) fn vouch(&self, catalog: Catalog) -> Catalog {
        let Self::Key(key, clock) = self else { return catalog };
        let attestation = Attestation::sign(&catalog, clock.now(), key);
        catalog.with_attestation(Some(attestation))
    }

    /// Whether the signature on a state need not, or cannot, be made again.
    pub(super) fn is_fresh(&self, catalog: &Catalog) -> bool {
        let Self::Key(_, clock) = self else { return true };
        let age = |signed: &Attestation| clock.now().as_millis() - signed.time.as_millis();
        catalog.attestation().is_some_and(|signed| age(signed) < FRESH_MILLIS)
    }

    /// What another server says of a scope, where this one only passes it on.
    pub(super) fn witness(&self, scope: &Scope) -> Option<watch::Receiver<Said>> {
        match self {
            Self::Key(..) => None,
            Self::Upstream { witness, .. } => Some(witness(scope.clone())),
        }
    }

    /// The key that its signatures are checked with.
    pub(super) fn verifier_key(&self, registry: &RegistryId) -> VerifierKey {
        match self {
            Self::Key(key, _) => Checkpoint::verifier_key(registry, key),
            Self::Upstream { key, .. } => (**key).clone(),
        }
    }

    /// How long ago the registry was heard of.
    pub(super) fn age(&self) -> Duration {
        match self {
            Self::Key(..) => Duration::ZERO,
            Self::Upstream { contact, .. } => contact.age(),
        }
    }
}
