//! Layers around all HTTP routes: request ids, request spans at level `debug`, and panic handling.

use std::{any::Any, convert::Infallible, panic::AssertUnwindSafe};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    response::{IntoResponse as _, Response},
};
use futures_util::{FutureExt as _, TryFutureExt as _, future::Either};
use gateway_protocol::jsonrpc::{self, ErrorObject, code};
use http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_http::trace::{DefaultOnFailure, TraceLayer};
use tracing::{Level, Span, debug_span, level_filters::LevelFilter};
use uuid::{Uuid, fmt::Hyphenated};

use super::routes::Routes;
use crate::{audit::REQUEST_ID, identity::sender::RequestSender};

/// Longest accepted request id of a caller, in bytes.
const LONGEST_ID: usize = 128;

/// Serves a request within the layers. The response repeats the request's `X-Request-Id`, or has a
/// new one.
///
/// `Router::layer` would box the layers of each route, and clone the boxes for each request.
pub(super) fn serve(
    routes: Routes,
    mut request: Request,
    sender: RequestSender,
) -> impl Future<Output = Result<Response, Infallible>> + Send + 'static {
    let id = request_id(request.headers_mut());
    // The library's layer reads the clock even if all its events are disabled.
    let response = if Level::DEBUG <= LevelFilter::current() {
        Either::Left(traced(routes, request, sender))
    } else {
        Either::Right(caught(routes, request, sender))
    };
    response.map_ok(|response| with_request_id(response, id))
}

/// The routes with the layers, for requests of this process.
pub(super) fn embedded(routes: Routes) -> Router {
    Router::new().fallback_service(service_fn(move |mut request: Request| {
        let sender = request.extensions_mut().remove().unwrap_or_default();
        serve(routes.clone(), request, sender)
    }))
}

/// The id of a request, which is added if the caller sent none or an invalid one.
fn request_id(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let is_valid = |id: &&HeaderValue| id.len() <= LONGEST_ID && id.to_str().is_ok();
    if let Some(known) = headers.get(&REQUEST_ID).filter(is_valid) {
        return Some(known.clone());
    }
    let mut text = [0; Hyphenated::LENGTH];
    Uuid::new_v4().hyphenated().encode_lower(&mut text);
    // The header of the response shares the text. The characters of an id are valid.
    let id = HeaderValue::from_maybe_shared(Bytes::from_owner(text)).ok()?;
    headers.insert(REQUEST_ID, id.clone());
    Some(id)
}

fn with_request_id(mut response: Response, id: Option<HeaderValue>) -> Response {
    if let Some(id) = id {
        response.headers_mut().entry(REQUEST_ID).or_insert(id);
    }
    response
}

/// Serves a request in a span, with events at level `debug`.
fn traced(
    routes: Routes,
    request: Request,
    sender: RequestSender,
) -> impl Future<Output = Result<Response, Infallible>> + Send + 'static {
    let layer = TraceLayer::new_for_http()
        .make_span_with(span)
        .on_failure(DefaultOnFailure::new().level(Level::DEBUG));
    let service = layer
        .layer(service_fn(move |request: Request| caught(routes.clone(), request, sender.clone())));
    service.oneshot(request).map_ok(|response| response.map(Body::new))
}

fn span(request: &Request) -> Span {
    let id = request.headers().get(&REQUEST_ID);
    let id = id.and_then(|id| id.to_str().ok()).unwrap_or_default();
    debug_span!("request", id, method = %request.method(), path = request.uri().path())
}

/// Serves a request. A panic becomes an error.
fn caught(
    routes: Routes,
    request: Request,
    sender: RequestSender,
) -> impl Future<Output = Result<Response, Infallible>> + Send + 'static {
    // The call is a part of the future, because it can panic, too.
    let served = AssertUnwindSafe(async move { routes.call(request, sender).await });
    served.catch_unwind().map(|served| served.unwrap_or_else(|payload| Ok(panicked(&*payload))))
}

/// Logs a panic and returns an error without its details.
fn panicked(payload: &(dyn Any + Send)) -> Response {
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
    use std::sync::Arc;

    use axum::routing::get;

    use super::*;

    async fn response(id: Option<&str>) -> Response {
        let routes = Router::new()
            .route("/", get(|| async { "here" }))
            .route("/broken", get(|| async { panic!("defect") as &str }));
        let path = if id.is_some() { "/" } else { "/broken" };
        let request = Request::get(path).header(REQUEST_ID, id.unwrap_or("given"));
        embedded(routes.into()).oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
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
    async fn requests_have_spans_at_level_debug() {
        gateway_testkit::keep_second_subscriber();
        let log = tempfile::NamedTempFile::new().unwrap();
        let writer = Arc::new(log.reopen().unwrap());
        let subscriber = tracing_subscriber::fmt().with_max_level(Level::DEBUG);
        let subscriber = subscriber.with_ansi(false).with_writer(writer).finish();
        let _subscriber = tracing::subscriber::set_default(subscriber);
        assert_eq!(response(Some("given")).await.headers()[REQUEST_ID], "given");
        let log = std::fs::read_to_string(log.path()).unwrap();
        assert!(log.contains(r#"request{id="given" method=GET path="/"}"#), "{log}");
    }

    #[tokio::test]
    async fn request_id_is_replaced_when_too_long() {
        assert_eq!(response(Some("given")).await.headers()[REQUEST_ID], "given");
        let made = response(Some(&"x".repeat(LONGEST_ID + 1))).await;
        assert_eq!(made.headers()[REQUEST_ID].len(), 36);
    }
}
