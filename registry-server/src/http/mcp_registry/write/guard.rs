//! CSRF protection: a browser sends a plain `POST` from any page to a loopback address, with an `Origin`
//! header.
//!
//! A list of allowed origins is not supported, because clients that publish are not web pages.

use axum::{
    extract::Request,
    http::{
        HeaderMap, Method, StatusCode,
        header::{CONTENT_TYPE, ORIGIN},
    },
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use registry_core::media_type;

use crate::http::mcp_registry::problem::Problem;

pub(super) async fn guard(request: Request, next: Next) -> Response {
    let has_body = [Method::POST, Method::PATCH].contains(request.method());
    match rejection(request.headers(), has_body) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    }
}

fn rejection(headers: &HeaderMap, has_body: bool) -> Option<Problem> {
    if headers.contains_key(ORIGIN) {
        let detail = "web pages cannot change the registry: the request has an Origin header";
        return Some(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if has_body && !media_type::is_any(kind, &["application/json"]) {
        let detail = "unsupported content type: send application/json";
        return Some(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    None
}
