//! The steps of a composition for the `_meta` of its result: each tool call with its outcome and
//! duration, in the order in which they ended.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use registry_core::spec::Target;
use serde::Serialize;

use crate::failure::{Failure, under};
use crate::history::{End, Status, StepOutcome};

/// Maximum number of reported calls. The report counts the others.
const TOLD: usize = 200;
/// Maximum length of a message, in bytes.
const MESSAGE: usize = 500;

/// The calls of one run.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Steps {
    /// The calls.
    pub calls: Vec<Called>,
    /// The number of calls that are not listed.
    #[serde(skip_serializing_if = "is_none")]
    pub more: usize,
    /// The targets of a scatter that failed and are missing in its result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Dropped>,
    /// The sagas that ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sagas: Vec<SagaTold>,
}

/// A failed target of a scatter.
#[derive(Debug, Clone, Serialize)]
pub struct Dropped {
    /// The path of the step.
    pub step: Box<str>,
    /// The reason code.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// What became of a saga.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SagaTold {
    /// The path of the step; empty: the composition itself.
    pub step: Box<str>,
    /// The final status.
    pub status: Status,
    /// The failed step, if the saga failed in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_step: Option<String>,
    /// The outcome of each step.
    pub steps: Vec<StepOutcome>,
}

impl Steps {
    /// Prefixes all paths with the step that ran the composition.
    fn within(mut self, at: &str) -> Self {
        let calls = self.calls.iter_mut().map(|call| &mut call.step);
        let dropped = self.dropped.iter_mut().map(|dropped| &mut dropped.step);
        let sagas = self.sagas.iter_mut().map(|saga| &mut saga.step);
        for step in calls.chain(dropped).chain(sagas) {
            // An empty path is the inner composition itself.
            *step = if step.is_empty() { at.into() } else { under(at, step).into() };
        }
        self
    }
}

/// Appends up to the limit and returns the number of items left out.
fn fill<T>(told: &mut Vec<T>, more: Vec<T>) -> usize {
    let room = TOLD.saturating_sub(told.len());
    let besides = more.len().saturating_sub(room);
    told.extend(more.into_iter().take(room));
    besides
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_none(more: &usize) -> bool {
    *more == 0
}

/// One call of a tool or a skill.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Called {
    /// The path of the step: the ids of the enclosing steps and its own.
    pub step: Box<str>,
    /// The called tool or agent.
    pub tool: Box<str>,
    /// `ok`, `cancelled`, or the reason code of the failure.
    pub outcome: &'static str,
    /// The message of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The duration in milliseconds.
    pub duration_ms: f64,
}

/// The report of one run.
#[derive(Debug, Default)]
pub(super) struct Report(Mutex<Steps>);

impl Report {
    /// Starts to time a call. Dropping the returned guard reports the call.
    pub(super) fn begin<'r>(&'r self, step: &'r str, tool: &'r Target) -> Watch<'r> {
        Watch {
            report: self,
            step,
            tool,
            started: Instant::now(),
            outcome: "cancelled",
            message: None,
        }
    }

    /// Reports a failed target that is missing in the result.
    pub(super) fn dropped(&self, failure: &Failure) {
        let mut steps = self.lock();
        if steps.dropped.len() < TOLD {
            let (step, reason) = (failure.step.clone(), failure.reason());
            steps.dropped.push(Dropped { step, reason, message: told(failure) });
        }
    }

    /// What became of a saga.
    pub(super) fn saga(&self, step: &str, end: &End) {
        let End { status, failed_step, steps, .. } = end.clone();
        let mut told = self.lock();
        if told.sagas.len() < TOLD {
            told.sagas.push(SagaTold { step: step.into(), status, failed_step, steps });
        }
    }

    /// Adds the steps of a composition that a step called.
    pub(super) fn within(&self, at: &str, inner: &Steps) {
        let inner = inner.clone().within(at);
        let mut steps = self.lock();
        steps.more += inner.more + fill(&mut steps.calls, inner.calls);
        fill(&mut steps.dropped, inner.dropped);
        fill(&mut steps.sagas, inner.sagas);
    }

    pub(super) fn finish(&self) -> Steps {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Steps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn told(failure: &Failure) -> String {
    let mut message = failure.message();
    message.truncate(message.floor_char_boundary(MESSAGE));
    message
}

/// A running call.
pub(super) struct Watch<'r> {
    report: &'r Report,
    step: &'r str,
    tool: &'r Target,
    started: Instant,
    outcome: &'static str,
    message: Option<String>,
}

impl Watch<'_> {
    /// How it ended.
    pub(super) fn ended(&mut self, failure: Option<&Failure>) {
        self.outcome = failure.map_or("ok", Failure::reason);
        self.message = failure.map(told);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let mut steps = self.report.lock();
        if steps.calls.len() >= TOLD {
            steps.more += 1;
            return;
        }
        let micros = self.started.elapsed().as_secs_f64() * 1e6;
        let (step, tool) = (self.step.into(), self.tool.to_string().into());
        let (outcome, message) = (self.outcome, self.message.take());
        let duration_ms = micros.round() / 1e3;
        steps.calls.push(Called { step, tool, outcome, message, duration_ms });
    }
}
