//! The end of a saga and the outcome of each of its steps.

use registry_core::spec::{Saga, SagaStep};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::StepState;

/// The final status of a saga.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SagaStatus {
    /// All steps completed.
    Completed,
    /// The completed steps were compensated.
    Compensated,
    /// A compensation failed.
    CompensationFailed,
}

impl SagaStatus {
    /// The name in results, metrics and operator APIs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Compensated => "compensated",
            Self::CompensationFailed => "compensation_failed",
        }
    }
}

/// The end of a saga.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SagaEnd {
    /// The final status.
    pub status: SagaStatus,
    /// The failed step, if the saga failed in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_step: Option<String>,
    /// The error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// The outcome of each step.
    pub steps: Vec<StepOutcome>,
    /// The result of a completed saga.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// The outcome of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepOutcome {
    /// The id of the step.
    pub id: String,
    /// `completed`, `not_run` …
    pub(super) outcome: StepState,
    /// The error of a failed compensation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Value>,
}

impl SagaEnd {
    /// The end of a saga whose steps all completed.
    pub(crate) fn completed(saga: &Saga, output: Value) -> Self {
        let done = |step: &SagaStep| StepOutcome {
            id: step.id.clone(),
            outcome: StepState::Completed,
            error: None,
        };
        Self {
            status: SagaStatus::Completed,
            failed_step: None,
            error: None,
            steps: saga.steps.iter().map(done).collect(),
            output: Some(output),
        }
    }

    /// Whether no step had effects.
    pub(crate) fn is_idle(&self) -> bool {
        let is_idle =
            |step: &StepOutcome| matches!(step.outcome, StepState::NotRun | StepState::Failed);
        self.steps.iter().all(is_idle)
    }

    /// The steps whose compensation failed.
    pub(crate) fn left(&self) -> Vec<&str> {
        let is_left = |step: &&StepOutcome| step.outcome == StepState::CompensationFailed;
        self.steps.iter().filter(is_left).map(|step| step.id.as_str()).collect()
    }

    /// The steps with an unknown outcome that were not compensated.
    pub(crate) fn unsure(&self) -> Vec<&str> {
        let is_unsure = |step: &&StepOutcome| step.outcome == StepState::Unknown;
        self.steps.iter().filter(is_unsure).map(|step| step.id.as_str()).collect()
    }
}
