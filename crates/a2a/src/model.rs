//! Views of messages, parts and tasks in their internal form.

use serde_json::Value;

use crate::json::{Object, filled, items, text};

/// The member of a message's or request's metadata with the skill's id. A2A has no field for it.
pub const SKILL_ID: &str = "skillId";

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// The task is accepted.
    Submitted,
    /// The task is running.
    Working,
    /// The task needs input.
    InputRequired,
    /// The task needs an authentication. This state is no authorization (section 7.6.4).
    AuthRequired,
    /// The task succeeded.
    Completed,
    /// The task failed.
    Failed,
    /// The task was canceled.
    Canceled,
    /// The agent rejected the task.
    Rejected,
    /// The state is unknown.
    Unspecified,
}

impl TaskState {
    /// All states.
    pub const ALL: [Self; 9] = [
        Self::Submitted,
        Self::Working,
        Self::InputRequired,
        Self::AuthRequired,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
        Self::Rejected,
        Self::Unspecified,
    ];

    /// The names of 1.0 and of 0.3.
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::Submitted => ["TASK_STATE_SUBMITTED", "submitted"],
            Self::Working => ["TASK_STATE_WORKING", "working"],
            Self::InputRequired => ["TASK_STATE_INPUT_REQUIRED", "input-required"],
            Self::AuthRequired => ["TASK_STATE_AUTH_REQUIRED", "auth-required"],
            Self::Completed => ["TASK_STATE_COMPLETED", "completed"],
            Self::Failed => ["TASK_STATE_FAILED", "failed"],
            Self::Canceled => ["TASK_STATE_CANCELED", "canceled"],
            Self::Rejected => ["TASK_STATE_REJECTED", "rejected"],
            Self::Unspecified => ["TASK_STATE_UNSPECIFIED", "unknown"],
        }
    }

    /// The name in 1.0.
    pub fn name(self) -> &'static str {
        self.names()[0]
    }

    /// The name in JSON-RPC of 0.3.
    pub fn legacy_name(self) -> &'static str {
        self.names()[1]
    }

    /// Parses the name of any version, including the spelling of the Protocol Buffers of 0.3.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "TASK_STATE_CANCELLED" {
            return Some(Self::Canceled);
        }
        Self::ALL.into_iter().find(|state| state.names().contains(&text))
    }

    /// Whether the task has ended. It accepts no more messages.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Whether the task waits for its caller.
    pub fn is_interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

/// A message or an artifact.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a>(pub(crate) &'a Object);

/// A part of a message or an artifact.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a>(&'a Object);

/// The content of a part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Content<'a> {
    /// Text.
    Text(&'a str),
    /// A file as base64.
    Raw(&'a str),
    /// The URL of a file.
    Url(&'a str),
    /// Any JSON value.
    Data(&'a Value),
}

/// A task.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a>(&'a Object);

impl<'a> Message<'a> {
    /// The view of a JSON object.
    pub fn of(value: &'a Value) -> Option<Self> {
        value.as_object().map(Self)
    }

    /// `messageId`, or `artifactId` of an artifact.
    pub fn id(self) -> Option<&'a str> {
        filled(self.0, "messageId").or_else(|| filled(self.0, "artifactId"))
    }

    /// The task that the message belongs to.
    pub fn task_id(self) -> Option<&'a str> {
        filled(self.0, "taskId")
    }

    /// The context that the message belongs to.
    pub fn context_id(self) -> Option<&'a str> {
        filled(self.0, "contextId")
    }

    /// The parts that are objects.
    pub fn parts(self) -> impl Iterator<Item = Part<'a>> {
        items(self.0, "parts").iter().filter_map(|part| part.as_object().map(Part))
    }

    /// A member of `metadata`.
    pub fn metadata(self, name: &str) -> Option<&'a Value> {
        self.0.get("metadata")?.get(name)
    }

    /// The id of the skill in the metadata.
    pub fn skill_id(self) -> Option<&'a str> {
        self.metadata(SKILL_ID)?.as_str()
    }

    /// All text parts, joined.
    pub fn text(self) -> String {
        let texts = self.parts().filter_map(|part| match part.content() {
            Some(Content::Text(text)) => Some(text),
            _ => None,
        });
        texts.collect()
    }
}

impl<'a> Part<'a> {
    /// The content. `None`: the part has none that is known.
    pub fn content(self) -> Option<Content<'a>> {
        let is_text = |name| text(self.0, name);
        is_text("text")
            .map(Content::Text)
            .or_else(|| is_text("raw").map(Content::Raw))
            .or_else(|| is_text("url").map(Content::Url))
            .or_else(|| self.0.get("data").map(Content::Data))
    }

    /// The media type, by default the one of the content.
    pub fn media_type(self) -> &'a str {
        filled(self.0, "mediaType").unwrap_or(match self.content() {
            Some(Content::Text(_)) => "text/plain",
            Some(Content::Data(_)) => "application/json",
            _ => "application/octet-stream",
        })
    }

    /// The name of the file.
    pub fn filename(self) -> Option<&'a str> {
        filled(self.0, "filename")
    }
}

impl<'a> Task<'a> {
    /// The view of a JSON object.
    pub fn of(value: &'a Value) -> Option<Self> {
        value.as_object().map(Self)
    }

    /// The id.
    pub fn id(self) -> Option<&'a str> {
        filled(self.0, "id")
    }

    /// The context.
    pub fn context_id(self) -> Option<&'a str> {
        filled(self.0, "contextId")
    }

    fn status(self) -> Option<&'a Object> {
        self.0.get("status")?.as_object()
    }

    /// The state.
    pub fn state(self) -> TaskState {
        state_of(self.status())
    }

    /// The time of the status, as RFC 3339.
    pub fn timestamp(self) -> Option<&'a str> {
        filled(self.status()?, "timestamp")
    }

    /// The message of the status.
    pub fn status_message(self) -> Option<Message<'a>> {
        self.status()?.get("message").and_then(Message::of)
    }

    /// The artifacts.
    pub fn artifacts(self) -> impl Iterator<Item = Message<'a>> {
        items(self.0, "artifacts").iter().filter_map(Message::of)
    }
}

fn state_of(status: Option<&Object>) -> TaskState {
    let name = status.and_then(|status| text(status, "state"));
    name.and_then(TaskState::parse).unwrap_or(TaskState::Unspecified)
}

/// An answer of `SendMessage`, or an event of a stream.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A task: the first event of a stream of a task, or an answer.
    Task(Task<'a>),
    /// A message: the only event of its stream, or an answer.
    Message(Message<'a>),
    /// A change of a task's status.
    Status {
        /// The id of the task.
        task_id: &'a str,
        /// The new state.
        state: TaskState,
        /// The message of the status.
        message: Option<Message<'a>>,
    },
    /// A new artifact of a task, or a piece of one.
    Artifact {
        /// The id of the task.
        task_id: &'a str,
        /// The artifact.
        artifact: Message<'a>,
    },
}

impl<'a> Event<'a> {
    /// The view of an event in its internal form. `None`: it has no known payload.
    pub fn of(event: &'a Value) -> Option<Self> {
        let member = |name| event.get(name).and_then(Value::as_object);
        if let Some(task) = member("task") {
            return Some(Self::Task(Task(task)));
        }
        if let Some(message) = member("message") {
            return Some(Self::Message(Message(message)));
        }
        if let Some(update) = member("statusUpdate") {
            let status = update.get("status").and_then(Value::as_object);
            let message = status.and_then(|s| s.get("message")).and_then(Message::of);
            let task_id = filled(update, "taskId")?;
            return Some(Self::Status { task_id, state: state_of(status), message });
        }
        let update = member("artifactUpdate")?;
        let artifact = Message::of(update.get("artifact")?)?;
        Some(Self::Artifact { task_id: filled(update, "taskId")?, artifact })
    }

    /// The id of the task, also of a message that belongs to one.
    pub fn task_id(self) -> Option<&'a str> {
        match self {
            Self::Task(task) => task.id(),
            Self::Message(message) => message.task_id(),
            Self::Status { task_id, .. } | Self::Artifact { task_id, .. } => Some(task_id),
        }
    }

    /// Whether the stream ends with this event.
    pub fn is_last(self) -> bool {
        match self {
            Self::Task(task) => task.state().is_terminal(),
            Self::Message(_) => true,
            Self::Status { state, .. } => state.is_terminal(),
            Self::Artifact { .. } => false,
        }
    }
}
