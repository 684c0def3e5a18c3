//! JSON-RPC 2.0 as MCP uses it: the envelope is parsed once and borrowed, its content stays raw
//! text, and responses are built from raw parts.
//!
//! Batches are not supported; MCP removed them.

mod envelope;
mod object;
#[cfg(test)]
mod tests;
mod write;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

pub use self::{
    object::{InvalidObject, Member, Object, ObjectWriter, read_object, read_string, write_string},
    write::{error, notification, request, result},
};

/// The error codes that JSON-RPC and MCP define.
pub mod code {
    /// The body is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The body is JSON but not a message.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method is unknown.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are invalid. This includes an unknown tool.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The server failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// MCP before 2026-07-28: the resource is unknown.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// MCP: a mirrored header does not match the body.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// MCP: the client did not declare a required capability.
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// MCP: the protocol version is not supported.
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
}

/// Maximum length of an id, in bytes of JSON text.
const MAX_ID_BYTES: usize = 1024;

/// The limits of a message.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum size in bytes.
    pub bytes: usize,
    /// Maximum nesting of objects and arrays, including the envelope.
    pub depth: usize,
}

impl Limits {
    /// The largest nesting that may be configured. `serde_json` itself stops at 128.
    pub const DEPTH: usize = 100;

    /// Limits with this size and the default depth.
    pub fn with_max_bytes(bytes: usize) -> Self {
        Self { bytes, depth: Self::DEPTH }
    }
}

/// The reason why a text is not a JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMessage {
    /// The message exceeds the size limit.
    #[error("the message is longer than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// The message is nested too deeply.
    #[error("the message is nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// The message is not JSON or not UTF-8.
    #[error("the message is not JSON: error at line {line} column {column}")]
    Syntax {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// The message is a batch.
    #[error("the message is a batch; send its messages one by one")]
    Batch,
    /// The message is JSON but not an object.
    #[error("the message is not a JSON object")]
    NotAnObject,
    /// A member of the envelope is repeated, so two parsers could read two messages.
    #[error("the message has two `{0}` members")]
    Duplicate(&'static str),
    /// `jsonrpc` is missing or not `"2.0"`.
    #[error("`jsonrpc` is not \"2.0\"")]
    Version,
    /// The id is not a string or an integer, or too long.
    #[error("`id` is not a string or an integer of at most {MAX_ID_BYTES} bytes")]
    Id,
    /// The method is not a string.
    #[error("`method` is not a string")]
    Method,
    /// The parameters are not an object.
    #[error("`params` is not an object")]
    Params,
    /// The `error` member is malformed.
    #[error("`error` is not an object with an integer `code` and a string `message`")]
    ErrorObject,
    /// The members match no kind of message, or several.
    #[error("the message is neither a request, nor a notification, nor a response")]
    Kind,
}

/// The id of a request: the JSON text of a string or an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Id<'a>(&'a str);

impl<'a> Id<'a> {
    /// Parses an id from JSON text.
    pub fn parse(raw: &'a str) -> Result<Self, InvalidMessage> {
        let is_integer = || {
            let digits = raw.strip_prefix('-').unwrap_or(raw);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        if raw.len() <= MAX_ID_BYTES && (raw.starts_with('"') || is_integer()) {
            return Ok(Self(raw));
        }
        Err(InvalidMessage::Id)
    }

    /// The JSON text.
    pub fn as_raw(self) -> &'a str {
        self.0
    }
}

/// One message.
#[derive(Debug, Clone)]
pub enum Message<'a, R = &'a RawValue> {
    /// A message that expects a response.
    Request(Request<'a>),
    /// A message without a response.
    Notification(Notification<'a>),
    /// A response.
    Response(Response<'a, R>),
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The id, which the response repeats.
    pub id: Id<'a>,
    /// The method.
    pub method: Cow<'a, str>,
    /// An object, if there.
    pub params: Option<&'a RawValue>,
}

/// A call without an answer.
#[derive(Debug, Clone)]
pub struct Notification<'a> {
    /// The method.
    pub method: Cow<'a, str>,
    /// An object, if there.
    pub params: Option<&'a RawValue>,
}

/// A response.
#[derive(Debug, Clone)]
pub struct Response<'a, R = &'a RawValue> {
    /// The id of the request. `None`: the peer could not read it.
    pub id: Option<Id<'a>>,
    /// The result or the error.
    pub outcome: ResponsePayload<'a, R>,
}

/// The result or the error of a request.
#[derive(Debug, Clone)]
pub enum ResponsePayload<'a, R = &'a RawValue> {
    /// The result: any JSON value.
    Result(R),
    /// The error.
    Error(ErrorObject<'a>),
}

/// An error object.
#[derive(Debug, Clone, Deserialize)]
pub struct ErrorObject<'a> {
    /// See [`code`].
    pub code: i64,
    /// The message, one sentence.
    #[serde(borrow)]
    pub message: Cow<'a, str>,
    /// Additional data.
    #[serde(borrow, default)]
    pub data: Option<&'a RawValue>,
}

/// Whether a JSON text is nested at most this deeply.
pub fn nests_within(text: &[u8], levels: usize) -> bool {
    envelope::check_depth(text, levels).is_ok()
}

/// Reads the id of a request that [`parse`] rejects. Its error must repeat a readable id (JSON-RPC 2.0,
/// section 5).
pub fn readable_id(body: &[u8]) -> Option<Id<'_>> {
    envelope::Envelope::<&RawValue>::parse(envelope::text(body).ok()?).ok()?.id()
}

/// Parses one message. Its content is only checked for well-formedness.
pub fn parse(body: &[u8], limits: Limits) -> Result<Message<'_>, InvalidMessage> {
    parse_with_result(body, limits)
}

/// Parses one message and the result of a response, in one pass. A result of another type is a syntax
/// error.
pub fn parse_with_result<'a, R: Deserialize<'a>>(
    body: &'a [u8],
    limits: Limits,
) -> Result<Message<'a, R>, InvalidMessage> {
    envelope::Envelope::parse(object_text(body, limits)?)?.into_message()
}

/// Reads these members of an object as raw text, for protocols that extend the envelope. Other
/// members are ignored; a repeated one of these is an error.
pub fn parse_members<'a, const N: usize>(
    body: &'a [u8],
    names: &'static [&'static str; N],
    limits: Limits,
) -> Result<[Option<&'a RawValue>; N], InvalidMessage> {
    envelope::members(object_text(body, limits)?, names)
}

/// The text of a body within its limits that begins an object.
fn object_text(body: &[u8], limits: Limits) -> Result<&str, InvalidMessage> {
    if body.len() > limits.bytes {
        return Err(InvalidMessage::TooLarge { limit_bytes: limits.bytes });
    }
    envelope::check_depth(body, limits.depth)?;
    let text = envelope::text(body)?;
    match text.trim_ascii_start().as_bytes().first() {
        Some(b'{') => Ok(text),
        Some(b'[') => envelope::validate(text).and(Err(InvalidMessage::Batch)),
        _ => envelope::validate(text).and(Err(InvalidMessage::NotAnObject)),
    }
}
