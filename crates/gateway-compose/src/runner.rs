//! The interface through which compositions call tools and agents, and learn about callers.

use std::{fmt, pin::Pin, sync::Arc};

use gateway_policy::{CallerIdentity, QuotaKey};
use gateway_protocol::mcp::RawResult;
use registry_core::{
    Catalog, Key, Revision,
    spec::{Saga, Target},
};
use serde_json::value::RawValue;
use tokio::sync::watch;

use crate::{Plan, RunScope, StepError, Steps};

/// A boxed future; compositions nest.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Calls tools and agents on behalf of one caller.
pub trait StepRunner: fmt::Debug + Send + Sync {
    /// Runs a step to its end: authorization, validation, the call and its audit.
    fn run<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, StepOutput>;

    /// Checks that policies allow the caller to receive a stored result. Records a denial.
    fn authorize_stored(&self, origin: &ResultOrigin, scope: &RunScope) -> Result<(), StepError>;

    /// Whether policies allow the caller to receive a cached result. Records no denial: otherwise the
    /// steps run again.
    fn may_reuse(&self, origin: &ResultOrigin, scope: &RunScope) -> bool;

    /// Reports to the caller of the run that a step finished.
    fn progress(&self, finished: u32, at: &str, outcome: &str);

    /// Returns a runner for work that continues without the caller.
    fn detached(&self) -> Arc<dyn StepRunner>;
}

/// The call of a tool or agent.
#[derive(Debug)]
pub struct Step<'a> {
    /// The tool or agent.
    pub target: &'a Target,
    /// The arguments.
    pub arguments: Box<RawValue>,
    /// The enclosing runs, which share their limits.
    pub scope: &'a RunScope,
}

/// The output of a step, and its own steps if it was a composition.
#[derive(Debug)]
pub struct StepOutput {
    /// The result.
    pub result: Result<RawResult, StepError>,
    /// The steps, if the tool is a composition.
    pub steps: Option<Steps>,
}

/// The run that produced a stored result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultOrigin {
    /// The composition.
    pub tool: Key,
    /// The JSON Pointer of the pattern in its spec.
    pub pointer: String,
    /// The caller.
    pub identity: CallerIdentity,
    /// The revision of the catalog at the start of its call.
    pub revision: Revision,
}

/// The caller that a run acts for.
#[derive(Debug, Clone)]
pub struct RunOwner {
    /// The identity of the caller.
    pub identity: CallerIdentity,
    /// The key of the quotas that the run uses.
    pub quota_key: QuotaKey,
    /// The revision of the catalog at the start of the call.
    pub revision: Revision,
}

/// Prepares the compensation of interrupted sagas.
pub trait SagaHost: fmt::Debug + Send + Sync {
    /// Finds a composition that is registered, even if retired, and usable. Returns `None` until the
    /// catalog has it and everything that it uses.
    fn find(&self, tool: &Key, pointer: &str, identity: &CallerIdentity) -> Option<ResumedSaga>;

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
pub struct ResumedSaga {
    /// The plan of the composition.
    pub plan: Arc<Plan>,
    /// The saga in it.
    pub saga: Arc<Saga>,
    /// The interface to the tools.
    pub runner: Arc<dyn StepRunner>,
    /// The caller of the interrupted run.
    pub owner: RunOwner,
    /// The servers and agents that the composition calls.
    pub servers: Vec<Key>,
    /// Maximum size of a result, in bytes.
    pub response_bytes: usize,
}
