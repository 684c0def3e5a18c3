//! Compositions of tools and agents: the executor of a registered `spec`.
//!
//! Each call of a composed tool is a [`Run`] of its [`Plan`]. Steps are called through a
//! [`StepRunner`]. The number of calls, the size of values and everything remembered between calls are
//! bounded.

mod breakers;
mod clock;
mod delivery;
mod failure;
mod flow;
mod history;
mod memory;
mod once;
mod plan;
mod recovery;
mod report;
mod resilience;
mod run;
mod runner;
mod saga;
mod sagas;
mod scope;
mod shelf;
mod step;
mod step_error;
#[cfg(test)]
mod tests;

use std::{future::Future, sync::Arc, time::Duration};

use gateway_policy::{Buffered, Exhausted};
use gateway_protocol::{
    content,
    jsonrpc::ObjectWriter,
    mcp::{Era, RawResult, ResultType},
};
use registry_core::{Key, Name, spec::Target};
use serde_json::{Value, value::RawValue};
use tokio::{runtime::Handle, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{breakers::Breakers, memory::Results, once::Once, run::Run};
pub use self::{
    failure::{Cause, Failure},
    history::{End, Status, StepOutcome},
    plan::{Part, Plan},
    recovery::{recover, retry},
    report::Steps,
    runner::{BoxFuture, Owner, Resumed, SagaHost, Step, StepOutput, StepRunner},
    sagas::{NotRetried, SagaDetail, SagaList, Sagas},
    scope::RunScope,
    step_error::{Effects, StepError},
};

/// Time limit for detached work when the gateway stops.
const GRACE: Duration = Duration::from_secs(5);
/// Maximum tool calls of one run, including those of nested compositions.
const CALLS: u32 = 10_000;
/// Maximum items of an array in `mapEach`.
const ITEMS: usize = 10_000;
/// Default number of concurrent items in `mapEach`.
const AT_ONCE: usize = 16;
/// Maximum number of concurrent items, also if the spec sets more.
const MOST_AT_ONCE: usize = 64;

/// The state that compositions keep between calls, and the tasks that run without a caller.
#[derive(Debug, Default)]
pub struct Memory {
    breakers: Breakers,
    results: Results,
    once: Once,
    sagas: Arc<Sagas>,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// The runtime for detached work. `None`: the runtime of the caller.
    runtime: Option<Handle>,
}

impl Memory {
    /// Creates the state. Detached work runs in the current Tokio runtime.
    pub fn new(sagas: Sagas) -> Self {
        Self { sagas: Arc::new(sagas), runtime: Some(Handle::current()), ..Self::default() }
    }

    /// The sagas.
    pub fn sagas(&self) -> &Arc<Sagas> {
        &self.sagas
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        let task = async move {
            stop.run_until_cancelled(task).await;
        };
        match &self.runtime {
            Some(runtime) => self.tasks.spawn_on(task, runtime),
            None => self.tasks.spawn(task),
        };
    }

    /// Waits up to 5 s for detached work to end, then cancels it. Interrupted sagas are compensated
    /// at the next start.
    pub async fn shutdown(&self) {
        self.tasks.close();
        let _ = timeout(GRACE, self.tasks.wait()).await;
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

/// The failure of a composition, and the steps that ran before it.
#[derive(Debug, thiserror::Error)]
#[error("{failure}")]
pub struct Failed {
    /// The failed step and the cause.
    pub failure: Failure,
    /// The steps that ran.
    pub steps: Steps,
}

/// The call of a composed tool.
#[derive(Debug)]
pub struct Call<'a> {
    /// The composed tool.
    pub tool: &'a Key,
    /// Its plan.
    pub plan: &'a Arc<Plan>,
    /// The interface to the tools.
    pub runner: Arc<dyn StepRunner>,
    /// The state that compositions keep between calls.
    pub memory: &'a Arc<Memory>,
    /// The caller.
    pub owner: Owner,
    /// The enclosing run, if the composed tool is a step.
    pub scope: Option<&'a RunScope>,
    /// Maximum size of a result, in bytes.
    pub response_bytes: usize,
    /// The caller's memory for results.
    pub buffered: Option<&'a Arc<Buffered>>,
}

/// Calls a composed tool.
pub async fn call(call: Call<'_>, input: &Value) -> (Result<RawResult, Failure>, Steps) {
    let (most, buffered) = (call.response_bytes, call.buffered.cloned());
    let run = Run::new(call);
    let outcome = run.pattern(run.plan.spec(), "", input).await;
    let steps = run.report.finish();
    let reserve = |bytes| buffered.as_ref().map_or(Ok(()), |buffered| buffered.grow(bytes));
    (outcome.and_then(|value| result_of(&value, most, reserve)), steps)
}

/// Builds the error of a composition whose steps succeeded and whose result the gateway rejected.
pub fn rejected(tool: &Name, error: StepError, steps: Steps) -> Failed {
    let failure = Failure::new("", Cause::Call { tool: Target::Tool(tool.clone()), error });
    Failed { failure, steps }
}

/// Converts a value to a tool result of at most `most` bytes.
fn result_of(
    value: &Value,
    most: usize,
    reserve: impl Fn(usize) -> Result<(), Exhausted>,
) -> Result<RawResult, Failure> {
    let text = value.to_string();
    // The result contains the value twice: as structured content and as text.
    reserve(2 * text.len()).map_err(|why| Failure::new("", Cause::NoMemory(why)))?;
    let mut out = ObjectWriter::with_capacity(256);
    content::say_json(&text, &mut out);
    let result = RawValue::from_string(out.finish_string())
        .map_err(|_| Failure::new("", Cause::Unwritable))?;
    // The limit applies to one of the two copies.
    if result.get().len() / 2 > most {
        return Err(Failure::new("", Cause::TooLarge { most }));
    }
    let (result_type, era) = (ResultType::Absent, Era::Modern);
    Ok(RawResult { result, is_error: false, result_type, has_meta: false, era })
}
