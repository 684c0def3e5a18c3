//! Counts the open requests of an HTTP/2 connection, because HTTP/2 keeps an idle connection open.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio::{sync::watch, time::timeout};

/// The open requests of one connection.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenRequests(watch::Sender<usize>);

/// An open request.
#[derive(Debug)]
pub(super) struct OpenRequest(watch::Sender<usize>);

impl OpenRequests {
    pub(super) fn begin(&self) -> OpenRequest {
        self.0.send_modify(|open| *open += 1);
        OpenRequest(self.0.clone())
    }

    /// Waits until no request was open for this time.
    pub(super) async fn idle(&self, limit: Duration) {
        let mut open = self.0.subscribe();
        loop {
            let is_idle = *open.borrow_and_update() == 0;
            if !is_idle {
                // The sender is not dropped while `self` exists.
                let _ = open.changed().await;
            } else if timeout(limit, open.changed()).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
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
