//! Requests of stateless clients that wait for their input: an upstream with sessions asks in the
//! middle of a call, which is held here until the client comes again with the answer.
//!
//! The client gets a handle as `requestState`. It is valid once, for the same caller and the same
//! request with the same parameters, and for as long as the call may take. Handles are sealed:
//! a `requestState` that this gateway's key does not open belongs to the upstream, which may be
//! another gateway. The client must come back to the gateway that holds the call.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gateway_policy::{Exhausted, HeaderClaim, Principal, Scarce, Share, Shares};
use gateway_protocol::{
    jsonrpc::{Object, ObjectWriter},
    mcp::Method,
};
use gateway_upstream::Answered;
use registry_core::Digest;
use serde_json::value::RawValue;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::Instant,
};
use tokio_util::task::AbortOnDropHandle;

use super::exchange::Flight;
use crate::{
    random::{NoRandomness, random_text},
    seal::Sealer,
};

/// Most requests that are held.
const MOST: usize = 1_000;
/// How long one is held.
const PATIENCE: Duration = Duration::from_mins(10);
/// The purpose of sealed handles.
const PURPOSE: &[u8] = b"held-request-1";
/// The key under which the one question is asked and answered.
const KEY: &str = "input";

/// Whose a request is, and what it asks; only the same may go on with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) claim: HeaderClaim,
    pub(super) method: Method,
    pub(super) subject: Box<str>,
    /// All that it asks; none of a caller that nobody can ask anything.
    pub(super) params: Option<Digest>,
}

/// A question that waits for its answer.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) method: Box<str>,
    pub(super) params: Option<Box<RawValue>>,
    pub(super) answer: oneshot::Sender<Answered>,
}

/// All requests that are held.
pub(super) struct HeldRequests {
    sealer: Arc<Sealer>,
    table: Mutex<HashMap<Box<str>, Held>>,
    places: Arc<Semaphore>,
    shares: Arc<Shares>,
    patience: Duration,
}

struct Held {
    waiting: Waiting,
    _expiry: AbortOnDropHandle<()>,
}

/// A request that waits.
pub(super) struct Waiting {
    pub(super) flight: Flight,
    pub(super) owner: Owner,
    pub(super) asked: Asked,
    pub(super) place: Place,
}

/// Room for one request, for as long as one may be held.
pub(super) struct Place {
    until: Instant,
    _share: Share,
    _permit: OwnedSemaphorePermit,
}

impl std::fmt::Debug for HeldRequests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldRequests").field("held", &self.table().len()).finish()
    }
}

impl HeldRequests {
    pub(super) fn new(sealer: Arc<Sealer>) -> Self {
        let (places, shares) = (Semaphore::new(MOST), Shares::quarters(Scarce::Inputs, MOST));
        let (table, places) = (Mutex::default(), Arc::new(places));
        Self { sealer, table, places, shares, patience: PATIENCE }
    }

    /// Whether this gateway, or one with its key, made a `requestState`.
    pub(super) fn is_handle(&self, state: &str) -> bool {
        self.sealer.open(PURPOSE, state).is_some()
    }

    /// Room for a request of somebody.
    pub(super) fn place(&self, principal: &Principal) -> Result<Place, Exhausted> {
        let share = self.shares.take(principal)?;
        let permit = Arc::clone(&self.places).try_acquire_owned();
        let full = Exhausted::All { what: Scarce::Inputs, most: MOST };
        let permit = permit.map_err(|_| full)?;
        Ok(Place { until: Instant::now() + self.patience, _share: share, _permit: permit })
    }

    /// Holds a request, and gives the result that asks for its input.
    pub(super) fn hold(self: &Arc<Self>, waiting: Waiting) -> Result<String, NoRandomness> {
        let handle: Box<str> = self.sealer.seal(PURPOSE, random_text()?.as_bytes())?.into();
        let result = input_required(&handle, &waiting.asked);
        let (held, expired, until) = (Arc::downgrade(self), handle.clone(), waiting.place.until);
        // In its own time: what nobody comes back for has a place at its upstream.
        let expiry = tokio::spawn(async move {
            tokio::time::sleep_until(until).await;
            let expired = held.upgrade().and_then(|held| held.table().remove(&expired));
            drop(expired);
        });
        let held = Held { waiting, _expiry: AbortOnDropHandle::new(expiry) };
        self.table().insert(handle, held);
        Ok(result)
    }

    /// Goes on with a request, if the caller's input says with which. An answer that is missing is
    /// asked for again.
    pub(super) fn resume(
        self: &Arc<Self>,
        handle: &str,
        owner: &Owner,
        responses: Option<&RawValue>,
    ) -> Option<Resumed> {
        let Held { waiting, .. } = {
            let mut table = self.table();
            if table.get(handle)?.waiting.owner != *owner {
                return None;
            }
            table.remove(handle)?
        };
        let responses = responses.and_then(|raw| Object::parse(raw).ok()).unwrap_or_default();
        let Some(answer) = responses.find(KEY) else {
            return Some(Resumed::Asked(self.hold(waiting).ok()?));
        };
        let _ = waiting.asked.answer.send(Ok(answer.to_owned()));
        Some(Resumed::Flight(waiting.flight))
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Box<str>, Held>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that goes on.
pub(super) enum Resumed {
    /// It has its answer.
    Flight(Flight),
    /// The answer was not there; the result asks again.
    Asked(String),
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
        .raw("_meta", &format!("{{{}}}", crate::mcp::render::result::MODERN_META));
    result.finish_string()
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use gateway_upstream::Side;

    use super::*;

    fn owner() -> Owner {
        let (claim, subject) = (HeaderClaim::Absent, "t".into());
        Owner { claim, method: Method::CallTool, subject, params: None }
    }

    /// A request that waits, and what hears of its end.
    fn waiting(held: &HeldRequests) -> (Waiting, oneshot::Receiver<()>) {
        let (running, ended) = oneshot::channel::<()>();
        let running = Box::pin(async move {
            let _running = running;
            pending().await
        });
        let flight = Flight { running, meanwhile: Side::open().1 };
        let asked = Asked { method: "m".into(), params: None, answer: oneshot::channel().0 };
        let place = held.place(&None).unwrap();
        (Waiting { flight, owner: owner(), asked, place }, ended)
    }

    fn handle(result: &str) -> String {
        let result: serde_json::Value = serde_json::from_str(result).unwrap();
        result["requestState"].as_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn what_nobody_comes_back_for_ends_in_its_own_time_however_often_it_is_asked_for() {
        let patience = Duration::from_millis(400);
        let held = HeldRequests::new(Arc::new(Sealer::random()));
        let held = Arc::new(HeldRequests { patience, ..held });
        let began = Instant::now();
        let (waiting, ended) = waiting(&held);
        let first = held.hold(waiting).unwrap();
        tokio::time::sleep(patience / 2).await;
        let Some(Resumed::Asked(again)) = held.resume(&handle(&first), &owner(), None) else {
            panic!("it is asked for again")
        };
        assert!(ended.await.is_err());
        assert!((patience..patience * 3 / 2).contains(&began.elapsed()), "{:?}", began.elapsed());
        assert!(held.resume(&handle(&again), &owner(), None).is_none());
        assert_eq!(held.places.available_permits(), MOST);
    }
}
