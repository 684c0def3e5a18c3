//! The JSON of A2A in each version: methods, messages, tasks, events and errors.

use serde_json::{Value, json};

use super::hosted_agent::{Event, Input};

/// A version of A2A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// 0.3.
    V03,
    /// 1.0.
    V1,
}

/// A supported operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Sends a message and returns a reply or a task.
    Send,
    /// Sends a message and streams the events of its task.
    Stream,
    /// Returns a task.
    Get,
    /// Cancels a task.
    Cancel,
    /// Streams the further events of a task.
    Subscribe,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The agent works on it.
    Working,
    /// It has ended with a result.
    Completed,
    /// A client has canceled it.
    Canceled,
}

/// A part of a message or an artifact.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// Data.
    Data(Value),
}

/// A snapshot of a task.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// The id of the conversation.
    pub context_id: String,
    /// Its state.
    pub state: State,
    /// The last words of the agent.
    pub words: Option<String>,
    /// When the state was reached.
    pub timestamp: String,
    /// Its results.
    pub artifacts: Vec<Part>,
}

/// A message as it arrived.
#[derive(Debug)]
pub struct Message {
    /// The requested skill.
    pub skill: Option<String>,
    /// The content.
    pub input: Input,
    /// The task that it belongs to.
    pub task_id: Option<String>,
    /// The conversation that it belongs to.
    pub context_id: Option<String>,
    /// Whether the client waits for the end of the task.
    pub is_blocking: bool,
}

/// An error of JSON-RPC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The code.
    pub code: i64,
    /// The message.
    pub message: String,
}

impl Failure {
    /// Invalid parameters.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { code: -32602, message: message.into() }
    }

    /// The task does not exist.
    pub fn no_task(id: &str) -> Self {
        Self { code: -32001, message: format!("no task has the id {id:?}") }
    }

    /// The task has ended.
    pub fn not_cancelable(id: &str) -> Self {
        Self { code: -32002, message: format!("the task {id} has ended") }
    }

    /// The agent has no such operation in this state.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self { code: -32004, message: message.into() }
    }

    /// The agent does not speak this version.
    pub fn version(requested: &str) -> Self {
        Self { code: -32009, message: format!("the version {requested:?} is not supported") }
    }

    /// The method does not exist.
    pub fn no_method(method: &str) -> Self {
        Self { code: -32601, message: format!("no method has the name {method:?}") }
    }
}

impl State {
    /// Whether a task in this state has ended.
    pub fn is_final(self) -> bool {
        self != Self::Working
    }
}

impl Protocol {
    /// Whether the header `A2A-Version` allows this version. Without it, a client speaks 0.3.
    pub fn accepts(self, header: Option<&str>) -> bool {
        match self {
            Self::V03 => header.is_none_or(|version| version.is_empty() || version == "0.3"),
            Self::V1 => header == Some("1.0"),
        }
    }

    /// The operation of a method.
    pub fn operation(self, method: &str) -> Option<Operation> {
        Some(match (self, method) {
            (Self::V1, "SendMessage") | (Self::V03, "message/send") => Operation::Send,
            (Self::V1, "SendStreamingMessage") | (Self::V03, "message/stream") => Operation::Stream,
            (Self::V1, "GetTask") | (Self::V03, "tasks/get") => Operation::Get,
            (Self::V1, "CancelTask") | (Self::V03, "tasks/cancel") => Operation::Cancel,
            (Self::V1, "SubscribeToTask") | (Self::V03, "tasks/resubscribe") => {
                Operation::Subscribe
            }
            _ => return None,
        })
    }

    /// Reads the parameters of a message.
    pub fn message(self, params: &Value) -> Result<Message, Failure> {
        let message = &params["message"];
        let parts = message["parts"].as_array().filter(|parts| !parts.is_empty());
        let parts = parts.ok_or_else(|| Failure::invalid("the message has no parts"))?;
        let mut input = Input::default();
        for part in parts {
            if let Some(text) = part["text"].as_str() {
                input.text.push_str(text);
            }
            if let Some(data) = part.get("data") {
                input.data = Some(data.clone());
            }
        }
        let text =
            |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let configuration = &params["configuration"];
        Ok(Message {
            skill: text(&message["metadata"]["skillId"]),
            input,
            task_id: text(&message["taskId"]),
            context_id: text(&message["contextId"]),
            is_blocking: match self {
                Self::V1 => configuration["returnImmediately"] != true,
                Self::V03 => configuration["blocking"] != false,
            },
        })
    }

    /// The result of a message that is answered without a task.
    pub fn reply(self, id: &str, context_id: &str, part: &Part) -> Value {
        self.wrapped("message", self.agent_message(id, context_id, part))
    }

    /// A task as the result of a message, or as the first event of a stream.
    pub fn sent_task(self, task: &Task) -> Value {
        self.wrapped("task", self.task(task))
    }

    /// A task as the result of an operation on tasks.
    pub fn task(self, task: &Task) -> Value {
        let artifacts: Vec<_> = task.artifacts.iter().map(|part| self.artifact(part)).collect();
        let mut object = json!({ "id": task.id, "contextId": task.context_id,
            "status": self.status(task), "artifacts": artifacts });
        self.add_kind("task", &mut object);
        object
    }

    /// An event, given the task after it.
    pub fn event(self, event: &Event, task: &Task) -> Value {
        let mut update = json!({ "taskId": task.id, "contextId": task.context_id });
        let (name, kind) = match event {
            Event::Status(state, _) => {
                update["status"] = self.status(task);
                if self == Self::V03 {
                    update["final"] = state.is_final().into();
                }
                ("statusUpdate", "status-update")
            }
            Event::Artifact(part) => {
                update["artifact"] = self.artifact(part);
                update["lastChunk"] = true.into();
                ("artifactUpdate", "artifact-update")
            }
        };
        self.add_kind(kind, &mut update);
        self.wrapped(name, update)
    }

    /// Adds the address and the version to a card.
    pub fn add_interface(self, card: &mut Value, url: &str) {
        match self {
            Self::V1 => {
                card["supportedInterfaces"] = json!([{ "url": url, "protocolBinding": "JSONRPC",
                    "protocolVersion": "1.0" }]);
            }
            Self::V03 => {
                card["url"] = url.into();
                card["preferredTransport"] = "JSONRPC".into();
                card["protocolVersion"] = "0.3.0".into();
            }
        }
    }

    /// Adds the requirement of a bearer token to a card.
    pub fn add_bearer_scheme(self, card: &mut Value) {
        match self {
            Self::V1 => {
                card["securitySchemes"] =
                    json!({ "bearer": { "httpAuthSecurityScheme": { "scheme": "bearer" } } });
                card["securityRequirements"] = json!([{ "schemes": { "bearer": { "list": [] } } }]);
            }
            Self::V03 => {
                card["securitySchemes"] =
                    json!({ "bearer": { "type": "http", "scheme": "bearer" } });
                card["security"] = json!([{ "bearer": [] }]);
            }
        }
    }

    fn status(self, task: &Task) -> Value {
        let mut status = json!({ "state": self.state(task.state), "timestamp": task.timestamp });
        if let Some(words) = &task.words {
            let part = Part::Text(words.clone());
            let mut message =
                self.agent_message(&format!("{}-status", task.id), &task.context_id, &part);
            message["taskId"] = task.id.as_str().into();
            status["message"] = message;
        }
        status
    }

    fn state(self, state: State) -> &'static str {
        let [old, new] = match state {
            State::Working => ["working", "TASK_STATE_WORKING"],
            State::Completed => ["completed", "TASK_STATE_COMPLETED"],
            State::Canceled => ["canceled", "TASK_STATE_CANCELED"],
        };
        match self {
            Self::V03 => old,
            Self::V1 => new,
        }
    }

    fn agent_message(self, id: &str, context_id: &str, part: &Part) -> Value {
        let role = match self {
            Self::V03 => "agent",
            Self::V1 => "ROLE_AGENT",
        };
        let mut message = json!({ "messageId": id, "contextId": context_id, "role": role,
            "parts": [self.part(part)] });
        self.add_kind("message", &mut message);
        message
    }

    fn artifact(self, part: &Part) -> Value {
        json!({ "artifactId": "result", "parts": [self.part(part)] })
    }

    fn part(self, part: &Part) -> Value {
        let (kind, content) = match part {
            Part::Text(text) => ("text", Value::from(text.as_str())),
            Part::Data(data) => ("data", data.clone()),
        };
        let mut object = json!({ kind: content });
        self.add_kind(kind, &mut object);
        object
    }

    /// 0.3 names the type of an object in the object.
    fn add_kind(self, kind: &str, object: &mut Value) {
        if self == Self::V03 {
            object["kind"] = kind.into();
        }
    }

    /// 1.0 names the type of an answer around the object.
    fn wrapped(self, name: &str, object: Value) -> Value {
        match self {
            Self::V03 => object,
            Self::V1 => json!({ name: object }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_own_methods_and_headers() {
        for (protocol, method, other, header) in [
            (Protocol::V1, "SendMessage", "message/send", Some("1.0")),
            (Protocol::V03, "message/send", "SendMessage", None),
        ] {
            assert_eq!(protocol.operation(method), Some(Operation::Send));
            assert_eq!(protocol.operation(other), None);
            assert!(protocol.accepts(header));
        }
        assert!(!Protocol::V1.accepts(None) && !Protocol::V03.accepts(Some("1.0")));
    }

    #[test]
    fn answers_have_the_form_of_their_version() {
        let task = Task {
            id: "task-1".into(),
            context_id: "context-1".into(),
            state: State::Completed,
            words: None,
            timestamp: "2026-01-01T00:00:00Z".into(),
            artifacts: vec![Part::Text("done".into())],
        };
        let new = Protocol::V1.sent_task(&task);
        assert_eq!(new["task"]["status"]["state"], "TASK_STATE_COMPLETED");
        assert_eq!(new["task"]["artifacts"][0]["parts"][0], json!({ "text": "done" }));
        let old = Protocol::V03.sent_task(&task);
        assert_eq!([&old["kind"], &old["status"]["state"]], ["task", "completed"]);
        let end = Event::Status(State::Completed, None);
        assert_eq!(Protocol::V03.event(&end, &task)["final"], true);
        assert!(Protocol::V1.event(&end, &task)["statusUpdate"].get("final").is_none());
    }

    #[test]
    fn message_without_parts_is_invalid() {
        for params in [json!({}), json!({ "message": { "parts": [] } })] {
            assert_eq!(Protocol::V1.message(&params).unwrap_err().code, -32602);
        }
    }
}
