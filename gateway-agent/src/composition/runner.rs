//! The interface through which compositions call tools and agents, and learn about callers.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use gateway_policy::{HeaderClaim, Outcome, Principal};
use gateway_protocol::mcp::RawResult;
use registry_core::{
    Catalog, Key,
    spec::{Saga, Target},
};
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::{Plan, RunScope, Steps};

/// A boxed future; compositions nest.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Calls tools and agents on behalf of one caller.
pub(crate) trait StepRunner: fmt::Debug + Send + Sync {
    /// Runs a step to its end: authorization, validation, the call and its audit.
    fn run<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, StepOutput>;

    /// Reports the progress of the run to its caller.
    fn progress(&self, finished: u32, message: &str);

    /// Returns a runner for work that continues without the caller.
    fn detached(&self) -> Arc<dyn StepRunner>;
}

/// The call of a tool or agent.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) target: &'a Target,
    pub(crate) arguments: Box<RawValue>,
    /// The enclosing runs, which share their limits.
    pub(crate) scope: &'a RunScope,
}

/// The output of a step, and its own steps if it was a composition.
#[derive(Debug)]
pub(crate) struct StepOutput {
    pub(crate) result: Result<RawResult, StepError>,
    pub(crate) steps: Option<Steps>,
}

/// The failure of a call.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{detail}")]
pub struct StepError {
    /// The outcome in the audit.
    pub outcome: Outcome,
    /// The message for callers.
    pub message: String,
    /// The message for logs.
    pub detail: String,
    /// The side effects of the call.
    pub effects: Effects,
    /// The time after which a retry can succeed, if the call had no effects.
    pub retry_after: Option<Duration>,
    /// Whether the tool succeeded and the gateway rejected its result.
    pub rejects_result: bool,
}

/// The side effects of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effects {
    /// No lasting effects.
    None,
    /// Effects that are known to have happened.
    Committed,
    /// Effects that may have happened.
    Unknown,
}

/// The caller that a run acts for.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    pub(crate) claim: HeaderClaim,
    pub(crate) principal: Principal,
}

/// Prepares the compensation of interrupted sagas.
pub(crate) trait SagaHost: fmt::Debug + Send + Sync {
    /// Finds a composition that is registered, even if retired, and usable. Returns `None` until the
    /// catalog has it and everything that it uses.
    fn find(&self, tool: &Key, pointer: &str, claim: &HeaderClaim) -> Option<Resumed>;

    /// The catalog.
    fn catalog(&self) -> watch::Receiver<Arc<Catalog>>;

    /// Whether the gateway has a catalog.
    fn has_catalog(&self) -> bool;

    /// Whether a server has a target and that target is reachable. A server without a target counts as
    /// reachable: waiting does not help.
    fn is_reachable(&self, server: &Key) -> bool;
}

/// An interrupted saga, ready for its compensation.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) plan: Arc<Plan>,
    pub(crate) saga: Arc<Saga>,
    pub(crate) runner: Arc<dyn StepRunner>,
    pub(crate) owner: Owner,
    /// The servers and agents that the composition calls.
    pub(crate) servers: Vec<Key>,
    /// Maximum size of a result, in bytes.
    pub(crate) response_bytes: usize,
}
