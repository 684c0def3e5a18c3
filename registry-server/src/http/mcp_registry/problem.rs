//! Errors of the API in both formats that clients read: the `error` member of the API specification, and
//! problem details (RFC 7807) like the reference implementation.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

/// An error response.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
    errors: Vec<Detail>,
}

/// One invalid part of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Detail {
    /// Stable code of the finding.
    pub(super) code: String,
    /// Description.
    pub(super) message: String,
    /// Path in the request, for example `body.packages[0].version`.
    pub(super) location: String,
    /// Path as a JSON pointer (RFC 6901).
    pub(super) pointer: String,
    /// Remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) help: Option<String>,
}

#[derive(Serialize)]
struct Body<'a> {
    error: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [Detail],
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), errors: Vec::new() }
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// A parameter outside its range.
    pub(super) fn unprocessable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    pub(super) fn method_not_allowed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, detail)
    }

    /// Message of the error.
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    /// Adds the findings.
    pub(super) fn with(self, errors: Vec<Detail>) -> Self {
        Self { errors, ..self }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { status, detail, errors } = self;
        let title = status.canonical_reason().unwrap_or("Error");
        let body = Body {
            error: &detail,
            title,
            status: status.as_u16(),
            detail: &detail,
            errors: &errors,
        };
        // Strings and numbers always serialize.
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json")),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        (status, headers, body).into_response()
    }
}
