//! Counts the open requests of a connection, so that a connection without one is closed.
//!
//! HTTP/2 keeps an idle connection open. The timer of the library for HTTP/1.1 is allocated and
//! registered for each request.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, sleep_until};

use crate::buffers::PART;

/// The open requests of one connection.
#[derive(Debug, Clone)]
pub(super) struct OpenRequests(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    open: usize,
    /// The end of the last request, or the start of the connection.
    idle_since: Instant,
}

/// An open request.
#[derive(Debug)]
pub(super) struct OpenRequest(OpenRequests);

impl Default for OpenRequests {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { open: 0, idle_since: Instant::now() })))
    }
}

impl OpenRequests {
    pub(super) fn begin(&self) -> OpenRequest {
        self.state().open += 1;
        OpenRequest(self.clone())
    }

    /// Waits until no request was open for this time. Requests do not reset the timer.
    pub(super) async fn idle(&self, limit: Duration) {
        loop {
            let now = Instant::now();
            let end = self.idle_since().unwrap_or(now) + limit;
            if end <= now {
                return;
            }
            sleep_until(end).await;
        }
    }

    /// `None`: a request is open.
    fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.open == 0).then_some(state.idle_since)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.open -= 1;
        state.idle_since = Instant::now();
    }
}

/// The body of a response, whose request is open until the body was sent. Long frames are sent in
/// parts: hyper takes the end of a body once it buffers the rest, which must be short enough for the
/// idle time of a slow client.
#[derive(Debug)]
pub(super) struct CountedBody {
    body: Body,
    /// The unsent rest of the last frame.
    rest: Bytes,
    _open: OpenRequest,
}

impl CountedBody {
    pub(super) fn new(body: Body, open: OpenRequest) -> Self {
        Self { body, rest: Bytes::new(), _open: open }
    }
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return Poll::Ready(other),
            }
        }
        let part = self.rest.len().min(PART);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(part)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::BodyExt as _;
    use tokio::time::timeout;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn connection_is_idle_without_open_requests() {
        let requests = OpenRequests::default();
        timeout(LIMIT * 2, requests.idle(LIMIT)).await.unwrap();
        let response = CountedBody::new(Body::empty(), requests.begin());
        assert!(timeout(LIMIT * 2, requests.idle(LIMIT)).await.is_err());
        drop(response);
        timeout(LIMIT * 2, requests.idle(LIMIT)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn short_request_restarts_the_limit() {
        let requests = OpenRequests::default();
        let mut idle = Box::pin(requests.idle(LIMIT));
        assert!(timeout(LIMIT * 2 / 3, &mut idle).await.is_err());
        drop(requests.begin());
        assert!(timeout(LIMIT * 2 / 3, &mut idle).await.is_err());
        timeout(LIMIT, idle).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn request_is_open_until_the_last_part_of_its_response() {
        let requests = OpenRequests::default();
        let mut body = CountedBody::new(Body::from(vec![1; 2 * PART + 1]), requests.begin());
        for left in [PART as u64 + 1, 1, 0] {
            body.frame().await.unwrap().unwrap();
            assert_eq!(body.size_hint().exact(), Some(left));
            assert_eq!(body.is_end_stream(), left == 0);
        }
        assert!(timeout(LIMIT * 2, requests.idle(LIMIT)).await.is_err());
        drop(body);
        timeout(LIMIT * 2, requests.idle(LIMIT)).await.unwrap();
    }
}
