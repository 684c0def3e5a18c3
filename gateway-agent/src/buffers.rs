//! Responses keep their request's memory reserved until they are sent.
//!
//! The quota belongs to an authenticated caller, or else to a network address.

use std::{
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use gateway_policy::BufferReservation;
use http_body::{Body as _, Frame, SizeHint};
use registry_tls::client_network;

/// Largest part of a response that is sent at once, in bytes. The connection buffers a few parts.
pub(crate) const PART: usize = 64 * 1024;

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
    _buffered: Arc<BufferReservation>,
}

impl Reserved {
    fn new(body: Body, buffered: Arc<BufferReservation>) -> Self {
        Self { body, _buffered: buffered }
    }
}

impl http_body::Body for Reserved {
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
    use gateway_policy::BufferPool;
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn response_keeps_reservation_until_dropped() {
        let buffers = Arc::new(BufferPool::default());
        let buffered = Arc::new(buffers.open(None, 1 << 30));
        buffered.reserve(2 * PART).unwrap();
        let mut body = reserved(Response::new(Body::from(vec![1; 2 * PART])), buffered).into_body();
        body.frame().await.unwrap().unwrap();
        assert_eq!(buffers.total(), 2 * PART);
        drop(body);
        assert_eq!(buffers.total(), 0);
    }
}
