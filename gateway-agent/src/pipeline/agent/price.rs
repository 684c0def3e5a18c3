//! The price of a message, by the outcome that its answers report.
//!
//! A message that starts a task keeps its reservation until an answer has the result of the task, if
//! the result can report the price.

use a2a::{
    Operation, TaskState,
    model::{Event, Task},
    tool::{self, Text},
};
use gateway_protocol::mcp::{Era, RawResult, ResultType};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{
    super::{
        Error,
        admit::SentAdmission,
        purchase::{self, Outcome, StartedTask},
        send::Sending,
        task,
    },
    Exchange,
};
use crate::audit::CallRecord;

/// The outcome that the answers of an agent report.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Whether the outcome can have a price. Otherwise, no answer is kept.
    is_charged: bool,
    /// The agent's id of the task.
    task: Option<Box<str>>,
    /// The reply, or the task with its result. A status has no result.
    result: Option<Value>,
    has_failed: bool,
}

impl Progress {
    /// The progress of an operation. The outcome of a message has a price only with an admission.
    pub(super) fn of(operation: Operation, admission: Option<&SentAdmission<'_>>) -> Self {
        Self { is_charged: admission.is_some() || !operation.sends_message(), ..Self::default() }
    }

    /// Reads an answer or event with the agent's ids.
    pub(super) fn observe(&mut self, operation: Operation, answer: &Value) {
        if !self.is_charged {
            return;
        }
        if matches!(operation, Operation::GetTask | Operation::CancelTask) {
            self.observe_task(Task::of(answer), answer);
            return;
        }
        match Event::of(answer) {
            Some(Event::Task(task)) => self.observe_task(Some(task), &answer["task"]),
            Some(Event::Message(_)) => self.result = Some(answer["message"].clone()),
            Some(Event::Status { task_id, state, .. }) => {
                self.task = Some(task_id.into());
                self.has_failed = is_failure(state);
            }
            Some(Event::Artifact { .. }) | None => {}
        }
    }

    fn observe_task(&mut self, task: Option<Task<'_>>, value: &Value) {
        let Some(task) = task else { return };
        self.task = task.id().map(Into::into).or(self.task.take());
        self.has_failed = is_failure(task.state());
        self.result = (task.state() == TaskState::Completed).then(|| value.clone());
    }

    /// Charges the outcome of a message, or of the task that an earlier message started.
    pub(super) fn settle(
        self,
        exchange: &Exchange<'_>,
        admission: Option<SentAdmission<'_>>,
        error: Option<&Error>,
        record: &mut CallRecord,
    ) {
        if !self.is_charged {
            return;
        }
        let Sending { gateway, call, moment, .. } = exchange.sending;
        let (caller, principal) = (&call.caller.claim, &moment.principal);
        let key = self.task.as_deref().map(|id| task::key(gateway, caller, (exchange.agent, id)));
        let result = self.result.as_ref().and_then(to_result);
        if !exchange.operation.sends_message() {
            SentAdmission::settle(admission, error.map_or(Outcome::Sent, Outcome::from), record);
            let outcome = match &result {
                Some(result) => Outcome::Result(result),
                None if self.has_failed => Outcome::Failed,
                None => return,
            };
            if let Some(open) = key.and_then(|key| gateway.spending().take_task(&key)) {
                purchase::settle_task(open, outcome, gateway.traces(), record);
            }
            return;
        }
        let started = key.map(|key| StartedTask { key, caller: principal });
        let outcome = match (&result, &started) {
            (Some(result), _) => Outcome::Result(result),
            _ if self.has_failed => Outcome::Failed,
            (None, Some(started)) => Outcome::Started(started),
            (None, None) => error.map_or(Outcome::Sent, Outcome::from),
        };
        SentAdmission::settle(admission, outcome, record);
    }
}

fn is_failure(state: TaskState) -> bool {
    matches!(state, TaskState::Failed | TaskState::Canceled | TaskState::Rejected)
}

/// The result in the form of a tool's result. Policies find prices in that form.
fn to_result(answer: &Value) -> Option<RawResult> {
    let raw = to_raw_value(answer).ok()?;
    let text = if answer.get("status").is_some() {
        tool::of_task(&tool::Task::read(&raw)?, Text::MayBeJson).ok()?
    } else {
        let message: tool::Message = serde_json::from_str(raw.get()).ok()?;
        tool::of_message(&message, Text::MayBeJson)
    };
    let result = RawValue::from_string(text).ok()?;
    let (result_type, era) = (ResultType::Complete, Era::Modern);
    Some(RawResult { result, is_error: false, result_type, has_meta: false, era })
}
