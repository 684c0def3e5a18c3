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

use super::{
    Cause, Effects, Failure,
    failure::under,
    run::Run,
    sagas::{Begun, Ended, Log},
};
use crate::history::{Began, End, Event, History, Status};

/// The delays between the attempts to compensate a step, in milliseconds. After the last attempt an
/// operator has to retry.
const WAITS_MS: [u64; 6] = [200, 400, 800, 1_600, 3_200, 6_400];
/// Maximum length of a saga id, in bytes of JSON.
const ID_BYTES: usize = 1_024;
/// The time during which attempts that an open circuit breaker rejects do not count.
const SPARED: Duration = Duration::from_mins(1);
/// The minimum delay after a rejection by a circuit breaker.
const SHORTEST: Duration = Duration::from_millis(200);
/// The delay between attempts to write the end of a saga to the journal.
const AGAIN: Duration = Duration::from_secs(5);

impl Run {
    /// Runs a saga, or waits for the running one with the same id.
    pub(super) async fn saga(
        self: &Arc<Self>,
        saga: &Arc<Saga>,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let began = Began {
            tool: self.key.clone(),
            pointer: saga.pointer.clone(),
            instance: self.instance(saga, at, input)?,
            parent: self.scope.saga.as_deref().map(Into::into),
            claim: self.owner.claim.clone(),
            principal: self.owner.principal.as_deref().map(Into::into),
            input: input.clone(),
        };
        // Dropping this future cancels a saga that it started. A caller that waits for a running
        // saga cannot cancel it.
        let cancel = CancellationToken::new();
        let _cancel_on_drop = cancel.clone().drop_guard();
        let ended = match self.memory().sagas.begin(began) {
            Err(cause) => return Err(Failure::new(at, cause)),
            Ok(Begun::Known(ended)) => ended,
            Ok(Begun::First(log)) => {
                let (run, saga, ended) = (self.inside_of(log.id()), Arc::clone(saga), log.ended());
                self.begins(&cancel, &ended);
                let course = Course { run, saga, log, at: at.into() };
                self.memory().spawn(async move { course.forward(cancel).await });
                ended
            }
        };
        self.told(at, ended).await
    }

    /// Waits for the end of a saga and returns it as the result of a step.
    async fn told(&self, at: &str, mut ended: Ended) -> Result<Value, Failure> {
        let end = match ended.wait_for(Option::is_some).await {
            Ok(end) => end.clone(),
            Err(_) => None,
        };
        let end = end.ok_or_else(|| Failure::new(at, Cause::GivenUp))?;
        self.report.saga(at, &end);
        match (&end.status, &end.output) {
            (Status::Completed, Some(output)) => Ok(output.clone()),
            _ => Err(Failure::new(at, Cause::Saga(end))),
        }
    }

    /// The value of `sagaIdPath`, if the saga has one.
    fn instance(&self, saga: &Saga, at: &str, input: &Value) -> Result<Option<String>, Failure> {
        let Some(path) = &saga.saga_id_path else { return Ok(None) };
        let keys = eval::keys(std::slice::from_ref(path), input, &mut self.budget())
            .map_err(|error| Failure::evaluation(at, "sagaIdPath", error))?;
        let mut selected = keys.into_iter().next().unwrap_or_default();
        if selected.iter().all(Value::is_null) {
            return Err(Failure::new(at, Cause::NoKey { path: path.clone() }));
        }
        // A path that can select several values gives a list, even if it selects one.
        let id = match selected.pop() {
            Some(only) if path.is_singular() => only,
            last => selected.into_iter().chain(last).collect(),
        };
        let id = exact_bytes(&id).ok_or_else(|| Failure::new(at, Cause::InexactKey))?;
        let id = String::from_utf8_lossy(&id).into_owned();
        if id.len() > ID_BYTES {
            return Err(Failure::new(at, Cause::LongId { most: ID_BYTES }));
        }
        Ok(Some(id))
    }
}

/// A running saga.
pub(super) struct Course {
    pub(super) run: Arc<Run>,
    pub(super) saga: Arc<Saga>,
    pub(super) log: Log,
    pub(super) at: Box<str>,
}

/// The failure of a saga.
struct Stopped {
    step: Option<usize>,
    failure: Failure,
    is_unknown: bool,
}

impl Stopped {
    /// A failure between steps.
    fn between(failure: Failure) -> Self {
        Self { step: None, failure, is_unknown: false }
    }
}

impl Course {
    /// Runs all steps; compensates them after a failure.
    async fn forward(self, cancel: CancellationToken) {
        let (run, limit) = self.run.limited();
        let over = async {
            let Some(after_ms) = self.saga.timeout_ms else { return std::future::pending().await };
            sleep(Duration::from_millis(after_ms)).await;
            limit.pass(after_ms);
        };
        // The steps are cancelled before the cause is read.
        let outcome = tokio::select! {
            biased;
            outcome = self.steps(&run) => outcome,
            () = over => Err(self.interrupted(run.cut_off_by())),
            () = cancel.cancelled() => Err(self.interrupted(run.cut_off_by())),
        };
        let stopped = match outcome {
            // A saga is complete only once the journal has its end.
            Ok(output) => match self.log.end(End::completed(&self.saga, output)).await {
                Ok(()) => return,
                Err(error) => Stopped::between(Failure::new(&self.at, Cause::Journal(error))),
            },
            Err(stopped) => stopped,
        };
        let Stopped { step, failure, is_unknown } = stopped;
        let error = told(&failure);
        // If this is not written, a crash from now on has the same result.
        let _ = self.log.write(&Event::Failed { step, error, is_unknown }).await;
        self.back().await;
    }

    /// The failure of a saga that was cancelled. The outcome of its running step is unknown.
    fn interrupted(&self, cause: Cause) -> Stopped {
        let step = self.log.history().acting();
        Stopped { step, failure: Failure::new(&self.at, cause), is_unknown: step.is_some() }
    }

    async fn steps(&self, run: &Arc<Run>) -> Result<Value, Stopped> {
        let mut results = BTreeMap::new();
        let mut previous = self.log.history().began().input.clone();
        let input = previous.clone();
        for (i, step) in self.saga.steps.iter().enumerate() {
            let at = under(&self.at, &step.id);
            let stop = |failure: Failure| {
                // A step that is a pattern may have completed some of its parts.
                let is_unknown = failure.effects() > Effects::None;
                Stopped { step: Some(i), failure, is_unknown }
            };
            let scope = eval::Scope { input: &input, steps: &results, error: None };
            let given = match &step.input {
                Some(binding) => run.bound((binding, "input"), scope, &at).map_err(stop)?,
                None => previous,
            };
            let written = self.log.write(&Event::Acting { step: i, input: given.clone() }).await;
            written.map_err(|error| stop(Failure::new(&at, Cause::Journal(error))))?;
            previous = run.operate(&step.action, &at, &given).await.map_err(stop)?;
            // The result is written with the next entry. After a crash before that the outcome is
            // unknown.
            let noted = self.log.note(&Event::Acted { step: i, result: previous.clone() });
            noted.map_err(|_| stop(Failure::new(&at, Cause::TooDeep)))?;
            results.insert(step.id.clone(), previous.clone());
        }
        let Some(binding) = &self.saga.output else {
            return Ok(Value::Object(results.into_iter().collect()));
        };
        let scope = eval::Scope { input: &input, steps: &results, error: None };
        run.bound((binding, "output"), scope, &self.at).map_err(Stopped::between)
    }

    /// Compensates the completed steps in reverse order. Inner sagas started after the steps that
    /// are compensated here, so they are compensated first.
    pub(super) async fn back(&self) {
        self.log.inner_ended().await;
        let history = self.log.history();
        for (i, step) in self.saga.steps.iter().enumerate().rev() {
            if let Some(compensate) = &step.compensate
                && history.is_to_be_undone(i, step)
            {
                self.undo((i, step, compensate), &history).await;
            }
        }
        let end = self.log.history().end(&self.saga);
        if !self.log.is_on_disk() {
            return self.log.abandon(end);
        }
        let mut is_told = false;
        while let Err(error) = self.log.end(end.clone()).await {
            if !is_told {
                tracing::error!(saga = %self.log.id(), "cannot write the saga journal: {error}");
            }
            is_told = true;
            // Waiting callers get the end now, but the saga id is not free before the write.
            self.log.tell();
            sleep(AGAIN).await;
        }
    }

    async fn undo(&self, (i, step, compensate): (usize, &SagaStep, &Operation), history: &History) {
        let at = under(&self.at, &format!("{}/compensate", step.id));
        let event = match self.compensated((i, step, compensate), history, &at).await {
            Ok(()) => Event::Compensated { step: i },
            Err(failure) => {
                tracing::error!(
                    saga = %self.log.id(), tool = %self.run.key, step = %step.id,
                    "the compensation of a saga step failed and needs an operator: {failure}"
                );
                Event::Stuck { step: i, error: told(&failure) }
            }
        };
        // If this is not written, a crash at worst repeats the compensation.
        let _ = self.log.write(&event).await;
    }

    async fn compensated(
        &self,
        (i, step, compensate): (usize, &SagaStep, &Operation),
        history: &History,
        at: &str,
    ) -> Result<(), Failure> {
        let input = match &step.compensate_input {
            Some(binding) => {
                let steps = history.results(&self.saga);
                let input = &history.began().input;
                let scope = eval::Scope { input, steps: &steps, error: history.error() };
                Cow::Owned(self.run.bound((binding, "compensateInput"), scope, at)?)
            }
            None => Cow::Borrowed(history.input(i).unwrap_or(&Value::Null)),
        };
        let event = Event::Compensating { step: i, input: input.clone().into_owned() };
        if let Err(error) = self.log.write(&event).await {
            // Compensating without the entry is safer than not compensating.
            tracing::error!(saga = %self.log.id(), "cannot write the saga journal: {error}");
        }
        // The run may have used its budget; compensations have their own.
        let run = self.run.afresh();
        let attempt = async || {
            let outcome = run.operate(compensate, at, &input).await;
            // The next compensation must not start before inner sagas are compensated.
            run.until_undone().await;
            // A rejected result does not matter here, because the call succeeded. A pattern may
            // have more steps to run.
            let is_done = |failure: &Failure| {
                matches!(compensate, Operation::Call(_)) && failure.is_about_result()
            };
            if outcome.as_ref().is_err_and(is_done) { Ok(Value::Null) } else { outcome }
        };
        let (mut waits_ms, began) = (WAITS_MS.into_iter(), Instant::now());
        loop {
            let Err(failure) = attempt().await else { return Ok(()) };
            let wait = wait_after(&failure, began.elapsed(), &mut waits_ms);
            let Some(wait) = wait else { return Err(failure) };
            tracing::warn!(saga = %self.log.id(), ?wait, "the compensation failed and is retried: {failure}");
            sleep(retry_backoff::jittered(wait)).await;
        }
    }
}

/// The failure as JSON. Its details are dropped if they are nested too deeply for the journal.
fn told(failure: &Failure) -> Value {
    let value = failure.to_value();
    if jsonrpc::nests_within(value.to_string().as_bytes(), Limits::DEPTH) {
        return value;
    }
    let parts = ["step", "reason", "message"];
    parts.map(|part| (part.to_owned(), value[part].clone())).into_iter().collect()
}

/// The delay before the next compensation attempt. `None`: an operator has to retry. In the first
/// minute, a rejection by a circuit breaker does not count as an attempt.
fn wait_after(
    failure: &Failure,
    tried_for: Duration,
    waits_ms: &mut impl Iterator<Item = u64>,
) -> Option<Duration> {
    let rest = SPARED.saturating_sub(tried_for);
    let spared = failure.retry_after().filter(|_| !rest.is_zero());
    let spared = spared.map(|left| left.min(rest).max(SHORTEST));
    spared.or_else(|| waits_ms.next().map(Duration::from_millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_breaker_delays_compensation_for_one_minute() {
        let spared =
            |retry_after_s| Failure::new("s", Cause::Open { name: "b".into(), retry_after_s });
        let mut waits_ms = WAITS_MS.into_iter();
        let mut wait = |failure: &Failure, tried_s| {
            let wait = wait_after(failure, Duration::from_secs(tried_s), &mut waits_ms);
            wait.map(|wait| wait.as_millis())
        };
        let failed = Failure::new("s", Cause::Duplicate);
        assert_eq!(wait(&failed, 0), Some(200));
        assert_eq!(wait(&spared(30), 1), Some(30_000));
        assert_eq!(wait(&spared(0), 31), Some(200));
        assert_eq!(wait(&spared(1), 58), Some(1_000));
        assert_eq!(wait(&spared(90), 59), Some(1_000));
        assert_eq!(wait(&spared(1), 60), Some(400), "rejections count after one minute");
        let rest: Vec<_> = std::iter::from_fn(|| wait(&failed, 0)).collect();
        assert_eq!(rest, [800, 1_600, 3_200, 6_400], "six delays between seven attempts");
    }
}
