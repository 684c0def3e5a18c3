//! The JSON-RPC binding: requests and answers of both versions.

use std::mem;

use bytes::Bytes;
use gateway_protocol::jsonrpc::{
    self, Id, InvalidMessage, Limits, Message, ObjectWriter, Response, ResponsePayload,
};
use registry_core::document::Strict;
use serde_json::{Value, value::RawValue};

use crate::{
    body,
    error::{ErrorKind, Failure},
    operation::Operation,
    request::Request,
    translate::{self, Untranslatable},
    version::{Dialect, Version},
};

/// The length of most messages, in bytes.
const MESSAGE_BYTES: usize = 512;

/// The request of a client.
#[derive(Debug)]
pub struct Call<'a> {
    /// The id, which the answer repeats.
    pub id: Id<'a>,
    /// The request in its internal form.
    pub request: Request,
}

/// A body that is not a valid request.
#[derive(Debug)]
pub struct InvalidCall<'a> {
    /// The id, if it is readable.
    pub id: Option<Id<'a>>,
    /// The error.
    pub failure: Box<Failure>,
}

/// Reads the request of a client.
pub fn read_call(
    version: Version,
    body: &[u8],
    limits: Limits,
) -> Result<Call<'_>, InvalidCall<'_>> {
    let message = jsonrpc::parse(body, limits).map_err(|error| {
        let kind = match error {
            InvalidMessage::Syntax { .. } => ErrorKind::ParseError,
            InvalidMessage::Params => ErrorKind::InvalidParams,
            _ => ErrorKind::InvalidRequest,
        };
        let failure = Box::new(Failure::new(kind, error.to_string()));
        InvalidCall { id: jsonrpc::readable_id(body), failure }
    })?;
    let Message::Request(call) = message else {
        let failure = Failure::new(ErrorKind::InvalidRequest, "the message is not a request");
        return Err(InvalidCall { id: None, failure: Box::new(failure) });
    };
    let id = call.id;
    let invalid = |failure| InvalidCall { id: Some(id), failure: Box::new(failure) };
    let operation = Operation::of_method(version, &call.method).ok_or_else(|| {
        let shown: String = call.method.chars().take(64).collect();
        let message = format!("method {shown:?} does not exist in A2A {}", version.as_str());
        invalid(Failure::new(ErrorKind::MethodNotFound, message))
    })?;
    let params = call.params.map_or(Ok(Value::Null), value).map_err(invalid)?;
    let request = translate::request_in(Dialect::json_rpc(version), operation, params)
        .map_err(|error| invalid(error.into_request_failure()))?;
    request.check(version).map_err(invalid)?;
    Ok(Call { id, request })
}

/// Writes a request to an agent.
pub fn write_call(
    version: Version,
    id: Id<'_>,
    request: &Request,
) -> Result<Bytes, Untranslatable> {
    let mut message = ObjectWriter::with_capacity(MESSAGE_BYTES);
    let method = request.operation.method(version);
    message.raw("jsonrpc", "\"2.0\"").raw("id", id.as_raw()).string("method", method);
    match version {
        // A copy of a large request exists only for 0.3.
        Version::V1 => message.value("params", &request.params),
        Version::V03 => {
            let params = translate::request_out(Dialect::json_rpc(version), request)?;
            message.value("params", &params)
        }
    };
    Ok(message.finish())
}

/// Writes a successful answer. Events of streams have the same form.
pub fn write_answer(
    version: Version,
    id: Id<'_>,
    operation: Operation,
    answer: Value,
) -> Result<Bytes, Untranslatable> {
    let answer = translate::answer_out(Dialect::json_rpc(version), operation, answer)?;
    let mut message = Vec::with_capacity(MESSAGE_BYTES);
    append_result(&mut message, id, &answer);
    Ok(message.into())
}

/// Appends a response with a result.
pub(crate) fn append_result(out: &mut Vec<u8>, id: Id<'_>, result: &Value) {
    let mut message = ObjectWriter::after(mem::take(out));
    message.raw("jsonrpc", "\"2.0\"").raw("id", id.as_raw()).value("result", result);
    *out = message.finish_text();
}

/// Writes an error. Without a readable id it is `null`, as JSON-RPC requires.
pub fn write_failure(id: Option<Id<'_>>, failure: &Failure) -> Bytes {
    let error = failure.to_json_rpc().to_string();
    let mut message = ObjectWriter::with_capacity(error.len() + 64);
    message.raw("jsonrpc", "\"2.0\"").raw("id", id.map_or("null", Id::as_raw)).raw("error", &error);
    message.finish()
}

/// Reads the answer of an agent to the request with this id.
pub fn read_answer(
    version: Version,
    operation: Operation,
    id: u64,
    body: &[u8],
    limits: Limits,
) -> Result<Value, Failure> {
    let answer = read_result(id, body, limits)?;
    translate::answer_in(Dialect::json_rpc(version), operation, answer)
        .map_err(Untranslatable::into_answer_failure)
}

/// Reads the result of a response in its version, or its error.
pub(crate) fn read_result(id: u64, body: &[u8], limits: Limits) -> Result<Value, Failure> {
    let message = jsonrpc::parse_with_result::<Strict>(body, limits);
    let message = message.map_err(|error| {
        let is_syntax = matches!(error, InvalidMessage::Syntax { .. });
        match body::parse(body, limits) {
            // This problem names a repeated member.
            Err(problem) if is_syntax => Failure::invalid_answer(problem),
            _ => Failure::invalid_answer(error),
        }
    })?;
    let Message::Response(Response { id: answered, outcome }) = message else {
        return Err(Failure::invalid_answer("the message is not a response"));
    };
    // The error about a request that the agent cannot read has no id.
    let is_error = matches!(outcome, ResponsePayload::Error(_));
    if !answered.map_or(is_error, |answered| answered.as_raw().parse() == Ok(id)) {
        return Err(Failure::invalid_answer("the response has the id of another request"));
    }
    match outcome {
        ResponsePayload::Result(Strict(result)) => Ok(result),
        ResponsePayload::Error(error) => {
            let data = error.data.and_then(|raw| value(raw).ok());
            Err(Failure::of_json_rpc(error.code, &error.message, data.as_ref()))
        }
    }
}

/// Parses a part of a message, which is within the limits.
fn value(raw: &RawValue) -> Result<Value, Failure> {
    body::parse_part(raw.get().as_bytes())
}

#[cfg(test)]
mod tests;
