//! The execution graphs of traces, in memory and within limits, and `GET /traces/{trace_id}`.
//!
//! A trace belongs to the principal that started it: two principals with one id have two traces.
//! Callers without an identity have no graphs, because they cannot be distinguished.

mod page;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    num::NonZeroU128,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agent_rpc::graph::{Call, Graph, Status, summary};
use gateway_protocol::{jsonrpc::Id, trace_context::TraceId};
use registry_core::{Amount, Digest};
use serde_json::value::RawValue;
use tokio::time::Instant;
use uuid::Uuid;

pub(super) use self::page::{ROUTE, receive};
use crate::{
    clock,
    identity::authenticator::Authentication,
    pipeline::{Gateway, TaskOwner},
};

/// The time that a graph is kept after the start of its trace.
const KEPT: Duration = Duration::from_hours(24);
/// Maximum traces of one principal.
const OWNER_TRACES: usize = 256;
/// Maximum size of the graphs of one principal, in bytes.
const OWNER_BYTES: usize = 4 * 1024 * 1024;
/// Maximum size of all graphs, in bytes.
const BYTES: usize = 64 * 1024 * 1024;
/// Maximum calls of a trace.
const CALLS: usize = 1_000;
/// Maximum size of a stored value, in bytes. Graphs have the digest of a longer one.
const VALUE_BYTES: usize = 64 * 1024;
/// Approximate memory of a call without its texts, in bytes. It includes two digests.
const CALL_BYTES: usize = 768;
/// The purpose of the digest that becomes the id of a W3C trace.
const W3C: &str = "aio-trace-1";

/// The graphs of all principals. The oldest traces are removed.
#[derive(Debug, Default)]
pub(crate) struct Graphs(Mutex<Stored>);

#[derive(Debug, Default)]
struct Stored {
    traces: HashMap<TraceKey, Trace>,
    /// The traces in the order of their starts.
    order: BTreeMap<u64, TraceKey>,
    owners: HashMap<TaskOwner, Owned>,
    started: u64,
    bytes: usize,
}

/// The traces of one principal.
#[derive(Debug, Default)]
struct Owned {
    traces: BTreeSet<u64>,
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TraceKey {
    owner: TaskOwner,
    id: Arc<str>,
}

#[derive(Debug)]
struct Trace {
    number: u64,
    started: Instant,
    calls: Vec<Call>,
    /// The ids of the calls.
    ids: HashSet<Box<str>>,
    omitted: u64,
    bytes: usize,
}

/// The trace of a request.
#[derive(Debug, Clone)]
pub(super) struct RequestTrace {
    /// The principal. `None`: the caller has no identity.
    pub(super) owner: Option<TaskOwner>,
    /// The id of the trace, which the gateway generates if the caller has none.
    pub(super) id: Arc<str>,
    /// Whether the caller sent the id.
    pub(super) is_named: bool,
}

/// A call at its start.
pub(super) struct StartedCall<'a> {
    pub(super) id: Option<Id<'a>>,
    pub(super) agent: &'a str,
    pub(super) method: &'a str,
    pub(super) kind: &'static str,
    pub(super) protocol: &'static str,
    /// The parameters as JSON text.
    pub(super) input: &'a str,
    /// Whether values are stored.
    pub(super) has_values: bool,
}

/// The trace has a call with the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IdInUse;

/// A running call. Dropping it records a failure without a result.
#[derive(Debug)]
pub(super) struct RunningCall {
    /// `None`: the graph omits the call, or there is none.
    place: Option<Place>,
    started: Instant,
    has_values: bool,
}

#[derive(Debug)]
struct Place {
    graphs: Arc<Graphs>,
    key: TraceKey,
    number: u64,
    index: usize,
}

/// The end of a call.
pub(super) struct EndedCall<'a> {
    pub(super) status: Status,
    /// The result or the error as JSON text.
    pub(super) output: Option<&'a str>,
    pub(super) cost: Option<Amount>,
}

impl RequestTrace {
    /// The trace of a caller's request.
    pub(super) fn new(gateway: &Gateway, caller: &Authentication, named: Option<&str>) -> Self {
        let generated = || Uuid::new_v4().to_string().into();
        let id = named.map_or_else(generated, Arc::from);
        let owner = TaskOwner::of(gateway, &caller.claim);
        Self { owner, id, is_named: named.is_some() }
    }

    /// The W3C trace of a named one: the same at all gateways. `None`: the call starts its own,
    /// because the trace is new, or another caller could have the same.
    pub(super) fn w3c(&self) -> Option<TraceId> {
        let owner = self.owner.as_ref().filter(|_| self.is_named)?;
        let identity = serde_json::to_vec(&(W3C, owner, &*self.id)).ok()?;
        let digest = Digest::compute(&identity);
        let (first, _) = digest.as_bytes().split_first_chunk()?;
        NonZeroU128::new(u128::from_be_bytes(*first)).map(TraceId::from)
    }

    fn key(&self) -> Option<TraceKey> {
        Some(TraceKey { owner: self.owner?, id: Arc::clone(&self.id) })
    }
}

impl Graphs {
    /// Adds a running call to its trace. Fails if the trace has a call with the id.
    pub(super) fn begin(
        self: &Arc<Self>,
        trace: &RequestTrace,
        call: &StartedCall<'_>,
    ) -> Result<RunningCall, IdInUse> {
        let started = Instant::now();
        let place = match trace.key() {
            Some(key) => self.lock().begin(&key, call, started)?.map(|(number, index)| Place {
                graphs: Arc::clone(self),
                key,
                number,
                index,
            }),
            None => None,
        };
        Ok(RunningCall { place, started, has_values: call.has_values })
    }

    /// The graph of a principal's trace.
    pub(super) fn find(&self, owner: TaskOwner, id: &str) -> Option<Graph> {
        let mut stored = self.lock();
        stored.expire(Instant::now());
        let key = TraceKey { owner, id: id.into() };
        stored.traces.get(&key).map(|trace| trace.graph(id))
    }

    /// The graphs of all principals' traces with this id, in the order of their starts.
    pub(crate) fn of_all(&self, id: &str) -> Vec<Graph> {
        let mut stored = self.lock();
        stored.expire(Instant::now());
        let named = stored.order.values().filter(|key| *key.id == *id);
        named.filter_map(|key| Some(stored.traces.get(key)?.graph(id))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stored {
    /// Adds a call. Returns the number of its trace and its index. `None`: the graph omits it.
    fn begin(
        &mut self,
        key: &TraceKey,
        call: &StartedCall<'_>,
        now: Instant,
    ) -> Result<Option<(u64, usize)>, IdInUse> {
        self.expire(now);
        let id = call.id.map(Id::as_raw);
        let known = self.traces.get(key);
        if known.is_some_and(|trace| id.is_some_and(|id| trace.ids.contains(id))) {
            return Err(IdInUse);
        }
        let (number, count) = match known {
            Some(trace) => (trace.number, trace.calls.len()),
            None => (self.add(key, now), 0),
        };
        let input = shown(call.has_values, call.input);
        let id_bytes = 2 * id.map_or(0, str::len);
        let texts = id_bytes + call.agent.len() + call.method.len() + input.get().len();
        let is_full = count >= CALLS || !self.reserve(key, CALL_BYTES + texts);
        let Some(trace) = self.traces.get_mut(key) else { return Ok(None) };
        if is_full {
            trace.omitted += 1;
            return Ok(None);
        }
        trace.ids.extend(id.map(Box::from));
        trace.calls.push(Call {
            id: raw(id.unwrap_or("null")),
            agent: call.agent.to_owned(),
            method: call.method.to_owned(),
            protocol: Some(call.protocol.to_owned()),
            kind: Some(call.kind.to_owned()),
            input,
            output: None,
            status: Some(Status::Pending),
            cost: None,
            started: Some(clock::timestamp()),
            duration_ms: None,
        });
        Ok(Some((number, count)))
    }

    /// Adds an empty trace, and removes the oldest one of a principal with too many.
    fn add(&mut self, key: &TraceKey, started: Instant) -> u64 {
        self.started += 1;
        let number = self.started;
        let owned = self.owners.entry(key.owner).or_default();
        owned.traces.insert(number);
        let oldest = owned.traces.first().copied().filter(|_| owned.traces.len() > OWNER_TRACES);
        if let Some(oldest) = oldest {
            self.remove(oldest);
        }
        let (calls, ids) = (Vec::new(), HashSet::new());
        let trace = Trace { number, started, calls, ids, omitted: 0, bytes: 0 };
        self.traces.insert(key.clone(), trace);
        self.order.insert(number, key.clone());
        // Its own memory: three copies of the key.
        self.reserve(key, CALL_BYTES + key.id.len());
        number
    }

    /// Reserves memory of a trace. Older traces of its principal are removed, then those of others.
    /// Returns whether there is room.
    fn reserve(&mut self, key: &TraceKey, bytes: usize) -> bool {
        let Some(number) = self.traces.get(key).map(|trace| trace.number) else { return false };
        loop {
            let Some(owned) = self.owners.get(&key.owner) else { return false };
            let oldest = if owned.bytes + bytes > OWNER_BYTES {
                owned.traces.first().copied()
            } else if self.bytes + bytes > BYTES {
                self.order.keys().next().copied()
            } else {
                break;
            };
            match oldest.filter(|oldest| *oldest != number) {
                Some(oldest) => self.remove(oldest),
                None => return false,
            }
        }
        self.bytes += bytes;
        if let Some(owned) = self.owners.get_mut(&key.owner) {
            owned.bytes += bytes;
        }
        if let Some(trace) = self.traces.get_mut(key) {
            trace.bytes += bytes;
        }
        true
    }

    fn remove(&mut self, number: u64) {
        let Some(key) = self.order.remove(&number) else { return };
        let bytes = self.traces.remove(&key).map_or(0, |trace| trace.bytes);
        self.bytes -= bytes;
        let Some(owned) = self.owners.get_mut(&key.owner) else { return };
        owned.traces.remove(&number);
        owned.bytes -= bytes;
        if owned.traces.is_empty() {
            self.owners.remove(&key.owner);
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some((&oldest, key)) = self.order.first_key_value() {
            let is_over = |trace: &Trace| now.saturating_duration_since(trace.started) >= KEPT;
            if !self.traces.get(key).is_none_or(is_over) {
                return;
            }
            self.remove(oldest);
        }
    }

    fn finish(&mut self, place: &Place, call: EndedCall<'_>, has_values: bool, took: Duration) {
        let EndedCall { status, output, cost } = call;
        if self.traces.get(&place.key).is_none_or(|trace| trace.number != place.number) {
            return;
        }
        let mut output = output.map(|output| shown(has_values, output));
        // Digests are part of the memory of a call.
        let value = output.as_ref().filter(|output| output.get().len() > CALL_BYTES);
        if value.is_some_and(|value| !self.reserve(&place.key, value.get().len())) {
            output = output.map(|value| summary(value.get()));
        }
        let trace = self.traces.get_mut(&place.key);
        let Some(call) = trace.and_then(|trace| trace.calls.get_mut(place.index)) else { return };
        call.output = output;
        call.status = Some(status);
        call.cost = cost;
        call.duration_ms = Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    }
}

impl Trace {
    fn graph(&self, id: &str) -> Graph {
        let (trace_id, calls) = (id.to_owned(), self.calls.clone());
        Graph { trace_id, calls, omitted_calls: self.omitted }
    }
}

impl RunningCall {
    /// Ends the call.
    pub(super) fn finish(mut self, call: EndedCall<'_>) {
        self.end(call);
    }

    fn end(&mut self, call: EndedCall<'_>) {
        if let Some(place) = self.place.take() {
            let took = self.started.elapsed();
            place.graphs.lock().finish(&place, call, self.has_values, took);
        }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.end(EndedCall { status: Status::Error, output: None, cost: None });
    }
}

/// A value, or its digest and size.
fn shown(has_values: bool, value: &str) -> Box<RawValue> {
    if has_values && value.len() <= VALUE_BYTES { raw(value) } else { summary(value) }
}

/// JSON text, or its digest if it is none.
fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap_or_else(|_| summary(text))
}
