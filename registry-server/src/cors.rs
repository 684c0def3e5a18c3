//! CORS headers of the MCP registry API on every response, including errors.
//!
//! The API specification requires access from all origins. Only `GET` is allowed, so pages of other sites
//! cannot make changes.

use axum::{
    extract::Request,
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{
            ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
            ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
        },
    },
    middleware::Next,
    response::{IntoResponse, Response},
};

const HEADERS: [(HeaderName, &str); 5] = [
    (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    (ACCESS_CONTROL_ALLOW_METHODS, "GET, OPTIONS"),
    (ACCESS_CONTROL_ALLOW_HEADERS, "Authorization, Content-Type"),
    (ACCESS_CONTROL_EXPOSE_HEADERS, "ETag"),
    (ACCESS_CONTROL_MAX_AGE, "86400"),
];

pub(crate) async fn cors(request: Request, next: Next) -> Response {
    let mut response = if request.method() == Method::OPTIONS {
        StatusCode::NO_CONTENT.into_response()
    } else {
        next.run(request).await
    };
    allow(response.headers_mut());
    response
}

/// Adds the headers to a response.
pub(crate) fn allow(headers: &mut HeaderMap) {
    headers.extend(HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value))));
}
