//! Errors of Connect.

use axum::{
    Json,
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use bytes::{BufMut as _, BytesMut};
use http::{
    HeaderValue, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use serde::Serialize;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::messages::Messages;
use crate::grpc;

/// The names of codes, and their HTTP status.
pub(super) const CODES: [(Code, &str, u16); 16] = [
    (Code::Cancelled, "canceled", 499),
    (Code::Unknown, "unknown", 500),
    (Code::InvalidArgument, "invalid_argument", 400),
    (Code::DeadlineExceeded, "deadline_exceeded", 504),
    (Code::NotFound, "not_found", 404),
    (Code::AlreadyExists, "already_exists", 409),
    (Code::PermissionDenied, "permission_denied", 403),
    (Code::ResourceExhausted, "resource_exhausted", 429),
    (Code::FailedPrecondition, "failed_precondition", 400),
    (Code::Aborted, "aborted", 409),
    (Code::OutOfRange, "out_of_range", 400),
    (Code::Unimplemented, "unimplemented", 501),
    (Code::Internal, "internal", 500),
    (Code::Unavailable, "unavailable", 503),
    (Code::DataLoss, "data_loss", 500),
    (Code::Unauthenticated, "unauthenticated", 401),
];

/// The body of an error.
#[derive(Serialize)]
struct Error<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<Detail>,
}

#[derive(Serialize)]
struct Detail {
    r#type: String,
    /// Base64 without padding.
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    debug: Option<serde_json::Value>,
}

/// The row of a code.
fn row(code: Code) -> (Code, &'static str, u16) {
    let row = CODES.iter().find(|(known, ..)| *known == code);
    row.copied().unwrap_or((Code::Unknown, "unknown", 500))
}

impl<'a> Error<'a> {
    fn new(messages: &Messages, status: &'a Status) -> Self {
        let (_, code, _) = row(status.code());
        let details = grpc::connect::details(status).into_iter().map(|any| {
            let (_, name) = any.type_url.rsplit_once('/').unwrap_or(("", &any.type_url));
            let debug = messages.detail(name, &any.value);
            Detail { r#type: name.to_owned(), value: STANDARD_NO_PAD.encode(&any.value), debug }
        });
        Self { code, message: status.message(), details: details.collect() }
    }
}

/// The response for a status, with the HTTP status of its code.
pub(super) fn response(messages: &Messages, status: &Status) -> Response {
    let (_, _, http) = row(status.code());
    let mut response = Json(Error::new(messages, status)).into_response();
    *response.status_mut() =
        StatusCode::from_u16(http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if status.code() == Code::Unauthenticated {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    let retry = status.get_details_retry_info().and_then(|retry| retry.retry_delay);
    if let Some(delay) = retry {
        // The header has whole seconds.
        headers.insert(RETRY_AFTER, HeaderValue::from(delay.as_secs() + 1));
    }
    response
}

/// The response to a stream of Connect: HTTP status 200, and one frame that ends the stream.
pub(super) fn end_of_stream(messages: &Messages, status: &Status, kind: HeaderValue) -> Response {
    const END: u8 = 2;
    let end = serde_json::json!({ "error": Error::new(messages, status) }).to_string();
    let mut frame = BytesMut::new();
    frame.put_u8(END);
    // An error is far below 4 GiB.
    frame.put_u32(u32::try_from(end.len()).unwrap_or(u32::MAX));
    frame.put_slice(end.as_bytes());
    ([(CONTENT_TYPE, kind)], frame.freeze()).into_response()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prost::Message as _;
    use tonic_types::pb;

    use super::*;
    use crate::access::Denied;

    #[tokio::test]
    async fn error_has_code_details_and_headers() {
        let messages = Messages::load().unwrap();
        let limited = grpc::denied(&Denied::RateLimited(Duration::from_millis(1_500)));
        let response = response(&messages, &limited);
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[RETRY_AFTER], "2");
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["code"], "resource_exhausted");
        let [info, retry] = &body["details"].as_array().unwrap()[..] else { panic!("{body}") };
        assert_eq!(info["type"], "google.rpc.ErrorInfo");
        assert_eq!(info["debug"]["reason"], "RATE_LIMITED");
        assert_eq!(retry["debug"]["retryDelay"], "1.500s");
        let value = STANDARD_NO_PAD.decode(retry["value"].as_str().unwrap()).unwrap();
        let decoded = pb::RetryInfo::decode(&*value).unwrap();
        assert_eq!(decoded.retry_delay.unwrap().nanos, 500_000_000);
    }

    #[test]
    fn every_error_code_has_a_row() {
        for number in 1..=16 {
            let code = Code::from_i32(number);
            assert_eq!(CODES.iter().filter(|(known, ..)| *known == code).count(), 1, "{code}");
        }
    }
}
