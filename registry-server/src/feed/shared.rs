//! A value that many streams are told, with room for its wire form: who serves the streams works
//! that out once for all of them.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use registry_core::{Attestation, Catalog, Digest, chain::Position};

use super::{Place, roster::lock};

/// In which steps a relay tells its age.
const AGE_STEP_MILLIS: u128 = 100;

/// A value and its wire form, which lives as long as the value is shared.
#[derive(Debug)]
pub struct Shared<T> {
    value: T,
    wire: OnceLock<Bytes>,
}

impl<T> Shared<T> {
    /// A value whose wire form nobody has asked for yet.
    pub fn new(value: T) -> Arc<Self> {
        Arc::new(Self { value, wire: OnceLock::new() })
    }

    /// The wire form, worked out by whoever asks first.
    pub fn wire(&self, encode: impl FnOnce(&T) -> Bytes) -> Bytes {
        self.wire.get_or_init(|| encode(&self.value)).clone()
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// The place that followers were told last to have reached.
#[derive(Debug, Default)]
pub(super) struct Reached(Mutex<Option<Arc<Shared<Place>>>>);

impl Reached {
    /// The place of this state; the same for all that are told of it one after the other.
    pub(super) fn place(
        &self,
        state: &Catalog,
        content: Option<Digest>,
        attestation: Option<Attestation>,
        age: Duration,
    ) -> Arc<Shared<Place>> {
        let position = Position::of_catalog(state);
        // Never younger than it is: where relays follow each other it would stay young.
        let steps = age.as_millis().div_ceil(AGE_STEP_MILLIS);
        let age_ms = u64::try_from(steps * AGE_STEP_MILLIS).unwrap_or(u64::MAX);
        let place = Place { position, content, attestation, age_ms };
        let mut last = lock(&self.0);
        match &*last {
            Some(last) if ***last == place => last.clone(),
            _ => last.insert(Shared::new(place)).clone(),
        }
    }
}
