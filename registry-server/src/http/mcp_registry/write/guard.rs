//! Keeps web pages from changing anything: a browser sends a plain `POST` to a loopback address from
//! any page, and says from which.
//!
//! A list of allowed origins is not supported: clients that publish are programs.

use axum::{
    extract::Request,
    http::{
        HeaderMap, Method, StatusCode,
        header::{CONTENT_TYPE, ORIGIN},
    },
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use crate::http::mcp_registry::problem::Problem;

pub(super) async fn guard(request: Request, next: Next) -> Response {
    let has_body = [Method::POST, Method::PATCH].contains(request.method());
    match refusal(request.headers(), has_body) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    }
}

fn refusal(headers: &HeaderMap, has_body: bool) -> Option<Problem> {
    if headers.contains_key(ORIGIN) {
        let why = "requests of web pages (`Origin`) may not change anything";
        return Some(Problem::new(StatusCode::FORBIDDEN, why));
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if has_body && !kind.eq_ignore_ascii_case("application/json") {
        let why = "the body must be JSON: send content-type application/json";
        return Some(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    None
}
