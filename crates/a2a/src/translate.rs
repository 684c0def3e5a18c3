//! Conversion between the internal form, which is the JSON of A2A 1.0, and a dialect.
//!
//! Members that neither version defines are kept. The following is lost, because the other version
//! has no place for it:
//!
//! - to 0.3: `tenant`; `pageSize` of lists of push notification configurations; over HTTP+JSON
//!   also `referenceTaskIds`, and the media type and file name of text and data
//! - from 0.3: `final` of status events, which follows from the state; empty context ids; the
//!   time zone of timestamps
//!
//! Everything else that cannot be expressed is an [`Untranslatable`] value.

use serde_json::Value;

use crate::{
    error::{ErrorKind, Failure},
    legacy::{inbound, outbound},
    operation::Operation,
    request::Request,
    version::{Dialect, Version},
};

/// A value that the other version cannot express, or that is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", if pointer.is_empty() { "the whole value" } else { pointer })]
pub struct Untranslatable {
    /// The JSON pointer of the value.
    pub pointer: String,
    /// The problem.
    pub problem: Problem,
}

/// The reason why a value has no translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The value has another type.
    #[error("{0} is required")]
    Type(&'static str),
    /// The part has no content, several, or one of an unknown kind.
    #[error("the part has not exactly one known content")]
    Part,
    /// The role is unknown.
    #[error("the role is unknown")]
    Role,
    /// The state is unknown.
    #[error("the task state is unknown")]
    State,
    /// The answer or event is neither a task nor a message nor an update.
    #[error("the value is neither a task nor a message nor an update")]
    Payload,
    /// The other version has no place for the value.
    #[error("A2A 0.3 cannot express {0}")]
    Inexpressible(&'static str),
}

impl Untranslatable {
    pub(crate) fn new(problem: Problem) -> Self {
        Self { pointer: String::new(), problem }
    }

    /// Prefixes the pointer with the name of the surrounding member.
    pub(crate) fn at(mut self, step: impl std::fmt::Display) -> Self {
        self.pointer = format!("/{step}{}", self.pointer);
        self
    }

    /// The error of a client's request.
    pub fn into_request_failure(self) -> Failure {
        match self.problem {
            Problem::Inexpressible(_) => {
                Failure::new(ErrorKind::UnsupportedOperation, self.to_string())
                    .with_violation(&self.pointer, &self.problem.to_string())
            }
            problem => Failure::invalid_params(&self.pointer, problem.to_string()),
        }
    }

    /// The error of an agent's answer or event.
    pub fn into_answer_failure(self) -> Failure {
        let message = format!("the agent's answer is invalid: {self}");
        Failure::new(ErrorKind::InvalidAgentResponse, message)
            .with_metadata("pointer", self.pointer)
    }
}

/// Converts the parameters of a request from a dialect.
pub fn request_in(
    dialect: Dialect,
    operation: Operation,
    params: Value,
) -> Result<Request, Untranslatable> {
    let params = match (dialect.version, params) {
        // Operations without required parameters may omit them.
        (_, Value::Null) => Value::Object(serde_json::Map::new()),
        (Version::V1, params) => params,
        (Version::V03, params) => inbound::params(operation, params)?,
    };
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

/// Converts a successful answer from a dialect. The internal form of a deleted configuration is an
/// empty object.
pub fn answer_in(
    dialect: Dialect,
    operation: Operation,
    answer: Value,
) -> Result<Value, Untranslatable> {
    let answer = match (dialect.version, operation) {
        (_, Operation::DeletePushConfig) => Value::Object(serde_json::Map::new()),
        (Version::V1, _) => answer,
        (Version::V03, _) => inbound::answer(operation, answer)?,
    };
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
    let event = match dialect.version {
        Version::V1 => event,
        Version::V03 => inbound::event(event)?,
    };
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
