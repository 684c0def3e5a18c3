//! Tracks whether a request was handed to its connection, over all attempts. A request that is
//! cancelled before that is never sent.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::Full;
use uuid::Uuid;

/// The request was sent.
const SENT: u8 = 1;
/// The request was cancelled.
const CANCELLED: u8 = 2;

/// The state of a request. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct SendState(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    flags: AtomicU8,
    message_id: OnceLock<Uuid>,
}

impl SendState {
    /// The id of the message to an agent. All attempts have the same, so that an agent can recognize a
    /// message that it received before its connection was lost.
    pub(super) fn message_id(&self) -> Uuid {
        *self.0.message_id.get_or_init(Uuid::new_v4)
    }

    /// Marks the request as sent, unless it was cancelled.
    pub(super) fn mark_sent(&self) -> Result<(), Cancelled> {
        let next = |state| (state & CANCELLED == 0).then_some(SENT);
        let sent = self.0.flags.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        sent.map(drop).map_err(|_| Cancelled)
    }

    /// Records that the request was rejected unprocessed, so it may be sent again unless it was
    /// cancelled.
    pub(super) fn reset(&self) {
        self.0.flags.fetch_and(!SENT, Ordering::AcqRel);
    }

    /// Cancels the request. Returns whether it was not sent, and so never will be.
    pub(super) fn cancel_if_unsent(&self) -> bool {
        self.0.flags.fetch_or(CANCELLED, Ordering::AcqRel) & SENT == 0
    }
}

/// The request was cancelled before it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request was cancelled before it was sent")]
pub(super) struct Cancelled;

/// The body of a request. It marks the request as sent when it is read, unless it is empty.
#[derive(Debug, Clone)]
pub(super) struct Body {
    content: Full<Bytes>,
    send_state: Option<SendState>,
}

impl Body {
    /// Sets the state to update when the body is read.
    pub(super) fn track(&mut self, send_state: &SendState) {
        self.send_state = Some(send_state.clone());
    }

    /// Records that the request was rejected unprocessed.
    pub(super) fn mark_rejected(&self) {
        if let Some(send_state) = &self.send_state {
            send_state.reset();
        }
    }
}

impl From<Bytes> for Body {
    fn from(content: Bytes) -> Self {
        Self { content: Full::new(content), send_state: None }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Cancelled;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cancelled>>> {
        let body = self.get_mut();
        if let Some(send_state) = body.send_state.take() {
            send_state.mark_sent()?;
        }
        let frame = Pin::new(&mut body.content).poll_frame(context);
        frame.map_err(|never: Infallible| match never {})
    }

    fn is_end_stream(&self) -> bool {
        self.content.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.content.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[test]
    fn cancelled_request_is_never_sent() {
        let [off, left, back] = [(); 3].map(|()| SendState::default());
        assert!(off.cancel_if_unsent() && off.cancel_if_unsent());
        assert_eq!(off.mark_sent(), Err(Cancelled));
        assert_eq!(
            (left.mark_sent(), left.mark_sent()),
            (Ok(()), Ok(())),
            "sending twice is allowed"
        );
        assert!(!left.cancel_if_unsent());
        assert_eq!(left.mark_sent(), Err(Cancelled), "no further attempt after cancellation");
        back.mark_sent().unwrap();
        back.reset();
        assert!(back.cancel_if_unsent(), "the request was rejected unprocessed");
        left.reset();
        assert_eq!(left.mark_sent(), Err(Cancelled));
    }

    #[tokio::test]
    async fn body_is_sent_once_read() {
        let send_state = SendState::default();
        let mut body = Body::from(Bytes::from_static(b"{}"));
        body.track(&send_state);
        let other = body.clone();
        assert_eq!(http_body::Body::size_hint(&body).exact(), Some(2));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "{}");
        other.mark_rejected();
        assert!(other.collect().await.is_ok(), "a retry with another token is allowed");
        assert!(!send_state.cancel_if_unsent());

        let send_state = SendState::default();
        let mut body = Body::from(Bytes::from_static(b"{}"));
        body.track(&send_state);
        assert!(send_state.cancel_if_unsent());
        assert_eq!(body.collect().await.unwrap_err(), Cancelled);
    }
}
