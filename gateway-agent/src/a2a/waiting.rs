//! Tasks of messages that need the approval of a person: `TASK_STATE_AUTH_REQUIRED`.
//!
//! The gateway stores nothing. The id of such a task is sealed for its caller, and has the request for
//! the approval. The caller repeats its message with this id after the decision.

use a2a::{ErrorKind, Failure, Operation, Request, TaskState};
use gateway_policy::CallerIdentity;
use policy::Reason;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::address::AgentName;
use crate::{
    clock,
    pipeline::{self, Error, Gateway, message},
};

/// The purpose in the associated data of the seal.
const PURPOSE: &str = "a2a-approval-1";
/// The member of the metadata of such a task.
const MARK: &str = "registry/approval";

/// Whether an answer or event is the task of a message that waits for an approval.
pub(super) fn is_waiting(answer: &Value) -> bool {
    answer["task"]["metadata"].get(MARK).is_some()
}

/// The ids of a message before it is sent.
#[derive(Debug)]
pub(super) struct MessageIds {
    context: Option<Box<str>>,
    task: Option<Box<str>>,
}

/// A message that waits for an approval.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WaitingTask {
    agent: Box<str>,
    /// The id of the request.
    approval: Box<str>,
    /// The context of the message. A task without one shows the id of the request.
    context: Option<Box<str>>,
    /// The task that the message continues.
    continued: Option<Box<str>>,
}

impl MessageIds {
    /// The ids of a request that sends a message.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let message = request.message().filter(|_| request.operation.sends_message())?;
        Some(Self {
            context: message.context_id().map(Into::into),
            task: message.task_id().map(Into::into),
        })
    }

    /// The answer to a message that an approval is missing for. `None`: another error.
    pub(super) fn waiting(
        self,
        gateway: &Gateway,
        caller: &CallerIdentity,
        agent: &AgentName,
        error: &Error,
    ) -> Option<Value> {
        let Error::Policy(denial) = error else { return None };
        let Reason::ApprovalRequired(Some(missing)) = &denial.finding.reason else { return None };
        let approval: Box<str> = missing.id.as_str().into();
        let task = WaitingTask {
            agent: agent.name.as_str().into(),
            context: self.context,
            continued: self.task,
            approval,
        };
        let id = task.id(gateway, caller)?;
        let text = message::for_caller(agent.name.as_str(), error);
        let text = format!("{text} Send it with this taskId.");
        let mut shown = task.shown(&id, TaskState::AuthRequired, &text);
        let approval = json!({
            "id": missing.id, "url": missing.url,
            "expiresAt": missing.expires_at.map(|end| end.to_string()),
        });
        shown["metadata"] = json!({ MARK: approval });
        Some(json!({ "task": shown }))
    }
}

impl WaitingTask {
    /// The task of a request. `None`: it is about no task, or about one of the agent.
    pub(super) fn of(
        gateway: &Gateway,
        caller: &CallerIdentity,
        agent: &AgentName,
        request: &Request,
    ) -> Option<Self> {
        let id = request.task_id()?;
        let owner = pipeline::sealed_for(gateway, PURPOSE, caller);
        let content = gateway.sealer().open(&owner, id)?;
        let task = serde_json::from_slice::<Self>(&content).ok()?;
        (*task.agent == *agent.name.as_str()).then_some(task)
    }

    /// Restores the ids of a repeated message. The agent does not know the ids that the task shows.
    pub(super) fn release(self, request: &mut Request) {
        let Some(message) = request.params.get_mut("message").and_then(Value::as_object_mut) else {
            return;
        };
        for (name, id) in [("taskId", self.continued), ("contextId", self.context)] {
            match id {
                Some(id) => message.insert(name.to_owned(), (&*id).into()),
                None => message.remove(name),
            };
        }
    }

    /// The task while its caller has not repeated the message.
    pub(super) fn current(&self, id: &str) -> Value {
        let text = format!(
            "The message needs the approval {}. Repeat it with this taskId after the decision.",
            self.approval
        );
        self.shown(id, TaskState::AuthRequired, &text)
    }

    /// Cancels the request for the approval.
    pub(super) async fn cancel(
        &self,
        gateway: &Gateway,
        caller: &CallerIdentity,
        id: &str,
    ) -> Result<Value, Failure> {
        match pipeline::withdraw_approval(gateway, caller, &self.approval).await {
            Ok(()) => Ok(self.shown(id, TaskState::Canceled, "The caller canceled the message.")),
            Err(problem) => {
                let failure = Failure::new(ErrorKind::TaskNotCancelable, problem);
                Err(failure.with_metadata("taskId", id))
            }
        }
    }

    /// Whether an operation is about the task itself.
    pub(super) fn is_subject_of(operation: Operation) -> bool {
        matches!(operation, Operation::GetTask | Operation::CancelTask)
    }

    fn id(&self, gateway: &Gateway, caller: &CallerIdentity) -> Option<String> {
        let content = serde_json::to_vec(self).ok()?;
        let owner = pipeline::sealed_for(gateway, PURPOSE, caller);
        // Repeated messages get one task.
        gateway.sealer().seal_equally(&owner, &content).ok()
    }

    fn shown(&self, id: &str, state: TaskState, text: &str) -> Value {
        let context = self.context.as_ref().unwrap_or(&self.approval);
        let message = json!({
            "messageId": format!("{}-status", self.approval), "role": "ROLE_AGENT",
            "taskId": id, "contextId": context, "parts": [{ "text": text }],
        });
        json!({
            "id": id, "contextId": context,
            "status": { "state": state.name(), "message": message, "timestamp": clock::timestamp() },
        })
    }
}
