//! Errors: a code of JSON-RPC and, in `data.reason`, the reason that clients decide by.
//!
//! The specifications use -32001 for timeouts and for budgets, so the code is not sufficient.

use std::borrow::Cow;

use gateway_protocol::jsonrpc::{ErrorObject, InvalidMessage, code, read_object, read_string};
use registry_core::{limits, visible::escape_invisible};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

/// An agent or a tool failed, or the agent is unknown.
const AGENT_ERROR: i64 = -32_000;
/// The agent did not answer.
const NO_ANSWER: i64 = -32_001;
/// The caller has no right, also to an agent id of another principal.
const NOT_ALLOWED: i64 = -32_003;

/// The member of `data` that marks calls with possible effects.
const MAY_HAVE_RUN: &str = "may_have_run";

/// Maximum characters of a caller's text in a message.
const SHOWN: usize = 64;

/// The reason of an error. Denials by policies have reasons of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The body is not JSON.
    ParseError,
    /// The body is no request, or has another `jsonrpc`.
    InvalidRequest,
    /// The body exceeds a limit of size or nesting.
    TooLarge,
    /// The body is a batch.
    Batch,
    /// The id was used before in the trace.
    IdInUse,
    /// The trace is unknown to this caller.
    TraceNotFound,
    /// The method is unknown.
    MethodNotFound,
    /// The method is not `agent::method` or `agent::module.method`.
    InvalidAddress,
    /// The agent is known, and has no such function.
    FunctionNotFound,
    /// The parameters are invalid.
    InvalidParams,
    /// The gateway failed.
    Internal,
    /// The tool or the agent reported an error.
    ToolError,
    /// The agent is unknown to this caller.
    AgentNotFound,
    /// The agent did not answer in time.
    Timeout,
    /// The agent is not connected, unavailable, or disconnected during the call.
    Unreachable,
    /// The agent id belongs to another principal.
    AgentIdTaken,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 16] = [
        Self::ParseError,
        Self::InvalidRequest,
        Self::TooLarge,
        Self::Batch,
        Self::IdInUse,
        Self::TraceNotFound,
        Self::MethodNotFound,
        Self::InvalidAddress,
        Self::FunctionNotFound,
        Self::InvalidParams,
        Self::Internal,
        Self::ToolError,
        Self::AgentNotFound,
        Self::Timeout,
        Self::Unreachable,
        Self::AgentIdTaken,
    ];

    /// The value of `data.reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ParseError => "PARSE_ERROR",
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::TooLarge => "TOO_LARGE",
            Self::Batch => "BATCH",
            Self::IdInUse => "ID_IN_USE",
            Self::TraceNotFound => "TRACE_NOT_FOUND",
            Self::MethodNotFound => "METHOD_NOT_FOUND",
            Self::InvalidAddress => "INVALID_ADDRESS",
            Self::FunctionNotFound => "FUNCTION_NOT_FOUND",
            Self::InvalidParams => "INVALID_PARAMS",
            Self::Internal => "INTERNAL",
            Self::ToolError => "TOOL_ERROR",
            Self::AgentNotFound => "AGENT_NOT_FOUND",
            Self::Timeout => "TIMEOUT",
            Self::Unreachable => "UNREACHABLE",
            Self::AgentIdTaken => "AGENT_ID_TAKEN",
        }
    }

    /// The code of JSON-RPC.
    pub fn code(self) -> i64 {
        match self {
            Self::ParseError => code::PARSE_ERROR,
            Self::InvalidRequest
            | Self::TooLarge
            | Self::Batch
            | Self::IdInUse
            | Self::InvalidAddress => code::INVALID_REQUEST,
            Self::MethodNotFound | Self::FunctionNotFound => code::METHOD_NOT_FOUND,
            Self::InvalidParams | Self::TraceNotFound => code::INVALID_PARAMS,
            Self::Internal => code::INTERNAL_ERROR,
            Self::ToolError | Self::AgentNotFound => AGENT_ERROR,
            Self::Timeout | Self::Unreachable => NO_ANSWER,
            Self::AgentIdTaken => NOT_ALLOWED,
        }
    }
}

/// An error of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The code of JSON-RPC.
    pub code: i64,
    /// The value of `data.reason`.
    pub reason: Cow<'static, str>,
    /// The message for people.
    pub message: Box<str>,
    /// Other members of `data`.
    pub data: Map<String, Value>,
}

impl Failure {
    /// Creates an error.
    pub fn new(reason: Reason, message: impl Into<Box<str>>) -> Self {
        Self {
            code: reason.code(),
            reason: reason.as_str().into(),
            message: message.into(),
            data: Map::new(),
        }
    }

    /// `InvalidParams` with the JSON pointer of the value in the parameters.
    pub fn invalid_params(pointer: &str, problem: impl std::fmt::Display) -> Self {
        let place = if pointer.is_empty() { "params" } else { pointer };
        Self::new(Reason::InvalidParams, format!("{place}: {problem}")).with("pointer", pointer)
    }

    /// `MethodNotFound`.
    pub fn method_not_found(method: &str) -> Self {
        let message = format!("the method `{}` is unknown", shown(method));
        Self::new(Reason::MethodNotFound, message)
    }

    /// `AgentNotFound`, also for agents that the caller may not use.
    pub fn agent_not_found(agent_id: &str) -> Self {
        let agent = shown(agent_id);
        let message = format!("the agent `{agent}` is unknown; check its id and your permissions");
        Self::new(Reason::AgentNotFound, message).with("agent_id", agent)
    }

    /// `FunctionNotFound` of an agent that the caller may use.
    pub fn function_not_found(agent_id: &str, function: &str) -> Self {
        let (agent, function) = (shown(agent_id), shown(function));
        Self::new(
            Reason::FunctionNotFound,
            format!("the agent `{agent}` has no function `{function}`"),
        )
        .with("agent_id", agent)
    }

    /// `TraceNotFound`, also for traces of other callers.
    pub fn trace_not_found(trace_id: &str) -> Self {
        let trace = shown(trace_id);
        let message = format!(
            "the trace `{trace}` is unknown: another caller started it, or its graph has expired"
        );
        Self::new(Reason::TraceNotFound, message).with("trace_id", trace)
    }

    /// `IdInUse`.
    pub fn id_in_use(trace_id: &str, id: &str) -> Self {
        let call = format!("{trace_id}#{id}");
        let message = format!("the call `{}` exists; use a unique id for each call", shown(&call));
        Self::new(Reason::IdInUse, message)
    }

    /// Adds a member of `data`.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.data.insert(name.to_owned(), value.into());
        self
    }

    /// Adds the methods that the caller may use.
    pub fn with_methods<T: Into<Value>>(self, methods: impl IntoIterator<Item = T>) -> Self {
        let methods: Vec<Value> = methods.into_iter().map(Into::into).collect();
        self.with("available_methods", methods)
    }

    /// Marks an error without an answer whose call may have had effects.
    pub fn after_effects(self) -> Self {
        self.with(MAY_HAVE_RUN, true)
    }

    /// Whether the call may have had effects although it has no answer.
    pub fn may_have_run(&self) -> bool {
        self.data.get(MAY_HAVE_RUN) == Some(&Value::Bool(true))
    }

    /// Whether the error has this reason.
    pub fn is(&self, reason: Reason) -> bool {
        self.reason == reason.as_str()
    }

    /// The error object of JSON-RPC.
    pub fn to_value(&self) -> Value {
        let mut data = self.data.clone();
        data.insert("reason".to_owned(), self.reason.as_ref().into());
        json!({ "code": self.code, "message": self.message, "data": data })
    }

    /// The error that an agent reports.
    ///
    /// An agent decides only about itself: its own claim of a denial or of an exhausted budget is a
    /// `ToolError`, because callers trust the gateway's reasons.
    pub(crate) fn of_agent(error: &ErrorObject<'_>) -> Self {
        #[derive(Deserialize)]
        struct Data<'a> {
            #[serde(borrow, default)]
            reason: Option<Cow<'a, str>>,
        }
        let data: Option<Data<'_>> = error.data.and_then(read_object);
        let claimed = data.and_then(|data| data.reason);
        let reason = match error.code {
            code::METHOD_NOT_FOUND => Reason::FunctionNotFound,
            code::INVALID_PARAMS => Reason::InvalidParams,
            NO_ANSWER if claimed.as_deref() == Some(Reason::Unreachable.as_str()) => {
                Reason::Unreachable
            }
            NO_ANSWER if claimed.as_deref().is_none_or(|text| text == Reason::Timeout.as_str()) => {
                Reason::Timeout
            }
            _ => Reason::ToolError,
        };
        Self::new(reason, said(&error.message)).with("agent_code", error.code)
    }

    /// The error that an agent reports in a result.
    pub(crate) fn of_result(result: &RawValue) -> Self {
        let text = read_string(result);
        Self::new(Reason::ToolError, said(text.as_deref().unwrap_or(result.get())))
    }
}

impl From<InvalidMessage> for Failure {
    fn from(error: InvalidMessage) -> Self {
        let reason = match error {
            InvalidMessage::Syntax { .. } => Reason::ParseError,
            InvalidMessage::TooLarge { .. } | InvalidMessage::TooDeep { .. } => Reason::TooLarge,
            InvalidMessage::Batch => Reason::Batch,
            InvalidMessage::Params => Reason::InvalidParams,
            InvalidMessage::NotAnObject
            | InvalidMessage::Duplicate(_)
            | InvalidMessage::Version
            | InvalidMessage::Id
            | InvalidMessage::Method
            | InvalidMessage::ErrorObject
            | InvalidMessage::Kind => Reason::InvalidRequest,
        };
        Self::new(reason, error.to_string())
    }
}

/// The text of an agent for a message.
fn said(text: &str) -> String {
    let bounded = &text[..text.floor_char_boundary(limits::TEXT_BYTES)];
    let mut message = escape_invisible(bounded);
    message.truncate(message.floor_char_boundary(limits::TEXT_BYTES));
    message
}

/// A caller's text for a message: short, without control characters.
pub(crate) fn shown(text: &str) -> String {
    escape_invisible(text.chars().take(SHOWN).collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn of_agent(code: i64, data: &str) -> Failure {
        let data = RawValue::from_string(data.to_owned()).unwrap();
        Failure::of_agent(&ErrorObject { code, message: "m".into(), data: Some(&data) })
    }

    #[test]
    fn reasons_are_unique() {
        let texts: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(texts.len(), Reason::ALL.len());
    }

    #[test]
    fn reason_distinguishes_timeout_from_budget() {
        let timeout = Failure::new(Reason::Timeout, "slow");
        let unreachable = Failure::new(Reason::Unreachable, "gone");
        assert_eq!((timeout.code, unreachable.code), (-32001, -32001));
        assert_eq!(timeout.to_value()["data"]["reason"], "TIMEOUT");
        assert_eq!(unreachable.to_value()["data"]["reason"], "UNREACHABLE");
    }

    #[test]
    fn agents_cannot_claim_reasons_of_the_gateway() {
        for (code, data, reason) in [
            (-32601, "null", Reason::FunctionNotFound),
            (-32602, "{}", Reason::InvalidParams),
            (-32001, "{}", Reason::Timeout),
            (-32001, r#"{"reason":"UNREACHABLE"}"#, Reason::Unreachable),
            (-32001, r#"{"reason":"BUDGET_EXCEEDED"}"#, Reason::ToolError),
            (-32003, r#"{"reason":"UNAUTHORIZED"}"#, Reason::ToolError),
            (-32000, "[1]", Reason::ToolError),
            (7, "\"x\"", Reason::ToolError),
        ] {
            let failure = of_agent(code, data);
            assert!(failure.is(reason), "{code} {data}: {failure:?}");
            assert_eq!(failure.code, reason.code());
            assert_eq!(failure.data["agent_code"], code);
        }
    }

    #[test]
    fn messages_of_agents_are_bounded_and_visible() {
        let message = "\u{1b}é".repeat(1 << 16);
        let error = ErrorObject { code: 1, message: message.into(), data: None };
        let failure = Failure::of_agent(&error);
        assert!(failure.message.len() <= limits::TEXT_BYTES);
        assert!(!failure.message.contains('\u{1b}'));
    }
}
