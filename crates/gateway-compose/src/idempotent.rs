//! `idempotent`: an operation that runs once for each key, also while the first run is in progress.
//!
//! The keys are in memory and bounded: an operation without room for its key is rejected. The key
//! is released on failure unless a step had side effects or its outcome is unknown. Keys do not
//! survive the process; a saga with `sagaIdPath` does.

use std::{sync::Arc, time::Duration};

use registry_core::spec::{Idempotent, OnDuplicate};
use serde_json::{Value, json};

use crate::{
    Cause, Failure,
    run::Run,
    state::idempotency::{KeyState, Reservation},
};

/// Default lifetime of a key.
const TTL: Duration = Duration::from_hours(24);

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
            return Err(Failure::new(at, Cause::MissingKey { path: path.clone() }));
        }
        let key = key.ok_or_else(|| Failure::new(at, Cause::InexactKey))?;
        let ttl = once.ttl_seconds.map_or(TTL, Duration::from_secs);
        let is_repeatable = self.plan.is_repeatable(&once.inner);
        let (quota_key, own) = (&self.owner.quota_key, Arc::new(self.origin(&once.pointer)));
        loop {
            let keys = &self.state().idempotency;
            let reservation = keys.reserve((key, at), (ttl, is_repeatable), quota_key, &own);
            let (state, origin) = match reservation {
                Reservation::First(mut first) => {
                    let outcome = self.operate(&once.inner, at, input).await;
                    first.outcome = Some(outcome.clone());
                    return outcome;
                }
                Reservation::Full(why) => return Err(Failure::new(at, Cause::NoCapacity(why))),
                Reservation::Duplicate(state, origin) => (state, origin),
            };
            if matches!(once.on_duplicate, OnDuplicate::Cached) {
                self.authorize_stored(&origin, at)?;
            }
            match (once.on_duplicate, state) {
                (OnDuplicate::Cached, KeyState::Done(value)) => return Ok((*value).clone()),
                (OnDuplicate::Cached, KeyState::Unknown(failure)) => return Err(failure),
                // The sender is dropped when the run ends, so an error is the expected result.
                (OnDuplicate::Cached, KeyState::Running(mut ended)) => drop(ended.changed().await),
                (OnDuplicate::Skip, _) => return Ok(Value::Null),
                (OnDuplicate::Error, _) => return Err(Failure::new(at, Cause::Duplicate)),
            }
        }
    }
}
