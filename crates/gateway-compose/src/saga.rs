//! Sagas: steps in order, compensated in reverse order after a failure.
//!
//! A saga runs in its own task, independent of its caller. The journal has every step before it
//! starts, so a saga that a crash interrupts is compensated at the next start.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use gateway_protocol::jsonrpc::{self, Limits};
use registry_core::{
    document::exact_bytes,
    spec::{Operation, Saga, SagaStep, eval},
};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::history::{Event, History, SagaEnd, SagaStart, SagaStatus};
use crate::{
    Cause, Effects, Failure, ResultOrigin,
    failure::under,
    run::Run,
    sagas::{SagaCompletion, SagaLog, StartResult},
};

/// The delays between the attempts to compensate a step, in milliseconds. After the last attempt an
/// operator has to retry.
const RETRY_DELAYS_MS: [u64; 6] = [200, 400, 800, 1_600, 3_200, 6_400];
/// Maximum length of a saga id, in bytes of JSON.
const MAX_ID_BYTES: usize = 1_024;
/// The time during which attempts that an open circuit breaker rejects do not count.
const CIRCUIT_OPEN_GRACE: Duration = Duration::from_mins(1);
/// The minimum delay after a rejection by a circuit breaker.
const MIN_CIRCUIT_DELAY: Duration = Duration::from_millis(200);
/// The delay between attempts to write the end of a saga to the journal.
const JOURNAL_RETRY_DELAY: Duration = Duration::from_secs(5);

impl Run {
    /// Runs a saga, or waits for the running one with the same id.
    pub(super) async fn saga(
        self: &Arc<Self>,
        saga: &Arc<Saga>,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let began = SagaStart {
            tool: self.key.clone(),
            pointer: saga.pointer.clone(),
            instance: self.instance(saga, at, input)?,
            parent: self.scope.saga.as_deref().map(Into::into),
            identity: self.owner.identity.clone(),
            quota_key: self.owner.quota_key.as_deref().map(Into::into),
            revision: self.owner.revision,
            input: input.clone(),
        };
        // Dropping this future cancels a saga that it started. A caller that waits for a running
        // saga cannot cancel it.
        let cancel = CancellationToken::new();
        let _cancel_on_drop = cancel.clone().drop_guard();
        let (ended, joined) = match self.state().sagas.begin(began) {
            Err(cause) => return Err(Failure::new(at, cause)),
            Ok(StartResult::Existing { ended, origin }) => {
                self.authorize_stored(&origin, at)?;
                (ended, Some(origin))
            }
            Ok(StartResult::Started(log)) => {
                let (run, saga, ended) =
                    (self.within_saga(log.id()), Arc::clone(saga), log.ended());
                self.register_saga(&cancel, &ended);
                let execution = SagaExecution { run, saga, log, at: at.into() };
                self.state().spawn(async move { execution.run(cancel).await });
                (ended, None)
            }
        };
        self.await_end(at, ended, joined).await
    }

    /// Waits for the end of a saga and returns it as the result of a step. `joined`: the origin of a
    /// saga that another call started.
    async fn await_end(
        &self,
        at: &str,
        mut ended: SagaCompletion,
        joined: Option<Arc<ResultOrigin>>,
    ) -> Result<Value, Failure> {
        let end = match ended.wait_for(Option::is_some).await {
            Ok(end) => end.clone(),
            Err(_) => None,
        };
        let end = end.ok_or_else(|| Failure::new(at, Cause::Abandoned))?;
        if let Some(origin) = joined {
            // Policies can have changed while the saga was running.
            self.authorize_stored(&origin, at)?;
        }
        self.report.saga(at, &end);
        match (&end.status, &end.output) {
            (SagaStatus::Completed, Some(output)) => Ok(output.clone()),
            _ => Err(Failure::new(at, Cause::Saga(end))),
        }
    }

    /// The value of `sagaIdPath`, if the saga has one.
    fn instance(&self, saga: &Saga, at: &str, input: &Value) -> Result<Option<String>, Failure> {
        let Some(path) = &saga.saga_id_path else { return Ok(None) };
        let keys = eval::keys(std::slice::from_ref(path), input, &mut self.eval_budget())
            .map_err(|error| Failure::evaluation(at, "sagaIdPath", error))?;
        let mut selected = keys.into_iter().next().unwrap_or_default();
        if selected.iter().all(Value::is_null) {
            return Err(Failure::new(at, Cause::MissingKey { path: path.clone() }));
        }
        // A path that can select several values gives a list, even if it selects one.
        let id = match selected.pop() {
            Some(only) if path.is_singular() => only,
            last => selected.into_iter().chain(last).collect(),
        };
        let id = exact_bytes(&id).ok_or_else(|| Failure::new(at, Cause::InexactKey))?;
        let id = String::from_utf8_lossy(&id).into_owned();
        if id.len() > MAX_ID_BYTES {
            return Err(Failure::new(at, Cause::IdTooLong { most: MAX_ID_BYTES }));
        }
        Ok(Some(id))
    }
}

/// A running saga.
pub(super) struct SagaExecution {
    pub(super) run: Arc<Run>,
    pub(super) saga: Arc<Saga>,
    pub(super) log: SagaLog,
    pub(super) at: Box<str>,
}

/// The failure of a saga.
struct SagaFailure {
    step: Option<usize>,
    failure: Failure,
    is_unknown: bool,
}

impl SagaFailure {
    /// A failure between steps.
    fn between(failure: Failure) -> Self {
        Self { step: None, failure, is_unknown: false }
    }
}

impl SagaExecution {
    /// Runs all steps; compensates them after a failure.
    async fn run(self, cancel: CancellationToken) {
        let (run, limit) = self.run.with_time_limit();
        let over = async {
            let Some(after_ms) = self.saga.timeout_ms else { return std::future::pending().await };
            sleep(Duration::from_millis(after_ms)).await;
            limit.pass(after_ms);
        };
        // The steps are cancelled before the cause is read.
        let outcome = tokio::select! {
            biased;
            outcome = self.run_steps(&run) => outcome,
            () = over => Err(self.interrupted(run.cancellation_cause())),
            () = cancel.cancelled() => Err(self.interrupted(run.cancellation_cause())),
        };
        let failed = match outcome {
            // A saga is complete only once the journal has its end.
            Ok(output) => match self.log.end(SagaEnd::completed(&self.saga, output)).await {
                Ok(()) => return,
                Err(error) => SagaFailure::between(Failure::new(&self.at, Cause::Journal(error))),
            },
            Err(failed) => failed,
        };
        let SagaFailure { step, failure, is_unknown } = failed;
        let error = journal_value(&failure);
        // If this is not written, a crash from now on has the same result.
        let _ = self.log.write(&Event::Failed { step, error, is_unknown }).await;
        self.compensate().await;
    }

    /// The failure of a saga that was cancelled. The outcome of its running step is unknown.
    fn interrupted(&self, cause: Cause) -> SagaFailure {
        let step = self.log.history().running_step();
        SagaFailure { step, failure: Failure::new(&self.at, cause), is_unknown: step.is_some() }
    }

    async fn run_steps(&self, run: &Arc<Run>) -> Result<Value, SagaFailure> {
        let mut results = BTreeMap::new();
        let mut previous = self.log.history().began().input.clone();
        let input = previous.clone();
        for (i, step) in self.saga.steps.iter().enumerate() {
            let at = under(&self.at, &step.id);
            let fail = |failure: Failure| {
                // A step that is a pattern may have completed some of its parts.
                let is_unknown = failure.effects() > Effects::None;
                SagaFailure { step: Some(i), failure, is_unknown }
            };
            let scope = eval::BindingContext { input: &input, steps: &results, error: None };
            let given = match &step.input {
                Some(binding) => {
                    run.resolve_binding((binding, "input"), scope, &at).map_err(fail)?
                }
                None => previous,
            };
            let written =
                self.log.write(&Event::ActionStarted { step: i, input: given.clone() }).await;
            written.map_err(|error| fail(Failure::new(&at, Cause::Journal(error))))?;
            previous = run.operate(&step.action, &at, &given).await.map_err(fail)?;
            // The result is written with the next entry. After a crash before that the outcome is
            // unknown.
            let noted =
                self.log.note(&Event::ActionCompleted { step: i, result: previous.clone() });
            noted.map_err(|_| fail(Failure::new(&at, Cause::ResultTooDeep)))?;
            results.insert(step.id.clone(), previous.clone());
        }
        let Some(binding) = &self.saga.output else {
            return Ok(Value::Object(results.into_iter().collect()));
        };
        let scope = eval::BindingContext { input: &input, steps: &results, error: None };
        run.resolve_binding((binding, "output"), scope, &self.at).map_err(SagaFailure::between)
    }

    /// Compensates the completed steps in reverse order. Inner sagas started after the steps that
    /// are compensated here, so they are compensated first.
    pub(super) async fn compensate(&self) {
        self.log.await_children().await;
        let history = self.log.history();
        for (i, step) in self.saga.steps.iter().enumerate().rev() {
            if let Some(compensate) = &step.compensate
                && history.needs_compensation(i, step)
            {
                self.compensate_step((i, step, compensate), &history).await;
            }
        }
        let end = self.log.history().end(&self.saga);
        if !self.log.is_on_disk() {
            return self.log.abandon(end);
        }
        let mut is_logged = false;
        while let Err(error) = self.log.end(end.clone()).await {
            if !is_logged {
                tracing::error!(saga = %self.log.id(), "cannot write the saga journal: {error}");
            }
            is_logged = true;
            // Waiting callers get the end now, but the saga id is not free before the write.
            self.log.notify();
            sleep(JOURNAL_RETRY_DELAY).await;
        }
    }

    async fn compensate_step(
        &self,
        (i, step, compensate): (usize, &SagaStep, &Operation),
        history: &History,
    ) {
        let at = under(&self.at, &format!("{}/compensate", step.id));
        let event = match self.run_compensation((i, step, compensate), history, &at).await {
            Ok(()) => Event::Compensated { step: i },
            Err(failure) => {
                tracing::error!(
                    saga = %self.log.id(), tool = %self.run.key, step = %step.id,
                    "the compensation of a saga step failed and needs an operator: {failure}"
                );
                Event::CompensationFailed { step: i, error: journal_value(&failure) }
            }
        };
        // If this is not written, a crash at worst repeats the compensation.
        let _ = self.log.write(&event).await;
    }

    async fn run_compensation(
        &self,
        (i, step, compensate): (usize, &SagaStep, &Operation),
        history: &History,
        at: &str,
    ) -> Result<(), Failure> {
        let input = match &step.compensate_input {
            Some(binding) => {
                let steps = history.results(&self.saga);
                let input = &history.began().input;
                let scope = eval::BindingContext { input, steps: &steps, error: history.error() };
                Cow::Owned(self.run.resolve_binding((binding, "compensateInput"), scope, at)?)
            }
            None => Cow::Borrowed(history.input(i).unwrap_or(&Value::Null)),
        };
        let event = Event::CompensationStarted { step: i, input: input.clone().into_owned() };
        if let Err(error) = self.log.write(&event).await {
            // Compensating without the entry is safer than not compensating.
            tracing::error!(saga = %self.log.id(), "cannot write the saga journal: {error}");
        }
        // The run may have used its budget; compensations have their own.
        let run = self.run.for_compensation();
        let attempt = async || {
            let outcome = run.operate(compensate, at, &input).await;
            // The next compensation must not start before inner sagas are compensated.
            run.await_compensations().await;
            // A rejected result does not matter here, because the call succeeded. A pattern may
            // have more steps to run.
            let is_done = |failure: &Failure| {
                matches!(compensate, Operation::Call(_)) && failure.is_about_result()
            };
            if outcome.as_ref().is_err_and(is_done) { Ok(Value::Null) } else { outcome }
        };
        let (mut delays_ms, began) = (RETRY_DELAYS_MS.into_iter(), Instant::now());
        loop {
            let Err(failure) = attempt().await else { return Ok(()) };
            let wait = next_delay(&failure, began.elapsed(), &mut delays_ms);
            let Some(wait) = wait else { return Err(failure) };
            tracing::warn!(saga = %self.log.id(), ?wait, "the compensation failed and is retried: {failure}");
            sleep(retry_backoff::jittered(wait)).await;
        }
    }
}

/// The failure as JSON. Its details are dropped if they are nested too deeply for the journal.
fn journal_value(failure: &Failure) -> Value {
    let value = failure.to_value();
    if jsonrpc::nests_within(value.to_string().as_bytes(), Limits::DEPTH) {
        return value;
    }
    let parts = ["step", "reason", "message"];
    parts.map(|part| (part.to_owned(), value[part].clone())).into_iter().collect()
}

/// The delay before the next compensation attempt. `None`: an operator has to retry. In the first
/// minute, a rejection by a circuit breaker does not count as an attempt.
fn next_delay(
    failure: &Failure,
    tried_for: Duration,
    delays_ms: &mut impl Iterator<Item = u64>,
) -> Option<Duration> {
    let rest = CIRCUIT_OPEN_GRACE.saturating_sub(tried_for);
    let rejected = failure.retry_after().filter(|_| !rest.is_zero());
    let rejected = rejected.map(|left| left.min(rest).max(MIN_CIRCUIT_DELAY));
    rejected.or_else(|| delays_ms.next().map(Duration::from_millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_breaker_delays_compensation_for_one_minute() {
        let rejected = |retry_after_s| {
            Failure::new("s", Cause::CircuitOpen { name: "b".into(), retry_after_s })
        };
        let mut delays_ms = RETRY_DELAYS_MS.into_iter();
        let mut wait = |failure: &Failure, tried_s| {
            let wait = next_delay(failure, Duration::from_secs(tried_s), &mut delays_ms);
            wait.map(|wait| wait.as_millis())
        };
        let failed = Failure::new("s", Cause::Duplicate);
        assert_eq!(wait(&failed, 0), Some(200));
        assert_eq!(wait(&rejected(30), 1), Some(30_000));
        assert_eq!(wait(&rejected(0), 31), Some(200));
        assert_eq!(wait(&rejected(1), 58), Some(1_000));
        assert_eq!(wait(&rejected(90), 59), Some(1_000));
        assert_eq!(wait(&rejected(1), 60), Some(400), "rejections count after one minute");
        let rest: Vec<_> = std::iter::from_fn(|| wait(&failed, 0)).collect();
        assert_eq!(rest, [800, 1_600, 3_200, 6_400], "six delays between seven attempts");
    }
}
