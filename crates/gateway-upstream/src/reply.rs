//! Responses of upstreams: a raw result with only its control members parsed.

use gateway_protocol::{
    jsonrpc::{Object, ResponsePayload, code, read_object, read_string},
    mcp::{Era, Method, RawResult, ResultType, RpcError, TASKS},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::{
    error::{Error, ProtocolViolation},
    request::Request,
};

#[derive(Deserialize)]
struct Steering<'a> {
    #[serde(rename = "isError")]
    is_error: Option<bool>,
    /// Raw, because serde copies optional strings.
    #[serde(rename = "resultType", borrow)]
    result_type: Option<&'a RawValue>,
    #[serde(rename = "_meta")]
    meta: Option<IgnoredAny>,
    /// The task of a call of 2025-11-25.
    #[serde(borrow)]
    task: Option<&'a RawValue>,
}

/// Reads the members that the gateway acts on. A `resultType` is valid only for methods that have
/// it, and one of an extension only if the caller declared the extension.
pub(super) fn read_result(
    result: Box<RawValue>,
    era: Era,
    request: &Request<'_>,
) -> Result<RawResult, Error> {
    let method = request.method;
    let malformed = || ProtocolViolation::Shape(method.as_str());
    let steering: Steering<'_> = read_object(&result).ok_or_else(malformed)?;
    let result_type = steering.result_type.map(|raw| read_string(raw).ok_or_else(malformed));
    let result_type = match result_type.transpose()?.as_deref() {
        None if steering.task.is_some_and(is_task) && method == Method::CallTool => {
            if !request.begins_task() {
                return Err(ProtocolViolation::ResultType.into());
            }
            ResultType::Task
        }
        None => ResultType::Absent,
        Some("complete") => ResultType::Complete,
        Some("input_required") if method.may_need_input() => ResultType::InputRequired,
        Some("task") if request.context.capabilities.has_extension(TASKS) => ResultType::Task,
        Some(_) => return Err(ProtocolViolation::ResultType.into()),
    };
    let is_error = steering.is_error.unwrap_or(false);
    let has_meta = steering.meta.is_some();
    Ok(RawResult { result, is_error, result_type, has_meta, era })
}

/// Whether a member of a result is a task.
fn is_task(raw: &RawValue) -> bool {
    Object::parse(raw).is_ok_and(|members| members.find("taskId").is_some())
}

/// A response that owns its data.
#[derive(Debug)]
pub(super) enum Reply {
    Result(Box<RawValue>),
    Error(RpcError),
}

impl From<ResponsePayload<'_>> for Reply {
    fn from(outcome: ResponsePayload<'_>) -> Self {
        match outcome {
            ResponsePayload::Result(raw) => Self::Result(raw.to_owned()),
            ResponsePayload::Error(error) => Self::Error(error.into()),
        }
    }
}

impl Reply {
    /// Whether the upstream reports a mismatch between headers and body.
    pub(super) fn is_header_mismatch(&self) -> bool {
        matches!(self, Self::Error(error) if error.code == code::HEADER_MISMATCH)
    }

    /// The result. Errors of the connection between gateway and upstream are not forwarded as
    /// responses to the caller.
    pub(super) fn into_result(self) -> Result<Box<RawValue>, Error> {
        match self {
            Self::Result(raw) => Ok(raw),
            Self::Error(error) => Err(error.into()),
        }
    }
}

impl From<RpcError> for Error {
    fn from(RpcError { code, message, data }: RpcError) -> Self {
        match code {
            code::HEADER_MISMATCH => ProtocolViolation::HeadersRefused.into(),
            code::UNSUPPORTED_PROTOCOL_VERSION => ProtocolViolation::NoCommonVersion.into(),
            _ => Self::Rpc { code, message, data },
        }
    }
}

#[cfg(test)]
mod tests {
    use gateway_protocol::mcp::Method;

    use super::*;
    use crate::request::RequestContext;

    fn read_for(method: Method, text: &str, context: &RequestContext) -> Result<RawResult, Error> {
        let request = Request::plain(method, &[], context);
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        read_result(raw, Era::Modern, &request)
    }

    fn read(text: &str) -> Result<RawResult, Error> {
        read_for(Method::CallTool, text, &RequestContext::default())
    }

    #[test]
    fn control_members_are_read_and_result_unchanged() {
        let text = r#"{"content":[ {"isError":true} ],"x":1.0}"#;
        let result = read(text).unwrap();
        assert_eq!(result.result.get(), text);
        assert!(!result.is_error && !result.has_meta);
        assert_eq!(result.result_type, ResultType::Absent);

        let result = read(r#"{"isError":true,"resultType":"complete","_meta":{}}"#).unwrap();
        assert!(result.is_error && result.has_meta);
        assert_eq!(result.result_type, ResultType::Complete);
    }

    #[test]
    fn unknown_result_types_are_rejected() {
        for text in [
            "5",
            "[]",
            "[false,null,null]",
            r#"{"isError":"no"}"#,
            r#"{"resultType":1}"#,
            r#"{"isError":true,"isError":false}"#,
        ] {
            let error = read(text).unwrap_err();
            assert!(
                matches!(error, Error::Protocol { what: ProtocolViolation::Shape(_) }),
                "{text}"
            );
        }
        let (task, input) = (r#"{"resultType":"task"}"#, r#"{"resultType":"input_required"}"#);
        let error = read(task).unwrap_err();
        assert!(matches!(error, Error::Protocol { what: ProtocolViolation::ResultType }));
        let error = read_for(Method::Complete, input, &RequestContext::default()).unwrap_err();
        assert!(matches!(error, Error::Protocol { what: ProtocolViolation::ResultType }));
        let declared = format!(r#"{{"extensions":{{"{TASKS}":{{}}}}}}"#);
        let capabilities = (&*RawValue::from_string(declared).unwrap()).into();
        let context = RequestContext { capabilities, ..RequestContext::default() };
        let result = read_for(Method::CallTool, task, &context).unwrap();
        assert_eq!(result.result_type, ResultType::Task);
    }
}
