//! Helpers for JSON objects whose unknown members are kept.

use gateway_protocol::jsonrpc::{Limits, nests_within};
use registry_core::document::parse_json;
use serde_json::{Map, Value};

use crate::error::{ErrorKind, Failure};

pub(crate) type Object = Map<String, Value>;

/// The text of a member.
pub(crate) fn text<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    object.get(name)?.as_str()
}

/// The text of a member, if it is not empty. Protocol Buffers do not distinguish an empty text from
/// a missing one.
pub(crate) fn filled<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    text(object, name).filter(|text| !text.is_empty())
}

/// The items of a member that is a list.
pub(crate) fn items<'a>(object: &'a Object, name: &str) -> &'a [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Renames a member unless the new name is taken.
pub(crate) fn rename(object: &mut Object, from: &str, to: &str) {
    if !object.contains_key(to)
        && let Some(value) = object.remove(from)
    {
        object.insert(to.to_owned(), value);
    }
}

/// Parses a body within limits. Repeated members are rejected, because two parsers could read two
/// different messages.
pub(crate) fn parse(body: &[u8], limits: Limits) -> Result<Value, Failure> {
    if body.len() > limits.bytes {
        let message = format!("the body is longer than {} bytes", limits.bytes);
        return Err(Failure::new(ErrorKind::InvalidRequest, message));
    }
    if !nests_within(body, limits.depth) {
        let message = format!("the body is nested deeper than {} levels", limits.depth);
        return Err(Failure::new(ErrorKind::InvalidRequest, message));
    }
    parse_json(body).map_err(|error| Failure::new(ErrorKind::ParseError, error.to_string()))
}
