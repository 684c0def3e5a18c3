//! The history of one saga, built from its entries in the journal.
//!
//! The same history decides what is left to do, both live and after a crash.

mod end;

use std::collections::BTreeMap;

use gateway_policy::CallerIdentity;
use registry_core::{
    Key, Revision,
    spec::{Saga, SagaStep},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::end::{SagaEnd, SagaStatus, StepOutcome};
use crate::ResultOrigin;

/// The start of a saga.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SagaStart {
    /// The composition.
    pub(crate) tool: Key,
    /// The JSON Pointer of the saga in the spec.
    pub(crate) pointer: String,
    /// The value of `sagaIdPath`, as JSON.
    pub(crate) instance: Option<String>,
    /// The id of the enclosing saga.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<Box<str>>,
    /// The caller.
    pub(crate) identity: CallerIdentity,
    /// The quota key of the caller. Callers without one share a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) quota_key: Option<Box<str>>,
    /// The revision of the catalog at the start of the call. Earlier releases do not write it.
    #[serde(default)]
    pub(crate) revision: Revision,
    pub(crate) input: Value,
}

impl SagaStart {
    /// The origin of the result.
    pub(crate) fn origin(&self) -> ResultOrigin {
        ResultOrigin {
            tool: self.tool.clone(),
            pointer: self.pointer.clone(),
            identity: self.identity.clone(),
            revision: self.revision,
        }
    }
}

/// An event of a saga. Steps are counted from 0.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Event {
    /// The action of a step is about to start.
    ActionStarted { step: usize, input: Value },
    /// The action succeeded.
    ActionCompleted { step: usize, result: Value },
    /// The saga failed in a step, or between steps.
    Failed { step: Option<usize>, error: Value, is_unknown: bool },
    /// The compensation of a step is about to start.
    CompensationStarted { step: usize, input: Value },
    /// The compensation succeeded.
    Compensated { step: usize },
    /// The compensation failed, and its retries too.
    CompensationFailed { step: usize, error: Value },
    /// An operator requested a retry of the failed compensations.
    RetryRequested,
    /// The saga ended.
    Ended(SagaEnd),
}

/// The history of one saga.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct History {
    began: SagaStart,
    steps: Vec<Step>,
    failed: Option<Failed>,
    end: Option<SagaEnd>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Step {
    state: StepState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Failed {
    step: Option<usize>,
    error: Value,
}

/// The state of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StepState {
    /// The action was not started.
    #[default]
    NotRun,
    /// The action was started and its outcome is unknown.
    Unknown,
    Completed,
    Failed,
    Compensating,
    Compensated,
    CompensationFailed,
}

impl History {
    pub(super) fn new(began: SagaStart) -> Self {
        Self { began, steps: Vec::new(), failed: None, end: None }
    }

    pub(crate) fn began(&self) -> &SagaStart {
        &self.began
    }

    pub(super) fn ended(&self) -> Option<&SagaEnd> {
        self.end.as_ref()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The status in operator APIs.
    pub(super) fn status(&self) -> &'static str {
        match (&self.end, &self.failed) {
            (Some(end), _) => end.status.as_str(),
            (None, Some(_)) => "compensating",
            (None, None) => "running",
        }
    }

    /// Whether the history will keep values of this event. Repeated compensation attempts replace
    /// the latest error, so they do not count again.
    pub(super) fn keeps(&self, event: &Event) -> bool {
        match event {
            Event::ActionStarted { .. } | Event::ActionCompleted { .. } | Event::Failed { .. } => {
                true
            }
            Event::CompensationFailed { step, .. } => {
                self.steps.get(*step).is_none_or(|has| has.error.is_none())
            }
            Event::CompensationStarted { .. }
            | Event::Compensated { .. }
            | Event::RetryRequested
            | Event::Ended(_) => false,
        }
    }

    /// Applies an event. Applying the same event twice has no further effect.
    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::ActionStarted { step, input } => {
                let number = *step;
                let step = self.step(number);
                step.input = Some(input.clone());
                step.state = StepState::Unknown;
                // The steps before it completed, even if the journal has lost their results.
                for before in &mut self.steps[..number] {
                    if matches!(before.state, StepState::NotRun | StepState::Unknown) {
                        before.state = StepState::Completed;
                    }
                }
            }
            Event::ActionCompleted { step, result } => {
                let step = self.step(*step);
                step.result = Some(result.clone());
                step.state = StepState::Completed;
            }
            Event::Failed { step, error, is_unknown } => {
                // The end of the saga was never written to the journal.
                self.end = None;
                if let Some(step) = step.filter(|_| !is_unknown) {
                    self.step(step).state = StepState::Failed;
                }
                self.failed = Some(Failed { step: *step, error: error.clone() });
            }
            Event::CompensationStarted { step, .. } => {
                self.step(*step).state = StepState::Compensating;
            }
            Event::Compensated { step } => {
                let step = self.step(*step);
                (step.state, step.error) = (StepState::Compensated, None);
            }
            Event::CompensationFailed { step, error } => {
                let step = self.step(*step);
                (step.state, step.error) = (StepState::CompensationFailed, Some(error.clone()));
            }
            Event::RetryRequested => {
                for step in &mut self.steps {
                    if step.state == StepState::CompensationFailed {
                        step.state = StepState::Compensating;
                    }
                }
                self.end = None;
            }
            Event::Ended(end) => self.end = Some(end.clone()),
        }
    }

    /// Marks a saga whose last entries may be lost. If it was running, it waits for an operator
    /// instead of being compensated.
    pub(super) fn mark_doubtful(&mut self) {
        if self.end.is_some() {
            return;
        }
        let error = json!({ "reason": "journal-damaged",
            "message": "the journal is damaged and may have lost the last events of the saga; it may have completed" });
        self.end = Some(SagaEnd {
            status: SagaStatus::CompensationFailed,
            failed_step: None,
            error: Some(error),
            steps: Vec::new(),
            output: None,
        });
    }

    /// Drops the values that are not needed after the end.
    pub(super) fn settle(&mut self) {
        (self.steps, self.began.input) = (Vec::new(), Value::Null);
    }

    /// Whether the saga ended and needs no operator.
    pub(super) fn is_settled(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.status != SagaStatus::CompensationFailed)
    }

    fn step(&mut self, number: usize) -> &mut Step {
        if self.steps.len() <= number {
            self.steps.resize_with(number + 1, Step::default);
        }
        &mut self.steps[number]
    }

    /// The step whose action was started and has no outcome.
    pub(crate) fn running_step(&self) -> Option<usize> {
        self.steps.iter().position(|step| step.state == StepState::Unknown)
    }

    #[cfg(test)]
    pub(super) fn result(&self, step: usize) -> Option<&Value> {
        self.steps.get(step)?.result.as_ref()
    }

    /// The input of a step.
    pub(crate) fn input(&self, step: usize) -> Option<&Value> {
        self.steps.get(step)?.input.as_ref()
    }

    /// The error that failed the saga.
    pub(crate) fn error(&self) -> Option<&Value> {
        self.failed.as_ref().map(|failed| &failed.error)
    }

    /// The results of all steps by their ids.
    pub(crate) fn results(&self, saga: &Saga) -> BTreeMap<String, Value> {
        let named = saga.steps.iter().zip(&self.steps);
        named.filter_map(|(step, has)| Some((step.id.clone(), has.result.clone()?))).collect()
    }

    /// Whether to compensate a step: it completed, or its outcome is unknown and it sets
    /// `compensateOnUnknown`.
    pub(crate) fn needs_compensation(&self, number: usize, step: &SagaStep) -> bool {
        match self.steps.get(number).map_or(StepState::NotRun, |step| step.state) {
            StepState::Completed | StepState::Compensating => true,
            StepState::Unknown => step.compensate_on_unknown,
            StepState::NotRun
            | StepState::Failed
            | StepState::Compensated
            | StepState::CompensationFailed => false,
        }
    }

    /// The end of a failed saga.
    pub(crate) fn end(&self, saga: &Saga) -> SagaEnd {
        let outcome = |(i, step): (usize, &SagaStep)| {
            let has = self.steps.get(i).cloned().unwrap_or_default();
            StepOutcome { id: step.id.clone(), outcome: has.state, error: has.error }
        };
        let steps: Vec<_> = saga.steps.iter().enumerate().map(outcome).collect();
        let is_left = steps.iter().any(|step| step.outcome == StepState::CompensationFailed);
        let failed = self.failed.as_ref();
        let failed_step = failed.and_then(|failed| saga.steps.get(failed.step?));
        SagaEnd {
            status: if is_left { SagaStatus::CompensationFailed } else { SagaStatus::Compensated },
            failed_step: failed_step.map(|step| step.id.clone()),
            error: failed.map(|failed| failed.error.clone()),
            steps,
            output: None,
        }
    }
}
