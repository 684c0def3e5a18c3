//! Responses keep their request's memory reserved until they are sent.
//!
//! The quota belongs to an authenticated caller, or else to a network address.

use std::{
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use gateway_policy::BufferReservation;
use http_body::{Body as _, Frame, SizeHint};
use registry_tls::client_network;

/// Largest part of a response that is sent at once, in bytes. The connection buffers a few parts.
const PART: usize = 64 * 1024;

/// The quota key of an unauthenticated caller. All callers of a network share one.
pub(crate) fn of_address(address: IpAddr) -> Arc<str> {
    format!("address {}", client_network(address)).into()
}

/// Keeps a reservation until the response is sent.
pub(crate) fn reserved(answer: Response, buffered: Arc<BufferReservation>) -> Response {
    let is_short = answer.body().size_hint().exact().is_some_and(|bytes| bytes <= PART as u64);
    if is_short { answer } else { answer.map(|body| Body::new(Reserved::new(body, buffered))) }
}

/// The body of a response with a reservation.
#[derive(Debug)]
struct Reserved {
    body: Body,
    /// The unsent rest of the last frame.
    rest: Bytes,
    _buffered: Arc<BufferReservation>,
}

impl Reserved {
    fn new(body: Body, buffered: Arc<BufferReservation>) -> Self {
        Self { body, rest: Bytes::new(), _buffered: buffered }
    }
}

impl http_body::Body for Reserved {
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
    use gateway_policy::BufferPool;
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn response_keeps_reservation_until_sent() {
        let buffers = Arc::new(BufferPool::default());
        let buffered = Arc::new(buffers.open(None, 1 << 30));
        buffered.reserve(3 * PART).unwrap();
        let mut body = Reserved::new(Body::from(vec![1; 2 * PART + 1]), buffered);
        for left in [PART as u64 + 1, 1, 0] {
            body.frame().await.unwrap().unwrap();
            assert_eq!(body.size_hint().exact(), Some(left));
            assert_eq!(buffers.total(), 3 * PART);
        }
        assert!(body.is_end_stream());
        drop(body);
        assert_eq!(buffers.total(), 0);
    }
}
