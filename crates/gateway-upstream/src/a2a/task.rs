//! What agents say: messages and tasks, in both versions.

use gateway_protocol::jsonrpc::{self, Object};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Longest name of a state that is told.
const STATE_BYTES: usize = 32;

/// The answer to a message.
#[derive(Debug)]
pub(super) enum Said {
    Message(Message),
    Task(Task),
}

/// A message, or an artifact: what is in either is the same.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Message {
    #[serde(default)]
    pub(super) parts: Vec<Part>,
}

/// Text or data; what is something else has neither.
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

/// What a task's state means for who waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It goes on.
    Working,
    /// It goes on only with input that nobody gives.
    Waiting,
    /// It has done what it was to do.
    Completed,
    /// It says that it has not done what it was to do.
    Failed,
    /// It was stopped half way.
    Canceled,
    /// What nobody knows.
    Unknown,
}

impl State {
    /// Whether it goes on no more, whatever anybody does.
    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }
}

impl Said {
    /// In 1.0 a member says which it is, in 0.3 its `kind`.
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

    /// What it says of how it stands.
    pub(super) fn says(&self) -> Option<&Message> {
        self.status.message.as_ref()
    }

    /// Its state, as 0.3 writes it; what is longer than any state is cut off.
    pub(super) fn state_name(&self) -> String {
        let state = &self.status.state;
        let state = state.strip_prefix("TASK_STATE_").unwrap_or(state);
        let state = &state[..state.floor_char_boundary(STATE_BYTES)];
        state.to_ascii_lowercase().replace('_', "-")
    }

    /// Its state.
    pub(super) fn state(&self) -> State {
        match self.state_name().as_str() {
            "submitted" | "working" => State::Working,
            "input-required" | "auth-required" => State::Waiting,
            "completed" => State::Completed,
            "failed" | "rejected" => State::Failed,
            "canceled" => State::Canceled,
            _ => State::Unknown,
        }
    }
}
