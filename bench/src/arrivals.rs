//! Messages of many streams for one measuring task.
//!
//! The task wakes once for all of them. With a channel, each message wakes it, which is a system call and a switch of
//! the thread while other streams wait.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Messages that were received and not taken yet.
#[derive(Debug)]
pub(crate) struct Arrivals<T> {
    state: Mutex<State<T>>,
    is_complete: Notify,
}

#[derive(Debug)]
struct State<T> {
    received: Vec<T>,
    wanted: usize,
}

impl<T> Arrivals<T> {
    pub(crate) fn new() -> Arc<Self> {
        let state = Mutex::new(State { received: Vec::new(), wanted: 0 });
        Arc::new(Self { state, is_complete: Notify::new() })
    }

    pub(crate) fn push(&self, message: T) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.received.push(message);
        if state.received.len() == state.wanted {
            self.is_complete.notify_one();
        }
    }

    /// Waits for this number of messages and takes them.
    pub(crate) async fn take(&self, count: usize) -> Vec<T> {
        loop {
            {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                if state.received.len() >= count {
                    return state.received.drain(..count).collect();
                }
                state.wanted = count;
            }
            self.is_complete.notified().await;
        }
    }
}
