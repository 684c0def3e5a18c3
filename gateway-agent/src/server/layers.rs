//! Layers around all HTTP routes: request ids, request spans at level `debug`, and panic handling.

use std::{any::Any, convert::Infallible};

use axum::{
    BoxError, Router,
    body::{Body, Bytes, HttpBody},
    response::{IntoResponse as _, Response},
};
use gateway_protocol::jsonrpc::{self, ErrorObject, code};
use http::{HeaderValue, Request, StatusCode, header::CONTENT_TYPE};
use tower::{Service, ServiceBuilder};
use tower_http::{
    catch_panic::CatchPanicLayer,
    request_id::{MakeRequestUuid, PropagateRequestIdLayer, RequestId, SetRequestIdLayer},
    trace::{DefaultOnFailure, TraceLayer},
};
use tracing::{Level, Span, debug_span};

use crate::audit::REQUEST_ID;

/// Longest accepted request id of a caller, in bytes.
const LONGEST_ID: usize = 128;

/// Adds the layers. The response repeats the request's `X-Request-Id`, or has a new one.
///
/// `Router::layer` would box the layers of each route, and clone the boxes for each request.
pub(super) fn with_layers<B>(
    routes: Router,
) -> impl Service<
    Request<B>,
    Response = Response<impl HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static>,
    Error = Infallible,
    Future: Send + 'static,
> + Clone
+ Send
+ Sync
+ 'static
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let trace = TraceLayer::new_for_http()
        .make_span_with(span::<B>)
        .on_failure(DefaultOnFailure::new().level(Level::DEBUG));
    ServiceBuilder::new()
        .map_request(without_long_id::<B>)
        .layer(SetRequestIdLayer::new(REQUEST_ID, MakeRequestUuid))
        .layer(trace)
        .layer(PropagateRequestIdLayer::new(REQUEST_ID))
        .layer(CatchPanicLayer::custom(panicked))
        .service(routes)
}

/// The routes with the layers, for requests of this process.
pub(super) fn embedded(routes: Router) -> Router {
    Router::new().fallback_service(with_layers::<Body>(routes))
}

fn without_long_id<B>(mut request: Request<B>) -> Request<B> {
    let is_long = |id: &HeaderValue| id.len() > LONGEST_ID || id.to_str().is_err();
    if request.headers().get(&REQUEST_ID).is_some_and(is_long) {
        request.headers_mut().remove(&REQUEST_ID);
    }
    request
}

fn span<B>(request: &Request<B>) -> Span {
    let id = request.extensions().get::<RequestId>();
    let id = id.and_then(|id| id.header_value().to_str().ok()).unwrap_or_default();
    debug_span!("request", id, method = %request.method(), path = request.uri().path())
}

/// Logs a panic and returns an error without its details.
#[expect(clippy::needless_pass_by_value, reason = "CatchPanicLayer passes the payload by value")]
fn panicked(payload: Box<dyn Any + Send>) -> Response {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
    tracing::error!("a request panicked: {text}");
    let message = "internal error of the gateway; see its log".into();
    let error = ErrorObject { code: code::INTERNAL_ERROR, message, data: None };
    let body = jsonrpc::error(None, &error);
    (StatusCode::INTERNAL_SERVER_ERROR, [(CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tower::ServiceExt as _;

    use super::*;

    async fn response(id: Option<&str>) -> Response {
        let routes = Router::new()
            .route("/", get(|| async { "here" }))
            .route("/broken", get(|| async { panic!("defect") as &str }));
        let path = if id.is_some() { "/" } else { "/broken" };
        let request = Request::get(path).header(REQUEST_ID, id.unwrap_or("given"));
        embedded(routes).oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn panic_returns_internal_error() {
        let response = response(None).await;
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()[REQUEST_ID], "given");
        let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"]["code"], code::INTERNAL_ERROR);
        assert!(!body.to_string().contains("defect"), "{body}");
    }

    #[tokio::test]
    async fn request_id_is_replaced_when_too_long() {
        assert_eq!(response(Some("given")).await.headers()[REQUEST_ID], "given");
        let made = response(Some(&"x".repeat(LONGEST_ID + 1))).await;
        assert_eq!(made.headers()[REQUEST_ID].len(), 36);
    }
}
