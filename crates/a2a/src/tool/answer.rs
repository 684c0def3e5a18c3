//! Messages and tasks of agents in both versions.

use gateway_protocol::jsonrpc::{self, Object};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::model::TaskState;

/// Maximum length of a state name in messages, in bytes.
const STATE_BYTES: usize = 32;

/// The response to a message.
#[derive(Debug)]
pub enum SendResponse {
    /// A message.
    Message(Message),
    /// A task.
    Task(Task),
}

/// A message or an artifact; both consist of parts.
#[derive(Debug, Default, Deserialize)]
pub struct Message {
    /// The parts.
    #[serde(default)]
    pub parts: Vec<Part>,
}

/// A part: text or data. Other kinds have neither.
#[derive(Debug, Deserialize)]
pub struct Part {
    /// The text.
    pub text: Option<String>,
    /// The data.
    pub data: Option<Box<RawValue>>,
}

/// A task.
#[derive(Debug, Deserialize)]
pub struct Task {
    /// The id.
    pub id: String,
    status: Status,
    /// The artifacts.
    #[serde(default)]
    pub artifacts: Vec<Message>,
}

#[derive(Debug, Deserialize)]
struct Status {
    state: String,
    message: Option<Message>,
    #[serde(default)]
    timestamp: Value,
}

impl SendResponse {
    /// Version 1.0 has a member per kind; version 0.3 has `kind`.
    pub fn read(result: &RawValue) -> Option<Self> {
        let members = Object::parse(result).ok()?;
        let message = |raw| jsonrpc::read_object(raw).map(Self::Message);
        match (members.find("task"), members.find("message"), members.find("kind")) {
            (Some(task), ..) => Task::read(task).map(Self::Task),
            (None, Some(said), _) => message(said),
            (None, None, Some(kind)) if kind.get() == r#""task""# => {
                Task::read(result).map(Self::Task)
            }
            (None, None, Some(kind)) if kind.get() == r#""message""# => message(result),
            _ => None,
        }
    }
}

impl Message {
    /// The text parts, joined.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(|part| part.text.as_deref()).collect()
    }
}

impl Task {
    /// Reads a task.
    pub fn read(raw: &RawValue) -> Option<Self> {
        jsonrpc::read_object(raw)
    }

    /// The status message.
    pub fn status_message(&self) -> Option<&Message> {
        self.status.message.as_ref()
    }

    /// The time of the status.
    pub fn timestamp(&self) -> Option<&str> {
        self.status.timestamp.as_str()
    }

    /// The text of the status message.
    pub fn words(&self) -> String {
        self.status_message().map(Message::text).unwrap_or_default()
    }

    /// The state name as version 0.3 writes it, shortened.
    pub fn state_name(&self) -> String {
        let state = &self.status.state;
        let state = state.strip_prefix("TASK_STATE_").unwrap_or(state);
        let state = &state[..state.floor_char_boundary(STATE_BYTES)];
        state.to_ascii_lowercase().replace('_', "-")
    }

    /// The state. An unknown one is unspecified.
    pub fn state(&self) -> TaskState {
        let state = TaskState::parse(&self.status.state);
        state.or_else(|| TaskState::parse(&self.state_name())).unwrap_or(TaskState::Unspecified)
    }
}
