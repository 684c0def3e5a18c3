//! JSON-RPC 2.0 as MCP uses it: the envelope is parsed once and borrowed, what it carries stays raw
//! text, and answers are put together from raw parts.
//!
//! Batches are not supported: MCP removed them.

mod envelope;
mod object;
#[cfg(test)]
mod tests;
mod write;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

pub use self::{
    object::{InvalidObject, Member, Object, ObjectWriter, read_object, write_string},
    write::{error, notification, request, result},
};

/// The error codes that JSON-RPC and MCP define.
pub mod code {
    /// The body is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The body is JSON, but no message.
    pub const INVALID_REQUEST: i64 = -32600;
    /// No such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method; an unknown tool is this too.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Something failed on this side.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// MCP before 2026-07-28: there is no such resource.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// MCP: a mirrored header does not match the body.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// MCP: the client did not declare a capability that is needed.
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// MCP: the protocol version is not supported.
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
}

/// Longest id, in bytes of JSON text.
const MAX_ID_BYTES: usize = 1024;

/// What a message may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest message, in bytes.
    pub bytes: usize,
    /// Deepest nesting of objects and arrays, the envelope included.
    pub depth: usize,
}

impl Limits {
    /// Deepest nesting that anybody accepts; `serde_json` itself stops at 128.
    pub const DEPTH: usize = 100;

    /// The usual depth with this size.
    pub fn of_bytes(bytes: usize) -> Self {
        Self { bytes, depth: Self::DEPTH }
    }
}

/// Why a text is not a JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Over the size limit.
    #[error("the message is longer than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// Nested too deeply.
    #[error("the message is nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// Not JSON, or not UTF-8.
    #[error("the message is not JSON: it goes wrong at line {line} column {column}")]
    Syntax {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// A batch.
    #[error("the message is a batch, which MCP does not allow")]
    Batch,
    /// JSON, but no object.
    #[error("the message is not a JSON object")]
    NotAnObject,
    /// A key of the envelope is there twice, so two readers could read two messages.
    #[error("the message has two `{0}` members")]
    Duplicate(&'static str),
    /// `jsonrpc` is missing or something else.
    #[error("`jsonrpc` is not \"2.0\"")]
    Version,
    /// The id is no string and no integer, or too long.
    #[error("`id` is not a string or an integer of at most {MAX_ID_BYTES} bytes")]
    Id,
    /// The method is no string.
    #[error("`method` is not a string")]
    Method,
    /// The parameters are no object.
    #[error("`params` is not an object")]
    Params,
    /// The `error` member is malformed.
    #[error("`error` is not an object with an integer `code` and a string `message`")]
    ErrorObject,
    /// It has the members of no message, or of two kinds at once.
    #[error("the message is neither a request, nor a notification, nor a response")]
    Kind,
}

/// The id of a request: a string or an integer, kept as the JSON text that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Id<'a>(&'a str);

impl<'a> Id<'a> {
    /// Reads an id from JSON text.
    pub fn parse(raw: &'a str) -> Result<Self, Invalid> {
        let is_integer = || {
            let digits = raw.strip_prefix('-').unwrap_or(raw);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        if raw.len() <= MAX_ID_BYTES && (raw.starts_with('"') || is_integer()) {
            return Ok(Self(raw));
        }
        Err(Invalid::Id)
    }

    /// The JSON text.
    pub fn as_raw(self) -> &'a str {
        self.0
    }
}

/// One message.
#[derive(Debug, Clone)]
pub enum Message<'a> {
    /// It wants an answer.
    Request(Request<'a>),
    /// It wants none.
    Notification(Notification<'a>),
    /// It is one.
    Response(Response<'a>),
}

/// A call.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// To be repeated in the answer.
    pub id: Id<'a>,
    /// What is called.
    pub method: Cow<'a, str>,
    /// An object, if there.
    pub params: Option<&'a RawValue>,
}

/// A call without an answer.
#[derive(Debug, Clone)]
pub struct Notification<'a> {
    /// What is called.
    pub method: Cow<'a, str>,
    /// An object, if there.
    pub params: Option<&'a RawValue>,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Response<'a> {
    /// Of the request; missing where the other side could not read it.
    pub id: Option<Id<'a>>,
    /// How it went.
    pub outcome: Outcome<'a>,
}

/// How a call went.
#[derive(Debug, Clone)]
pub enum Outcome<'a> {
    /// Well; any JSON value.
    Result(&'a RawValue),
    /// Not well.
    Error(ErrorObject<'a>),
}

/// Why a call failed, to be read and to be written.
#[derive(Debug, Clone, Deserialize)]
pub struct ErrorObject<'a> {
    /// See [`code`].
    pub code: i64,
    /// One sentence.
    #[serde(borrow)]
    pub message: Cow<'a, str>,
    /// Anything else.
    #[serde(borrow, default)]
    pub data: Option<&'a RawValue>,
}

/// Whether a JSON text nests no deeper than this.
pub fn nests_within(text: &[u8], levels: usize) -> bool {
    envelope::check_depth(text, levels).is_ok()
}

/// Parses one message. Nothing that it carries is looked into but for its well-formedness.
pub fn parse(body: &[u8], limits: Limits) -> Result<Message<'_>, Invalid> {
    if body.len() > limits.bytes {
        return Err(Invalid::TooLarge { limit_bytes: limits.bytes });
    }
    envelope::check_depth(body, limits.depth)?;
    let text = envelope::text(body)?;
    match text.trim_ascii_start().as_bytes().first() {
        Some(b'{') => envelope::Envelope::parse(text)?.into_message(),
        Some(b'[') => envelope::validate(text).and(Err(Invalid::Batch)),
        _ => envelope::validate(text).and(Err(Invalid::NotAnObject)),
    }
}
