//! The execution graphs of traces, in memory and within limits. With a registry, finished calls are
//! reported to it, so that the graph of a trace has the calls of all gateways.
//!
//! A trace belongs to the account that started it: two accounts with one id have two traces.
//! Callers without an identity have no graphs, because they cannot be distinguished.

mod fleet;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    num::NonZeroU128,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agent_rpc::{
    graph::{Call, Graph, Status, summary},
    help::AgentType,
};
use approval::Principal;
use gateway_protocol::{jsonrpc::Id, trace_context::TraceId};
use registry_core::{Amount, Catalog, Digest, Kind, Name};
use registry_follow::TraceClient;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::fleet::Fleet;
use crate::{clock, reports};

/// The time that a graph is kept after the start of its trace.
const KEPT: Duration = Duration::from_hours(24);
/// Maximum traces of one account.
const OWNER_TRACES: usize = 256;
/// Maximum size of the graphs of one account, in bytes.
const OWNER_BYTES: usize = 4 * 1024 * 1024;
/// Maximum size of all graphs, in bytes.
const BYTES: usize = 64 * 1024 * 1024;
/// Maximum calls of a trace.
const CALLS: usize = 1_000;
/// Maximum size of a stored value, in bytes. Graphs have the digest of a longer one.
const VALUE_BYTES: usize = 64 * 1024;
/// Approximate memory of a call without its texts, in bytes. It includes two digests.
const CALL_BYTES: usize = 768;
/// The agent of compositions.
pub(crate) const GATEWAY: &str = "gateway";
/// The purpose of the digest that becomes the id of a W3C trace.
const W3C: &str = "aio-trace-1";

/// The graphs of all accounts. The oldest traces are removed.
#[derive(Debug, Default)]
pub(crate) struct Graphs {
    stored: Mutex<Stored>,
    /// `None` without a registry.
    fleet: Option<Fleet>,
}

#[derive(Debug, Default)]
struct Stored {
    traces: HashMap<TraceKey, Trace>,
    /// The traces in the order of their starts.
    order: BTreeMap<u64, TraceKey>,
    owners: HashMap<Arc<Principal>, Owned>,
    /// The last number of a trace or a call.
    last_number: u64,
    bytes: usize,
}

/// The traces of one account.
#[derive(Debug, Default)]
struct Owned {
    traces: BTreeSet<u64>,
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TraceKey {
    owner: Arc<Principal>,
    id: Arc<str>,
}

#[derive(Debug)]
struct Trace {
    number: u64,
    started: Instant,
    calls: Vec<StoredCall>,
    /// The ids of the calls.
    ids: HashSet<Box<str>>,
    omitted: u64,
    bytes: usize,
}

#[derive(Debug, Clone)]
struct StoredCall {
    /// The number of the call in this process.
    number: u64,
    call: Call,
}

/// The trace of a request, whose graph has the request and the steps of its compositions.
#[derive(Debug, Clone)]
pub(crate) struct RequestTrace {
    graphs: Arc<Graphs>,
    /// `None`: the caller has no identity.
    owner: Option<Arc<Principal>>,
    id: Arc<str>,
    /// Whether the caller sent the id.
    is_named: bool,
    /// Whether values are stored.
    has_values: bool,
    /// The id of the request as JSON text.
    call: Option<Box<str>>,
}

/// A call at its start.
pub(crate) struct StartedCall<'a> {
    pub(crate) agent: &'a str,
    pub(crate) method: &'a str,
    /// `None`: the caller does not know the agent.
    pub(crate) kind: Option<AgentType>,
    pub(crate) protocol: &'static str,
    /// The parameters as JSON text.
    pub(crate) input: &'a str,
}

/// The place of a call in its graph.
struct CallPlace<'a> {
    /// The id as JSON text.
    id: Option<&'a str>,
    /// The id of the call that runs this step.
    parent: Option<&'a str>,
}

/// The trace has a call with the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdInUse;

/// A running call. Dropping it records a failure without a result.
#[derive(Debug)]
pub(crate) struct RunningCall {
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
#[derive(Clone, Copy)]
pub(crate) struct EndedCall<'a> {
    pub(crate) status: Status,
    /// The result or the error as JSON text.
    pub(crate) output: Option<&'a str>,
    pub(crate) cost: Option<Amount>,
}

/// The end of a call as the graph has it.
struct FinishedCall {
    status: Status,
    /// The result or the error, or its digest.
    output: Option<Box<RawValue>>,
    cost: Option<Amount>,
    took: Duration,
}

/// How an agent is called.
pub(crate) fn agent_type(catalog: &Catalog, agent: &str) -> AgentType {
    let is_agent = Name::parse(Kind::Agent, agent)
        .is_ok_and(|name| !catalog.preferred_versions(Kind::Agent, &name).is_empty());
    if is_agent { AgentType::Http } else { AgentType::Mcp }
}

impl RequestTrace {
    /// The trace of a request of an account. `named`: the caller's id of the trace; without one, it is
    /// generated.
    pub(crate) fn new(
        graphs: &Arc<Graphs>,
        owner: Option<Principal>,
        named: Option<&str>,
        has_values: bool,
    ) -> Self {
        let generated = || Uuid::new_v4().to_string().into();
        // The person of an account can change.
        let owner = owner.map(|owner| Arc::new(Principal { person: None, ..owner }));
        Self {
            graphs: Arc::clone(graphs),
            owner,
            id: named.map_or_else(generated, Arc::from),
            is_named: named.is_some(),
            has_values,
            call: None,
        }
    }

    /// The id of the trace.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether the caller sent the id.
    pub(crate) fn is_named(&self) -> bool {
        self.is_named
    }

    /// The W3C trace of a named one: the same at all gateways. `None`: the call starts its own,
    /// because the trace is new, or another caller could have the same.
    pub(crate) fn w3c(&self) -> Option<TraceId> {
        let owner = self.owner.as_ref().filter(|_| self.is_named)?;
        let identity = serde_json::to_vec(&(W3C, &owner.issuer, &owner.subject, &*self.id)).ok()?;
        let digest = Digest::compute(&identity);
        let (first, _) = digest.as_bytes().split_first_chunk()?;
        NonZeroU128::new(u128::from_be_bytes(*first)).map(TraceId::from)
    }

    /// Adds the running request. Fails if the trace has a call with the id.
    pub(crate) fn begin(
        &mut self,
        id: Option<Id<'_>>,
        call: &StartedCall<'_>,
    ) -> Result<RunningCall, IdInUse> {
        let id = id.map(Id::as_raw);
        self.call = id.map(Box::from);
        self.add(&CallPlace { id, parent: None }, call)
    }

    /// Adds a running step of a composition that the request called.
    pub(crate) fn begin_step(&self, call: &StartedCall<'_>) -> Option<RunningCall> {
        // A step has no id that could be in use.
        self.add(&CallPlace { id: None, parent: self.call.as_deref() }, call).ok()
    }

    fn add(&self, place: &CallPlace<'_>, call: &StartedCall<'_>) -> Result<RunningCall, IdInUse> {
        let (started, has_values) = (Instant::now(), self.has_values);
        let Some(owner) = &self.owner else {
            return Ok(RunningCall { place: None, started, has_values });
        };
        let key = TraceKey { owner: Arc::clone(owner), id: Arc::clone(&self.id) };
        let pending = Call {
            id: raw(place.id.unwrap_or("null")),
            parent: place.parent.map(raw),
            agent: call.agent.to_owned(),
            method: call.method.to_owned(),
            protocol: Some(call.protocol.to_owned()),
            kind: call.kind.map(|kind| kind.as_str().to_owned()),
            // A digest takes time, so that it must not wait for the lock.
            input: shown(has_values, call.input),
            output: None,
            status: Some(Status::Pending),
            cost: None,
            started: Some(clock::timestamp()),
            duration_ms: None,
        };
        let added = self.graphs.lock().begin(&key, place, pending, started)?;
        let graphs = Arc::clone(&self.graphs);
        let place = added.map(|(number, index)| Place { graphs, key, number, index });
        Ok(RunningCall { place, started, has_values })
    }
}

impl Graphs {
    /// Creates the graphs of a gateway whose registry stores finished calls.
    pub(crate) fn in_fleet(client: TraceClient) -> Self {
        Self { fleet: Some(Fleet::new(client)), ..Self::default() }
    }

    /// The graph of a trace of an account, with the calls that the registry has.
    pub(crate) async fn find(&self, owner: Principal, id: &str) -> Option<Graph> {
        let owner = Arc::new(Principal { person: None, ..owner });
        let own = self.own(&owner, id);
        match &self.fleet {
            Some(fleet) => Box::pin(fleet.merge(own, &owner, id)).await,
            None => own.map(|(calls, omitted)| graph(id, calls, omitted)),
        }
    }

    /// The calls of this gateway, and the number of those that the graph omits.
    fn own(&self, owner: &Arc<Principal>, id: &str) -> Option<(Vec<StoredCall>, u64)> {
        let mut stored = self.lock();
        stored.expire(Instant::now());
        let key = TraceKey { owner: Arc::clone(owner), id: id.into() };
        stored.traces.get(&key).map(|trace| (trace.calls.clone(), trace.omitted))
    }

    /// The graphs of all accounts' traces with this id, in the order of their starts. They have the
    /// calls of this gateway.
    pub(crate) fn of_all(&self, id: &str) -> Vec<Graph> {
        let mut stored = self.lock();
        stored.expire(Instant::now());
        let named = stored.order.values().filter(|key| *key.id == *id);
        let traces = named.filter_map(|key| stored.traces.get(key));
        traces.map(|trace| graph(id, trace.calls.clone(), trace.omitted)).collect()
    }

    /// Reports finished calls to the registry until `stop`, and then the rest.
    pub(crate) async fn report(&self, stop: CancellationToken) {
        if let Some(fleet) = &self.fleet {
            reports::run(fleet, stop).await;
        }
    }

    fn finish(&self, place: &Place, outcome: FinishedCall) {
        let finished = self.lock().finish(place, outcome);
        if let (Some(fleet), Some(call)) = (&self.fleet, finished) {
            fleet.add(&place.key, call);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stored {
    /// Adds a call. Returns the number of its trace and its index. `None`: the graph omits it.
    fn begin(
        &mut self,
        key: &TraceKey,
        place: &CallPlace<'_>,
        call: Call,
        now: Instant,
    ) -> Result<Option<(u64, usize)>, IdInUse> {
        self.expire(now);
        let CallPlace { id, parent } = *place;
        let known = self.traces.get(key);
        if known.is_some_and(|trace| id.is_some_and(|id| trace.ids.contains(id))) {
            return Err(IdInUse);
        }
        let (number, count) = match known {
            Some(trace) => (trace.number, trace.calls.len()),
            None => (self.add(key, now), 0),
        };
        let id_bytes = 2 * id.map_or(0, str::len) + parent.map_or(0, str::len);
        let texts = id_bytes + call.agent.len() + call.method.len() + call.input.get().len();
        let is_full = count >= CALLS || !self.reserve(key, CALL_BYTES + texts);
        let call_number = self.next_number();
        let Some(trace) = self.traces.get_mut(key) else { return Ok(None) };
        if is_full {
            trace.omitted += 1;
            return Ok(None);
        }
        trace.ids.extend(id.map(Box::from));
        trace.calls.push(StoredCall { number: call_number, call });
        Ok(Some((number, count)))
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Adds an empty trace, and removes the oldest one of an account with too many.
    fn add(&mut self, key: &TraceKey, started: Instant) -> u64 {
        let number = self.next_number();
        let owned = self.owners.entry(Arc::clone(&key.owner)).or_default();
        owned.traces.insert(number);
        let oldest = owned.traces.first().copied().filter(|_| owned.traces.len() > OWNER_TRACES);
        if let Some(oldest) = oldest {
            self.remove(oldest);
        }
        let (calls, ids) = (Vec::new(), HashSet::new());
        let trace = Trace { number, started, calls, ids, omitted: 0, bytes: 0 };
        self.traces.insert(key.clone(), trace);
        self.order.insert(number, key.clone());
        // Its own memory: three copies of the key, which share their texts.
        let account = key.owner.issuer.len() + key.owner.subject.len();
        self.reserve(key, CALL_BYTES + key.id.len() + account);
        number
    }

    /// Reserves memory of a trace. Older traces of its account are removed, then those of others.
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

    /// Ends a call and returns it. `None`: its trace was removed.
    fn finish(&mut self, place: &Place, outcome: FinishedCall) -> Option<StoredCall> {
        let FinishedCall { status, mut output, cost, took } = outcome;
        if self.traces.get(&place.key).is_none_or(|trace| trace.number != place.number) {
            return None;
        }
        // Digests are part of the memory of a call.
        let value = output.as_ref().filter(|output| output.get().len() > CALL_BYTES);
        if value.is_some_and(|value| !self.reserve(&place.key, value.get().len())) {
            output = output.map(|value| summary(value.get()));
        }
        let stored = self.traces.get_mut(&place.key)?.calls.get_mut(place.index)?;
        let call = &mut stored.call;
        call.output = output;
        call.status = Some(status);
        call.cost = cost;
        call.duration_ms = Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        Some(stored.clone())
    }
}

fn graph(id: &str, calls: Vec<StoredCall>, omitted_calls: u64) -> Graph {
    let calls = calls.into_iter().map(|stored| stored.call).collect();
    Graph { trace_id: id.to_owned(), calls, omitted_calls, incomplete: false }
}

impl RunningCall {
    /// Ends the call.
    pub(crate) fn finish(mut self, call: EndedCall<'_>) {
        self.end(call);
    }

    fn end(&mut self, call: EndedCall<'_>) {
        if let Some(place) = self.place.take() {
            let EndedCall { status, output, cost } = call;
            let took = self.started.elapsed();
            // Before the lock, because a digest takes time.
            let output = output.map(|output| shown(self.has_values, output));
            place.graphs.finish(&place, FinishedCall { status, output, cost, took });
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
