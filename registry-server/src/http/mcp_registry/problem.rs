//! Errors of the API, in both forms that its clients read: `error` of its specification, and the
//! members of RFC 7807, which its first implementation writes.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

/// Why a request was not answered with what it asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
    errors: Vec<Detail>,
}

/// One thing that is wrong with what was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Detail {
    /// The stable name of the finding.
    pub(super) code: String,
    /// What is wrong.
    pub(super) message: String,
    /// Where: `body.packages[0].version`.
    pub(super) location: String,
    /// The same as a JSON pointer (RFC 6901).
    pub(super) pointer: String,
    /// What to do about it.
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

    /// A parameter that is out of its range.
    pub(super) fn unprocessable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    pub(super) fn wrong_method(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, detail)
    }

    /// What is wrong.
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    /// Adds what exactly is wrong.
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
        // Texts and numbers always serialize.
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json")),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        (status, headers, body).into_response()
    }
}
