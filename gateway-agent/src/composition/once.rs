//! `idempotent`: an operation that is not done twice with the same key, also while the first is
//! under way.
//!
//! In memory, bounded: without room for another key nothing is done. A failure gives its key back,
//! unless nobody knows what was done. Deliberately absent: what survives the process; a saga with
//! `sagaIdPath` does.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use registry_core::{
    Digest,
    spec::{Idempotent, OnDuplicate},
};
use serde_json::Value;
use tokio::sync::watch;

use super::{Cause, Failure, run::Run};

/// Most keys that are known.
const MOST: usize = 10_000;
/// Most bytes of their results, as JSON.
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// How long a key is known where the spec does not say.
const TTL: Duration = Duration::from_hours(24);

/// The keys that are known.
#[derive(Debug, Default)]
pub(super) struct Once(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    keys: HashMap<Digest, (State, Instant)>,
    bytes: usize,
}

#[derive(Debug, Clone)]
enum State {
    /// It is being done; whoever waits is told when that is over.
    Running(watch::Receiver<()>),
    /// It was done.
    Done(Arc<Value>, usize),
    /// It failed, and nobody knows what was done.
    Unsure(Failure),
}

/// Whether a key is the first.
enum Entered<'o> {
    First(First<'o>),
    Duplicate(State),
    Full,
}

/// The one that does it. Dropped without a result, nobody knows what was done.
struct First<'o> {
    once: &'o Once,
    key: Digest,
    at: &'o str,
    /// Whether it may simply be done again.
    is_repeatable: bool,
    outcome: Option<Result<Value, Failure>>,
    _over: watch::Sender<()>,
}

impl Once {
    fn enter<'o>(
        &'o self,
        (key, at): (Digest, &'o str),
        ttl: Duration,
        is_repeatable: bool,
    ) -> Entered<'o> {
        let now = Instant::now();
        let mut table = self.lock();
        if let Some((state, until)) = table.keys.get(&key)
            && (*until > now || matches!(state, State::Running(_)))
        {
            return Entered::Duplicate(state.clone());
        }
        table.forget(&key);
        if table.keys.len() >= MOST || table.bytes >= MOST_BYTES {
            table.purge(now);
        }
        if table.keys.len() >= MOST || table.bytes >= MOST_BYTES {
            return Entered::Full;
        }
        let (over, running) = watch::channel(());
        table.keys.insert(key, (State::Running(running), now + ttl));
        Entered::First(First { once: self, key, at, is_repeatable, outcome: None, _over: over })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn purge(&mut self, now: Instant) {
        let is_over = |(state, until): &(State, Instant)| {
            *until <= now && !matches!(state, State::Running(_))
        };
        let over = self.keys.iter().filter(|(_, kept)| is_over(kept)).map(|(key, _)| *key);
        for key in over.collect::<Vec<_>>() {
            self.forget(&key);
        }
    }

    fn forget(&mut self, key: &Digest) {
        if let Some((State::Done(_, bytes), _)) = self.keys.remove(key) {
            self.bytes -= bytes;
        }
    }
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        let mut table = self.once.lock();
        let state = match self.outcome.take() {
            Some(Ok(value)) => {
                let bytes = value.to_string().len();
                table.bytes += bytes;
                State::Done(Arc::new(value), bytes)
            }
            Some(Err(failure)) if failure.is_unknown() && !self.is_repeatable => {
                State::Unsure(failure)
            }
            None if !self.is_repeatable => State::Unsure(Failure::new(self.at, Cause::GivenUp)),
            Some(Err(_)) | None => {
                table.forget(&self.key);
                return;
            }
        };
        if let Some((kept, _)) = table.keys.get_mut(&self.key) {
            *kept = state;
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
        let owner = format!("{}{}", self.key.name, once.pointer);
        let (key, missing) = self.key_of((&owner, &once.key_paths), at, input)?;
        if let Some(path) = missing {
            return Err(Failure::new(at, Cause::NoKey { path: path.clone() }));
        }
        let ttl = once.ttl_seconds.map_or(TTL, Duration::from_secs);
        let is_repeatable = self.plan.is_repeatable(&once.inner);
        loop {
            let state = match self.memory().once.enter((key, at), ttl, is_repeatable) {
                Entered::First(mut first) => {
                    let outcome = self.operate(&once.inner, at, input).await;
                    first.outcome = Some(outcome.clone());
                    return outcome;
                }
                Entered::Full => return Err(Failure::new(at, Cause::Full)),
                Entered::Duplicate(state) => state,
            };
            match (once.on_duplicate, state) {
                (OnDuplicate::Cached, State::Done(value, _)) => return Ok((*value).clone()),
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
        once.enter((Digest::of(&number.to_le_bytes()), "step"), TTL, false)
    }

    #[test]
    fn without_room_for_another_key_nothing_is_done() {
        let once = Once::default();
        for number in 0..MOST {
            let Entered::First(mut first) = enter(&once, number) else { panic!("there is room") };
            first.outcome = Some(Ok(json!(number)));
        }
        assert!(matches!(enter(&once, MOST), Entered::Full));
        assert!(matches!(enter(&once, 7), Entered::Duplicate(State::Done(..))));
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
    }
}
