//! Requests in the two supported versions of A2A.

use gateway_protocol::jsonrpc::{Object, ObjectWriter};

/// `TaskNotFoundError` (A2A 1.0, section 5.4; 0.3, section 8.2).
pub(super) const TASK_NOT_FOUND: i64 = -32001;
/// `VersionNotSupportedError` (A2A 1.0, section 5.4).
pub(super) const VERSION_NOT_SUPPORTED: i64 = -32009;

/// A version of A2A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum A2aVersion {
    /// 1.0.
    V1,
    /// 0.3.
    V03,
}

/// A method and its parameters as JSON.
pub(super) type Call = (&'static str, String);

/// A message to a skill.
#[derive(Debug)]
pub(super) struct Outbound<'a> {
    pub(super) id: &'a str,
    pub(super) skill: &'a str,
    /// The arguments: the JSON text of an object.
    pub(super) arguments: &'a str,
    /// Whether the skill takes only the text in the argument `text`.
    pub(super) as_text: bool,
}

impl A2aVersion {
    /// All versions, the newest first.
    pub(super) const ALL: [Self; 2] = [Self::V1, Self::V03];

    /// The name for operators.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V1 => "a2a-1.0",
            Self::V03 => "a2a-0.3",
        }
    }

    /// The value of the header `A2A-Version`.
    pub(super) fn header_value(self) -> &'static str {
        match self {
            Self::V1 => "1.0",
            Self::V03 => "0.3",
        }
    }

    /// `SendMessage` with an immediate response. A2A has no field for the skill, so its id is in
    /// the metadata of the message.
    pub(super) fn send_message(self, outbound: &Outbound<'_>) -> Call {
        let room = outbound.arguments.len() + 256;
        let mut metadata = ObjectWriter::with_capacity(64);
        metadata.string("skillId", outbound.skill);
        let mut message = ObjectWriter::with_capacity(room);
        message.string("messageId", outbound.id);
        message.raw("parts", &format!("[{}]", self.part(outbound)));
        message.raw("metadata", &metadata.finish_string());
        let (method, configuration) = match self {
            Self::V1 => {
                message.string("role", "ROLE_USER");
                ("SendMessage", r#"{"returnImmediately":true}"#)
            }
            Self::V03 => {
                message.string("role", "user").string("kind", "message");
                ("message/send", r#"{"blocking":false}"#)
            }
        };
        let mut params = ObjectWriter::with_capacity(room + 64);
        params.raw("message", &message.finish_string()).raw("configuration", configuration);
        (method, params.finish_string())
    }

    fn part(self, outbound: &Outbound<'_>) -> String {
        let text = outbound.as_text.then(|| text_of(outbound.arguments)).flatten();
        let (kind, value) = text.map_or(("data", outbound.arguments), |text| ("text", text));
        let mut part = ObjectWriter::with_capacity(value.len() + 32);
        if self == Self::V03 {
            part.string("kind", kind);
        }
        part.raw(kind, value);
        part.finish_string()
    }

    /// `GetTask` without history.
    pub(super) fn get_task(self, id: &str) -> Call {
        let mut params = ObjectWriter::with_capacity(96);
        params.string("id", id).raw("historyLength", "0");
        let method = match self {
            Self::V1 => "GetTask",
            Self::V03 => "tasks/get",
        };
        (method, params.finish_string())
    }

    /// `CancelTask`.
    pub(super) fn cancel_task(self, id: &str) -> Call {
        let mut params = ObjectWriter::with_capacity(64);
        params.string("id", id);
        let method = match self {
            Self::V1 => "CancelTask",
            Self::V03 => "tasks/cancel",
        };
        (method, params.finish_string())
    }
}

/// The argument `text` as JSON.
fn text_of(arguments: &str) -> Option<&str> {
    let arguments: Object<'_> = serde_json::from_str(arguments).ok()?;
    Some(arguments.find("text")?.get()).filter(|text| text.starts_with('"'))
}
