//! Requests in their internal form.

use serde_json::Value;

use crate::{
    error::{Failure, RequestSubject},
    json::{Object, filled, text},
    model::{Message, SKILL_ID},
    operation::Operation,
    version::Version,
};

/// A request: an operation and its parameters in the form of A2A 1.0.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The operation.
    pub operation: Operation,
    /// The request message of the operation.
    pub params: Object,
}

impl Request {
    /// Creates a request.
    pub fn new(operation: Operation, params: Object) -> Self {
        Self { operation, params }
    }

    /// The tenant of the addressed interface.
    pub fn tenant(&self) -> Option<&str> {
        filled(&self.params, "tenant")
    }

    /// Sets or removes the tenant, which belongs to one interface. A proxy that forwards a request
    /// sets the tenant of the agent's interface.
    pub fn set_tenant(&mut self, tenant: Option<&str>) {
        match tenant {
            Some(tenant) => self.params.insert("tenant".to_owned(), tenant.into()),
            None => self.params.remove("tenant"),
        };
    }

    /// The message to send.
    pub fn message(&self) -> Option<Message<'_>> {
        self.params.get("message").and_then(Message::of)
    }

    /// The name of the member with the task's id.
    fn task_member(&self) -> Option<&'static str> {
        match self.operation {
            Operation::GetTask | Operation::CancelTask | Operation::SubscribeToTask => Some("id"),
            operation if operation.is_push_config() => Some("taskId"),
            _ => None,
        }
    }

    /// The id of the task, including the one that a message continues.
    pub fn task_id(&self) -> Option<&str> {
        match self.task_member() {
            Some(member) => filled(&self.params, member),
            None => self.message()?.task_id(),
        }
    }

    /// The subject of the request.
    pub fn subject(&self) -> RequestSubject {
        if self.operation.is_push_config() {
            RequestSubject::PushConfig
        } else if self.task_id().is_some() {
            RequestSubject::Task
        } else {
            RequestSubject::Other
        }
    }

    /// Replaces the id of the task.
    pub fn set_task_id(&mut self, id: &str) {
        let member = self.task_member();
        let object = match member {
            Some(_) => Some(&mut self.params),
            None => self.params.get_mut("message").and_then(Value::as_object_mut),
        };
        if let Some(object) = object {
            object.insert(member.unwrap_or("taskId").to_owned(), id.into());
        }
    }

    /// The id of the push notification configuration.
    pub fn push_config_id(&self) -> Option<&str> {
        filled(&self.params, "id").filter(|_| self.operation.is_push_config())
    }

    /// The push notification configuration that the request contains.
    pub fn push_config(&self) -> Option<&Object> {
        if self.operation == Operation::CreatePushConfig {
            return Some(&self.params);
        }
        self.params.get("configuration")?.get("taskPushNotificationConfig")?.as_object()
    }

    /// The id of the skill in the metadata of the message, else of the request.
    pub fn skill_id(&self) -> Option<&str> {
        let own = || self.params.get("metadata")?.get(SKILL_ID)?.as_str();
        self.message().and_then(Message::skill_id).or_else(own)
    }

    /// The media types that the client accepts; empty means all.
    pub fn accepted_output_modes(&self) -> Vec<&str> {
        let modes = self.params.get("configuration").and_then(|c| c.get("acceptedOutputModes"));
        let modes = modes.and_then(Value::as_array).into_iter().flatten();
        modes.filter_map(Value::as_str).collect()
    }

    /// Maximum messages of the history of a task in the answer. `None`: no limit.
    pub fn history_length(&self) -> Option<usize> {
        let length = if self.operation.sends_message() {
            self.params.get("configuration")?.get("historyLength")
        } else {
            self.params.get("historyLength")
        };
        let length = length.and_then(Value::as_u64)?;
        Some(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// Whether `SendMessage` must not wait for the end of the task.
    pub fn returns_immediately(&self) -> bool {
        let flag = self.params.get("configuration").and_then(|c| c.get("returnImmediately"));
        flag.and_then(Value::as_bool).unwrap_or_default()
    }

    /// Checks the members that a version requires, and types of the others that a proxy relies on.
    pub fn check(&self, version: Version) -> Result<(), Failure> {
        for name in ["tenant", "contextId", "pageToken", "status", "statusTimestampAfter", "token"]
        {
            check_text(&self.params, "", name)?;
        }
        check_number(&self.params, "", "historyLength", 0)?;
        match self.operation {
            Operation::SendMessage | Operation::SendStreamingMessage => {
                return self.check_message();
            }
            Operation::ListTasks => return check_number(&self.params, "", "pageSize", 1),
            Operation::CreatePushConfig => required(&self.params, "", "url")?,
            // 0.3 returns the first configuration.
            Operation::GetPushConfig if version == Version::V03 => {}
            Operation::GetPushConfig | Operation::DeletePushConfig => {
                required(&self.params, "", "id")?;
            }
            _ => {}
        }
        self.task_member().map_or(Ok(()), |member| required(&self.params, "", member))
    }

    fn check_message(&self) -> Result<(), Failure> {
        let message = self.params.get("message").and_then(Value::as_object);
        let message =
            message.ok_or_else(|| Failure::invalid_params("/message", "a message is required"))?;
        required(message, "/message", "messageId")?;
        for name in ["taskId", "contextId"] {
            check_text(message, "/message", name)?;
        }
        if !matches!(text(message, "role"), Some("ROLE_USER" | "ROLE_AGENT")) {
            return Err(Failure::invalid_params("/message/role", "ROLE_USER is required"));
        }
        let parts = message.get("parts").and_then(Value::as_array);
        let parts = parts.filter(|parts| !parts.is_empty()).ok_or_else(|| {
            Failure::invalid_params("/message/parts", "at least one part is required")
        })?;
        for (i, part) in parts.iter().enumerate() {
            let has = |name: &&str| part.get(*name).is_some_and(Value::is_string);
            let texts = ["text", "raw", "url"].iter().filter(|name| has(name)).count();
            // `data` may be null.
            if texts + usize::from(part.get("data").is_some()) != 1 {
                let problem = "a part has exactly one of text, raw, url and data";
                return Err(Failure::invalid_params(&format!("/message/parts/{i}"), problem));
            }
        }
        match self.params.get("configuration") {
            None | Some(Value::Null) => Ok(()),
            Some(Value::Object(configuration)) => {
                check_number(configuration, "/configuration", "historyLength", 0)?;
                check_flag(configuration, "/configuration", "returnImmediately")
            }
            Some(_) => Err(Failure::invalid_params("/configuration", "an object is required")),
        }
    }
}

fn check_number(object: &Object, at: &str, name: &str, least: u64) -> Result<(), Failure> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(()),
        Some(value) if value.as_u64().is_some_and(|number| number >= least) => Ok(()),
        Some(_) => {
            let problem = format!("an integer of at least {least} is required");
            Err(Failure::invalid_params(&format!("{at}/{name}"), problem))
        }
    }
}

fn check_flag(object: &Object, at: &str, name: &str) -> Result<(), Failure> {
    match object.get(name) {
        None | Some(Value::Null | Value::Bool(_)) => Ok(()),
        Some(_) => Err(Failure::invalid_params(&format!("{at}/{name}"), "a boolean is required")),
    }
}

fn check_text(object: &Object, at: &str, name: &str) -> Result<(), Failure> {
    match object.get(name) {
        None | Some(Value::Null | Value::String(_)) => Ok(()),
        Some(_) => Err(Failure::invalid_params(&format!("{at}/{name}"), "a string is required")),
    }
}

fn required(object: &Object, at: &str, name: &str) -> Result<(), Failure> {
    if filled(object, name).is_some() {
        return Ok(());
    }
    Err(Failure::invalid_params(&format!("{at}/{name}"), "a non-empty string is required"))
}
