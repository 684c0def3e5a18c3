//! CORS headers of the MCP registry API, on every response. Without them on errors, a web page could
//! not read the errors.
//!
//! Only `GET` is allowed, so a browser sends no change for another site's page. All origins are
//! allowed, because the API demands it.

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

const LEAVE: [(HeaderName, &str); 5] = [
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

/// Says on an answer that every web page may read it.
pub(crate) fn allow(headers: &mut HeaderMap) {
    headers.extend(LEAVE.map(|(name, value)| (name, HeaderValue::from_static(value))));
}
