//! A message shared by many streams, with its encoded form. It is encoded once.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use registry_core::{Attestation, Catalog, Digest, chain::Position};

use super::{Heartbeat, sessions::lock};

/// Granularity of the age in heartbeats of a relay.
const AGE_UNIT_MILLIS: u128 = 100;

/// A message with a cache of its encoded form.
#[derive(Debug)]
pub struct SharedMessage<T> {
    value: T,
    encoded: OnceLock<Bytes>,
}

impl<T> SharedMessage<T> {
    /// Creates a message that is not encoded yet.
    pub fn new(value: T) -> Arc<Self> {
        Arc::new(Self { value, encoded: OnceLock::new() })
    }

    /// Encoded form; the first caller encodes it.
    pub fn encoded(&self, encode: impl FnOnce(&T) -> Bytes) -> Bytes {
        self.encoded.get_or_init(|| encode(&self.value)).clone()
    }
}

impl<T> Deref for SharedMessage<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// The last sent heartbeat.
#[derive(Debug, Default)]
pub(super) struct LastHeartbeat(Mutex<Option<Arc<SharedMessage<Heartbeat>>>>);

impl LastHeartbeat {
    /// Returns the heartbeat of this state, shared if it equals the last one.
    pub(super) fn next(
        &self,
        state: &Catalog,
        content: Option<Digest>,
        attestation: Option<Attestation>,
        age: Duration,
    ) -> Arc<SharedMessage<Heartbeat>> {
        let position = Position::of_catalog(state);
        // Rounded up, because rounding down would accumulate in a chain of relays.
        let units = age.as_millis().div_ceil(AGE_UNIT_MILLIS);
        let age_ms = u64::try_from(units * AGE_UNIT_MILLIS).unwrap_or(u64::MAX);
        let heartbeat = Heartbeat { position, content, attestation, age_ms };
        let mut last = lock(&self.0);
        match &*last {
            Some(last) if ***last == heartbeat => last.clone(),
            _ => last.insert(SharedMessage::new(heartbeat)).clone(),
        }
    }
}
