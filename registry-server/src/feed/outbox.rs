//! Channel from a follower's task and the fan-out to its connection, with a capacity of one message and a final error.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use futures_util::Stream;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::{Error, Message, sessions::FollowerSession};

/// Sending side.
#[derive(Debug, Clone)]
pub(super) struct Outbox {
    queue: mpsc::Sender<Message>,
    end: Arc<OnceLock<Error>>,
}

/// Receiving side: messages, then the final error. It holds the session, so that a connection that is not
/// closed yet counts as connected.
#[derive(Debug)]
pub struct Outgoing {
    queue: mpsc::Receiver<Message>,
    end: Arc<OnceLock<Error>>,
    state: StreamState,
    _session: Arc<FollowerSession>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamState {
    Open,
    Ended,
}

pub(super) fn pair(session: Arc<FollowerSession>) -> (Outbox, Outgoing) {
    let (sender, receiver) = mpsc::channel(1);
    let end = Arc::new(OnceLock::new());
    let outbox = Outbox { queue: sender, end: end.clone() };
    (outbox, Outgoing { queue: receiver, end, state: StreamState::Open, _session: session })
}

impl Outbox {
    /// Sends the message if there is room; returns it otherwise.
    pub(super) fn try_send(&self, message: Message) -> Result<Option<Message>, Error> {
        match self.queue.try_send(message) {
            Ok(()) => Ok(None),
            Err(TrySendError::Full(message)) => Ok(Some(message)),
            Err(TrySendError::Closed(_)) => Err(Error::Disconnected),
        }
    }

    pub(super) async fn send(&self, message: Message) -> Result<(), Error> {
        self.queue.send(message).await.map_err(|_| Error::Disconnected)
    }

    pub(super) async fn closed(&self) {
        self.queue.closed().await;
    }

    /// Sets the final error.
    pub(super) fn end(self, error: Error) {
        // Only the first error counts, and only one task sets it.
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
        let last = match self.state {
            StreamState::Open => self.end.get().cloned(),
            StreamState::Ended => None,
        };
        self.state = StreamState::Ended;
        Poll::Ready(last.map(Err))
    }
}
