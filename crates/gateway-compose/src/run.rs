//! One run of a composition: its caller, its limits and its values.

use std::sync::{
    Arc, MutexGuard, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use gateway_policy::{BufferReservation, QuotaExceeded};
use gateway_protocol::content;
use registry_core::{
    Key,
    spec::{
        Binding, Operation, Spec, Target,
        eval::{self, BindingContext, Budget},
    },
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    BoxFuture, Cause, CompositionCall, CompositionState, Failure, Plan, ResultOrigin, RunOwner,
    RunScope, StepRunner,
    limits::MAX_CALLS,
    report::Report,
    sagas::{SagaCompletion, all_ended},
    scope::{Requests, TimeLimit},
};

/// Patterns nest, so the future is boxed.
pub(super) type StepFuture<'a> = BoxFuture<'a, Result<Value, Failure>>;

/// Maximum bytes of all results of a run, as a multiple of the maximum size of one result.
const MAX_RESULTS: usize = 4;

/// One run of a composition.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) key: Key,
    pub(super) plan: Arc<Plan>,
    pub(super) runner: Arc<dyn StepRunner>,
    state: Arc<CompositionState>,
    pub(super) owner: RunOwner,
    pub(super) report: Arc<Report>,
    pub(super) scope: RunScope,
    finished: Arc<AtomicU32>,
    /// Maximum size of a result, in bytes.
    response_bytes: usize,
    /// Memory reservation for the values of the innermost pattern.
    values: Option<Arc<BufferReservation>>,
}

impl Run {
    pub(super) fn new(call: CompositionCall<'_>) -> Arc<Self> {
        let requests = Requests::within(call.scope);
        let scope = RunScope { requests, ..call.scope.cloned().unwrap_or_default() };
        Arc::new(Self {
            key: call.tool.clone(),
            plan: Arc::clone(call.plan),
            runner: call.runner,
            state: Arc::clone(call.state),
            owner: call.owner,
            report: Arc::default(),
            scope,
            finished: Arc::default(),
            response_bytes: call.response_bytes,
            values: call.buffered.map(|buffered| buffered.part()),
        })
    }

    /// Returns this run with an empty memory reservation for values.
    fn with_own_values(&self) -> Arc<Self> {
        let values = self.values.as_ref().map(|values| values.part());
        Arc::new(Self { values, ..self.clone() })
    }

    /// Reserves memory for a value until the innermost pattern ends.
    pub(super) fn reserve(&self, bytes: usize) -> Result<(), QuotaExceeded> {
        self.values.as_ref().map_or(Ok(()), |values| values.reserve(bytes))
    }

    /// Returns this run inside a saga.
    pub(super) fn within_saga(&self, saga: &str) -> Arc<Self> {
        let scope = RunScope { saga: Some(saga.into()), ..self.scope.clone() };
        Arc::new(Self { scope, ..self.clone() })
    }

    /// Registers a saga, which compensates its steps once it is cancelled.
    pub(super) fn register_saga(&self, cancel: &CancellationToken, ended: &SagaCompletion) {
        let mut sagas = self.sagas();
        sagas.retain(|(_, ended)| ended.borrow().is_none());
        sagas.push((cancel.clone(), ended.clone()));
    }

    /// Waits until the cancelled sagas are compensated. The next operation may repeat their
    /// actions, so it must not start earlier.
    pub(super) async fn await_compensations(&self) {
        let is_cancelled =
            |(cancel, _): &&(CancellationToken, SagaCompletion)| cancel.is_cancelled();
        let cancelled =
            self.sagas().iter().filter(is_cancelled).map(|(_, ended)| ended.clone()).collect();
        all_ended(cancelled).await;
    }

    /// Whether the run has sent a request. A cancelled saga that has not ended may send one yet.
    pub(super) fn has_sent(&self) -> bool {
        let may_send = |(cancel, ended): &(CancellationToken, SagaCompletion)| {
            cancel.is_cancelled() && ended.borrow().is_none()
        };
        !self.scope.requests.is_empty() || self.sagas().iter().any(may_send)
    }

    fn sagas(&self) -> MutexGuard<'_, Vec<(CancellationToken, SagaCompletion)>> {
        self.scope.budget.sagas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns this run inside a new time limit.
    pub(super) fn with_time_limit(&self) -> (Arc<Self>, Arc<TimeLimit>) {
        let outer = self.scope.limit.clone();
        let limit = Arc::new(TimeLimit { outer, ..TimeLimit::default() });
        let scope = RunScope { limit: Some(Arc::clone(&limit)), ..self.scope.clone() };
        (Arc::new(Self { scope, ..self.clone() }), limit)
    }

    /// Returns why operations of this run are cancelled: a time limit has passed, or the caller
    /// cancelled.
    pub(super) fn cancellation_cause(&self) -> Cause {
        let passed = self.scope.limit.as_ref().and_then(|limit| limit.passed_ms());
        passed.map_or(Cause::Cancelled, |after_ms| Cause::Timeout { after_ms, message: None })
    }

    /// Returns this run with an unused budget and without time limits.
    pub(super) fn for_compensation(&self) -> Arc<Self> {
        let scope = RunScope {
            budget: Arc::default(),
            limit: None,
            is_compensation: true,
            ..self.scope.clone()
        };
        Arc::new(Self { scope, ..self.clone() })
    }

    pub(super) fn operate<'a>(
        self: &'a Arc<Self>,
        operation: &'a Operation,
        at: &'a str,
        input: &'a Value,
    ) -> StepFuture<'a> {
        match operation {
            Operation::Call(target) => Box::pin(self.call(target, at, input)),
            Operation::Pattern(spec) => self.pattern(spec, at, input),
        }
    }

    /// Runs a pattern. Only the memory for its result stays reserved afterwards.
    pub(super) fn pattern<'a>(
        self: &'a Arc<Self>,
        spec: &'a Spec,
        at: &'a str,
        input: &'a Value,
    ) -> StepFuture<'a> {
        Box::pin(async move {
            let run = self.with_own_values();
            let value = run.run_pattern(spec, at, input).await?;
            drop(run);
            let reserved = self.reserve(content::value_bytes(&value));
            reserved.map_err(|why| Failure::new(at, Cause::BufferLimit(why)))?;
            Ok(value)
        })
    }

    fn run_pattern<'a>(
        self: &'a Arc<Self>,
        spec: &'a Spec,
        at: &'a str,
        input: &'a Value,
    ) -> StepFuture<'a> {
        match spec {
            Spec::Pipeline(pipeline) => Box::pin(self.pipeline(pipeline, at, input)),
            Spec::ScatterGather(scatter) => Box::pin(self.scatter(scatter, at, input)),
            Spec::Filter(filter) => Box::pin(async move {
                filter
                    .apply(input.clone(), &mut self.eval_budget())
                    .map_err(|error| Failure::evaluation(at, "filter", error))
            }),
            Spec::SchemaMap(mappings) => Box::pin(async move {
                mappings
                    .apply(input, &mut self.eval_budget())
                    .map_err(|error| Failure::evaluation(at, "schemaMap", error))
            }),
            Spec::MapEach(each) => Box::pin(self.map_each(each, at, input)),
            Spec::Saga(saga) => Box::pin(self.saga(saga, at, input)),
            Spec::Retry(retry) => Box::pin(self.retry(retry, at, input)),
            Spec::Timeout(timeout) => Box::pin(self.timeout(timeout, at, input)),
            Spec::Cache(cache) => Box::pin(self.cache(cache, at, input)),
            Spec::Idempotent(once) => Box::pin(self.idempotent(once, at, input)),
            Spec::CircuitBreaker(breaker) => Box::pin(self.breaker(breaker, at, input)),
            Spec::DeadLetter(letter) => Box::pin(self.dead_letter(letter, at, input)),
            Spec::ClaimCheck(check) => Box::pin(self.claim_check(check, at, input)),
        }
    }

    /// Returns a run for work that continues without the caller, with a new report and new limits.
    pub(super) fn detached(self: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self {
            runner: self.runner.detached(),
            report: Arc::default(),
            scope: RunScope::default(),
            finished: Arc::default(),
            values: self.values.as_ref().map(|values| values.part()),
            ..(**self).clone()
        })
    }

    /// The state that compositions keep between calls.
    pub(super) fn state(&self) -> &Arc<CompositionState> {
        &self.state
    }

    /// The origin of the results that this run stores.
    pub(super) fn origin(&self, pointer: &str) -> ResultOrigin {
        let RunOwner { identity, revision, .. } = self.owner.clone();
        ResultOrigin { tool: self.key.clone(), pointer: pointer.to_owned(), identity, revision }
    }

    /// Checks that the caller may receive a stored result.
    pub(super) fn authorize_stored(&self, origin: &ResultOrigin, at: &str) -> Result<(), Failure> {
        self.runner.authorize_stored(origin, &self.scope).map_err(|error| {
            let tool = Target::Tool(origin.tool.name.clone());
            Failure::new(at, Cause::Call { tool, error })
        })
    }

    /// The limits of one evaluation.
    pub(super) fn eval_budget(&self) -> Budget {
        Budget::new(self.response_bytes)
    }

    pub(super) fn resolve_binding(
        &self,
        (binding, what): (&Binding, &'static str),
        scope: BindingContext<'_>,
        at: &str,
    ) -> Result<Value, Failure> {
        let value: Result<Value, eval::Error> = binding.resolve(scope, &mut self.eval_budget());
        value.map_err(|error| Failure::evaluation(at, what, error))
    }

    /// Counts one tool call against the limit of the run.
    pub(super) fn charge_call(&self, at: &str) -> Result<(), Failure> {
        if self.scope.budget.calls.fetch_add(1, Ordering::Relaxed) < MAX_CALLS {
            return Ok(());
        }
        Err(Failure::new(at, Cause::TooManyCalls { most: MAX_CALLS }))
    }

    /// Checks that the run may make this many more calls, so that no item starts if the last one
    /// could not.
    pub(super) fn check_calls(&self, at: &str, more: usize) -> Result<(), Failure> {
        let left = MAX_CALLS.saturating_sub(self.scope.budget.calls.load(Ordering::Relaxed));
        if u32::try_from(more).is_ok_and(|more| more <= left) {
            return Ok(());
        }
        Err(Failure::new(at, Cause::TooManyCalls { most: MAX_CALLS }))
    }

    /// Counts the size of a result against the limit of the run.
    pub(super) fn charge_bytes(&self, at: &str, bytes: usize) -> Result<(), Failure> {
        let most = MAX_RESULTS * self.response_bytes;
        if self.scope.budget.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= most
        {
            return Ok(());
        }
        Err(Failure::new(at, Cause::TooLarge { most }))
    }

    /// Reports progress to the caller after a step.
    pub(super) fn report_progress(&self, at: &str, outcome: &str) {
        let finished = self.finished.fetch_add(1, Ordering::Relaxed) + 1;
        self.runner.progress(finished, at, outcome);
    }
}
