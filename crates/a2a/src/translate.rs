//! Conversion between the internal form, which is the JSON of A2A 1.0, and a dialect.
//!
//! Members that no version defines are kept. Other spellings of a name become that name, and members
//! of another version than the one of the peer are removed. The following is lost, because the other version
//! has no place for it:
//!
//! - to 0.3: `tenant`; `pageSize` of lists of push notification configurations; over HTTP+JSON
//!   also `referenceTaskIds`, and the media type and file name of text and data
//! - from 0.3: `final` of status events, which follows from the state; empty context ids; the
//!   time zone of timestamps; unknown members of `file`
//!
//! Everything else that cannot be expressed is an [`Untranslatable`] value.

use serde_json::Value;

pub use crate::untranslatable::{Problem, Untranslatable};
use crate::{
    fields,
    legacy::{inbound, outbound},
    operation::Operation,
    request::Request,
    version::{Dialect, Version},
};

/// Converts the parameters of a request from a dialect.
pub fn request_in(
    dialect: Dialect,
    operation: Operation,
    params: Value,
) -> Result<Request, Untranslatable> {
    let mut params = match (dialect.version, params) {
        // Operations without required parameters may omit them.
        (_, Value::Null) => Value::Object(serde_json::Map::new()),
        (Version::V1, params) => params,
        (Version::V03, params) => inbound::params(dialect.binding, operation, params)?,
    };
    fields::params(operation).normalize(&mut params)?;
    match params {
        Value::Object(params) => Ok(Request::new(operation, params)),
        _ => Err(Untranslatable::new(Problem::Type("an object"))),
    }
}

/// Converts the parameters of a request to a dialect.
pub fn request_out(dialect: Dialect, request: &Request) -> Result<Value, Untranslatable> {
    let params = request.params.clone();
    match dialect.version {
        Version::V1 => Ok(params.into()),
        Version::V03 => outbound::params(dialect.binding, request.operation, params),
    }
}

/// Writes the parameters of a request in a dialect. A copy of a large request exists only for 0.3, and
/// only during the call.
pub(crate) fn write_params(dialect: Dialect, request: &Request) -> Result<String, Untranslatable> {
    match dialect.version {
        // JSON values always serialize.
        Version::V1 => Ok(serde_json::to_string(&request.params).unwrap_or_default()),
        Version::V03 => request_out(dialect, request).map(|params| params.to_string()),
    }
}

/// Converts a successful answer from a dialect. The internal form of a deleted configuration is an
/// empty object.
pub fn answer_in(
    dialect: Dialect,
    operation: Operation,
    answer: Value,
) -> Result<Value, Untranslatable> {
    let mut answer = match (dialect.version, operation) {
        (_, Operation::DeletePushConfig) => Value::Object(serde_json::Map::new()),
        (Version::V1, _) => answer,
        (Version::V03, _) => inbound::answer(operation, answer)?,
    };
    fields::answer(operation).normalize(&mut answer)?;
    if !answer.is_object() {
        return Err(Untranslatable::new(Problem::Type("an object")));
    }
    let has_payload = ["task", "message"].iter().any(|name| answer[*name].is_object());
    if operation == Operation::SendMessage && !has_payload {
        return Err(Untranslatable::new(Problem::Payload));
    }
    Ok(answer)
}

/// Converts a successful answer to a dialect.
pub fn answer_out(
    dialect: Dialect,
    operation: Operation,
    answer: Value,
) -> Result<Value, Untranslatable> {
    match dialect.version {
        Version::V1 => Ok(answer),
        Version::V03 => outbound::answer(dialect.binding, operation, answer),
    }
}

/// Converts an event of a stream, or the body of a push notification, from a dialect.
pub fn event_in(dialect: Dialect, event: Value) -> Result<Value, Untranslatable> {
    let mut event = match dialect.version {
        Version::V1 => event,
        Version::V03 => inbound::event(event)?,
    };
    fields::EVENT.normalize(&mut event)?;
    let payloads = ["task", "message", "statusUpdate", "artifactUpdate"];
    if payloads.iter().any(|name| event.get(*name).is_some_and(Value::is_object)) {
        return Ok(event);
    }
    Err(Untranslatable::new(Problem::Payload))
}

/// Converts an event of a stream, or the body of a push notification, to a dialect.
pub fn event_out(dialect: Dialect, event: Value) -> Result<Value, Untranslatable> {
    match dialect.version {
        Version::V1 => Ok(event),
        Version::V03 => outbound::event(dialect.binding, event),
    }
}

#[cfg(test)]
mod tests;
