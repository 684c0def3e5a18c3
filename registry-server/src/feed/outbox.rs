//! The handover of messages from a follower's task to its connection: room for one, and a last
//! word when the task ends.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use futures_util::Stream;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::{Error, Message, roster::Seat};

/// The task's side.
#[derive(Debug, Clone)]
pub(super) struct Outbox {
    queue: mpsc::Sender<Message>,
    end: Arc<OnceLock<Error>>,
}

/// The connection's side: messages, and at last why there are no more. It holds the follower's
/// seat, so that a connection that lingers still counts.
#[derive(Debug)]
pub struct Outgoing {
    queue: mpsc::Receiver<Message>,
    end: Arc<OnceLock<Error>>,
    over: Over,
    _seat: Arc<Seat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    NotYet,
    Said,
}

pub(super) fn pair(seat: Arc<Seat>) -> (Outbox, Outgoing) {
    let (sender, receiver) = mpsc::channel(1);
    let end = Arc::new(OnceLock::new());
    let outbox = Outbox { queue: sender, end: end.clone() };
    (outbox, Outgoing { queue: receiver, end, over: Over::NotYet, _seat: seat })
}

impl Outbox {
    /// Sends the message if there is room, else gives it back.
    pub(super) fn try_send(&self, message: Message) -> Result<Option<Message>, Error> {
        match self.queue.try_send(message) {
            Ok(()) => Ok(None),
            Err(TrySendError::Full(message)) => Ok(Some(message)),
            Err(TrySendError::Closed(_)) => Err(Error::Gone),
        }
    }

    pub(super) async fn send(&self, message: Message) -> Result<(), Error> {
        self.queue.send(message).await.map_err(|_| Error::Gone)
    }

    pub(super) async fn closed(&self) {
        self.queue.closed().await;
    }

    /// Says why nothing more comes.
    pub(super) fn end(self, error: Error) {
        // Only the first reason counts, and only one task gives one.
        let _ = self.end.set(error);
    }
}

impl Stream for Outgoing {
    type Item = Result<Message, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = std::task::ready!(self.queue.poll_recv(cx));
        if let Some(message) = next {
            return Poll::Ready(Some(Ok(message)));
        }
        let last = match self.over {
            Over::NotYet => self.end.get().cloned(),
            Over::Said => None,
        };
        self.over = Over::Said;
        Poll::Ready(last.map(Err))
    }
}
