//! Bodies of `Sync` that bypass the layers of the server.
//!
//! Most layers put each body into a box, which each message and each acknowledgment would pass. The trace of such a
//! stream ends with its head. Streams over gRPC-web need the layers, which translate their bodies.

use std::{
    convert::Infallible,
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    BoxError,
    body::{Body, HttpBody},
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Request, Response, header::CONTENT_TYPE};
use tonic::body::Body as TransportBody;

use super::deadline::SYNC;

/// A body outside of the layers, in the extensions of its request or response.
#[derive(Debug, Clone)]
struct DirectBody(Arc<Mutex<Option<TransportBody>>>);

impl DirectBody {
    fn new(body: TransportBody) -> Self {
        Self(Arc::new(Mutex::new(Some(body))))
    }

    fn take(&self) -> TransportBody {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }
}

/// Before the layers: removes the body of a stream.
pub(crate) fn detach_request(mut request: Request<TransportBody>) -> Request<TransportBody> {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_grpc = matches!(kind, Some(b"application/grpc" | b"application/grpc+proto"));
    if is_grpc && request.uri().path() == SYNC {
        let body = DirectBody::new(mem::take(request.body_mut()));
        request.extensions_mut().insert(body);
    }
    request
}

/// After the layers: returns the request with its body, and whether the response bypasses the layers too.
pub(super) fn attach_request(mut request: Request<Body>) -> (Request<TransportBody>, bool) {
    match request.extensions_mut().remove::<DirectBody>() {
        Some(body) => (request.map(|_empty| body.take()), true),
        None => (request.map(TransportBody::new), false),
    }
}

/// Before the layers: removes the body of a response.
pub(super) fn detach_response<B>(response: Response<B>) -> Response<Body>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (mut head, body) = response.into_parts();
    head.extensions.insert(DirectBody::new(TransportBody::new(body)));
    // An empty body would add a content length.
    let endless = stream::pending::<Result<Bytes, Infallible>>();
    Response::from_parts(head, Body::from_stream(endless))
}

/// After the layers: returns the response with its body.
pub(crate) fn attach_response(mut response: Response<TransportBody>) -> Response<TransportBody> {
    match response.extensions_mut().remove::<DirectBody>() {
        Some(body) => response.map(|_endless| body.take()),
        None => response,
    }
}

#[cfg(test)]
mod tests {
    use axum::{Router, routing::post};
    use http::header::CONTENT_LENGTH;
    use http_body_util::{BodyExt as _, Full};
    use tower::ServiceExt as _;

    use super::*;

    /// Responds with the body of the request.
    async fn echo(request: Request<Body>) -> Response<Body> {
        let (request, is_direct) = attach_request(request);
        let response = Response::new(request.into_body());
        if is_direct { detach_response(response) } else { response.map(Body::new) }
    }

    #[tokio::test]
    async fn only_plain_grpc_streams_bypass_the_layers() {
        let unary = "/registry.v1.SyncService/ListGateways";
        for (path, kind, is_direct) in [
            (SYNC, "application/grpc", true),
            (SYNC, "application/grpc+proto", true),
            (SYNC, "application/grpc-web+proto", false),
            (unary, "application/grpc", false),
        ] {
            let body = TransportBody::new(Full::new(Bytes::from_static(b"hello")));
            let request = Request::post(path).header(CONTENT_TYPE, kind).body(body).unwrap();
            let request = detach_request(request);
            assert_eq!(request.body().is_end_stream(), is_direct, "{path} {kind}");
            let router = Router::new().route(path, post(echo));
            let response = router.oneshot(request.map(Body::new)).await.unwrap();
            assert_eq!(
                response.headers().contains_key(CONTENT_LENGTH),
                !is_direct,
                "{path} {kind}"
            );
            let response = attach_response(response.map(TransportBody::new));
            let received = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(received, "hello", "{path} {kind}");
        }
    }
}
