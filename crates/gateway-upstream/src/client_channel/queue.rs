//! The bounded queue of messages to the caller of a request. It allocates with the first message.

use std::{
    collections::VecDeque,
    mem,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use tokio::sync::Notify;

use super::InterimMessage;

/// Maximum number of queued messages.
const CAPACITY: usize = 16;

/// The queue of one receiver and any number of senders.
#[derive(Debug, Default)]
pub(super) struct MessageQueue {
    state: Mutex<State>,
    /// Is notified when room is free, and when the queue is closed.
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<InterimMessage>,
    /// The receiver, while it waits.
    receiver: Option<Waker>,
    is_closed: bool,
}

impl MessageQueue {
    /// Adds a message, or returns it if there is no room. A closed queue drops it.
    pub(super) fn try_push(&self, message: InterimMessage) -> Result<(), InterimMessage> {
        let mut state = self.state();
        if state.is_closed {
            return Ok(());
        }
        if state.messages.len() >= CAPACITY {
            return Err(message);
        }
        state.messages.push_back(message);
        let receiver = state.receiver.take();
        drop(state);
        if let Some(receiver) = receiver {
            receiver.wake();
        }
        Ok(())
    }

    /// Waits for room and adds a message. A closed queue drops it.
    pub(super) async fn push(&self, mut message: InterimMessage) {
        loop {
            let mut room = pin!(self.room.notified());
            // Room that becomes free after the attempt must end the wait.
            room.as_mut().enable();
            match self.try_push(message) {
                Ok(()) => return,
                Err(rejected) => message = rejected,
            }
            room.await;
        }
    }

    /// Takes the oldest message.
    pub(super) fn pop(&self) -> Option<InterimMessage> {
        let message = self.state().messages.pop_front()?;
        self.room.notify_one();
        Some(message)
    }

    /// Takes the oldest message, or wakes the receiver for the next one.
    pub(super) fn poll_pop(&self, context: &mut Context<'_>) -> Poll<InterimMessage> {
        let mut state = self.state();
        let Some(message) = state.messages.pop_front() else {
            match &mut state.receiver {
                Some(receiver) => receiver.clone_from(context.waker()),
                None => state.receiver = Some(context.waker().clone()),
            }
            return Poll::Pending;
        };
        drop(state);
        self.room.notify_one();
        Poll::Ready(message)
    }

    /// Drops all messages, also later ones.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let messages = mem::take(&mut state.messages);
        drop(state);
        drop(messages);
        self.room.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use futures_util::FutureExt as _;

    use super::*;
    use crate::ClientChannel;

    #[tokio::test]
    async fn notification_waits_for_room() {
        let (channel, mut messages) = ClientChannel::open();
        for _ in 0..CAPACITY {
            channel.try_notify("early", None);
        }
        let mut late = Box::pin(channel.notify("late", None));
        assert!(late.as_mut().now_or_never().is_none());
        channel.try_notify("dropped", None);
        assert!(messages.try_recv().is_some());
        late.await;
        let rest: Vec<_> = iter::from_fn(|| messages.try_recv()).collect();
        assert_eq!(rest.len(), CAPACITY);
        let last = rest.last();
        assert!(
            matches!(last, Some(InterimMessage::Notification { method, .. }) if **method == *"late")
        );
    }

    #[tokio::test]
    async fn message_wakes_receiver() {
        let (channel, mut messages) = ClientChannel::open();
        let received = tokio::spawn(async move { messages.recv().await });
        // The receiver waits before the message is sent.
        tokio::task::yield_now().await;
        channel.try_notify("n", None);
        assert!(matches!(received.await.unwrap(), InterimMessage::Notification { .. }));
    }

    #[tokio::test]
    async fn dropped_receiver_ends_senders_and_questions() {
        let (channel, messages) = ClientChannel::open();
        let queued = channel.ask("roots/list", None);
        for _ in 1..CAPACITY {
            channel.try_notify("n", None);
        }
        let mut waiting = Box::pin(channel.notify("n", None));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(messages);
        waiting.await;
        assert!(queued.await.is_none());
        assert!(channel.ask("roots/list", None).await.is_none());
    }
}
