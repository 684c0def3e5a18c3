//! The gRPC binding of agents: the requests and the status of calls.

use std::time::Duration;

use a2a::{Failure, Request, grpc};
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, TE},
};
use tokio::time::Instant;

use crate::{
    error::{Error, ProtocolViolation},
    http::{Address, is_media_type, is_refusal},
    send_state::Body,
};

/// The time after which the agent may stop processing a call.
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// The maximum of that time in milliseconds: it has at most 8 digits.
const MAX_TIMEOUT_MS: u128 = 99_999_999;
/// The time between the caller's deadline and the agent's, so that the gateway decides which error a
/// late answer is.
const GRACE: Duration = Duration::from_secs(1);

/// Writes a request with these common headers.
pub(super) fn write_request(
    address: &Address,
    mut headers: HeaderMap,
    request: &Request,
    deadline: Option<Instant>,
) -> Result<http::Request<Body>, Error> {
    headers.remove(ACCEPT);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(grpc::MEDIA_TYPE));
    headers.insert(TE, HeaderValue::from_static("trailers"));
    if let Some(deadline) = deadline {
        let left = deadline.saturating_duration_since(Instant::now()) + GRACE;
        let text = format!("{}m", left.as_millis().min(MAX_TIMEOUT_MS));
        // Digits and a letter are a valid value.
        headers.extend(HeaderValue::try_from(text).ok().map(|value| (TIMEOUT, value)));
    }
    let body = grpc::write_call(request)?;
    let path = grpc::path(request.operation);
    let written = address.request_below(&path, Method::POST, headers, body);
    written.ok_or_else(|| Failure::invalid_params("", "the URL of the agent is too long").into())
}

/// Whether a response has messages and trailers.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    [grpc::MEDIA_TYPE, "application/grpc+proto"].iter().any(|name| is_media_type(headers, name))
}

/// Whether a response begins a stream. A call that failed at once has its status in the head.
pub(super) fn opens_stream(headers: &HeaderMap) -> bool {
    is_grpc(headers) && !headers.contains_key(grpc::STATUS)
}

/// The error of a call. A status without a reason of A2A may be one of a proxy or of the library that
/// serves the agent.
pub(super) fn call_error(failure: Failure) -> Error {
    if !failure.kind.is_own() {
        return failure.into();
    }
    let status = failure.kind.http_status();
    if StatusCode::from_u16(status).is_ok_and(is_refusal) {
        return Error::Refused { status };
    }
    ProtocolViolation::CallStatus(failure.kind.grpc_code().name()).into()
}
