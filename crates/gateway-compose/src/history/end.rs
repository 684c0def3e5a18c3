//! How a saga ended, and what became of each of its steps.

use registry_core::spec::{Saga, SagaStep};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::State;

/// How a saga ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All steps are done.
    Completed,
    /// What was done was undone.
    Compensated,
    /// Something that was done could not be undone.
    CompensationFailed,
}

impl Status {
    /// As results, metrics and operators read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Compensated => "compensated",
            Self::CompensationFailed => "compensation_failed",
        }
    }
}

/// What a saga came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// How it ended.
    pub status: Status,
    /// The step that failed, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_step: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// What became of each step.
    pub steps: Vec<StepOutcome>,
    /// The result of a completed saga.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// What became of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepOutcome {
    /// Its id.
    pub id: String,
    /// `completed`, `not_run` …
    pub(super) outcome: State,
    /// Why it could not be undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Value>,
}

impl End {
    /// All went well.
    pub(crate) fn completed(saga: &Saga, output: Value) -> Self {
        let done = |step: &SagaStep| StepOutcome {
            id: step.id.clone(),
            outcome: State::Completed,
            error: None,
        };
        Self {
            status: Status::Completed,
            failed_step: None,
            error: None,
            steps: saga.steps.iter().map(done).collect(),
            output: Some(output),
        }
    }

    /// Whether nothing was done before a step failed.
    pub(crate) fn is_idle(&self) -> bool {
        let is_idle = |step: &StepOutcome| matches!(step.outcome, State::NotRun | State::Failed);
        self.steps.iter().all(is_idle)
    }

    /// The steps that could not be undone.
    pub(crate) fn left(&self) -> Vec<&str> {
        let is_left = |step: &&StepOutcome| step.outcome == State::CompensationFailed;
        self.steps.iter().filter(is_left).map(|step| step.id.as_str()).collect()
    }

    /// The steps of which nobody knows what they did, and which were not undone.
    pub(crate) fn unsure(&self) -> Vec<&str> {
        let is_unsure = |step: &&StepOutcome| step.outcome == State::Unknown;
        self.steps.iter().filter(is_unsure).map(|step| step.id.as_str()).collect()
    }
}
