//! `agent.execute`: calls a function of a data agent.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use gateway_protocol::{
    jsonrpc::{self, Id, Object, ObjectWriter},
    mcp::Param,
};
use registry_core::{Kind, Name};
use serde_json::value::{RawValue, to_raw_value};

use crate::{failure::Failure, fields::Fields, text::OPAQUE_CHARACTERS};

/// The method.
pub const METHOD: &str = "agent.execute";

/// The member of `meta` with the id of the caller's task.
pub const TASK_ID: &str = "task_id";
/// The member of `meta` with the caller's id of the trace.
pub const TRACE_ID: &str = "trace_id";
/// The member of `meta` with the time of the caller's request.
const TIMESTAMP: &str = "timestamp";

/// Maximum characters of `function`. Ids of skills are the longest.
const FUNCTION_CHARACTERS: usize = 256;

/// The parameters.
#[derive(Debug, Clone)]
pub struct Execute<'a> {
    /// The agent.
    pub agent_id: Name,
    /// The function of the agent.
    pub function: Cow<'a, str>,
    /// The input: an object.
    pub input: &'a RawValue,
    /// The id of the caller's task, for tracing.
    pub task_id: Cow<'a, str>,
    /// The whole `meta` as sent.
    pub meta: &'a RawValue,
}

impl<'a> Execute<'a> {
    /// Reads the parameters.
    pub fn read(params: Option<&'a RawValue>) -> Result<Self, Failure> {
        let fields = Fields::params(params, &["agent_id", "function", "input", "meta"])?;
        let agent_id = agent_name(&fields)?;
        let function = fields.required_printable("function", FUNCTION_CHARACTERS)?;
        let input = fields.required_object("input")?;
        let meta = fields.required_object("meta")?;
        let members = Fields::open(meta, fields.pointer("meta"))?;
        let task_id = members.required_printable(TASK_ID, OPAQUE_CHARACTERS)?;
        members.printable(TIMESTAMP, OPAQUE_CHARACTERS)?;
        Ok(Self { agent_id, function, input, task_id, meta })
    }

    /// The name of the function's tool.
    pub fn tool(&self) -> String {
        format!("{}.{}", self.agent_id, self.function)
    }

    /// Sets the members of `_meta` that the agent receives in `meta`.
    pub fn set_meta(&self, meta: &mut Vec<Param>, trace_id: Option<&str>) {
        // A string always serializes.
        let task_id = to_raw_value(&*self.task_id).ok();
        let timestamp = Object::parse(self.meta).unwrap_or_default().find(TIMESTAMP);
        let trace_id = trace_id.and_then(|id| to_raw_value(id).ok());
        let members = [
            (TASK_ID, task_id),
            (TIMESTAMP, timestamp.map(ToOwned::to_owned)),
            (TRACE_ID, trace_id),
        ];
        for (name, value) in members {
            let Some(value) = value else { continue };
            meta.retain(|param| &*param.name != name);
            meta.push(Param { name: name.into(), value });
        }
    }

    /// Writes a request to a data agent.
    pub fn write(&self, id: Id<'_>) -> Bytes {
        let (input, meta) = (self.input.get(), self.meta.get());
        let mut params = ObjectWriter::with_capacity(input.len() + meta.len() + 256);
        params.string("agent_id", self.agent_id.as_str()).string("function", &self.function);
        params.raw("input", input).raw("meta", meta);
        jsonrpc::request(id, METHOD, &params.finish_string())
    }
}

/// The name of an agent, which may have a namespace.
fn agent_name(fields: &Fields<'_>) -> Result<Name, Failure> {
    let text = fields.required_text("agent_id")?;
    Name::parse(Kind::Agent, &text).map_err(|error| fields.invalid("agent_id", error))
}

/// The execution of a call, for `meta` beside its result.
#[derive(Debug, Clone, Copy)]
pub struct Execution<'a> {
    /// The id of the caller's task.
    pub task_id: &'a str,
    /// The duration of the call.
    pub duration: Duration,
}

impl Execution<'_> {
    /// Writes `meta`.
    pub fn write(&self, status: &str) -> String {
        let mut meta = ObjectWriter::with_capacity(self.task_id.len() + 96);
        meta.string("status", status);
        meta.raw("execution_time_ms", &self.duration.as_millis().to_string());
        meta.string(TASK_ID, self.task_id);
        meta.finish_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(params: &str) -> Result<(), (String, String)> {
        let raw: &RawValue = serde_json::from_str(params).unwrap();
        Execute::read(Some(raw)).map(drop).map_err(|failure| {
            let pointer = failure.data["pointer"].as_str().unwrap().to_owned();
            (failure.reason.into_owned(), pointer)
        })
    }

    #[test]
    fn invalid_parameters_have_pointer() {
        let meta = r#""meta":{"task_id":"t"}"#;
        for (params, pointer) in [
            (format!(r#"{{"function":"f","input":{{}},{meta}}}"#), "/agent_id"),
            (format!(r#"{{"agent_id":"a b","function":"f","input":{{}},{meta}}}"#), "/agent_id"),
            (format!(r#"{{"agent_id":1,"function":"f","input":{{}},{meta}}}"#), "/agent_id"),
            (format!(r#"{{"agent_id":"a","input":{{}},{meta}}}"#), "/function"),
            (format!(r#"{{"agent_id":"a","function":"\n","input":{{}},{meta}}}"#), "/function"),
            (format!(r#"{{"agent_id":"a","function":"f",{meta}}}"#), "/input"),
            (format!(r#"{{"agent_id":"a","function":"f","input":[],{meta}}}"#), "/input"),
            (r#"{"agent_id":"a","function":"f","input":{}}"#.to_owned(), "/meta"),
            (r#"{"agent_id":"a","function":"f","input":{},"meta":{}}"#.to_owned(), "/meta/task_id"),
            (
                r#"{"agent_id":"a","function":"f","input":{},"meta":{"task_id":""}}"#.to_owned(),
                "/meta/task_id",
            ),
            (
                r#"{"agent_id":"a","function":"f","input":{},"meta":{"task_id":"t","timestamp":1}}"#
                    .to_owned(),
                "/meta/timestamp",
            ),
            (
                r#"{"agent_id":"a","function":"f","input":{},"meta":{"task_id":"t","task_id":"u"}}"#
                    .to_owned(),
                "/meta",
            ),
            (format!(r#"{{"agent_id":"a","function":"f","input":{{}},"x/y":1,{meta}}}"#), "/x~1y"),
            (format!(r#"{{"agent_id":"a","agent_id":"b","input":{{}},{meta}}}"#), ""),
        ] {
            let expected = Err(("INVALID_PARAMS".to_owned(), pointer.to_owned()));
            assert_eq!(read(&params), expected, "{params}");
        }
        assert!(Execute::read(None).unwrap_err().is(crate::Reason::InvalidParams));
    }

    #[test]
    fn request_keeps_digits_and_meta() {
        let params = r#"{"agent_id":"acme/news","function":"f\u00e9","input":{"n":1.10},"meta":{"task_id":"t","x":[1e400]}}"#;
        let raw: &RawValue = serde_json::from_str(params).unwrap();
        let sent = Execute::read(Some(raw)).unwrap().write(Id::parse("7").unwrap());
        assert_eq!(
            std::str::from_utf8(&sent).unwrap(),
            r#"{"jsonrpc":"2.0","id":7,"method":"agent.execute","params":{"agent_id":"acme/news","function":"fé","input":{"n":1.10},"meta":{"task_id":"t","x":[1e400]}}}"#
        );
    }
}
