//! A request body that must come in time, so that a client that dribbles holds nothing for long.
//!
//! Deliberately absent: the body's size; the handlers bound it.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http_body::{Body, Frame, SizeHint};
use hyper::body::{Bytes, Incoming};
use tokio::time::{Sleep, sleep};

/// How long a whole request body may take.
const WHOLE: Duration = Duration::from_mins(1);

/// A body with a deadline, which begins when somebody begins to read and has to wait.
#[derive(Debug)]
pub(super) struct Timely {
    body: Incoming,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Timely {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, deadline: None }
    }
}

impl Body for Timely {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)));
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(WHOLE)));
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => {
                let late = format!("the request body took longer than {} s", WHOLE.as_secs());
                Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, late))))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
