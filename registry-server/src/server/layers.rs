//! Layers around every route: request ids, request spans at level `debug`, and panic handling.

use std::any::Any;

use axum::{
    Router,
    response::{IntoResponse as _, Response},
};
use http::{HeaderName, HeaderValue, Request, StatusCode};
use tower::ServiceBuilder;
use tower_http::{
    catch_panic::CatchPanicLayer,
    request_id::{MakeRequestUuid, PropagateRequestIdLayer, RequestId, SetRequestIdLayer},
    trace::{DefaultOnFailure, TraceLayer},
};
use tracing::{Level, Span, debug_span};

use crate::grpc;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum bytes of a request id from a client; a longer one is replaced.
const MAX_ID_BYTES: usize = 128;

/// Turns a panic of a gRPC service into a status.
pub(super) fn catch_panics(services: Router) -> Router {
    services.route_layer(CatchPanicLayer::custom(grpc_panicked))
}

/// Merges the gRPC and HTTP routers. A panic outside of the gRPC services becomes an HTTP error.
pub(super) fn join(services: Router, http: Router) -> Router {
    services.merge(http).layer(CatchPanicLayer::custom(http_panicked))
}

/// Adds request ids and spans outside the access gate, so that its rejections have them too. A response
/// repeats the `X-Request-Id` of its request or has a new one.
pub(super) fn trace(routes: Router) -> Router {
    let spans = TraceLayer::new_for_http()
        .make_span_with(span)
        .on_failure(DefaultOnFailure::new().level(Level::DEBUG));
    routes.layer(
        ServiceBuilder::new()
            .map_request(without_long_id)
            .layer(SetRequestIdLayer::new(REQUEST_ID, MakeRequestUuid))
            .layer(spans)
            .layer(PropagateRequestIdLayer::new(REQUEST_ID)),
    )
}

fn without_long_id<B>(mut request: Request<B>) -> Request<B> {
    let is_long = |id: &HeaderValue| id.len() > MAX_ID_BYTES || id.to_str().is_err();
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

#[expect(clippy::needless_pass_by_value, reason = "CatchPanicLayer passes the payload by value")]
fn grpc_panicked(payload: Box<dyn Any + Send>) -> Response {
    log(&*payload);
    grpc::panicked().into_http()
}

#[expect(clippy::needless_pass_by_value, reason = "CatchPanicLayer passes the payload by value")]
fn http_panicked(payload: Box<dyn Any + Send>) -> Response {
    log(&*payload);
    (StatusCode::INTERNAL_SERVER_ERROR, "internal error; see the server log\n").into_response()
}

fn log(payload: &(dyn Any + Send)) {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
    tracing::error!("request handler panicked: {text}");
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, routing::get};
    use tower::ServiceExt as _;

    use super::*;

    async fn response(path: &str, id: &str) -> Response {
        let broken = || get(|| async { panic!("a defect") as &str });
        let services = Router::new().route("/v1.Service/Method", broken());
        let http = Router::new().route("/broken", broken()).route("/", get(|| async { "here" }));
        let request = Request::get(path).header(REQUEST_ID, id).body(Body::empty()).unwrap();
        trace(join(catch_panics(services), http)).oneshot(request).await.unwrap()
    }

    #[tokio::test]
    async fn panic_response_uses_the_surface_format() {
        let http = response("/broken", "given").await;
        assert_eq!(
            (http.status().as_u16(), &http.headers()[REQUEST_ID]),
            (500, &"given".parse().unwrap())
        );
        let grpc = response("/v1.Service/Method", "given").await;
        let code = tonic::Code::Internal as i32;
        assert_eq!(grpc.status(), 200);
        assert_eq!(grpc.headers()["grpc-status"], code.to_string());
    }

    #[tokio::test]
    async fn request_id_is_kept_unless_too_long() {
        assert_eq!(response("/", "given").await.headers()[REQUEST_ID], "given");
        let made = response("/", &"x".repeat(MAX_ID_BYTES + 1)).await;
        assert_eq!(made.headers()[REQUEST_ID].len(), 36);
    }
}
