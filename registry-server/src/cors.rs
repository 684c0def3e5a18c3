//! CORS: the web pages that may read responses.
//!
//! The specification of the MCP registry API requires access from all origins. Only `GET` is allowed there, so pages
//! of other sites cannot make changes. All other routes allow the origins in a list.

use std::{str::FromStr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::Request,
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{
            ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
            ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
            AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, ORIGIN, RETRY_AFTER,
        },
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use reqwest::Url;
use tower_http::cors::CorsLayer;

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

/// Lifetime of preflight results in browsers. Chromium limits it to 2 hours.
const MAX_AGE: Duration = Duration::from_hours(2);

/// Request headers of the protocols that pages use: Connect, gRPC-web and W3C Trace Context.
const REQUEST_HEADERS: [HeaderName; 11] = [
    AUTHORIZATION,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    HeaderName::from_static("connect-protocol-version"),
    HeaderName::from_static("connect-timeout-ms"),
    HeaderName::from_static("grpc-timeout"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("x-grpc-web"),
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("x-user-agent"),
];

/// Response headers that pages may read.
const RESPONSE_HEADERS: [HeaderName; 5] = [
    RETRY_AFTER,
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-status-details-bin"),
    HeaderName::from_static("x-request-id"),
];

/// An origin of web pages, as browsers send it: a scheme, a host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebOrigin(HeaderValue);

impl FromStr for WebOrigin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = |problem: String| format!("invalid origin `{text}`: {problem}");
        let url = Url::parse(text).map_err(|e| invalid(e.to_string()))?;
        let origin = url.origin().ascii_serialization();
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("write https://HOST or https://HOST:PORT".to_owned()));
        }
        if text.contains('*') {
            return Err(invalid("wildcards are not supported; list each origin".to_owned()));
        }
        // Browsers compare origins byte by byte.
        if origin != text {
            return Err(invalid(format!("write it as browsers send it, `{origin}`")));
        }
        text.parse().map(Self).map_err(|_| invalid("it is no header value".to_owned()))
    }
}

/// The origins whose pages may use the API.
#[derive(Debug, Clone, Default)]
pub(crate) struct AllowedOrigins(Arc<[HeaderValue]>);

impl AllowedOrigins {
    pub(crate) fn new(origins: &[WebOrigin]) -> Self {
        Self(origins.iter().map(|WebOrigin(origin)| origin.clone()).collect())
    }

    /// Whether a request is from a page of another origin. Other clients send no `Origin`.
    pub(crate) fn reject(&self, headers: &HeaderMap) -> bool {
        headers.get_all(ORIGIN).iter().any(|origin| !self.0.contains(origin))
    }

    /// Answers preflight requests and adds the headers to responses. Without a listed origin, browsers get neither.
    pub(crate) fn layer(&self, router: Router) -> Router {
        if self.0.is_empty() {
            return router;
        }
        let cors = CorsLayer::new()
            .allow_origin(self.0.to_vec())
            .allow_methods([Method::GET, Method::POST])
            .allow_headers(REQUEST_HEADERS)
            .expose_headers(RESPONSE_HEADERS)
            .max_age(MAX_AGE);
        router.route_layer(cors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_is_exact() {
        for origin in ["https://app.example", "http://localhost:5173", "https://[::1]:8443"] {
            assert!(origin.parse::<WebOrigin>().is_ok(), "{origin}");
        }
        for text in [
            "",
            "*",
            "null",
            "app.example",
            "https://app.example/",
            "https://App.example",
            "https://app.example:443",
            "https://*.example",
            "https://app.example/page",
            "https://ann@app.example",
            "file:///",
            "ftp://app.example",
        ] {
            assert!(text.parse::<WebOrigin>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_origin_header_must_be_listed() {
        let listed = AllowedOrigins::new(&["https://app.example".parse().unwrap()]);
        let none = AllowedOrigins::default();
        for (origins, by_listed) in [
            (&[][..], false),
            (&["https://app.example"], false),
            (&["https://evil.example"], true),
            (&["null"], true),
            (&["https://app.example", "https://evil.example"], true),
        ] {
            let headers: HeaderMap =
                origins.iter().map(|origin| (ORIGIN, HeaderValue::from_static(origin))).collect();
            assert_eq!(listed.reject(&headers), by_listed, "{origins:?}");
            assert_eq!(none.reject(&headers), !origins.is_empty(), "{origins:?}");
        }
    }
}
