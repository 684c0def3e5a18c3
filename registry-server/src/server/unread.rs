//! Request bodies that a response did not wait for, such as those of rejected requests.
//!
//! HTTP/2 resets a stream whose request is not read to its end. Some clients then lose the response: curl 7.88 reports
//! a framing error.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, HttpBody},
    extract::Request,
    middleware::{Next, from_fn},
    response::Response,
};
use bytes::Bytes;
use http::{HeaderValue, Version, header::CONTENT_TYPE};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::{sync::oneshot, time::timeout};

/// Maximum number of discarded bytes of one request.
const DISCARDED_BYTES: usize = 64 * 1024;
/// Maximum time to discard them, which delays the response.
const DISCARD_WITHIN: Duration = Duration::from_secs(5);

/// Discards the rest of small bodies before early responses over HTTP/2, except for gRPC, whose clients accept the
/// reset and whose streams have no end.
pub(super) fn layer(routes: Router) -> Router {
    routes.layer(from_fn(respond))
}

async fn respond(request: Request, next: Next) -> Response {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_grpc = kind.is_some_and(|kind| kind.starts_with(b"application/grpc"));
    if request.version() != Version::HTTP_2 || is_grpc || request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (unread, mut dropped) = oneshot::channel();
    let request =
        request.map(|body| Body::new(TrackedBody { body: Some(body), unread: Some(unread) }));
    let response = next.run(request).await;
    if let Ok(body) = dropped.try_recv() {
        // A slower or larger body is reset.
        let _ = timeout(DISCARD_WITHIN, discard(body)).await;
    }
    response
}

async fn discard(mut body: Body) {
    let mut rest = DISCARDED_BYTES;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        if bytes > rest {
            return;
        }
        rest -= bytes;
    }
}

/// A body that is returned if it is dropped before its end.
struct TrackedBody {
    /// `None`: its end was read.
    body: Option<Body>,
    unread: Option<oneshot::Sender<Body>>,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(body).poll_frame(cx);
        if let Poll::Ready(None | Some(Err(_))) = frame {
            self.body = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        let body = self.body.take().filter(|body| !body.is_end_stream());
        if let (Some(body), Some(unread)) = (body, self.unread.take()) {
            // A body that outlives the response has no receiver.
            let _ = unread.send(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use futures_util::{StreamExt as _, stream};
    use http::StatusCode;
    use tower::ServiceExt as _;

    use super::*;

    const CHUNK: usize = 1_024;

    /// The number of chunks that are read before an early response.
    async fn read(version: Version, kind: &str, chunks: usize) -> usize {
        let read = Arc::new(AtomicUsize::new(0));
        let counter = read.clone();
        let body =
            stream::iter(vec![Bytes::from_static(&[b' '; CHUNK]); chunks]).map(move |chunk| {
                counter.fetch_add(1, Ordering::Relaxed);
                Ok::<_, axum::Error>(chunk)
            });
        let request = Request::post("/nothing").version(version).header(CONTENT_TYPE, kind);
        let request = request.body(Body::from_stream(body)).unwrap();
        let response = layer(Router::new()).oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        read.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn early_response_over_http2_reads_small_body() {
        assert_eq!(read(Version::HTTP_2, "application/json", 20).await, 20);
        assert_eq!(read(Version::HTTP_11, "application/json", 20).await, 0);
        assert_eq!(read(Version::HTTP_2, "application/grpc", 20).await, 0);
    }

    #[tokio::test]
    async fn large_body_is_read_to_the_limit() {
        let limit = DISCARDED_BYTES / CHUNK;
        assert_eq!(read(Version::HTTP_2, "application/json", 1_000).await, limit + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_body_delays_response_by_limit() {
        let body = Body::from_stream(stream::pending::<Result<Bytes, axum::Error>>());
        let request = Request::post("/nothing").version(Version::HTTP_2).body(body).unwrap();
        let started = tokio::time::Instant::now();
        let response = layer(Router::new()).oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert!(started.elapsed() >= DISCARD_WITHIN);
    }
}
