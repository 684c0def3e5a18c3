//! Messages to the skills of an agent of A2A.

use a2a::{
    Operation, Request, TaskState,
    extensions::Extensions,
    model::{Event, Message, SKILL_ID, Task},
};
use agent_rpc::{
    Failure, Reason,
    media::{Media, values_of_a2a},
};
use gateway_protocol::{
    content,
    jsonrpc::{Object, read_string},
};
use registry_core::visible::escape_invisible;
use serde_json::{Map, Value, json, value::RawValue};
use uuid::Uuid;

use super::{Invoked, Rejection, Serving, TRACE_ID};
use crate::pipeline::{AgentCall, Error, Output, PushRole, RequestedAgent, Target};

/// The pointer of the data of a message with one part.
const DATA: &str = "/message/parts/0/data";
/// Maximum bytes of an agent's text in an error.
const TEXT_BYTES: usize = 1_024;

/// The place of a message in a conversation, with the caller's ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Conversation {
    pub(super) context: Option<String>,
    /// The task that has not ended.
    pub(super) task: Option<String>,
}

/// A message with one part.
pub(super) struct Sent<'a> {
    pub(super) skill: &'a str,
    part: Value,
    /// The pointer of its data in the parameters.
    pointer: &'a str,
}

impl<'a> Sent<'a> {
    /// The message with a value of AIO.
    pub(super) fn of_input(skill: &'a str, input: &Media) -> Self {
        Self { skill, part: input.to_a2a(), pointer: "/input/value" }
    }
}

/// The answer of an agent.
#[derive(Debug)]
pub(super) struct SkillAnswer {
    pub(super) outputs: Vec<Value>,
    /// `None`: a message without a task.
    pub(super) state: Option<TaskState>,
    pub(super) conversation: Conversation,
    /// The text of the status.
    text: String,
}

impl Serving<'_> {
    /// `agent::skill` with data, or with the text of a skill that takes text.
    pub(super) async fn call_skill(
        &mut self,
        skill: &str,
        args: Option<&RawValue>,
        takes_text: bool,
    ) -> Result<String, Rejection> {
        let part = if takes_text {
            let text = args.and_then(|args| {
                Object::parse(args).ok()?.find("text").and_then(read_string).map(String::from)
            });
            let text = text.ok_or_else(|| {
                Failure::invalid_params("/text", "the skill takes text: send it as `text`")
            })?;
            json!({ "text": text })
        } else {
            let data = args.map_or("{}", RawValue::get);
            self.reserve(content::tree_bytes(data))?;
            // The parameters are an object.
            let data: Value = serde_json::from_str(data).unwrap_or_default();
            json!({ "data": data, "mediaType": "application/json" })
        };
        let sent = Sent { skill, part, pointer: "" };
        Box::pin(self.send(sent, Conversation::default())).await?.completed()
    }

    /// `agent::input` for a skill.
    pub(super) async fn send_input(
        &mut self,
        skill: &str,
        input: &Media,
    ) -> Result<String, Rejection> {
        let sent = Sent::of_input(skill, input);
        Box::pin(self.send(sent, Conversation::default())).await?.completed()
    }

    /// Sends a message with one part.
    pub(super) async fn send(
        &mut self,
        Sent { skill, part, pointer }: Sent<'_>,
        Conversation { context, task }: Conversation,
    ) -> Result<SkillAnswer, Rejection> {
        let mut message = json!({
            "messageId": Uuid::new_v4().to_string(), "role": "ROLE_USER", "parts": [part],
            "metadata": { SKILL_ID: skill },
        });
        for (name, id) in [("contextId", context), ("taskId", task)] {
            if let Some(id) = id {
                message[name] = id.into();
            }
        }
        let mut params = Map::new();
        params.insert("message".to_owned(), message);
        // A generated id would make each repetition a different request for approvals.
        if self.trace.is_named() {
            params.insert("metadata".to_owned(), json!({ TRACE_ID: self.trace.id() }));
        }
        Box::pin(self.operation(Operation::SendMessage, params, pointer)).await
    }

    /// Requests a task with the caller's id.
    pub(super) async fn poll(&mut self, task: &str) -> Result<SkillAnswer, Rejection> {
        let mut params = Map::new();
        params.insert("id".to_owned(), task.into());
        Box::pin(self.operation(Operation::GetTask, params, "")).await
    }

    async fn operation(
        &mut self,
        operation: Operation,
        params: Map<String, Value>,
        pointer: &str,
    ) -> Result<SkillAnswer, Rejection> {
        let name = self.agent.name;
        let call = AgentCall {
            agent: RequestedAgent { name: name.clone(), version: None },
            request: Request::new(operation, params),
            extensions: Extensions::default(),
            events: None,
            takes_repeats: false,
            late: None,
            push: PushRole::None,
        };
        let (target, name) = (Target::Agent(call), name.as_str());
        let output = Box::pin(self.invoke(Invoked { target, params: Vec::new(), name })).await;
        let answer = output.and_then(Output::into_agent_result);
        let answer = answer.map_err(|error| self.failed(name, in_data(error), pointer))?;
        self.reserve(content::value_bytes(&answer))?;
        Ok(SkillAnswer::of(&answer))
    }
}

impl SkillAnswer {
    /// Reads an answer: a message, or a task with or without its wrapper.
    fn of(answer: &Value) -> Self {
        if let Some(Event::Message(message)) = Event::of(answer) {
            let context = message.context_id().map(str::to_owned);
            return Self {
                outputs: values_of_a2a(parts(&answer["message"])),
                state: None,
                conversation: Conversation { context, task: None },
                text: String::new(),
            };
        }
        let task = answer.get("task").unwrap_or(answer);
        let found = Task::of(task);
        let state = found.map_or(TaskState::Unspecified, Task::state);
        let text = found.and_then(Task::status_message).map(Message::text);
        let artifacts = task["artifacts"].as_array().into_iter().flatten().flat_map(parts);
        let outputs = artifacts.chain(parts(&task["status"]["message"]));
        let id = found.and_then(Task::id).filter(|_| !state.is_terminal());
        Self {
            outputs: values_of_a2a(outputs),
            state: Some(state),
            conversation: Conversation {
                context: found.and_then(Task::context_id).map(str::to_owned),
                task: id.map(str::to_owned),
            },
            text: text.unwrap_or_default(),
        }
    }

    /// The error of a task that ended without a result.
    pub(super) fn failure(&self) -> Option<Failure> {
        let problem = match self.state? {
            TaskState::Failed => "the task failed",
            TaskState::Rejected => "the agent rejected the task",
            TaskState::Canceled => "the task was canceled",
            TaskState::AuthRequired => "the agent requires an authentication of the caller",
            _ => return None,
        };
        let text = &self.text[..self.text.floor_char_boundary(TEXT_BYTES)];
        let message = if text.is_empty() {
            problem.to_owned()
        } else {
            format!("{problem}: {}", escape_invisible(text))
        };
        Some(Failure::new(Reason::ToolError, message))
    }

    /// The result of a call that ends with its answer.
    fn completed(self) -> Result<String, Rejection> {
        if let Some(failure) = self.failure() {
            return Err(failure.into());
        }
        if self.conversation.task.is_some() {
            let message =
                "the task of the agent has not ended; use sampling.start and sampling.step";
            return Err(Failure::new(Reason::ToolError, message).into());
        }
        Ok(json!({ "output": self.outputs }).to_string())
    }
}

/// An error whose pointers are those in the data of the only part.
fn in_data(mut error: Error) -> Error {
    if let Error::InvalidInput { violations } = &mut error {
        for violation in violations {
            if let Some(rest) = violation.pointer.strip_prefix(DATA) {
                violation.pointer = rest.to_owned();
            }
        }
    }
    error
}

/// The parts of a message or an artifact.
fn parts(value: &Value) -> impl Iterator<Item = &Value> {
    value["parts"].as_array().into_iter().flatten()
}
