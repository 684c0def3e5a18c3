//! The orchestrator: `POST /execute` and manifests of agents.

use gateway_protocol::jsonrpc::{Limits, parse_members, read_string};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    failure::{Failure, Reason},
    text::is_printable,
};

/// Maximum characters of the name of a tool.
const TOOL_CHARACTERS: usize = 256;

/// The body of `POST /execute`.
#[derive(Debug)]
pub struct Execute<'a> {
    /// The tool, by its name or by the one of a manifest for model providers.
    pub tool: String,
    /// The arguments: an object.
    pub params: Option<&'a RawValue>,
}

impl<'a> Execute<'a> {
    /// Reads the body.
    pub fn read(body: &'a [u8], limits: Limits) -> Result<Self, Failure> {
        let [tool, params] = parse_members(body, &["tool", "params"], limits)?;
        let tool = tool.and_then(read_string).filter(|text| is_printable(text, TOOL_CHARACTERS));
        let tool =
            tool.ok_or_else(|| Failure::invalid_params("/tool", "the name of a tool is required"))?;
        let params = params.filter(|params| params.get() != "null");
        if params.is_some_and(|params| !params.get().starts_with('{')) {
            return Err(Failure::invalid_params("/params", "an object is required"));
        }
        Ok(Self { tool: tool.into_owned(), params })
    }
}

/// The codes of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The agent is unknown to this caller.
    AgentNotFound,
    /// The agent is known and cannot be called now. Nothing was executed.
    AgentUnavailable,
    /// The tool is unknown to this caller.
    ToolNotFound,
    /// The tool did not answer in time.
    ToolExecutionTimeout,
    /// The tool failed, or the call was rejected.
    ToolExecutionFailed,
    /// The agent could not be started.
    AgentInitFailed,
    /// The agent could not be stopped.
    AgentShutdownFailed,
}

impl Code {
    /// The code as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AgentNotFound => "AGENT_NOT_FOUND",
            Self::AgentUnavailable => "AGENT_UNAVAILABLE",
            Self::ToolNotFound => "TOOL_NOT_FOUND",
            Self::ToolExecutionTimeout => "TOOL_EXECUTION_TIMEOUT",
            Self::ToolExecutionFailed => "TOOL_EXECUTION_FAILED",
            Self::AgentInitFailed => "AGENT_INIT_FAILED",
            Self::AgentShutdownFailed => "AGENT_SHUTDOWN_FAILED",
        }
    }

    /// The code of an error of another surface.
    pub fn of_failure(failure: &Failure) -> Self {
        // Programs repeat calls of unavailable agents.
        if failure.is(Reason::Unreachable) && failure.may_have_run() {
            return Self::ToolExecutionFailed;
        }
        let codes = [
            (Reason::AgentNotFound, Self::AgentNotFound),
            (Reason::FunctionNotFound, Self::ToolNotFound),
            (Reason::Timeout, Self::ToolExecutionTimeout),
            (Reason::Unreachable, Self::AgentUnavailable),
        ];
        let code = codes.into_iter().find(|(reason, _)| failure.is(*reason));
        code.map_or(Self::ToolExecutionFailed, |(_, code)| code)
    }
}

/// Writes `{success, data}` from JSON text.
pub fn write_success(data: &str) -> String {
    format!(r#"{{"success":true,"data":{data}}}"#)
}

/// Writes `{success, error}` with the code, the reason and the details beside the message.
pub fn write_failure(code: Code, failure: &Failure) -> String {
    let mut value: Value = json!({
        "success": false, "error": failure.message, "code": code.as_str(),
        "reason": failure.reason,
    });
    if !failure.data.is_empty() {
        value["details"] = failure.data.clone().into();
    }
    value.to_string()
}

/// The answer of `GET /agents/{id}/manifest`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentManifest {
    /// The id.
    pub id: String,
    /// The name.
    pub name: String,
    /// The names of the tools that the caller may use.
    pub tools: Vec<String>,
    /// The capabilities.
    pub capabilities: Vec<String>,
    /// Whether a tool requires an approval.
    pub requires_approval: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<(String, Option<String>), String> {
        let read = Execute::read(body.as_bytes(), Limits::with_max_bytes(1 << 10));
        let read = read.map_err(|failure| failure.reason.into_owned())?;
        Ok((read.tool, read.params.map(|params| params.get().to_owned())))
    }

    #[test]
    fn requests_are_read_strictly() {
        let params = Some(r#"{"n":1.10}"#.to_owned());
        assert_eq!(
            read(r#"{"tool":"save_fact","params":{"n":1.10}}"#),
            Ok(("save_fact".into(), params))
        );
        assert_eq!(read(r#"{"tool":"t","params":null}"#), Ok(("t".into(), None)));
        for (body, reason) in [
            ("{", "PARSE_ERROR"),
            ("[]", "BATCH"),
            ("{}", "INVALID_PARAMS"),
            (r#"{"tool":""}"#, "INVALID_PARAMS"),
            (r#"{"tool":"a","tool":"b"}"#, "INVALID_REQUEST"),
            (r#"{"tool":"a","params":[]}"#, "INVALID_PARAMS"),
        ] {
            assert_eq!(read(body), Err(reason.to_owned()), "{body}");
        }
    }

    #[test]
    fn failures_have_codes_of_the_specification() {
        for (reason, code) in [
            (Reason::AgentNotFound, "AGENT_NOT_FOUND"),
            (Reason::FunctionNotFound, "TOOL_NOT_FOUND"),
            (Reason::Timeout, "TOOL_EXECUTION_TIMEOUT"),
            (Reason::Unreachable, "AGENT_UNAVAILABLE"),
            (Reason::ToolError, "TOOL_EXECUTION_FAILED"),
            (Reason::InvalidParams, "TOOL_EXECUTION_FAILED"),
        ] {
            let failure = Failure::new(reason, "m");
            let code_of = Code::of_failure(&failure);
            assert_eq!(code_of.as_str(), code);
            let written: Value = serde_json::from_str(&write_failure(code_of, &failure)).unwrap();
            let expected =
                json!({ "success": false, "error": "m", "code": code, "reason": reason.as_str() });
            assert_eq!(written, expected);
            let detailed = failure.with("pointer", "/params/n");
            let written: Value = serde_json::from_str(&write_failure(code_of, &detailed)).unwrap();
            assert_eq!(written["details"], json!({ "pointer": "/params/n" }));
        }
        assert_eq!(write_success("1.10"), r#"{"success":true,"data":1.10}"#);
    }
}
