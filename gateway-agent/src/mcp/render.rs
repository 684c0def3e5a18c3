//! Renders failures as JSON-RPC and HTTP. The message for callers comes from here; the log has the
//! error's own text.
//!
//! Following the MCP specification, failures that a model can act on (invalid arguments, an
//! unavailable or slow tool, a rejected result, a stale catalog) are results with `isError`,
//! because clients show those to the model. Other failures (an unknown tool, an invalid request, a
//! misconfigured gateway) are JSON-RPC errors. A JSON-RPC error of an upstream stays one.

pub(crate) mod denial;
pub(crate) mod http;
mod names;
pub(crate) mod result;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use ::http::StatusCode;
use agent_rpc::Failure;
use gateway_policy::Denial;
use gateway_protocol::{
    jsonrpc::{self, ErrorObject, Id, InvalidMessage, code},
    mcp::{Era, Method},
};
use serde_json::{Value, value::RawValue};

use self::http::{SizedResponse, json};
use crate::{
    ingress::{IngressError, quota_status},
    mcp::{Rejection, era::SUPPORTED_VERSIONS},
    pipeline::{DenialForm, Error, message},
};

/// The response to a request that was rejected before routing.
pub(crate) fn rejection(id: Option<Id<'_>>, rejection: &Rejection) -> SizedResponse {
    let (status, code) = classify(rejection);
    let data = match rejection {
        Rejection::UnsupportedVersion { requested } => unsupported_version(requested),
        Rejection::MissingExtension { extension } => {
            required("extensions", &serde_json::json!({ *extension: {} }))
        }
        Rejection::Ingress(error) => {
            error.data().and_then(|data| serde_json::value::to_raw_value(&data).ok())
        }
        Rejection::Function(failure) => failure_data(failure),
        _ => None,
    };
    let error = ErrorObject { code, message: public(rejection), data: data.as_deref() };
    let mut answer = self::error(status, id, &error);
    if let Rejection::Ingress(error) = rejection {
        error.add_headers(answer.headers_mut());
    }
    answer
}

/// The message for the caller.
fn public(rejection: &Rejection) -> Cow<'static, str> {
    match rejection {
        Rejection::UnsupportedVersion { .. } => "Unsupported protocol version".into(),
        Rejection::UnknownMethod { method, .. } => format!("Method not found: {method}").into(),
        other => other.to_string().into(),
    }
}

fn classify(rejection: &Rejection) -> (StatusCode, i64) {
    match rejection {
        Rejection::Ingress(error) => {
            let is_quota =
                matches!(error, IngressError::TooManyStreams(_) | IngressError::Buffers(_));
            let code = if is_quota { code::INTERNAL_ERROR } else { code::INVALID_REQUEST };
            (error.status(), code)
        }
        Rejection::NotAcceptable { .. } => (StatusCode::NOT_ACCEPTABLE, code::INVALID_REQUEST),
        Rejection::MediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, code::INVALID_REQUEST),
        Rejection::Invalid(invalid) => classify_message(invalid),
        Rejection::ClientResponse
        | Rejection::EventUnknown
        | Rejection::IdInUse
        | Rejection::SessionRequired => (StatusCode::BAD_REQUEST, code::INVALID_REQUEST),
        Rejection::Params { .. } | Rejection::Function(_) | Rejection::MissingMeta { .. } => {
            (StatusCode::BAD_REQUEST, code::INVALID_PARAMS)
        }
        Rejection::MissingExtension { .. } => {
            (StatusCode::BAD_REQUEST, code::MISSING_CLIENT_CAPABILITY)
        }
        Rejection::Header(_) => (StatusCode::BAD_REQUEST, code::HEADER_MISMATCH),
        Rejection::UnsupportedVersion { .. } => {
            (StatusCode::BAD_REQUEST, code::UNSUPPORTED_PROTOCOL_VERSION)
        }
        Rejection::UnknownMethod { era: Era::Modern, .. } => {
            (StatusCode::NOT_FOUND, code::METHOD_NOT_FOUND)
        }
        Rejection::UnknownMethod { era: Era::Legacy, .. } => {
            (StatusCode::OK, code::METHOD_NOT_FOUND)
        }
        Rejection::SessionUnknown => (StatusCode::NOT_FOUND, code::INVALID_REQUEST),
        Rejection::Cursor(_) => (StatusCode::OK, code::INVALID_PARAMS),
        Rejection::NoCatalog => (StatusCode::OK, code::INTERNAL_ERROR),
        Rejection::TooManySessions(full) => (quota_status(full), code::INTERNAL_ERROR),
        Rejection::NoRandomness => (StatusCode::SERVICE_UNAVAILABLE, code::INTERNAL_ERROR),
    }
}

/// The status and code of an invalid JSON-RPC message.
fn classify_message(invalid: &InvalidMessage) -> (StatusCode, i64) {
    match invalid {
        InvalidMessage::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, code::INVALID_REQUEST),
        InvalidMessage::Syntax { .. } => (StatusCode::BAD_REQUEST, code::PARSE_ERROR),
        InvalidMessage::Params => (StatusCode::BAD_REQUEST, code::INVALID_PARAMS),
        InvalidMessage::TooDeep { .. }
        | InvalidMessage::Batch
        | InvalidMessage::NotAnObject
        | InvalidMessage::Duplicate(_)
        | InvalidMessage::Version
        | InvalidMessage::Id
        | InvalidMessage::Method
        | InvalidMessage::ErrorObject
        | InvalidMessage::Kind => (StatusCode::BAD_REQUEST, code::INVALID_REQUEST),
    }
}

fn unsupported_version(requested: &str) -> Option<Box<RawValue>> {
    let data = serde_json::json!({ "supported": SUPPORTED_VERSIONS, "requested": requested });
    serde_json::value::to_raw_value(&data).ok()
}

/// The response to a failed tool call.
pub(crate) fn call_error(
    id: Id<'_>,
    era: Era,
    (tool, form): (&str, DenialForm),
    failed: &Error,
) -> SizedResponse {
    if let Error::Policy(denial) = failed {
        return denial::of_call(id, era, tool, (denial, form));
    }
    if let Error::Denied(Denial::Stale(stale)) = failed {
        return result::stale_catalog(id, era, tool, stale);
    }
    if let Error::Scopes(refusal) = failed {
        return super::refuse(Some(id), &refusal.clone().into());
    }
    if let Error::Composition(failed) = failed {
        return result::failed_composition(id, era, tool, failed);
    }
    match self::form(tool, failed) {
        Form::Result(text) => result::failed(id, era, &text),
        Form::Error { status, code, message, data } => {
            error(status, Some(id), &ErrorObject { code, message, data: data.as_deref() })
        }
    }
}

/// The response to a call of an unknown function of a data agent.
pub(crate) fn failure(id: Id<'_>, failure: &Failure) -> SizedResponse {
    let (message, data) = (Cow::Borrowed(&*failure.message), failure_data(failure));
    let object = ErrorObject { code: failure.code, message, data: data.as_deref() };
    error(StatusCode::OK, Some(id), &object)
}

/// The reason of an error of data agents, and its other data.
fn failure_data(failure: &Failure) -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(&failure.to_value()["data"]).ok()
}

/// The response to another failed request. Only tools have results with `isError`.
pub(crate) fn relay_error(
    id: Id<'_>,
    era: Era,
    (method, subject): (Method, &str),
    failed: &Error,
) -> SizedResponse {
    if let Error::Scopes(refusal) = failed {
        return super::refuse(Some(id), &refusal.clone().into());
    }
    if let Error::Policy(denial) = failed {
        return denial::of_request(id, method, denial);
    }
    let form = match failed {
        Error::Denied(Denial::Stale(stale)) => Form::Error {
            status: StatusCode::OK,
            code: code::INTERNAL_ERROR,
            message: stale.to_string().into(),
            data: None,
        },
        Error::Denied(_) => unknown(era, (method, subject)),
        Error::Upstream(gateway_upstream::Error::Rpc { code, .. })
            if is_not_found(era, method, *code) =>
        {
            unknown(era, (method, subject))
        }
        failed => form(subject, failed),
    };
    match form {
        Form::Result(text) => {
            let (code, message) = (code::INTERNAL_ERROR, text);
            error(StatusCode::OK, Some(id), &ErrorObject { code, message, data: None })
        }
        Form::Error { status, code, message, data } => {
            error(status, Some(id), &ErrorObject { code, message, data: data.as_deref() })
        }
    }
}

/// Whether a code means an unknown resource. Servers of both eras use the old code, and stateless
/// ones also another.
fn is_not_found(era: Era, method: Method, code: i64) -> bool {
    let is_old = code == code::RESOURCE_NOT_FOUND;
    let is_new = code == code::INVALID_PARAMS && era == Era::Modern;
    method == Method::ReadResource && (is_old || is_new)
}

/// The response for subjects that are unknown or invisible; the caller must not learn which.
fn unknown(era: Era, (method, subject): (Method, &str)) -> Form<'static> {
    let (kind, code) = match (method, era) {
        (Method::ReadResource | Method::Subscribe, Era::Legacy) => {
            ("resource", code::RESOURCE_NOT_FOUND)
        }
        (Method::ReadResource | Method::Subscribe, Era::Modern) => {
            ("resource", code::INVALID_PARAMS)
        }
        (method, _) if method.concerns_task() => ("task", code::INVALID_PARAMS),
        (Method::Complete, _) => ("reference", code::INVALID_PARAMS),
        _ => ("prompt", code::INVALID_PARAMS),
    };
    let data = serde_json::value::to_raw_value(&serde_json::json!({ "uri": subject })).ok();
    let data = data.filter(|_| kind == "resource").map(Cow::Owned);
    let message = format!("Unknown {kind}: {subject}").into();
    Form::Error { status: StatusCode::OK, code, message, data }
}

enum Form<'a> {
    /// A result with `isError`.
    Result(Cow<'a, str>),
    /// A JSON-RPC error.
    Error { status: StatusCode, code: i64, message: Cow<'a, str>, data: Option<Cow<'a, RawValue>> },
}

fn form<'a>(tool: &str, failed: &'a Error) -> Form<'a> {
    let message = message::for_caller(tool, failed);
    let protocol =
        |code| Form::Error { status: StatusCode::OK, code, message: message.clone(), data: None };
    match failed {
        Error::NoCatalog
        | Error::UnusableSchema { .. }
        | Error::MissingVariable { .. }
        | Error::Upstream(gateway_upstream::Error::NotConfigured { .. }) => {
            protocol(code::INTERNAL_ERROR)
        }
        Error::Policy(_) | Error::Denied(Denial::Quarantined | Denial::Stale(_)) => {
            Form::Result(message)
        }
        Error::Denied(_)
        | Error::Retired(_)
        | Error::Scopes(_)
        | Error::UnknownInput
        | Error::Arguments(_) => protocol(code::INVALID_PARAMS),
        Error::HeaderMismatch(_) => Form::Error {
            status: StatusCode::BAD_REQUEST,
            code: code::HEADER_MISMATCH,
            message,
            data: None,
        },
        Error::MissingCapability { capability } => Form::Error {
            status: StatusCode::BAD_REQUEST,
            code: code::MISSING_CLIENT_CAPABILITY,
            message,
            data: required(capability, &serde_json::json!({})).map(Cow::Owned),
        },
        Error::TaskSupport { .. } => protocol(code::METHOD_NOT_FOUND),
        Error::Upstream(gateway_upstream::Error::Rpc { code, data, .. }) => {
            let is_about_client = *code == code::MISSING_CLIENT_CAPABILITY;
            let status = if is_about_client { StatusCode::BAD_REQUEST } else { StatusCode::OK };
            let data = data.as_deref().map(Cow::Borrowed);
            Form::Error { status, code: relayed(*code), message, data }
        }
        Error::HiddenField { .. }
        | Error::UnknownPlaceholder { .. }
        | Error::InvalidInput { .. }
        | Error::InvalidOutput { .. }
        | Error::Composition(_)
        | Error::Projection(_)
        | Error::TooManyInputRounds { .. }
        | Error::Agent(_)
        | Error::Upstream(_) => Form::Result(message),
    }
}

/// The data of an error about a missing client capability.
fn required(capability: &str, settings: &Value) -> Option<Box<RawValue>> {
    let data = serde_json::json!({ "requiredCapabilities": { capability: settings } });
    serde_json::value::to_raw_value(&data).ok()
}

/// Maps an upstream's error code. Clients would attribute reserved codes to the gateway. A missing
/// client capability is forwarded, because the client must declare it.
fn relayed(upstream: i64) -> i64 {
    let is_reserved = (-32_099..=-32_000).contains(&upstream);
    let is_relayed = upstream == code::MISSING_CLIENT_CAPABILITY;
    if is_reserved && !is_relayed { code::INTERNAL_ERROR } else { upstream }
}

fn error(status: StatusCode, id: Option<Id<'_>>, error: &ErrorObject<'_>) -> SizedResponse {
    json(status, jsonrpc::error(id, error))
}
