//! The event stream of a session, for messages that belong to no request.

use axum::body::Body;
use gateway_protocol::sse::Events;
use http::{HeaderValue, StatusCode};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, sleep};

use super::{
    Bridge,
    exchange::{OPEN_TIMEOUT, is_stream},
    failure::backoff,
    session::SessionSnapshot,
};
use crate::mcp::LAST_EVENT_HEADER;

impl Bridge {
    /// Keeps the event stream of the current session open.
    pub(super) async fn listen(&self) {
        let mut changes = self.session.changes();
        loop {
            changes.mark_unchanged();
            let snapshot = self.session.snapshot();
            tokio::select! {
                () = self.follow(&snapshot) => {
                    // This gateway offers no stream, but a gateway with a new session may.
                    if changes.changed().await.is_err() {
                        return;
                    }
                }
                _ = changes.changed() => {}
            }
        }
    }

    /// Reads the stream of one session. Returns if the gateway offers none.
    async fn follow(&self, snapshot: &SessionSnapshot) {
        let mut events = Events::new(self.sizes.response_bytes);
        let (mut has_failed, mut backoff) = (false, backoff());
        loop {
            let mut headers = snapshot.headers.clone();
            let last_event = events.last_id().and_then(|id| HeaderValue::from_str(id).ok());
            let resumes = last_event.is_some();
            headers.extend(last_event.map(|id| (LAST_EVENT_HEADER, id)));
            match self.endpoint.get(headers).await {
                Ok(response) if is_stream(&response) => {
                    if has_failed {
                        // After a restart, the gateway knows the session but not its state.
                        self.restore(snapshot, Instant::now() + OPEN_TIMEOUT).await;
                    }
                    events.restart();
                    backoff.reset();
                    has_failed = self.read(response.into_body(), &mut events).await;
                }
                Ok(response) => match response.status() {
                    StatusCode::METHOD_NOT_ALLOWED => return,
                    StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST if resumes => {
                        events = Events::new(self.sizes.response_bytes);
                        continue;
                    }
                    StatusCode::NOT_FOUND if snapshot.has_session() => {
                        if let Err(failure) = self.reopen(snapshot.generation).await {
                            tracing::debug!("{failure}");
                        }
                        has_failed = true;
                    }
                    status => {
                        self.endpoint.reload_token();
                        tracing::debug!(%status, "the gateway rejected the event stream");
                        has_failed = true;
                    }
                },
                Err(_) => has_failed = true,
            }
            sleep(events.retry().unwrap_or_else(|| backoff.next_delay())).await;
        }
    }

    /// Forwards the messages of a stream. Returns whether its connection failed.
    async fn read(&self, mut body: Body, events: &mut Events) -> bool {
        loop {
            let frame = match body.frame().await {
                Some(Ok(frame)) => frame,
                Some(Err(_)) => return true,
                None => return false,
            };
            let Ok(chunk) = frame.into_data() else { continue };
            if events.push(&chunk).is_err() {
                tracing::warn!("dropped an event of the gateway that exceeds the size limit");
                return false;
            }
            while let Some(event) = events.pop() {
                // No request waits for a response here.
                self.deliver(None, event).await;
            }
        }
    }
}
