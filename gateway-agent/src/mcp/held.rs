//! Requests of stateless clients that wait for their input: an upstream with sessions asks in the
//! middle of a call, which is held here until the client comes again with the answer.
//!
//! What the client gets as `requestState` is a random handle: it is good once, for the same caller
//! and the same request, and for as long as the call may take. Deliberately absent: other gateways;
//! the client must come back to this one.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::value::RawValue;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::exchange::Flight;
use crate::{
    identity::HeaderClaim,
    jsonrpc::{Object, ObjectWriter},
    upstream::{Answered, Method},
};

/// Most requests that are held.
const MOST: usize = 1_000;
/// How long one is held.
const PATIENCE: Duration = Duration::from_mins(10);
/// How handles begin.
const PREFIX: &str = "gateway:";
/// The key under which the one question is asked and answered.
const KEY: &str = "input";

/// Whose a request is, and what it asks; only the same may go on with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) claim: HeaderClaim,
    pub(super) method: Method,
    pub(super) subject: Box<str>,
}

/// A question that waits for its answer.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) method: Box<str>,
    pub(super) params: Option<Box<RawValue>>,
    pub(super) answer: oneshot::Sender<Answered>,
}

/// All requests that are held.
#[derive(Default)]
pub(super) struct HeldRequests(Mutex<HashMap<Box<str>, Held>>);

struct Held {
    flight: Flight,
    owner: Owner,
    asked: Asked,
    until: Instant,
}

impl std::fmt::Debug for HeldRequests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldRequests").field("held", &self.table().len()).finish()
    }
}

/// As many requests wait for input as are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MOST} requests wait for input already, no more are allowed")]
pub struct Full;

impl HeldRequests {
    /// Holds a request, and gives the result that asks for its input.
    pub(super) fn hold(&self, flight: Flight, owner: Owner, asked: Asked) -> Result<String, Full> {
        let mut table = self.table();
        let now = Instant::now();
        table.retain(|_, held| held.until > now);
        if table.len() >= MOST {
            return Err(Full);
        }
        let handle = format!("{PREFIX}{}", Uuid::new_v4().simple());
        let result = input_required(&handle, &asked);
        let until = now + PATIENCE;
        table.insert(handle.into(), Held { flight, owner, asked, until });
        Ok(result)
    }

    /// Goes on with a request, if the caller's input says with which. An answer that is missing is
    /// asked for again.
    pub(super) fn resume(
        &self,
        handle: &str,
        owner: &Owner,
        responses: Option<&RawValue>,
    ) -> Option<Resumed> {
        let held = {
            let mut table = self.table();
            let held = table.get(handle)?;
            if held.owner != *owner || held.until <= Instant::now() {
                return None;
            }
            table.remove(handle)?
        };
        let responses = responses.and_then(|raw| Object::parse(raw).ok()).unwrap_or_default();
        let Some(answer) = responses.find(KEY) else {
            return Some(Resumed::Asked(self.hold(held.flight, held.owner, held.asked).ok()?));
        };
        let _ = held.asked.answer.send(Ok(answer.to_owned()));
        Some(Resumed::Flight(held.flight))
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Box<str>, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that goes on.
pub(super) enum Resumed {
    /// It has its answer.
    Flight(Flight),
    /// The answer was not there; the result asks again.
    Asked(String),
}

/// Whether a state is a handle of ours.
pub(super) fn is_handle(state: &str) -> bool {
    state.starts_with(PREFIX)
}

fn input_required(handle: &str, asked: &Asked) -> String {
    let mut request = ObjectWriter::with_capacity(256);
    request.string("method", &asked.method);
    request.raw("params", asked.params.as_deref().map_or("{}", RawValue::get));
    let mut requests = ObjectWriter::with_capacity(256);
    requests.raw(KEY, &request.finish_string());
    let mut result = ObjectWriter::with_capacity(512);
    result
        .raw("resultType", r#""input_required""#)
        .raw("inputRequests", &requests.finish_string())
        .string("requestState", handle)
        .raw("_meta", &format!("{{{}}}", crate::respond::result::MODERN_META));
    result.finish_string()
}
