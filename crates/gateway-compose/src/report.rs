//! What was done of a composition, for the result's `_meta`: each call of a tool, how it ended and
//! how long it took, in the order in which they ended.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use registry_core::spec::Target;
use serde::Serialize;

use crate::failure::{Failure, under};
use crate::history::{End, Status, StepOutcome};

/// Most calls that are told; of the others only the number.
const TOLD: usize = 200;
/// Longest message that is told, in bytes.
const MESSAGE: usize = 500;

/// The calls of one run.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Steps {
    /// The calls.
    pub calls: Vec<Called>,
    /// How many more there were.
    #[serde(skip_serializing_if = "is_none")]
    pub more: usize,
    /// Targets of a scatter that failed, and are not in its result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Dropped>,
    /// What became of sagas.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sagas: Vec<SagaTold>,
}

/// A failure that the result does without.
#[derive(Debug, Clone, Serialize)]
pub struct Dropped {
    /// Where.
    pub step: Box<str>,
    /// Why, in a word.
    pub reason: &'static str,
    /// Why.
    pub message: String,
}

/// What became of a saga.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SagaTold {
    /// The step that it is; empty: the composition itself.
    pub step: Box<str>,
    /// How it ended.
    pub status: Status,
    /// The step that failed, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_step: Option<String>,
    /// What became of each step.
    pub steps: Vec<StepOutcome>,
}

impl Steps {
    /// The same, where all of it was done inside of a step.
    fn within(mut self, at: &str) -> Self {
        let calls = self.calls.iter_mut().map(|call| &mut call.step);
        let dropped = self.dropped.iter_mut().map(|dropped| &mut dropped.step);
        let sagas = self.sagas.iter_mut().map(|saga| &mut saga.step);
        for step in calls.chain(dropped).chain(sagas) {
            // Without a step it was the inner composition itself.
            *step = if step.is_empty() { at.into() } else { under(at, step).into() };
        }
        self
    }
}

/// Takes as many as there is room for, and says how many there are besides.
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
    /// The step, with the ids of those around it.
    pub step: Box<str>,
    /// What it called.
    pub tool: Box<str>,
    /// `ok`, `cancelled`, or why it failed.
    pub outcome: &'static str,
    /// What there is to say about a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: f64,
}

/// The report of one run.
#[derive(Debug, Default)]
pub(super) struct Report(Mutex<Steps>);

impl Report {
    /// Begins to measure a call; it is told when what is returned is dropped.
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

    /// The result does without what failed so.
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

    /// What was done of a composition that a step called.
    pub(super) fn within(&self, at: &str, inner: &Steps) {
        let inner = inner.clone().within(at);
        let mut steps = self.lock();
        steps.more += inner.more + fill(&mut steps.calls, inner.calls);
        fill(&mut steps.dropped, inner.dropped);
        fill(&mut steps.sagas, inner.sagas);
    }

    /// What was done so far.
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

/// One call while it is under way.
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
