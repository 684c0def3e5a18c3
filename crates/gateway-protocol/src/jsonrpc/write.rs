//! Writes messages by concatenation of raw parts.
//!
//! Raw parts are not checked; their caller has parsed them.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{ErrorObject, Id, ObjectWriter};

/// Writes a request. `params` is the JSON text of an object.
pub fn request(id: Id<'_>, method: &str, params: &str) -> Bytes {
    let mut message = start(method.len() + params.len() + id.as_raw().len());
    message.raw("id", id.as_raw()).string("method", method).raw("params", params);
    message.finish()
}

/// Writes a notification. `params` is the JSON text of an object.
pub fn notification(method: &str, params: Option<&str>) -> Bytes {
    let mut message = start(method.len() + params.map_or(0, str::len));
    message.string("method", method);
    if let Some(params) = params {
        message.raw("params", params);
    }
    message.finish()
}

/// Writes a response with a result as JSON text. It is written with its exact size, because a buffer
/// with spare capacity would need a second allocation.
pub fn result(id: Id<'_>, result: &str) -> Bytes {
    let start = r#"{"jsonrpc":"2.0","id":"#;
    [start, id.as_raw(), r#","result":"#, result, "}"].concat().into()
}

/// Writes an error response. Without a readable id the member is omitted, as MCP's schema requires;
/// plain JSON-RPC would write `null`.
pub fn error(id: Option<Id<'_>>, error: &ErrorObject<'_>) -> Bytes {
    let data = error.data.map(RawValue::get);
    let mut object =
        ObjectWriter::with_capacity(64 + error.message.len() + data.map_or(0, str::len));
    object.raw("code", &error.code.to_string()).string("message", &error.message);
    if let Some(data) = data {
        object.raw("data", data);
    }
    let object = object.finish_string();
    let mut message = start(object.len());
    if let Some(id) = id {
        message.raw("id", id.as_raw());
    }
    message.raw("error", &object);
    message.finish()
}

fn start(content_bytes: usize) -> ObjectWriter {
    let mut message = ObjectWriter::with_capacity(content_bytes + 64);
    message.raw("jsonrpc", "\"2.0\"");
    message
}
