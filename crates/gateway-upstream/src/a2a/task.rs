//! Messages and tasks of agents in both versions.

use gateway_protocol::jsonrpc::{self, Object};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Maximum length of a state name in messages, in bytes.
const STATE_BYTES: usize = 32;

/// The response to a message.
#[derive(Debug)]
pub(super) enum SendResponse {
    Message(Message),
    Task(Task),
}

/// A message or an artifact; both consist of parts.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Message {
    #[serde(default)]
    pub(super) parts: Vec<Part>,
}

/// A part: text or data. Other kinds have neither.
#[derive(Debug, Deserialize)]
pub(super) struct Part {
    pub(super) text: Option<String>,
    pub(super) data: Option<Box<RawValue>>,
}

/// A task.
#[derive(Debug, Deserialize)]
pub(super) struct Task {
    pub(super) id: String,
    status: Status,
    #[serde(default)]
    pub(super) artifacts: Vec<Message>,
}

#[derive(Debug, Deserialize)]
struct Status {
    state: String,
    message: Option<Message>,
}

/// The states of a task that its caller distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskState {
    /// The task is running.
    Working,
    /// The task waits for input or authentication.
    Waiting,
    /// The task succeeded.
    Completed,
    /// The task failed or was rejected.
    Failed,
    /// The task was canceled.
    Canceled,
    /// The state is unknown.
    Unknown,
}

impl TaskState {
    /// Whether the state is terminal.
    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }
}

impl SendResponse {
    /// Version 1.0 has a member per kind; version 0.3 has `kind`.
    pub(super) fn read(result: &RawValue) -> Option<Self> {
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

impl Task {
    pub(super) fn read(raw: &RawValue) -> Option<Self> {
        jsonrpc::read_object(raw)
    }

    /// The status message.
    pub(super) fn says(&self) -> Option<&Message> {
        self.status.message.as_ref()
    }

    /// The state name as version 0.3 writes it, shortened.
    pub(super) fn state_name(&self) -> String {
        let state = &self.status.state;
        let state = state.strip_prefix("TASK_STATE_").unwrap_or(state);
        let state = &state[..state.floor_char_boundary(STATE_BYTES)];
        state.to_ascii_lowercase().replace('_', "-")
    }

    pub(super) fn state(&self) -> TaskState {
        match self.state_name().as_str() {
            "submitted" | "working" => TaskState::Working,
            "input-required" | "auth-required" => TaskState::Waiting,
            "completed" => TaskState::Completed,
            "failed" | "rejected" => TaskState::Failed,
            "canceled" => TaskState::Canceled,
            _ => TaskState::Unknown,
        }
    }
}
