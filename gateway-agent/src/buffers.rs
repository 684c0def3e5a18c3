//! The memory for requests and results that the gateway buffers: `limits.bufferedBytes` for all
//! callers, and a quarter of it for each.
//!
//! A caller is an authenticated principal, or else a network address. Every chunk counts from the
//! moment it arrives until the answer has left the gateway or its connection is closed.

use std::{
    collections::HashMap,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use http_body::{Body as _, Frame, SizeHint};
use registry_tls::client_network;

use crate::shares::{Exhausted, Principal, Scarce};

/// Largest part of an answer that leaves its reservation at once. The connection buffers a few.
const PART: usize = 64 * 1024;

/// The reservations of all callers.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    all: usize,
    each: HashMap<Principal, usize>,
}

impl Buffers {
    /// An empty reservation for one request, where there may be `most` bytes for all.
    pub(crate) fn open(self: &Arc<Self>, principal: Principal, most: usize) -> Buffered {
        Buffered { of: Arc::clone(self), principal, most, bytes: AtomicUsize::new(0) }
    }

    /// Bytes that all callers hold.
    pub(crate) fn all(&self) -> usize {
        self.held().all
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The share of an unauthenticated caller: all requests of its network have one.
pub(crate) fn of_address(address: IpAddr) -> Arc<str> {
    format!("address {}", client_network(address)).into()
}

/// The reservation of one request, or of a part of it; released when it is dropped.
#[derive(Debug)]
pub(crate) struct Buffered {
    of: Arc<Buffers>,
    principal: Principal,
    most: usize,
    bytes: AtomicUsize,
}

impl Buffered {
    /// The caller whose share it counts against.
    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// An empty reservation of the same caller, for memory that is freed before the request ends.
    pub(crate) fn part(&self) -> Arc<Self> {
        Arc::new(self.of.open(self.principal.clone(), self.most))
    }

    /// Reserves more bytes, unless the caller's share or the whole is used up.
    pub(crate) fn grow(&self, bytes: usize) -> Result<(), Exhausted> {
        let what = Scarce::Buffers;
        let mut held = self.of.held();
        let own = held.each.get(&self.principal).copied().unwrap_or_default() + bytes;
        if own > self.most / 4 {
            return Err(Exhausted::Own { what, most: self.most / 4 });
        }
        if held.all + bytes > self.most {
            return Err(Exhausted::All { what, most: self.most });
        }
        held.all += bytes;
        held.each.insert(self.principal.clone(), own);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        if bytes == 0 {
            return;
        }
        let mut held = self.of.held();
        held.all -= bytes;
        let Some(own) = held.each.get_mut(&self.principal) else { return };
        *own -= bytes;
        if *own == 0 {
            held.each.remove(&self.principal);
        }
    }
}

/// An answer that keeps its request's reservation until it has left.
pub(crate) fn reserved(answer: Response, buffered: Arc<Buffered>) -> Response {
    let is_short = answer.body().size_hint().exact().is_some_and(|bytes| bytes <= PART as u64);
    if is_short { answer } else { answer.map(|body| Body::new(Reserved::new(body, buffered))) }
}

/// The body of an answer that keeps its request's reservation until it has left.
#[derive(Debug)]
struct Reserved {
    body: Body,
    /// The rest of the last frame.
    rest: Bytes,
    _buffered: Arc<Buffered>,
}

impl Reserved {
    fn new(body: Body, buffered: Arc<Buffered>) -> Self {
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
    use http_body_util::BodyExt as _;

    use super::*;

    #[test]
    fn share_is_a_quarter_and_returns_when_dropped() {
        let buffers = Arc::new(Buffers::default());
        let of = |name: &str| buffers.open(Some(name.into()), 400);
        let (one, again, other) = (of("a"), of("a"), of("b"));
        one.grow(60).unwrap();
        again.grow(40).unwrap();
        let what = Scarce::Buffers;
        assert_eq!(again.grow(1).unwrap_err(), Exhausted::Own { what, most: 100 });
        other.grow(100).unwrap();
        let rest = [of("c"), of("d")];
        assert!(rest.iter().all(|rest| rest.grow(100).is_ok()));
        assert_eq!(of("e").grow(1).unwrap_err(), Exhausted::All { what, most: 400 });
        drop(one);
        of("e").grow(1).unwrap();
        again.grow(1).unwrap();
        drop((again, other, rest));
        assert!(buffers.all() == 0 && buffers.held().each.is_empty());
    }

    #[test]
    fn part_counts_for_its_caller_until_dropped() {
        let buffers = Arc::new(Buffers::default());
        let whole = buffers.open(Some("a".into()), 400);
        whole.grow(60).unwrap();
        let part = whole.part();
        part.grow(40).unwrap();
        assert!(whole.grow(1).is_err());
        drop(part);
        whole.grow(40).unwrap();
    }

    #[tokio::test]
    async fn answer_keeps_its_reservation_until_it_left() {
        let buffers = Arc::new(Buffers::default());
        let buffered = Arc::new(buffers.open(None, 1 << 30));
        buffered.grow(3 * PART).unwrap();
        let mut body = Reserved::new(Body::from(vec![1; 2 * PART + 1]), buffered);
        for left in [PART as u64 + 1, 1, 0] {
            body.frame().await.unwrap().unwrap();
            assert_eq!(body.size_hint().exact(), Some(left));
            assert_eq!(buffers.all(), 3 * PART);
        }
        assert!(body.is_end_stream());
        drop(body);
        assert_eq!(buffers.all(), 0);
    }
}
