//! Counts the open requests of a connection, so that a connection without one is closed.
//!
//! HTTP/2 keeps an idle connection open. The timer of the library for HTTP/1.1 is allocated and
//! registered for each request.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, sleep_until};

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

/// The body of a response, whose request is open until the body was sent.
#[derive(Debug)]
pub(super) struct CountedBody {
    body: Body,
    _open: OpenRequest,
}

impl CountedBody {
    pub(super) fn new(body: Body, open: OpenRequest) -> Self {
        Self { body, _open: open }
    }
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
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
}
