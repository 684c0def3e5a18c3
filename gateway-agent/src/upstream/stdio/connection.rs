//! The conversation with one child: many requests at once over one pair of streams.
//!
//! Deliberately absent: reading and writing the streams (the supervisor's tasks do).

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use registry_core::Key;
use tokio::sync::{Notify, mpsc, oneshot};

use super::{
    super::{
        error::{Breach, Error},
        message::{self, Era, Outgoing},
        reply::Reply,
    },
    lines::Line,
};
use crate::{
    config::LimitsConfig,
    jsonrpc::{self, Limits, Message},
};

/// How many messages may wait for a child that does not read.
const QUEUE: usize = 64;

type Waiting = oneshot::Sender<Result<Reply, Error>>;

/// One conversation.
#[derive(Debug)]
pub(super) struct Connection {
    server: Key,
    limit_bytes: usize,
    era: OnceLock<Era>,
    next_id: AtomicU64,
    outgoing: mpsc::Sender<Bytes>,
    /// Who waits for which answer; none once the child is gone.
    pending: Mutex<Option<HashMap<u64, Waiting>>>,
    list_changed: Arc<Notify>,
    /// Lists that were given up since the last line from the child.
    unanswered: AtomicU64,
    /// How many of them are too many.
    patience: u64,
    hung: Notify,
}

impl Connection {
    /// A conversation, and what must be written to the child.
    pub(super) fn new(
        server: Key,
        limits: LimitsConfig,
        list_changed: Arc<Notify>,
    ) -> (Arc<Self>, mpsc::Receiver<Bytes>) {
        let (outgoing, to_write) = mpsc::channel(QUEUE);
        let connection = Self {
            server,
            limit_bytes: limits.response_bytes,
            era: OnceLock::new(),
            next_id: AtomicU64::new(1),
            outgoing,
            pending: Mutex::new(Some(HashMap::new())),
            list_changed,
            unanswered: AtomicU64::new(0),
            // Two, but not before the longest call is over: many servers do one thing at a time.
            patience: (limits.call_timeout_ms / limits.list_timeout_ms.max(1) + 1).max(2),
            hung: Notify::new(),
        };
        (Arc::new(connection), to_write)
    }

    /// The era; legacy until something else is known.
    pub(super) fn era(&self) -> Era {
        self.settled_era().unwrap_or(Era::Legacy)
    }

    /// The era once the handshake is done.
    pub(super) fn settled_era(&self) -> Option<Era> {
        self.era.get().copied()
    }

    /// Settles the era.
    pub(super) fn settle(&self, era: Era) {
        let _ = self.era.set(era);
    }

    /// Sends a request in the settled era, and waits for its answer.
    pub(super) async fn request(&self, outgoing: &Outgoing<'_>) -> Result<Reply, Error> {
        self.request_in(self.era(), outgoing).await
    }

    /// Sends a request in this era, and waits for its answer.
    pub(super) async fn request_in(
        &self,
        era: Era,
        outgoing: &Outgoing<'_>,
    ) -> Result<Reply, Error> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        match self.pending().as_mut() {
            Some(pending) => pending.insert(id, answer),
            None => return Err(self.gone()),
        };
        let is_list = matches!(outgoing, Outgoing::List { .. });
        let mut cancel = CancelOnDrop { connection: self, id, is_list, must_tell: false };
        let line = on_one_line(outgoing.write(id, era));
        self.outgoing.send(line).await.map_err(|_| self.gone())?;
        cancel.must_tell = outgoing.is_cancellable();
        answered.await.unwrap_or_else(|_| Err(Breach::Closed.into()))
    }

    /// Sends what needs no answer, or drops it if the child does not read.
    pub(super) fn send(&self, message: Bytes) {
        if self.outgoing.try_send(on_one_line(message.into())).is_err() {
            tracing::debug!(target.server = %self.server, "a message to a child was dropped");
        }
    }

    /// Asks to be told about changes; the answer is the notifications that follow.
    pub(super) fn listen(&self) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.send(Outgoing::Listen.write(id, Era::Modern).into());
    }

    /// The child is gone: whoever waits is told so, and nobody waits any more.
    pub(super) fn close(&self) {
        drop(self.pending().take());
    }

    /// Resolves when the child has answered nothing for too long.
    pub(super) async fn hung(&self) {
        self.hung.notified().await;
    }

    /// Takes a line from the child, and says whether it was a message.
    pub(super) fn receive(&self, line: &Line<'_>) -> bool {
        self.unanswered.store(0, Ordering::Relaxed);
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong { head, tail } => return self.receive_too_long(head, tail),
        };
        match jsonrpc::parse(line, Limits::of_bytes(self.limit_bytes)) {
            Ok(Message::Response(response)) => {
                let id = response.id.and_then(|id| id.as_raw().parse().ok());
                if let Some(waiting) = id.and_then(|id| self.take(id)) {
                    let _ = waiting.send(Ok(response.outcome.into()));
                }
                true // or nobody waits for it any more
            }
            Ok(Message::Notification(notification)) => {
                if notification.method == "notifications/tools/list_changed" {
                    self.list_changed.notify_one();
                }
                true
            }
            Ok(Message::Request(request)) => {
                self.send(message::answer(&request));
                true
            }
            Err(_) => false,
        }
    }

    fn receive_too_long(&self, head: &[u8], tail: &[u8]) -> bool {
        let waiting = response_id(head, tail).and_then(|id| self.take(id));
        waiting.is_some_and(|waiting| {
            waiting.send(Err(Error::TooLarge { limit_bytes: self.limit_bytes })).is_ok()
        })
    }

    fn take(&self, id: u64) -> Option<Waiting> {
        self.pending().as_mut()?.remove(&id)
    }

    fn pending(&self) -> MutexGuard<'_, Option<HashMap<u64, Waiting>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gone(&self) -> Error {
        Error::Unavailable {
            target: self.server.clone(),
            source: "the process has just ended".into(),
        }
    }
}

/// Forgets a request that nobody waits for, and tells the child.
struct CancelOnDrop<'a> {
    connection: &'a Connection,
    id: u64,
    is_list: bool,
    must_tell: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let was_waiting = self.connection.take(self.id).is_some();
        if was_waiting && self.must_tell {
            self.connection.send(message::cancelled(self.id));
        }
        if was_waiting && self.is_list {
            let unanswered = self.connection.unanswered.fetch_add(1, Ordering::Relaxed) + 1;
            if unanswered >= self.connection.patience {
                self.connection.hung.notify_one();
            }
        }
    }
}

/// A message is one line. Line breaks in JSON are white space, those in its strings are escaped.
fn on_one_line(mut message: Vec<u8>) -> Bytes {
    for byte in &mut message {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    message.push(b'\n');
    message.into()
}

/// Whose answer a line is of which only the ends are known: the id comes before the result in
/// most SDKs, and last in the others.
fn response_id(head: &[u8], tail: &[u8]) -> Option<u64> {
    let head = String::from_utf8_lossy(head);
    let compact: String = head.chars().filter(|character| !character.is_whitespace()).collect();
    let after = compact
        .strip_prefix(r#"{"jsonrpc":"2.0","id":"#)
        .or_else(|| compact.strip_prefix(r#"{"id":"#));
    if let Some((id, _)) = after.and_then(|rest| rest.split_once(',')) {
        return id.parse().ok();
    }
    let tail = String::from_utf8_lossy(tail);
    let (_, last) = tail.trim_end().strip_suffix('}')?.rsplit_once(r#","id":"#)?;
    last.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_that_is_too_long_is_recognised_by_its_ends() {
        for (head, tail, id) in [
            (r#"{"jsonrpc": "2.0", "id": 7, "result": {"#, r#""}}"#, Some(7)),
            (r#"{"id":8,"jsonrpc":"2.0","result":{"#, r#""}}"#, Some(8)),
            (r#"{"result":{"id":1,"#, r#"},"jsonrpc":"2.0","id":9}"#, Some(9)),
            (r#"{"result":{"id":1,"#, r#","id":9}}"#, None),
            (r#"{"jsonrpc":"2.0","id":"x","result":{"#, r#""}}"#, None),
            (r#"{"jsonrpc":"2.0","method":"m","params":{"#, r#""}}"#, None),
            ("aaaa", "aaaa", None),
        ] {
            assert_eq!(response_id(head.as_bytes(), tail.as_bytes()), id, "{head}");
        }
    }

    #[test]
    fn messages_are_one_line() {
        let line = on_one_line(b"{\r\n\"a\":\"b\\n\"}".to_vec());
        assert_eq!(line, b"{  \"a\":\"b\\n\"}\n".as_slice());
    }
}
