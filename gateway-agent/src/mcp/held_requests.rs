//! Requests of stateless clients that are held for input: an upstream with sessions sends a
//! question during a call, and the call waits until the client repeats its request with the answer.
//!
//! The client receives a handle as `requestState`. It is valid once, for the same caller and the
//! same parameters, until the request expires. Handles are sealed: a `requestState` that this
//! gateway's key cannot decrypt belongs to the upstream, which can be another gateway. The client
//! must return to the gateway that holds the call.

use std::{
    collections::HashMap,
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::FutureExt as _;
use gateway_policy::{CallerIdentity, QuotaExceeded, QuotaGuard, QuotaKey, QuotaKind, Quotas};
use gateway_protocol::{
    jsonrpc::{Object, ObjectWriter},
    mcp::Method,
};
use gateway_upstream::ClientAnswer;
use registry_core::Digest;
use serde_json::value::RawValue;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::Instant,
};
use tokio_util::task::AbortOnDropHandle;

use super::exchange::PendingCall;
use crate::{
    random::{NoRandomness, random_text},
    seal::Sealer,
};

/// Maximum number of held requests.
const MAX_HELD: usize = 1_000;
/// Maximum time that a request is held.
const TIMEOUT: Duration = Duration::from_mins(10);
/// The purpose of sealed handles.
const PURPOSE: &[u8] = b"held-request-1";
/// The name of the only question in `inputRequests`.
const KEY: &str = "input";

/// The identity of a request. Only an identical request can continue it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) claim: Arc<CallerIdentity>,
    pub(super) method: Method,
    pub(super) subject: Arc<str>,
    /// The digest of the parameters. `None` for requests that are never held.
    pub(super) params: Option<Digest>,
}

#[derive(Debug)]
pub(super) struct PendingQuestion {
    pub(super) method: Box<str>,
    pub(super) params: Option<Box<RawValue>>,
    pub(super) answer: oneshot::Sender<ClientAnswer>,
}

pub(super) struct HeldRequests {
    sealer: Arc<Sealer>,
    table: Mutex<HashMap<Box<str>, HeldEntry>>,
    places: Arc<Semaphore>,
    shares: Arc<Quotas>,
    timeout: Duration,
}

struct HeldEntry {
    waiting: HeldRequest,
    _expiry: AbortOnDropHandle<()>,
}

pub(super) struct HeldRequest {
    pub(super) pending: PendingCall,
    pub(super) owner: Owner,
    pub(super) question: PendingQuestion,
    pub(super) place: HeldSlot,
}

/// A reserved slot. The request expires with it.
pub(super) struct HeldSlot {
    until: Instant,
    _share: QuotaGuard,
    _permit: OwnedSemaphorePermit,
}

impl std::fmt::Debug for HeldRequests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldRequests").field("held", &self.table().len()).finish()
    }
}

impl HeldRequests {
    pub(super) fn new(sealer: Arc<Sealer>) -> Self {
        let (places, shares) = (Semaphore::new(MAX_HELD), Quotas::new(QuotaKind::Inputs, MAX_HELD));
        let (table, places) = (Mutex::default(), Arc::new(places));
        Self { sealer, table, places, shares, timeout: TIMEOUT }
    }

    /// Whether this gateway, or one with the same key, created a `requestState`.
    pub(super) fn is_handle(&self, state: &str) -> bool {
        self.sealer.open(PURPOSE, state).is_some()
    }

    /// Reserves a slot for a caller.
    pub(super) fn place(&self, principal: &QuotaKey) -> Result<HeldSlot, QuotaExceeded> {
        let share = self.shares.acquire(principal)?;
        let permit = Arc::clone(&self.places).try_acquire_owned();
        let full = QuotaExceeded::Total { kind: QuotaKind::Inputs, limit: MAX_HELD };
        let permit = permit.map_err(|_| full)?;
        Ok(HeldSlot { until: Instant::now() + self.timeout, _share: share, _permit: permit })
    }

    /// Holds a request, and returns the result that asks the client for input.
    pub(super) fn hold(self: &Arc<Self>, waiting: HeldRequest) -> Result<String, NoRandomness> {
        let handle: Box<str> = self.sealer.seal(PURPOSE, random_text()?.as_bytes())?.into();
        let result = input_required(&handle, &waiting.question);
        let (held, expired, until) = (Arc::downgrade(self), handle.clone(), waiting.place.until);
        // An expired request must release its place at the upstream, even if the client never
        // returns.
        let expiry = tokio::spawn(async move {
            tokio::time::sleep_until(until).await;
            let expired = held.upgrade().and_then(|held| held.table().remove(&expired));
            drop(expired);
        });
        let held = HeldEntry { waiting, _expiry: AbortOnDropHandle::new(expiry) };
        self.table().insert(handle, held);
        Ok(result)
    }

    /// Continues a held request with the answers of the client. Without the answer, asks again.
    pub(super) fn resume(
        self: &Arc<Self>,
        handle: &str,
        owner: &Owner,
        responses: Option<&RawValue>,
    ) -> Option<ResumedRequest> {
        let HeldEntry { waiting, .. } = {
            let mut table = self.table();
            if table.get(handle)?.waiting.owner != *owner {
                return None;
            }
            table.remove(handle)?
        };
        let responses = responses.and_then(|raw| Object::parse(raw).ok()).unwrap_or_default();
        let Some(answer) = responses.find(KEY) else {
            return Some(ResumedRequest::PendingQuestion(self.hold(waiting).ok()?));
        };
        let HeldRequest { mut pending, question, .. } = waiting;
        // Held requests are not polled. A new policy may have ended this one, and its question must
        // stay unanswered then.
        match (&mut pending.running).now_or_never() {
            Some(ended) => pending.running = Box::pin(ready(ended)),
            None => drop(question.answer.send(Ok(answer.to_owned()))),
        }
        Some(ResumedRequest::PendingCall(pending))
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Box<str>, HeldEntry>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) enum ResumedRequest {
    /// The request has its answer.
    PendingCall(PendingCall),
    /// The answer was missing; the result repeats the question.
    PendingQuestion(String),
}

fn input_required(handle: &str, question: &PendingQuestion) -> String {
    let mut request = ObjectWriter::with_capacity(256);
    request.string("method", &question.method);
    request.raw("params", question.params.as_deref().map_or("{}", RawValue::get));
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

    use gateway_upstream::ClientChannel;

    use super::*;

    fn owner() -> Owner {
        let (claim, subject) = (Arc::new(CallerIdentity::Anonymous), "t".into());
        Owner { claim, method: Method::CallTool, subject, params: None }
    }

    /// A held request, and a receiver that observes its end.
    fn waiting(held: &HeldRequests) -> (HeldRequest, oneshot::Receiver<()>) {
        let (running, ended) = oneshot::channel::<()>();
        let running = Box::pin(async move {
            let _running = running;
            pending().await
        });
        let pending = PendingCall { running, meanwhile: ClientChannel::open().1 };
        let question =
            PendingQuestion { method: "m".into(), params: None, answer: oneshot::channel().0 };
        let place = held.place(&None).unwrap();
        (HeldRequest { pending, owner: owner(), question, place }, ended)
    }

    fn handle(result: &str) -> String {
        let result: serde_json::Value = serde_json::from_str(result).unwrap();
        result["requestState"].as_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn held_request_expires_despite_repeated_questions() {
        let timeout = Duration::from_millis(400);
        let held = HeldRequests::new(Arc::new(Sealer::random()));
        let held = Arc::new(HeldRequests { timeout, ..held });
        let began = Instant::now();
        let (waiting, ended) = waiting(&held);
        let first = held.hold(waiting).unwrap();
        tokio::time::sleep(timeout / 2).await;
        let Some(ResumedRequest::PendingQuestion(again)) =
            held.resume(&handle(&first), &owner(), None)
        else {
            panic!("the question is repeated")
        };
        assert!(ended.await.is_err());
        assert!((timeout..timeout * 3 / 2).contains(&began.elapsed()), "{:?}", began.elapsed());
        assert!(held.resume(&handle(&again), &owner(), None).is_none());
        assert_eq!(held.places.available_permits(), MAX_HELD);
    }
}
