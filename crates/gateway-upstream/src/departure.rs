//! Tracks whether a request was handed to its connection. A request that is cancelled before that
//! is never sent.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::Full;

/// The request was sent.
const LEFT: u8 = 1;
/// The request was cancelled.
const CALLED_OFF: u8 = 2;

/// The state of a request. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Departure(Arc<AtomicU8>);

impl Departure {
    /// Marks the request as sent, unless it was cancelled.
    pub(super) fn leave(&self) -> Result<(), CalledOff> {
        let leaves = |state| (state & CALLED_OFF == 0).then_some(LEFT);
        let left = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, leaves);
        left.map(drop).map_err(|_| CalledOff)
    }

    /// Records that the request was rejected unprocessed, so it may be sent again unless it was
    /// cancelled.
    pub(super) fn come_back(&self) {
        self.0.fetch_and(!LEFT, Ordering::AcqRel);
    }

    /// Cancels the request. Returns whether it was not sent, and so never will be.
    pub(super) fn call_off(&self) -> bool {
        self.0.fetch_or(CALLED_OFF, Ordering::AcqRel) & LEFT == 0
    }
}

/// The request was cancelled before it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request was cancelled before it was sent")]
pub(super) struct CalledOff;

/// The body of a request. It marks the request as sent when it is read, unless it is empty.
#[derive(Debug, Clone)]
pub(super) struct Body {
    content: Full<Bytes>,
    departure: Option<Departure>,
}

impl Body {
    /// Sets the state to update when the body is read.
    pub(super) fn departs(&mut self, departure: &Departure) {
        self.departure = Some(departure.clone());
    }

    /// Records that the request was rejected unprocessed.
    pub(super) fn came_back(&self) {
        if let Some(departure) = &self.departure {
            departure.come_back();
        }
    }
}

impl From<Bytes> for Body {
    fn from(content: Bytes) -> Self {
        Self { content: Full::new(content), departure: None }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = CalledOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CalledOff>>> {
        let body = self.get_mut();
        if let Some(departure) = body.departure.take() {
            departure.leave()?;
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
        let [off, left, back] = [(); 3].map(|()| Departure::default());
        assert!(off.call_off() && off.call_off());
        assert_eq!(off.leave(), Err(CalledOff));
        assert_eq!((left.leave(), left.leave()), (Ok(()), Ok(())), "sending twice is allowed");
        assert!(!left.call_off());
        assert_eq!(left.leave(), Err(CalledOff), "no further attempt after cancellation");
        back.leave().unwrap();
        back.come_back();
        assert!(back.call_off(), "the request was rejected unprocessed");
        left.come_back();
        assert_eq!(left.leave(), Err(CalledOff));
    }

    #[tokio::test]
    async fn body_is_sent_once_read() {
        let departure = Departure::default();
        let mut body = Body::from(Bytes::from_static(b"{}"));
        body.departs(&departure);
        let other = body.clone();
        assert_eq!(http_body::Body::size_hint(&body).exact(), Some(2));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "{}");
        other.came_back();
        assert!(other.collect().await.is_ok(), "a retry with another token is allowed");
        assert!(!departure.call_off());

        let departure = Departure::default();
        let mut body = Body::from(Bytes::from_static(b"{}"));
        body.departs(&departure);
        assert!(departure.call_off());
        assert_eq!(body.collect().await.unwrap_err(), CalledOff);
    }
}
