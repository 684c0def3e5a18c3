//! The keys of idempotent operations.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gateway_policy::{QuotaExceeded, QuotaGuard, QuotaKey, QuotaKind, Quotas};
use registry_core::Digest;
use serde_json::Value;
use tokio::{sync::watch, time::Instant};

use super::ttl_map::{MAX_ENTRIES, TtlMap};
use crate::{Cause, Effects, Failure, ResultOrigin};

/// The known keys.
#[derive(Debug)]
pub(crate) struct IdempotencyStore {
    keys: Mutex<TtlMap<KeyEntry>>,
    /// Limits the keys of each caller.
    quotas: Arc<Quotas>,
}

#[derive(Debug)]
struct KeyEntry {
    state: KeyState,
    origin: Arc<ResultOrigin>,
    _quota: QuotaGuard,
}

#[derive(Debug, Clone)]
pub(crate) enum KeyState {
    /// The operation is running. The receiver resolves when it ends.
    Running(watch::Receiver<()>),
    /// The operation succeeded.
    Done(Arc<Value>),
    /// The operation failed and its effects are unknown.
    Unknown(Failure),
}

pub(crate) enum Reservation<'o> {
    First(FirstRun<'o>),
    Duplicate(KeyState, Arc<ResultOrigin>),
    Full(QuotaExceeded),
}

/// The run that owns a key. If it is dropped without an outcome, the outcome is unknown.
pub(crate) struct FirstRun<'o> {
    store: &'o IdempotencyStore,
    key: Digest,
    at: &'o str,
    /// Lifetime of the recorded outcome.
    ttl: Duration,
    /// Whether the operation can be repeated without harm.
    is_repeatable: bool,
    pub(crate) outcome: Option<Result<Value, Failure>>,
    _ended: watch::Sender<()>,
}

impl Default for IdempotencyStore {
    fn default() -> Self {
        Self { keys: Mutex::default(), quotas: Quotas::new(QuotaKind::Keys, MAX_ENTRIES) }
    }
}

impl IdempotencyStore {
    pub(crate) fn reserve<'o>(
        &'o self,
        (key, at): (Digest, &'o str),
        (ttl, is_repeatable): (Duration, bool),
        quota_key: &QuotaKey,
        origin: &Arc<ResultOrigin>,
    ) -> Reservation<'o> {
        let now = Instant::now();
        let mut keys = self.lock();
        if let Some(known) = keys.get_mut(&key, now) {
            return Reservation::Duplicate(known.state.clone(), Arc::clone(&known.origin));
        }
        keys.remove_expired(now);
        // A result is kept even if it exceeds the limit; then the next key is rejected.
        if !keys.has_room(1) {
            return Reservation::Full(QuotaExceeded::Total {
                kind: QuotaKind::Keys,
                limit: MAX_ENTRIES,
            });
        }
        let quota = match self.quotas.acquire(quota_key) {
            Ok(quota) => quota,
            Err(exhausted) => return Reservation::Full(exhausted),
        };
        let (over, running) = watch::channel(());
        let (state, origin) = (KeyState::Running(running), Arc::clone(origin));
        keys.insert(key, KeyEntry { state, origin, _quota: quota }, 0, None);
        Reservation::First(FirstRun {
            store: self,
            key,
            at,
            ttl,
            is_repeatable,
            outcome: None,
            _ended: over,
        })
    }

    fn lock(&self) -> MutexGuard<'_, TtlMap<KeyEntry>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FirstRun<'_> {
    fn drop(&mut self) {
        let (state, bytes) = match self.outcome.take() {
            Some(Ok(value)) => {
                let bytes = value.to_string().len();
                (KeyState::Done(Arc::new(value)), bytes)
            }
            Some(Err(failure)) if failure.effects() > Effects::None && !self.is_repeatable => {
                (KeyState::Unknown(failure), 0)
            }
            None if !self.is_repeatable => {
                (KeyState::Unknown(Failure::new(self.at, Cause::Abandoned)), 0)
            }
            Some(Err(_)) | None => return drop(self.store.lock().remove(&self.key)),
        };
        let mut keys = self.store.lock();
        // The entry exists: a running key does not expire.
        if let Some(known) = keys.remove(&self.key) {
            keys.insert(
                self.key,
                KeyEntry { state, ..known },
                bytes,
                Some(Instant::now() + self.ttl),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use gateway_policy::CallerIdentity;
    use registry_core::Revision;
    use serde_json::json;

    use super::*;

    fn origin() -> Arc<ResultOrigin> {
        let tool = "tool/once@1.0.0".parse().unwrap();
        let identity = CallerIdentity::Anonymous;
        Arc::new(ResultOrigin { tool, pointer: String::new(), identity, revision: Revision(1) })
    }

    fn enter(store: &IdempotencyStore, number: usize) -> Reservation<'_> {
        let caller = Some(format!("caller {}", number % 4).into());
        store.reserve(
            (Digest::compute(&number.to_le_bytes()), "step"),
            (Duration::from_hours(24), false),
            &caller,
            &origin(),
        )
    }

    #[test]
    fn operation_without_room_for_key_is_rejected() {
        let store = IdempotencyStore::default();
        for number in 0..MAX_ENTRIES {
            let Reservation::First(mut first) = enter(&store, number) else {
                panic!("the key fits")
            };
            first.outcome = Some(Ok(json!(number)));
        }
        let all = QuotaExceeded::Total { kind: QuotaKind::Keys, limit: MAX_ENTRIES };
        assert!(matches!(enter(&store, MAX_ENTRIES), Reservation::Full(why) if why == all));
        assert!(matches!(enter(&store, 7), Reservation::Duplicate(KeyState::Done(..), _)));
    }

    #[test]
    fn one_caller_cannot_use_all_keys() {
        let store = IdempotencyStore::default();
        for number in 0..MAX_ENTRIES / 4 {
            assert!(matches!(enter(&store, 4 * number), Reservation::First(_)));
        }
        let own = QuotaExceeded::PerCaller { kind: QuotaKind::Keys, limit: MAX_ENTRIES / 4 };
        assert!(matches!(enter(&store, MAX_ENTRIES), Reservation::Full(why) if why == own));
        assert!(matches!(enter(&store, 1), Reservation::First(_)));
    }

    #[test]
    fn failed_key_is_released_unless_outcome_unknown() {
        let store = IdempotencyStore::default();
        let fail = |cause| {
            let Reservation::First(mut first) = enter(&store, 1) else {
                panic!("the first run of the key")
            };
            first.outcome = Some(Err(Failure::new("step", cause)));
        };
        fail(Cause::Duplicate);
        fail(Cause::Timeout { after_ms: 1, message: None });
        assert!(matches!(enter(&store, 1), Reservation::Duplicate(KeyState::Unknown(_), _)));
        let Reservation::First(first) = enter(&store, 2) else {
            panic!("the first run of the key")
        };
        assert!(matches!(enter(&store, 2), Reservation::Duplicate(KeyState::Running(_), _)));
        drop(first);
        assert!(matches!(enter(&store, 2), Reservation::Duplicate(KeyState::Unknown(_), _)));
        let harmless = || {
            let key = (Digest::compute(b"3"), "step");
            store.reserve(key, (Duration::from_hours(24), true), &None, &origin())
        };
        for outcome in [None, Some(Err(Failure::new("step", Cause::Abandoned)))] {
            let Reservation::First(mut first) = harmless() else { panic!("the key is free") };
            first.outcome = outcome;
        }
        assert!(matches!(harmless(), Reservation::First(_)));
    }
}
