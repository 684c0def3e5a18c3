//! The steps of a composition for the `_meta` of its result: each tool call with its outcome and
//! duration, in order of completion.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use registry_core::spec::Target;
use serde::Serialize;

use crate::{
    failure::{Failure, under},
    history::{SagaEnd, SagaStatus, StepOutcome},
};

/// Maximum number of reported calls. The report counts the others.
const MAX_REPORTED: usize = 200;
/// Maximum length of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 500;

/// The calls of one run.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Steps {
    /// The calls.
    pub calls: Vec<CallReport>,
    /// The number of calls that are not listed.
    #[serde(skip_serializing_if = "is_none")]
    pub more: usize,
    /// The targets of a scatter that failed and are missing in its result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<DroppedTarget>,
    /// The sagas that ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sagas: Vec<SagaReport>,
    /// Whether a step sent a request to an upstream. `false`: the result is computed, or comes from a
    /// cache, an earlier call or another caller's saga.
    #[serde(skip)]
    pub has_sent: bool,
}

/// A failed target of a scatter.
#[derive(Debug, Clone, Serialize)]
pub struct DroppedTarget {
    /// The path of the step.
    pub step: Box<str>,
    /// The reason code.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// A saga that ended.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SagaReport {
    /// The path of the step; empty: the composition itself.
    pub step: Box<str>,
    /// The final status.
    pub status: SagaStatus,
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
fn fill<T>(list: &mut Vec<T>, more: Vec<T>) -> usize {
    let room = MAX_REPORTED.saturating_sub(list.len());
    let left_out = more.len().saturating_sub(room);
    list.extend(more.into_iter().take(room));
    left_out
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_none(more: &usize) -> bool {
    *more == 0
}

/// One call of a tool or a skill.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallReport {
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
    pub(super) fn begin<'r>(&'r self, step: &'r str, tool: &'r Target) -> CallTimer<'r> {
        CallTimer {
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
        if steps.dropped.len() < MAX_REPORTED {
            let (step, reason) = (failure.step.clone(), failure.reason());
            steps.dropped.push(DroppedTarget { step, reason, message: message_of(failure) });
        }
    }

    /// Reports a saga that ended.
    pub(super) fn saga(&self, step: &str, end: &SagaEnd) {
        let SagaEnd { status, failed_step, steps, .. } = end.clone();
        let mut steps_so_far = self.lock();
        if steps_so_far.sagas.len() < MAX_REPORTED {
            steps_so_far.sagas.push(SagaReport { step: step.into(), status, failed_step, steps });
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

    pub(super) fn finish(&self, has_sent: bool) -> Steps {
        Steps { has_sent, ..self.lock().clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Steps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn message_of(failure: &Failure) -> String {
    let mut message = failure.message();
    message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
    message
}

/// A running call.
pub(super) struct CallTimer<'r> {
    report: &'r Report,
    step: &'r str,
    tool: &'r Target,
    started: Instant,
    outcome: &'static str,
    message: Option<String>,
}

impl CallTimer<'_> {
    /// How it ended.
    pub(super) fn ended(&mut self, failure: Option<&Failure>) {
        self.outcome = failure.map_or("ok", Failure::reason);
        self.message = failure.map(message_of);
    }
}

impl Drop for CallTimer<'_> {
    fn drop(&mut self) {
        let mut steps = self.report.lock();
        if steps.calls.len() >= MAX_REPORTED {
            steps.more += 1;
            return;
        }
        let micros = self.started.elapsed().as_secs_f64() * 1e6;
        let (step, tool) = (self.step.into(), self.tool.to_string().into());
        let (outcome, message) = (self.outcome, self.message.take());
        let duration_ms = micros.round() / 1e3;
        steps.calls.push(CallReport { step, tool, outcome, message, duration_ms });
    }
}
