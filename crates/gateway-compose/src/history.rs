//! What has happened to one saga: the sum of its lines in the journal.
//!
//! Live and after a crash the same history decides what is left to do.

mod end;

use std::collections::BTreeMap;

use gateway_policy::HeaderClaim;
use registry_core::{
    Key,
    spec::{Saga, SagaStep},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::end::{End, Status, StepOutcome};

/// How a saga began.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Began {
    /// The composition.
    pub(crate) tool: Key,
    /// Where in its spec the saga is.
    pub(crate) pointer: String,
    /// Its id, as JSON, if its spec gives it one.
    pub(crate) instance: Option<String>,
    /// The saga inside of which it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<Box<str>>,
    /// On whose behalf.
    pub(crate) claim: HeaderClaim,
    /// Against whose share it counts; nobody's in particular counts together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) principal: Option<Box<str>>,
    pub(crate) input: Value,
}

/// What happens to a saga; steps are counted from 0.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Event {
    /// An action is about to be called.
    Acting { step: usize, input: Value },
    /// It gave a result.
    Acted { step: usize, result: Value },
    /// The saga does not go on: because of that step, or of none.
    Failed { step: Option<usize>, error: Value, is_unknown: bool },
    /// A step is about to be undone.
    Compensating { step: usize, input: Value },
    /// It was.
    Compensated { step: usize },
    /// It could not be.
    Stuck { step: usize, error: Value },
    /// Somebody wants it to be tried again.
    Again,
    /// All is over.
    Ended(End),
}

/// The history of one saga.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct History {
    began: Began,
    steps: Vec<Step>,
    failed: Option<Failed>,
    end: Option<End>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Step {
    state: State,
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

/// How far a step is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// It was not called.
    #[default]
    NotRun,
    /// It was called, and nobody knows what it did.
    Unknown,
    Completed,
    Failed,
    Compensating,
    Compensated,
    CompensationFailed,
}

impl History {
    pub(super) fn new(began: Began) -> Self {
        Self { began, steps: Vec::new(), failed: None, end: None }
    }

    pub(crate) fn began(&self) -> &Began {
        &self.began
    }

    pub(super) fn ended(&self) -> Option<&End> {
        self.end.as_ref()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// How it is, in one word.
    pub(super) fn status(&self) -> &'static str {
        match (&self.end, &self.failed) {
            (Some(end), _) => end.status.as_str(),
            (None, Some(_)) => "compensating",
            (None, None) => "running",
        }
    }

    /// Whether it will have values of this that it does not have yet. Attempts to undo come again and again,
    /// and leave no more than the latest error.
    pub(super) fn keeps(&self, event: &Event) -> bool {
        match event {
            Event::Acting { .. } | Event::Acted { .. } | Event::Failed { .. } => true,
            Event::Stuck { step, .. } => {
                self.steps.get(*step).is_none_or(|has| has.error.is_none())
            }
            Event::Compensating { .. }
            | Event::Compensated { .. }
            | Event::Again
            | Event::Ended(_) => false,
        }
    }

    /// Takes what has happened into account; the same twice is the same as once.
    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Acting { step, input } => {
                let number = *step;
                let step = self.step(number);
                step.input = Some(input.clone());
                step.state = State::Unknown;
                // Those before it were done, whatever the disk has lost of that.
                for before in &mut self.steps[..number] {
                    if matches!(before.state, State::NotRun | State::Unknown) {
                        before.state = State::Completed;
                    }
                }
            }
            Event::Acted { step, result } => {
                let step = self.step(*step);
                step.result = Some(result.clone());
                step.state = State::Completed;
            }
            Event::Failed { step, error, is_unknown } => {
                // That it had completed never got to the disk.
                self.end = None;
                if let Some(step) = step.filter(|_| !is_unknown) {
                    self.step(step).state = State::Failed;
                }
                self.failed = Some(Failed { step: *step, error: error.clone() });
            }
            Event::Compensating { step, .. } => self.step(*step).state = State::Compensating,
            Event::Compensated { step } => {
                let step = self.step(*step);
                (step.state, step.error) = (State::Compensated, None);
            }
            Event::Stuck { step, error } => {
                let step = self.step(*step);
                (step.state, step.error) = (State::CompensationFailed, Some(error.clone()));
            }
            Event::Again => {
                for step in &mut self.steps {
                    if step.state == State::CompensationFailed {
                        step.state = State::Compensating;
                    }
                }
                self.end = None;
            }
            Event::Ended(end) => self.end = Some(end.clone()),
        }
    }

    /// What came last of it may be lost: if it was under way, nobody undoes it unasked.
    pub(super) fn doubt(&mut self) {
        if self.end.is_some() {
            return;
        }
        let error = json!({ "reason": "journal-damaged",
            "message": "lines of the journal are damaged that may be its last ones; it may have completed" });
        self.end = Some(End {
            status: Status::CompensationFailed,
            failed_step: None,
            error: Some(error),
            steps: Vec::new(),
            output: None,
        });
    }

    /// Forgets what nobody will need any more.
    pub(super) fn settle(&mut self) {
        (self.steps, self.began.input) = (Vec::new(), Value::Null);
    }

    /// Whether nothing is left to do about it.
    pub(super) fn is_settled(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.status != Status::CompensationFailed)
    }

    fn step(&mut self, number: usize) -> &mut Step {
        if self.steps.len() <= number {
            self.steps.resize_with(number + 1, Step::default);
        }
        &mut self.steps[number]
    }

    /// The step that was called, and has not answered.
    pub(crate) fn acting(&self) -> Option<usize> {
        self.steps.iter().position(|step| step.state == State::Unknown)
    }

    /// What a step gave.
    #[cfg(test)]
    pub(super) fn result(&self, step: usize) -> Option<&Value> {
        self.steps.get(step)?.result.as_ref()
    }

    /// What a step was called with.
    pub(crate) fn input(&self, step: usize) -> Option<&Value> {
        self.steps.get(step)?.input.as_ref()
    }

    /// Why it does not go on.
    pub(crate) fn error(&self) -> Option<&Value> {
        self.failed.as_ref().map(|failed| &failed.error)
    }

    /// What all steps gave, by their ids.
    pub(crate) fn results(&self, saga: &Saga) -> BTreeMap<String, Value> {
        let named = saga.steps.iter().zip(&self.steps);
        named.filter_map(|(step, has)| Some((step.id.clone(), has.result.clone()?))).collect()
    }

    /// Whether a step is to be undone: it was done, or nobody knows and it says that this counts.
    pub(crate) fn is_to_be_undone(&self, number: usize, step: &SagaStep) -> bool {
        match self.steps.get(number).map_or(State::NotRun, |step| step.state) {
            State::Completed | State::Compensating => true,
            State::Unknown => step.compensate_on_unknown,
            State::NotRun | State::Failed | State::Compensated | State::CompensationFailed => false,
        }
    }

    /// What a saga comes to that did not complete.
    pub(crate) fn end(&self, saga: &Saga) -> End {
        let outcome = |(i, step): (usize, &SagaStep)| {
            let has = self.steps.get(i).cloned().unwrap_or_default();
            StepOutcome { id: step.id.clone(), outcome: has.state, error: has.error }
        };
        let steps: Vec<_> = saga.steps.iter().enumerate().map(outcome).collect();
        let is_left = steps.iter().any(|step| step.outcome == State::CompensationFailed);
        let failed = self.failed.as_ref();
        let failed_step = failed.and_then(|failed| saga.steps.get(failed.step?));
        End {
            status: if is_left { Status::CompensationFailed } else { Status::Compensated },
            failed_step: failed_step.map(|step| step.id.clone()),
            error: failed.map(|failed| failed.error.clone()),
            steps,
            output: None,
        }
    }
}
