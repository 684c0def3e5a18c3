//! Rejects requests of web pages: a browser may send a plain POST to a loopback address from any page.
//!
//! gRPC clients send `application/grpc` and no `Origin`. A page cannot omit its origin or the preflight
//! for that content type, and the server answers no preflight. gRPC-web is not supported: it needs a list of
//! allowed origins.

use axum::{
    Router,
    extract::Request,
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
};
use http::{
    HeaderMap, StatusCode,
    header::{CONTENT_TYPE, ORIGIN},
};

pub(super) fn layer(router: Router) -> Router {
    router.route_layer(from_fn(guard))
}

async fn guard(request: Request, next: Next) -> Response {
    match refusal(request.headers()) {
        Some((status, why)) => (status, why).into_response(),
        None => next.run(request).await,
    }
}

fn refusal(headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
    if headers.contains_key(ORIGIN) {
        return Some((StatusCode::FORBIDDEN, "requests of web pages (`Origin`) are rejected\n"));
    }
    let is_grpc = |value: &[u8]| {
        value
            .strip_prefix(b"application/grpc")
            .is_some_and(|rest| matches!(rest, [] | [b'+' | b';', ..]))
    };
    if headers.get(CONTENT_TYPE).is_some_and(|value| is_grpc(value.as_bytes())) {
        return None;
    }
    let why = "this is a gRPC service: send content-type application/grpc\n";
    Some((StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn status(pairs: &[(&'static str, &'static str)]) -> Option<StatusCode> {
        let headers = pairs
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect();
        refusal(&headers).map(|(status, _)| status)
    }

    #[test]
    fn only_grpc_clients_pass() {
        assert_eq!(status(&[("content-type", "application/grpc")]), None);
        assert_eq!(status(&[("content-type", "application/grpc+proto")]), None);
        for other in ["text/plain", "application/json", "application/grpc-web", "application/grpcx"]
        {
            assert_eq!(
                status(&[("content-type", other)]),
                Some(StatusCode::UNSUPPORTED_MEDIA_TYPE)
            );
        }
        assert_eq!(status(&[]), Some(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        let page = [("content-type", "application/grpc"), ("origin", "http://127.0.0.1:7070")];
        assert_eq!(status(&page), Some(StatusCode::FORBIDDEN));
    }
}
