//! Writing messages by concatenation; nothing raw is parsed again.
//!
//! Raw parts are not checked: their caller has parsed them.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{ErrorObject, Id, ObjectWriter};

/// A request with these parameters (JSON text of an object).
pub fn request(id: Id<'_>, method: &str, params: &str) -> Bytes {
    let mut message = start(method.len() + params.len() + id.as_raw().len());
    message.raw("id", id.as_raw()).string("method", method).raw("params", params);
    message.finish()
}

/// A notification with these parameters (JSON text of an object), if any.
pub fn notification(method: &str, params: Option<&str>) -> Bytes {
    let mut message = start(method.len() + params.map_or(0, str::len));
    message.string("method", method);
    if let Some(params) = params {
        message.raw("params", params);
    }
    message.finish()
}

/// The answer to a request: its result is JSON text.
pub fn result(id: Id<'_>, result: &str) -> Bytes {
    let mut message = start(id.as_raw().len() + result.len());
    message.raw("id", id.as_raw()).raw("result", result);
    message.finish()
}

/// The answer to a request that failed. Where its id could not be read, MCP leaves the member out
/// (JSON-RPC itself would write `null`, which MCP's schema does not allow).
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
