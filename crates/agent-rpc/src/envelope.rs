//! The envelope: JSON-RPC 2.0 with the deviations of the specifications.
//!
//! An absent `jsonrpc` counts as 2.0. A request without an id is answered with `id: null`.
//! Requests have `trace_id` beside `params`, and answers have `meta` beside `result`.

use std::borrow::Cow;

use bytes::Bytes;
use gateway_protocol::jsonrpc::{
    ErrorObject, Id, InvalidMessage, Limits, ObjectWriter, parse_members, read_object, read_string,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    execute::Execution,
    failure::{Failure, Reason},
    text::{OPAQUE_CHARACTERS, is_printable},
};

/// The members that are read.
const NAMES: [&str; 9] =
    ["jsonrpc", "id", "method", "params", "trace_id", "result", "output", "error", "meta"];

/// One message.
#[derive(Debug)]
pub enum Message<'a> {
    /// A request.
    Frame(Frame<'a>),
    /// The answer to a request.
    Answer(Answer<'a>),
}

/// A request whose method and parameters are not read yet.
#[derive(Debug)]
pub struct Frame<'a> {
    /// The id; `None` if it is absent or `null`.
    pub id: Option<Id<'a>>,
    /// The id of the trace, if the caller has one.
    pub trace_id: Option<Cow<'a, str>>,
    /// The method.
    pub method: Cow<'a, str>,
    /// The parameters: an object.
    pub params: Option<&'a RawValue>,
}

/// The answer of an agent.
#[derive(Debug)]
pub struct Answer<'a> {
    /// The id of the request. An answer over HTTP may omit it.
    pub id: Option<Id<'a>>,
    /// The result or the error.
    pub outcome: Result<&'a RawValue, Failure>,
}

/// A message that is rejected.
#[derive(Debug)]
pub struct Rejected<'a> {
    /// The id, if it is readable.
    pub id: Option<Id<'a>>,
    /// The error.
    pub failure: Box<Failure>,
}

/// Reads one message. A repeated member is an error.
pub fn read_message(body: &[u8], limits: Limits) -> Result<Message<'_>, Rejected<'_>> {
    let members = parse_members(body, &NAMES, limits);
    let members = members.map_err(|error| Rejected::new(None, error.into()))?;
    let [version, id, method, params, trace_id, result, output, error, meta] = members;
    let id = id.filter(|id| id.get() != "null").map(|id| Id::parse(id.get())).transpose();
    let id = id.map_err(|error| Rejected::new(None, error.into()))?;
    let reject = |error: InvalidMessage| Rejected::new(id, error.into());
    if version.is_some_and(|version| version.get() != "\"2.0\"") {
        return Err(reject(InvalidMessage::Version));
    }
    let params = present(params);
    let error = present(error);
    // Some servers write `null` beside an error.
    let is_result = |raw: &&RawValue| error.is_none() || raw.get() != "null";
    let (result, output) = (result.filter(is_result), output.filter(is_result));
    match (method, result.or(output), error) {
        _ if result.is_some() && output.is_some() => Err(reject(InvalidMessage::Kind)),
        (Some(method), None, None) => {
            let method = read_string(method).ok_or_else(|| reject(InvalidMessage::Method))?;
            if params.is_some_and(|params| !params.get().starts_with('{')) {
                return Err(reject(InvalidMessage::Params));
            }
            let trace_id = present(trace_id).map(read_trace_id).transpose();
            let trace_id = trace_id.map_err(|failure| Rejected::new(id, failure))?;
            Ok(Message::Frame(Frame { id, trace_id, method, params }))
        }
        (None, Some(result), None) => {
            let is_error = present(meta).is_some_and(reports_error);
            let outcome = if is_error { Err(Failure::of_result(result)) } else { Ok(result) };
            Ok(Message::Answer(Answer { id, outcome }))
        }
        (None, None, Some(error)) => {
            let error: ErrorObject<'_> =
                read_object(error).ok_or_else(|| reject(InvalidMessage::ErrorObject))?;
            let outcome = Err(Failure::of_agent(&error));
            Ok(Message::Answer(Answer { id, outcome }))
        }
        _ => Err(reject(InvalidMessage::Kind)),
    }
}

/// Whether the `meta` of an answer has the status of a failure.
fn reports_error(meta: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Meta<'a> {
        #[serde(borrow, default)]
        status: Option<&'a RawValue>,
    }
    let meta: Option<Meta<'_>> = read_object(meta);
    meta.and_then(|meta| meta.status).is_some_and(|status| status.get() == r#""error""#)
}

/// Some peers write `null` for an absent member.
fn present(raw: Option<&RawValue>) -> Option<&RawValue> {
    raw.filter(|raw| raw.get() != "null")
}

fn read_trace_id(raw: &RawValue) -> Result<Cow<'_, str>, Failure> {
    let text = read_string(raw).filter(|text| is_printable(text, OPAQUE_CHARACTERS));
    text.ok_or_else(|| {
        let problem =
            format!("`trace_id` is not a string of 1 to {OPAQUE_CHARACTERS} printable characters");
        Failure::new(Reason::InvalidRequest, problem)
    })
}

impl<'a> Rejected<'a> {
    pub(crate) fn new(id: Option<Id<'a>>, failure: Failure) -> Self {
        Self { id, failure: Box::new(failure) }
    }

    /// The answer to the message.
    pub fn reply(&self) -> Bytes {
        Reply { id: self.id, trace_id: None, execution: None }.failure(&self.failure)
    }
}

/// The members of an answer beside its result.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// The id of the request; `null` is written if there is none.
    pub id: Option<Id<'a>>,
    /// The id of the trace of a call of AIO.
    pub trace_id: Option<&'a str>,
    /// The execution of a call of a data agent.
    pub execution: Option<Execution<'a>>,
}

impl Reply<'_> {
    /// Writes a result, which is JSON text.
    pub fn result(&self, result: &str) -> Bytes {
        self.write("result", result, "success")
    }

    /// Writes an error.
    pub fn failure(&self, failure: &Failure) -> Bytes {
        self.write("error", &failure.to_value().to_string(), "error")
    }

    fn write(&self, name: &str, value: &str, status: &str) -> Bytes {
        let mut message = ObjectWriter::with_capacity(value.len() + 256);
        message.raw("jsonrpc", "\"2.0\"").raw("id", self.id.map_or("null", Id::as_raw));
        if let Some(trace_id) = self.trace_id {
            message.string("trace_id", trace_id);
        }
        message.raw(name, value);
        if let Some(execution) = self.execution {
            message.raw("meta", &execution.write(status));
        }
        message.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { bytes: 1 << 16, depth: 32 };

    fn rejected(body: &str) -> (Option<String>, String) {
        let rejected = read_message(body.as_bytes(), LIMITS).unwrap_err();
        let id = rejected.id.map(|id| id.as_raw().to_owned());
        (id, rejected.failure.reason.into_owned())
    }

    fn frame(body: &str) -> Frame<'_> {
        match read_message(body.as_bytes(), LIMITS) {
            Ok(Message::Frame(frame)) => frame,
            other => panic!("{body}: {other:?}"),
        }
    }

    fn answer(body: &str) -> Answer<'_> {
        match read_message(body.as_bytes(), LIMITS) {
            Ok(Message::Answer(answer)) => answer,
            other => panic!("{body}: {other:?}"),
        }
    }

    #[test]
    fn absent_version_and_id_are_accepted() {
        for (body, id) in [
            (r#"{"method":"m"}"#, None),
            (r#"{"method":"m","id":null,"params":null,"trace_id":null}"#, None),
            (r#"{"jsonrpc":"2.0","method":"m","id":1}"#, Some("1")),
            (r#" {"method":"m","id":"a","unknown":[]} "#, Some("\"a\"")),
        ] {
            assert_eq!(frame(body).id.map(Id::as_raw), id, "{body}");
        }
    }

    #[test]
    fn invalid_envelopes_are_rejected_with_readable_id() {
        let id = Some("7".to_owned());
        for (body, id, reason) in [
            ("{", None, "PARSE_ERROR"),
            ("\u{feff}{}", None, "PARSE_ERROR"),
            ("[]", None, "BATCH"),
            (r#"[{"method":"m","id":7}]"#, None, "BATCH"),
            ("7", None, "INVALID_REQUEST"),
            ("{}", None, "INVALID_REQUEST"),
            (r#"{"id":7}"#, id.clone(), "INVALID_REQUEST"),
            (r#"{"id":7,"jsonrpc":"1.0","method":"m"}"#, id.clone(), "INVALID_REQUEST"),
            (r#"{"id":7,"jsonrpc":2.0,"method":"m"}"#, id.clone(), "INVALID_REQUEST"),
            (r#"{"id":7,"jsonrpc":null,"method":"m"}"#, id.clone(), "INVALID_REQUEST"),
            (r#"{"id":7,"method":1}"#, id.clone(), "INVALID_REQUEST"),
            (r#"{"id":7,"method":"m","params":[1]}"#, id.clone(), "INVALID_PARAMS"),
            (r#"{"id":7,"method":"m","result":1}"#, id.clone(), "INVALID_REQUEST"),
            (
                r#"{"id":7,"result":1,"error":{"code":1,"message":""}}"#,
                id.clone(),
                "INVALID_REQUEST",
            ),
            (r#"{"id":7,"error":{"code":"1","message":""}}"#, id.clone(), "INVALID_REQUEST"),
            (r#"{"id":7,"method":"m","trace_id":""}"#, id.clone(), "INVALID_REQUEST"),
            (r#"{"id":7,"method":"m","trace_id":1}"#, id.clone(), "INVALID_REQUEST"),
            (r#"{"id":7,"method":"m","trace_id":"a\u0000"}"#, id, "INVALID_REQUEST"),
            (r#"{"id":1.5,"method":"m"}"#, None, "INVALID_REQUEST"),
            (r#"{"id":{},"method":"m"}"#, None, "INVALID_REQUEST"),
            (r#"{"id":1,"id":2,"method":"m"}"#, None, "INVALID_REQUEST"),
            (r#"{"method":"m","method":"n"}"#, None, "INVALID_REQUEST"),
        ] {
            assert_eq!(rejected(body), (id, reason.to_owned()), "{body}");
        }
    }

    #[test]
    fn large_and_deep_bodies_are_rejected() {
        let large = format!(r#"{{"method":"{}"}}"#, "m".repeat(1 << 16));
        assert_eq!(rejected(&large).1, "TOO_LARGE");
        let trace = format!(r#"{{"method":"m","trace_id":"{}"}}"#, "t".repeat(1 << 15));
        assert_eq!(rejected(&trace).1, "INVALID_REQUEST");
        let deep = format!(r#"{{"method":"m","params":{}{}}}"#, "[".repeat(32), "]".repeat(32));
        assert_eq!(rejected(&deep).1, "TOO_LARGE");
    }

    #[test]
    fn output_is_read_as_result() {
        assert_eq!(answer(r#"{"id":1,"output":{"a":1}}"#).outcome.unwrap().get(), r#"{"a":1}"#);
        assert_eq!(answer(r#"{"result":null}"#).outcome.unwrap().get(), "null");
        assert_eq!(rejected(r#"{"result":1,"output":2}"#).1, "INVALID_REQUEST");
        let failed = answer(r#"{"result":null,"error":{"code":-32601,"message":""}}"#);
        assert!(failed.outcome.unwrap_err().is(Reason::FunctionNotFound));
    }

    #[test]
    fn digits_of_results_are_kept() {
        let body = r#"{"result":12345678901234567890.10,"meta":{"a":1e400}}"#;
        assert_eq!(answer(body).outcome.unwrap().get(), "12345678901234567890.10");
    }

    #[test]
    fn status_of_meta_can_be_an_error() {
        for (body, message) in [
            (r#"{"result":"no such symbol","meta":{"status":"error"}}"#, Some("no such symbol")),
            (r#"{"output":{"a":1},"meta":{"status":"error"}}"#, Some(r#"{"a":1}"#)),
            (r#"{"result":1,"meta":{"status":"success"}}"#, None),
            (r#"{"result":1,"meta":{"status":1}}"#, None),
            (r#"{"result":1,"meta":"error"}"#, None),
        ] {
            let failure = answer(body).outcome.err();
            assert_eq!(failure.as_ref().map(|failure| &*failure.message), message, "{body}");
            assert!(failure.is_none_or(|failure| failure.is(Reason::ToolError)), "{body}");
        }
    }

    #[test]
    fn replies_have_null_for_absent_id() {
        let reply = Reply { id: None, trace_id: Some("t\"1"), execution: None };
        assert_eq!(
            reply.result("[1]"),
            r#"{"jsonrpc":"2.0","id":null,"trace_id":"t\"1","result":[1]}"#
        );
        let failure = rejected_failure("[]");
        let body = serde_json::from_slice::<serde_json::Value>(&failure).unwrap();
        assert_eq!(body["id"], serde_json::Value::Null);
        assert_eq!(
            (&body["error"]["code"], &body["error"]["data"]["reason"]),
            (&(-32600).into(), &"BATCH".into())
        );
    }

    fn rejected_failure(body: &str) -> Bytes {
        read_message(body.as_bytes(), LIMITS).unwrap_err().reply()
    }
}
