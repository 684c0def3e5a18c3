//! Skills as tools: arguments become a message, and the answer becomes a tool result of MCP. Tools
//! as skills: the result becomes an artifact.
//!
//! Arguments and data stay raw text, so that their numbers keep all digits.

mod answer;
mod artifact;
mod result;
#[cfg(test)]
mod tests;

use gateway_protocol::jsonrpc::{Object, ObjectWriter};

pub use self::{
    answer::{Message, Part, SendResponse, Task},
    artifact::{parts_of_result, text_of_result},
    result::{OpenTask, Text, of_message, of_task},
};
use crate::{model::SKILL_ID, operation::Operation, version::Version};

/// A JSON-RPC method and its parameters as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The method.
    pub method: &'static str,
    /// The parameters: the JSON text of an object.
    pub params: String,
}

/// A message to a skill.
#[derive(Debug, Clone, Copy)]
pub struct SkillCall<'a> {
    /// The id of the message.
    pub id: &'a str,
    /// The id of the skill.
    pub skill: &'a str,
    /// The arguments: the JSON text of an object.
    pub arguments: &'a str,
    /// Whether the skill takes only the text in the argument `text`.
    pub as_text: bool,
}

impl Call {
    fn new(version: Version, operation: Operation, params: ObjectWriter) -> Self {
        Self { method: operation.method(version), params: params.finish_string() }
    }

    /// `SendMessage` with an immediate response. A2A has no field for the skill, so its id is in
    /// the metadata of the message.
    pub fn send_message(version: Version, call: &SkillCall<'_>) -> Self {
        let room = call.arguments.len() + 256;
        let mut metadata = ObjectWriter::with_capacity(64);
        metadata.string(SKILL_ID, call.skill);
        let mut message = ObjectWriter::with_capacity(room);
        message.string("messageId", call.id);
        message.raw("parts", &format!("[{}]", part(version, call)));
        message.raw("metadata", &metadata.finish_string());
        let configuration = match version {
            Version::V1 => {
                message.string("role", "ROLE_USER");
                r#"{"returnImmediately":true}"#
            }
            Version::V03 => {
                message.string("role", "user").string("kind", "message");
                r#"{"blocking":false}"#
            }
        };
        let mut params = ObjectWriter::with_capacity(room + 64);
        params.raw("message", &message.finish_string()).raw("configuration", configuration);
        Self::new(version, Operation::SendMessage, params)
    }

    /// `GetTask` without history.
    pub fn get_task(version: Version, id: &str) -> Self {
        let mut params = ObjectWriter::with_capacity(96);
        params.string("id", id).raw("historyLength", "0");
        Self::new(version, Operation::GetTask, params)
    }

    /// `CancelTask`.
    pub fn cancel_task(version: Version, id: &str) -> Self {
        let mut params = ObjectWriter::with_capacity(64);
        params.string("id", id);
        Self::new(version, Operation::CancelTask, params)
    }
}

fn part(version: Version, call: &SkillCall<'_>) -> String {
    let text = call.as_text.then(|| text_of(call.arguments)).flatten();
    let (kind, value) = text.map_or(("data", call.arguments), |text| ("text", text));
    let mut part = ObjectWriter::with_capacity(value.len() + 32);
    if version == Version::V03 {
        part.string("kind", kind);
    }
    part.raw(kind, value);
    part.finish_string()
}

/// The argument `text` as JSON.
fn text_of(arguments: &str) -> Option<&str> {
    let arguments: Object<'_> = serde_json::from_str(arguments).ok()?;
    Some(arguments.find("text")?.get()).filter(|text| text.starts_with('"'))
}
