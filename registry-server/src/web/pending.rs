//! Sign-ins that wait for the redirect of the identity provider.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use registry_core::{Digest, Timestamp};

use super::{
    secret::{RandomFailed, random_text},
    target::Target,
};

/// Maximum duration of a sign-in at the identity provider.
pub(super) const SIGN_IN_SECONDS: u64 = 600;
/// Maximum number of pending sign-ins. Above it, the oldest is removed.
const PENDING: usize = 10_000;

/// A pending sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SignIn {
    /// The value that the ID token must repeat.
    pub(super) nonce: String,
    /// The PKCE verifier, which the identity provider receives with the code.
    pub(super) verifier: String,
    /// The page after the sign-in.
    pub(super) target: Target,
    started_at: Timestamp,
}

impl SignIn {
    /// A sign-in with random values.
    pub(super) fn start(target: Target, now: Timestamp) -> Result<Self, RandomFailed> {
        Ok(Self { nonce: random_text()?, verifier: random_text()?, target, started_at: now })
    }

    fn is_over(&self, now: Timestamp) -> bool {
        now.since(self.started_at) >= Duration::from_secs(SIGN_IN_SECONDS)
    }
}

/// The pending sign-ins by the digests of their states.
#[derive(Debug, Default)]
pub(super) struct PendingSignIns(Mutex<HashMap<Digest, SignIn>>);

impl PendingSignIns {
    /// Adds a sign-in, and returns its state.
    pub(super) fn add(&self, sign_in: SignIn, now: Timestamp) -> Result<String, RandomFailed> {
        let state = random_text()?;
        // The map is consistent even if another thread panicked.
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.len() >= PENDING {
            pending.retain(|_, other| !other.is_over(now));
        }
        if pending.len() >= PENDING {
            let oldest = pending.iter().min_by_key(|(_, other)| other.started_at);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                pending.remove(&oldest);
            }
        }
        pending.insert(Digest::compute(state.as_bytes()), sign_in);
        Ok(state)
    }

    /// Removes the sign-in of a state, so that no code is used twice.
    pub(super) fn take(&self, state: &str, now: Timestamp) -> Option<SignIn> {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sign_in = pending.remove(&Digest::compute(state.as_bytes()))?;
        (!sign_in.is_over(now)).then_some(sign_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn add(pending: &PendingSignIns, seconds: i64) -> String {
        let sign_in = SignIn::start(Target::default(), at(seconds)).unwrap();
        pending.add(sign_in, at(seconds)).unwrap()
    }

    #[test]
    fn state_is_accepted_once_within_ten_minutes() {
        let pending = PendingSignIns::default();
        let (first, second) = (add(&pending, 0), add(&pending, 0));
        assert!(pending.take(&first, at(599)).is_some());
        assert_eq!(pending.take(&first, at(599)), None, "used");
        assert_eq!(pending.take(&second, at(600)), None, "too late");
        assert_eq!(pending.take("other", at(0)), None);
    }

    #[test]
    fn oldest_sign_in_makes_room() {
        let pending = PendingSignIns::default();
        let first = add(&pending, 0);
        for _ in 0..PENDING {
            add(&pending, 1);
        }
        assert_eq!(pending.0.lock().unwrap().len(), PENDING);
        assert_eq!(pending.take(&first, at(2)), None);
    }
}
