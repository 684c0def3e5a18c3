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

/// How long a key is known where the spec does not say.
const TTL: Duration = Duration::from_hours(24);

/// The keys that are known.
#[derive(Debug)]
pub(super) struct Once {
    keys: Mutex<Shelf<Known>>,
    /// So that no caller uses up the keys of all others.
    shares: Arc<Shares>,
}

/// What is known of a key.
#[derive(Debug)]
struct Known {
    state: State,
    _share: Share,
}

#[derive(Debug, Clone)]
enum State {
    /// It is being done; whoever waits is told when that is over.
    Running(watch::Receiver<()>),
    /// It was done.
    Done(Arc<Value>),
    /// It failed, and nobody knows what was done.
    Unsure(Failure),
}

/// Whether a key is the first.
enum Entered<'o> {
    First(First<'o>),
    Duplicate(State),
    Full(Exhausted),
}

/// The one that does it. Dropped without a result, nobody knows what was done.
struct First<'o> {
    once: &'o Once,
    key: Digest,
    at: &'o str,
    /// How long its outcome is known.
    ttl: Duration,
    /// Whether it may simply be done again.
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
        // What it gives is kept even if there is too little room for it, the next one is not done.
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
        // It is there: who does it is waited for.
        if let Some(known) = keys.take(&self.key) {
            keys.put(self.key, Known { state, ..known }, bytes, Some(Instant::now() + self.ttl));
        }
    }
}

impl Run {
    /// Done once for each key.
    pub(super) async fn idempotent(
        self: &Arc<Self>,
        once: &Idempotent,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        // Another version of the tool means the same thing by its keys.
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
                // An error says only that the sender is gone, which is what is waited for.
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
        once.enter((Digest::compute(&number.to_le_bytes()), "step"), (TTL, false), &caller)
    }

    #[test]
    fn without_room_for_another_key_nothing_is_done() {
        let once = Once::default();
        for number in 0..MOST {
            let Entered::First(mut first) = enter(&once, number) else { panic!("there is room") };
            first.outcome = Some(Ok(json!(number)));
        }
        let all = Exhausted::All { what: Scarce::Keys, most: MOST };
        assert!(matches!(enter(&once, MOST), Entered::Full(why) if why == all));
        assert!(matches!(enter(&once, 7), Entered::Duplicate(State::Done(..))));
    }

    #[test]
    fn one_caller_leaves_room_for_others() {
        let once = Once::default();
        for number in 0..MOST / 4 {
            assert!(matches!(enter(&once, 4 * number), Entered::First(_)));
        }
        let own = Exhausted::Own { what: Scarce::Keys, most: MOST / 4 };
        assert!(matches!(enter(&once, MOST), Entered::Full(why) if why == own));
        assert!(matches!(enter(&once, 1), Entered::First(_)));
    }

    #[test]
    fn a_failure_gives_its_key_back_unless_nobody_knows_what_was_done() {
        let once = Once::default();
        let fail = |cause| {
            let Entered::First(mut first) = enter(&once, 1) else { panic!("it is the first") };
            first.outcome = Some(Err(Failure::new("step", cause)));
        };
        fail(Cause::Duplicate);
        fail(Cause::Timeout { after_ms: 1, message: None });
        assert!(matches!(enter(&once, 1), Entered::Duplicate(State::Unsure(_))));
        let Entered::First(first) = enter(&once, 2) else { panic!("it is the first") };
        assert!(matches!(enter(&once, 2), Entered::Duplicate(State::Running(_))));
        drop(first);
        assert!(matches!(enter(&once, 2), Entered::Duplicate(State::Unsure(_))));
        let harmless = || once.enter((Digest::compute(b"3"), "step"), (TTL, true), &None);
        for outcome in [None, Some(Err(Failure::new("step", Cause::GivenUp)))] {
            let Entered::First(mut first) = harmless() else { panic!("it is done again") };
            first.outcome = outcome;
        }
        assert!(matches!(harmless(), Entered::First(_)));
    }
}
