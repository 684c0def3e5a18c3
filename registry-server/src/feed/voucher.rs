//! The registry's word on the states that followers are told: signed by this server, which has the
//! key.
//!
//! A signature says when the state was the latest. One that is no older than a second is shared. Deliberately
//! absent: checkpoints, which are about the whole log.

use std::sync::Arc;

use aws_lc_rs::signature::Ed25519KeyPair;
use registry_core::{Attestation, Catalog};

use crate::clock::Clock;

/// For how long a signature is used, in milliseconds.
const FRESH_MILLIS: i64 = 1_000;

/// What signs.
#[derive(Clone)]
pub struct Voucher {
    key: Arc<Ed25519KeyPair>,
    clock: Arc<dyn Clock>,
}

impl Voucher {
    /// Signs with this key.
    pub fn new(key: Arc<Ed25519KeyPair>, clock: Arc<dyn Clock>) -> Self {
        Self { key, clock }
    }

    /// Signs a state as the latest. Looks at every entity if its content digest was never asked for.
    pub(super) fn vouch(&self, catalog: Catalog) -> Catalog {
        let attestation = Attestation::sign(&catalog, self.clock.now(), &self.key);
        catalog.attested(Some(attestation))
    }

    /// Whether the signature on a state need not be made again.
    pub(super) fn is_fresh(&self, catalog: &Catalog) -> bool {
        let age = |signed: &Attestation| self.clock.now().as_millis() - signed.time.as_millis();
        catalog.attestation().is_some_and(|signed| age(signed) < FRESH_MILLIS)
    }
}
