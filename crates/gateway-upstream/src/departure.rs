//! Whether a request has left the gateway. Until its connection takes it, it can be called off, and then it
//! is certain that nobody has it and nobody will.

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

/// It has left.
const LEFT: u8 = 1;
/// Nobody waits for it any more.
const CALLED_OFF: u8 = 2;

/// Whether a request has left; all clones are about the same one.
#[derive(Debug, Clone, Default)]
pub(super) struct Departure(Arc<AtomicU8>);

impl Departure {
    /// It leaves, unless it was called off.
    pub(super) fn leave(&self) -> Result<(), CalledOff> {
        let leaves = |state| (state & CALLED_OFF == 0).then_some(LEFT);
        let left = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, leaves);
        left.map(drop).map_err(|_| CalledOff)
    }

    /// It was refused unread. It may leave again, unless it was called off meanwhile.
    pub(super) fn come_back(&self) {
        self.0.fetch_and(!LEFT, Ordering::AcqRel);
    }

    /// Nobody waits for it any more; whether it had not left, and so never does.
    pub(super) fn call_off(&self) -> bool {
        self.0.fetch_or(CALLED_OFF, Ordering::AcqRel) & LEFT == 0
    }
}

/// Nobody waits for it any more, and it was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request was called off before it was sent")]
pub(super) struct CalledOff;

/// The body of a request, which notes that the request leaves. A body that is empty notes nothing.
#[derive(Debug, Clone)]
pub(super) struct Body {
    content: Full<Bytes>,
    departure: Option<Departure>,
}

impl Body {
    /// The same, where it is of interest when it leaves.
    pub(super) fn departs(&mut self, departure: &Departure) {
        self.departure = Some(departure.clone());
    }

    /// What was sent of the same request was refused unread.
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
    fn what_was_called_off_does_not_leave_and_what_has_left_is_not_called_off() {
        let [off, left, back] = [(); 3].map(|()| Departure::default());
        assert!(off.call_off() && off.call_off());
        assert_eq!(off.leave(), Err(CalledOff));
        assert_eq!((left.leave(), left.leave()), (Ok(()), Ok(())), "a second time, too");
        assert!(!left.call_off());
        assert_eq!(left.leave(), Err(CalledOff), "nobody waits for another attempt");
        back.leave().unwrap();
        back.come_back();
        assert!(back.call_off(), "it was refused unread");
        left.come_back();
        assert_eq!(left.leave(), Err(CalledOff));
    }

    #[tokio::test]
    async fn a_body_leaves_once_it_is_taken() {
        let departure = Departure::default();
        let mut body = Body::from(Bytes::from_static(b"{}"));
        body.departs(&departure);
        let other = body.clone();
        assert_eq!(http_body::Body::size_hint(&body).exact(), Some(2));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "{}");
        other.came_back();
        assert!(other.collect().await.is_ok(), "as it does with another token");
        assert!(!departure.call_off());

        let departure = Departure::default();
        let mut body = Body::from(Bytes::from_static(b"{}"));
        body.departs(&departure);
        assert!(departure.call_off());
        assert_eq!(body.collect().await.unwrap_err(), CalledOff);
    }
}
