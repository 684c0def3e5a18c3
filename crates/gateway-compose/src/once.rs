//! `idempotent`: an operation that runs once for each key, also while the first run is in progress.
//!
//! The keys are in memory and bounded: an operation without room for its key is rejected. The key
//! is released on failure unless a step had side effects or its outcome is unknown. Keys do not
//! survive the process; a saga with `sagaIdPath` does.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gateway_policy::{Exhausted, Principal, Scarce, Share, Shares};
use registry_core::{
    Digest,
    spec::{Idempotent, OnDuplicate},
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{
    Cause, Effects, Failure,
    run::Run,
    shelf::{MOST, Shelf},
};

/// Default lifetime of a key.
const TTL: Duration = Duration::from_hours(24);

/// The known keys.
#[derive(Debug)]
pub(super) struct Once {
    keys: Mutex<Shelf<Known>>,
    /// Limits the keys of each caller.
    shares: Arc<Shares>,
}

#[derive(Debug)]
struct Known {
    state: State,
    _share: Share,
}

#[derive(Debug, Clone)]
enum State {
    /// The operation is running. The receiver resolves when it ends.
    Running(watch::Receiver<()>),
    /// The operation succeeded.
    Done(Arc<Value>),
    /// The operation failed and its effects are unknown.
    Unsure(Failure),
}

enum Entered<'o> {
    First(First<'o>),
    Duplicate(State),
    Full(Exhausted),
}

/// The run that owns a key. If it is dropped without an outcome, the outcome is unknown.
struct First<'o> {
    once: &'o Once,
    key: Digest,
    at: &'o str,
    /// Lifetime of the recorded outcome.
    ttl: Duration,
    /// Whether the operation can be repeated without harm.
    is_repeatable: bool,
    outcome: Option<Result<Value, Failure>>,
    _over: watch::Sender<()>,
}

impl Default for Once {
    fn default() -> Self {
        Self { keys: Mutex::default(), shares: Shares::quarters(Scarce::Keys, MOST) }
    }
}

impl Once {
    fn enter<'o>(
        &'o self,
        (key, at): (Digest, &'o str),
        (ttl, is_repeatable): (Duration, bool),
        principal: &Principal,
    ) -> Entered<'o> {
        let now = Instant::now();
        let mut keys = self.lock();
        if let Some(known) = keys.get_mut(&key, now) {
            return Entered::Duplicate(known.state.clone());
        }
        keys.forget_over(now);
        // A result is kept even if it exceeds the limit; then the next key is rejected.
        if !keys.has_room(1) {
            return Entered::Full(Exhausted::All { what: Scarce::Keys, most: MOST });
        }
        let share = match self.shares.take(principal) {
            Ok(share) => share,
            Err(exhausted) => return Entered::Full(exhausted),
        };
        let (over, running) = watch::channel(());
        keys.put(key, Known { state: State::Running(running), _share: share }, 0, None);
        Entered::First(First {
            once: self,
            key,
            at,
            ttl,
            is_repeatable,
            outcome: None,
            _over: over,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Shelf<Known>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        let (state, bytes) = match self.outcome.take() {
            Some(Ok(value)) => {
                let bytes = value.to_string().len();
                (State::Done(Arc::new(value)), bytes)
            }
            Some(Err(failure)) if failure.effects() > Effects::None && !self.is_repeatable => {
                (State::Unsure(failure), 0)
            }
            None if !self.is_repeatable => {
                (State::Unsure(Failure::new(self.at, Cause::GivenUp)), 0)
            }
            Some(Err(_)) | None => return drop(self.once.lock().take(&self.key)),
        };
        let mut keys = self.once.lock();
        // The entry exists: a running key does not expire.
        if let Some(known) = keys.take(&self.key) {
            keys.put(self.key, Known { state, ..known }, bytes, Some(Instant::now() + self.ttl));
        }
    }
}

impl Run {
    /// Runs the operation once for each key.
    pub(super) async fn idempotent(
        self: &Arc<Self>,
        once: &Idempotent,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        // The key space is the same in all versions of the tool.
        let owner = json!([self.key.name, once.pointer]);
        let (key, missing) = self.key_of((&owner, &once.key_paths), at, input)?;
        if let Some(path) = missing {
            return Err(Failure::new(at, Cause::NoKey { path: path.clone() }));
        }
        let key = key.ok_or_else(|| Failure::new(at, Cause::InexactKey))?;
        let ttl = once.ttl_seconds.map_or(TTL, Duration::from_secs);
        let is_repeatable = self.plan.may_be_repeated(&once.inner);
        let principal = &self.owner.principal;
        loop {
            let entered = self.memory().once.enter((key, at), (ttl, is_repeatable), principal);
            let state = match entered {
                Entered::First(mut first) => {
                    let outcome = self.operate(&once.inner, at, input).await;
                    first.outcome = Some(outcome.clone());
                    return outcome;
                }
                Entered::Full(why) => return Err(Failure::new(at, Cause::Full(why))),
                Entered::Duplicate(state) => state,
            };
            match (once.on_duplicate, state) {
                (OnDuplicate::Cached, State::Done(value)) => return Ok((*value).clone()),
                (OnDuplicate::Cached, State::Unsure(failure)) => return Err(failure),
                // The sender is dropped when the run ends, so an error is the expected result.
                (OnDuplicate::Cached, State::Running(mut over)) => drop(over.changed().await),
                (OnDuplicate::Skip, _) => return Ok(Value::Null),
                (OnDuplicate::Error, _) => return Err(Failure::new(at, Cause::Duplicate)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn enter(once: &Once, number: usize) -> Entered<'_> {
        let caller = Some(format!("caller {}", number % 4).into());
        once.enter((Digest::of(&number.to_le_bytes()), "step"), (TTL, false), &caller)
    }

    #[test]
    fn operation_without_room_for_key_is_rejected() {
        let once = Once::default();
        for number in 0..MOST {
            let Entered::First(mut first) = enter(&once, number) else { panic!("the key fits") };
            first.outcome = Some(Ok(json!(number)));
        }
        let all = Exhausted::All { what: Scarce::Keys, most: MOST };
        assert!(matches!(enter(&once, MOST), Entered::Full(why) if why == all));
        assert!(matches!(enter(&once, 7), Entered::Duplicate(State::Done(..))));
    }

    #[test]
    fn one_caller_cannot_use_all_keys() {
        let once = Once::default();
        for number in 0..MOST / 4 {
            assert!(matches!(enter(&once, 4 * number), Entered::First(_)));
        }
        let own = Exhausted::Own { what: Scarce::Keys, most: MOST / 4 };
        assert!(matches!(enter(&once, MOST), Entered::Full(why) if why == own));
        assert!(matches!(enter(&once, 1), Entered::First(_)));
    }

    #[test]
    fn failed_key_is_released_unless_outcome_unknown() {
        let once = Once::default();
        let fail = |cause| {
            let Entered::First(mut first) = enter(&once, 1) else { panic!("the first run of the key") };
            first.outcome = Some(Err(Failure::new("step", cause)));
        };
        fail(Cause::Duplicate);
        fail(Cause::Timeout { after_ms: 1, message: None });
        assert!(matches!(enter(&once, 1), Entered::Duplicate(State::Unsure(_))));
        let Entered::First(first) = enter(&once, 2) else { panic!("the first run of the key") };
        assert!(matches!(enter(&once, 2), Entered::Duplicate(State::Running(_))));
        drop(first);
        assert!(matches!(enter(&once, 2), Entered::Duplicate(State::Unsure(_))));
        let harmless = || once.enter((Digest::of(b"3"), "step"), (TTL, true), &None);
        for outcome in [None, Some(Err(Failure::new("step", Cause::GivenUp)))] {
            let Entered::First(mut first) = harmless() else { panic!("the key is free") };
            first.outcome = outcome;
        }
        assert!(matches!(harmless(), Entered::First(_)));
    }
}
