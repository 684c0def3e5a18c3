//! Request bodies that a response did not wait for, such as those of rejected requests.
//!
//! HTTP/2 resets a stream whose request is not read to its end. Some clients then lose the response: curl 7.88 reports
//! a framing error. HTTP/1.1 closes the connection: clients of Connect that are still writing a stream report a
//! reset.

use std::{
    pin::Pin,
    sync::Arc,
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
use http::{HeaderValue, StatusCode, Version, header::CONTENT_TYPE};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::{
    sync::{Semaphore, oneshot},
    time::timeout,
};

/// Maximum number of discarded bytes of one request.
const DISCARDED_BYTES: usize = 64 * 1024;
/// Maximum time to discard them, which delays the response.
const DISCARD_WITHIN: Duration = Duration::from_millis(500);
/// Maximum number of bodies that are discarded at the same time. Further responses are sent at once.
const DISCARDS: usize = 64;

/// Discards the rest of small bodies before early responses over HTTP/2, except for gRPC and Connect streams, whose
/// clients accept the reset and whose streams have no end. Over HTTP/1.1, only those of Connect streams are
/// discarded.
pub(super) fn layer(routes: Router) -> Router {
    let discards = Arc::new(Semaphore::new(DISCARDS));
    routes.layer(from_fn(move |request: Request, next: Next| {
        respond(discards.clone(), request, next)
    }))
}

async fn respond(discards: Arc<Semaphore>, request: Request, next: Next) -> Response {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_kind = |prefix: &[u8]| kind.is_some_and(|kind| kind.starts_with(prefix));
    let is_connect_stream = is_kind(b"application/connect+");
    let is_discarded = if request.version() == Version::HTTP_2 {
        !is_connect_stream && !is_kind(b"application/grpc")
    } else {
        is_connect_stream
    };
    if !is_discarded || request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (unread, mut dropped) = oneshot::channel();
    let request =
        request.map(|body| Body::new(TrackedBody { body: Some(body), unread: Some(unread) }));
    let response = next.run(request).await;
    if response.status() != StatusCode::TOO_MANY_REQUESTS
        && let Ok(body) = dropped.try_recv()
        && body.size_hint().lower() <= DISCARDED_BYTES as u64
        && let Ok(_permit) = discards.try_acquire()
    {
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::routing::any;
    use futures_util::{StreamExt as _, future::join_all, stream};
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
        assert_eq!(read(Version::HTTP_2, "application/connect+json", 20).await, 0);
    }

    #[tokio::test]
    async fn large_body_is_read_to_the_limit() {
        let limit = DISCARDED_BYTES / CHUNK;
        assert_eq!(read(Version::HTTP_2, "application/json", 1_000).await, limit + 1);
    }

    /// A body without an end, of at least this size.
    struct Slow(u64);

    impl HttpBody for Slow {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
            Poll::Pending
        }

        fn size_hint(&self) -> SizeHint {
            let mut hint = SizeHint::new();
            hint.set_lower(self.0);
            hint
        }
    }

    /// The time until the response to a request with a slow body.
    async fn delay(routes: Router, size: u64) -> Duration {
        let body = Body::new(Slow(size));
        let request = Request::post("/").version(Version::HTTP_2).body(body).unwrap();
        let started = tokio::time::Instant::now();
        routes.oneshot(request).await.unwrap();
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn slow_body_delays_response_by_limit() {
        assert!(delay(layer(Router::new()), 0).await >= DISCARD_WITHIN);
    }

    #[tokio::test(start_paused = true)]
    async fn response_to_large_body_or_to_too_many_requests_is_not_delayed() {
        let limit = DISCARDED_BYTES as u64;
        assert_eq!(delay(layer(Router::new()), limit + 1).await, Duration::ZERO);
        let refusing = Router::new().route("/", any(async || StatusCode::TOO_MANY_REQUESTS));
        assert_eq!(delay(layer(refusing), 0).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn many_slow_bodies_do_not_delay_other_responses() {
        let routes = layer(Router::new());
        let delays = join_all((0..=DISCARDS).map(|_| delay(routes.clone(), 0))).await;
        assert_eq!(delays.iter().filter(|delay| delay.is_zero()).count(), 1);
    }
}
