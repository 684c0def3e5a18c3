//! Errors of the gateway as errors of data agents.

use agent_rpc::{Failure, Reason, envelope::Reply, execute::Execute};
use axum::{extract::ws::rejection::WebSocketUpgradeRejection, response::Response};
use bytes::Bytes;
use gateway_compose::Effects;
use gateway_policy::Denial;
use gateway_protocol::{
    content,
    jsonrpc::{Id, Object, code},
    mcp::{RawResult, ResultType},
};
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::respond;
use crate::{
    identity::{authenticator::Authentication, challenge::AuthenticationError},
    ingress::IngressError,
    mcp::render::denial::DenialError,
    pipeline::{Directory, Error, Gateway, PolicyDenial, message},
};

/// An error of a method, or of its request.
pub(super) enum Refused {
    /// The answer has the status 200.
    Failure(Failure),
    /// The answer has its own status.
    Request(Refusal),
}

/// An error with its HTTP status.
pub(super) struct Refusal {
    failure: Failure,
    status: StatusCode,
    headers: HeaderMap,
    /// The reason code, for metrics.
    pub(super) metric: &'static str,
}

impl From<IngressError> for Refusal {
    fn from(error: IngressError) -> Self {
        let is_quota = matches!(error, IngressError::TooManyStreams(_) | IngressError::Buffers(_));
        let kind = if is_quota { Reason::Internal } else { Reason::InvalidRequest };
        let mut failure = Failure::new(kind, error.to_string());
        failure.reason = error.as_str().to_ascii_uppercase().replace('-', "_").into();
        let mut headers = HeaderMap::new();
        error.add_headers(&mut headers);
        Self { failure, status: error.status(), headers, metric: error.as_str() }
    }
}

impl Refusal {
    /// The error of a body of another media type.
    pub(super) fn media_type() -> Self {
        let message = "the Content-Type must be application/json";
        Self {
            failure: Failure::new(Reason::InvalidRequest, message),
            status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
            headers: HeaderMap::new(),
            metric: "content-type",
        }
    }

    /// An error with this status.
    pub(super) fn of_failure(failure: Failure, status: StatusCode, metric: &'static str) -> Self {
        Self { failure, status, headers: HeaderMap::new(), metric }
    }

    /// The error without its status.
    pub(super) fn into_failure(self) -> Failure {
        self.failure
    }

    /// The error of a caller without the scopes of a tool.
    pub(super) fn of_scopes(refusal: AuthenticationError) -> Self {
        IngressError::from(refusal).into()
    }

    /// The error of a request that opens no WebSocket.
    pub(super) fn upgrade(rejection: &WebSocketUpgradeRejection) -> Self {
        Self {
            failure: Failure::new(Reason::InvalidRequest, rejection.body_text()),
            status: rejection.status(),
            headers: HeaderMap::new(),
            metric: "upgrade",
        }
    }

    /// The error of a registration whose names belong to another owner.
    pub(super) fn conflict(failure: Failure) -> Self {
        let (status, headers) = (StatusCode::CONFLICT, HeaderMap::new());
        Self { failure, status, headers, metric: "agent-id-taken" }
    }

    /// The body.
    pub(super) fn write(&self, id: Option<Id<'_>>) -> Bytes {
        Reply { id, trace_id: None, execution: None }.failure(&self.failure)
    }

    /// The response.
    pub(super) fn respond(self, id: Option<Id<'_>>) -> Response {
        let body = self.write(id);
        self.respond_with(|_| body)
    }

    /// The response with another form of the error.
    pub(super) fn respond_with(self, body: impl FnOnce(&Failure) -> Bytes) -> Response {
        let Self { failure, status, headers, .. } = self;
        let mut response = respond(body(&failure));
        *response.status_mut() = status;
        response.headers_mut().extend(headers);
        response
    }
}

/// The error of a call.
pub(super) fn of_call(
    gateway: &Gateway,
    caller: &Authentication,
    call: &Execute<'_>,
    error: &Error,
) -> Failure {
    let (agent_id, function) = (call.agent_id.as_str(), &*call.function);
    let failure = of_tool(&call.tool(), error, "/input");
    // A function that the caller may not use has the error of an unknown one.
    if matches!(error, Error::Denied(_)) && failure.is(Reason::FunctionNotFound) {
        return Directory::of(gateway, caller).unknown_function(agent_id, function);
    }
    // Denials have the data of `tools/call`.
    if matches!(error, Error::Policy(_)) { failure } else { failure.with("agent_id", agent_id) }
}

/// The error of a call of a tool. `input` is the pointer of its arguments in the request.
pub(super) fn of_tool(tool: &str, error: &Error, input: &str) -> Failure {
    let message = message::for_caller(tool, error);
    let invalid = |pointer: &str| {
        let pointer = format!("{input}{pointer}");
        Failure::new(Reason::InvalidParams, &*message).with("pointer", pointer)
    };
    let reason = match error {
        Error::Policy(denial) => return denied(denial),
        Error::Denied(Denial::Quarantined | Denial::Stale(_)) | Error::NoCatalog => {
            Reason::Unreachable
        }
        Error::Denied(_) | Error::Retired(_) => Reason::FunctionNotFound,
        Error::InvalidInput { violations } => {
            return invalid(violations.first().map_or("", |first| first.pointer.as_str()));
        }
        Error::HiddenField { pointer } => return invalid(pointer),
        Error::Arguments(_) | Error::UnknownPlaceholder { .. } => return invalid(""),
        Error::Upstream(error) => of_upstream(error),
        _ => Reason::ToolError,
    };
    let failure = Failure::new(reason, message);
    let has_answer = !matches!(reason, Reason::Timeout | Reason::Unreachable);
    if has_answer || error.effects() == Effects::None { failure } else { failure.after_effects() }
}

/// The failure that a result reports, or a question that the method cannot forward.
pub(super) fn of_result(result: &RawResult, members: &Object<'_>, method: &str) -> Option<Failure> {
    if result.is_error {
        let text = content::first_text(members);
        let text = text.unwrap_or_else(|| "the tool failed without a message".to_owned());
        return Some(Failure::new(Reason::ToolError, text));
    }
    let asks = result.result_type == ResultType::InputRequired;
    asks.then(|| {
        let text =
            format!("the tool requires input, which {method} does not support; call it over MCP");
        Failure::new(Reason::ToolError, text)
    })
}

fn of_upstream(error: &gateway_upstream::Error) -> Reason {
    use gateway_upstream::Error as Upstream;
    match error {
        Upstream::Timeout { .. } => Reason::Timeout,
        // A data agent reports its own errors with these codes.
        Upstream::Rpc { code: code::METHOD_NOT_FOUND, .. } => Reason::FunctionNotFound,
        Upstream::Rpc { code: code::INVALID_PARAMS, .. } => Reason::InvalidParams,
        Upstream::Rpc { code, .. } if *code == Reason::Timeout.code() => Reason::Timeout,
        // The call was not sent.
        Upstream::NotConfigured { .. }
        | Upstream::Stopped { .. }
        | Upstream::Refused { .. }
        | Upstream::CircuitOpen(_)
        | Upstream::LimitReached(_)
        | Upstream::ChildLimitReached(_)
        | Upstream::CallNotStarted(_) => Reason::Unreachable,
        error if error.is_about_reach() => Reason::Unreachable,
        _ => Reason::ToolError,
    }
}

/// The denial of a policy, with the code and the data of `tools/call`.
pub(super) fn denied(denial: &PolicyDenial) -> Failure {
    let DenialError { code, message, data } = DenialError::new(denial);
    let mut failure = Failure::new(Reason::ToolError, message);
    failure.code = code;
    failure.reason = denial.finding.reason.as_str().into();
    if let Value::Object(data) = data {
        failure.data = data;
    }
    failure
}
