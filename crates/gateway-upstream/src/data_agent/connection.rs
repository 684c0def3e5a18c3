//! The calls on the connection of data agents. Answers are matched by the ids of the gateway.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use agent_rpc::{Failure, envelope::Answer, execute::Execute};
use bytes::Bytes;
use gateway_policy::BufferReservation;
use gateway_protocol::jsonrpc::Id;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use crate::{
    TargetId,
    error::{Error, ProtocolViolation},
    message::Outgoing,
    send_state::SendState,
};

/// Maximum queued messages for a peer that does not read.
const QUEUE: usize = 64;

/// The result of a call, or the error of the agent.
pub(super) type Answered = Result<Box<RawValue>, Failure>;

/// A message for the peer of a connection.
#[derive(Debug)]
pub struct QueuedMessage {
    /// The text.
    pub text: Bytes,
    /// The memory of its request, until the message is written. `None`: nothing is reserved.
    pub buffered: Option<Arc<BufferReservation>>,
}

/// A connection that data agents opened.
#[derive(Debug)]
pub struct AgentConnection {
    outgoing: mpsc::Sender<QueuedMessage>,
    next_id: AtomicU64,
    /// The waiting calls by id. `None`: the connection is closed.
    calls: Mutex<Option<HashMap<u64, oneshot::Sender<Answered>>>>,
}

impl AgentConnection {
    /// Creates a connection, and the queue of messages for its peer.
    pub fn new() -> (Arc<Self>, mpsc::Receiver<QueuedMessage>) {
        let (outgoing, queue) = mpsc::channel(QUEUE);
        let calls = Mutex::new(Some(HashMap::new()));
        (Arc::new(Self { outgoing, next_id: AtomicU64::new(1), calls }), queue)
    }

    /// The sender of messages to the peer.
    pub fn outgoing(&self) -> &mpsc::Sender<QueuedMessage> {
        &self.outgoing
    }

    /// Completes a call. An answer that no call waits for is dropped and counted.
    pub fn answer(&self, answer: &Answer<'_>) {
        let id = answer.id.and_then(|id| id.as_raw().parse::<u64>().ok());
        let waiting = id.and_then(|id| self.calls().as_mut()?.remove(&id));
        let answered = match &answer.outcome {
            Ok(result) => Ok((*result).to_owned()),
            Err(failure) => Err(failure.clone()),
        };
        if waiting.is_none_or(|waiting| waiting.send(answered).is_err()) {
            metrics::counter!("gateway_agent_late_answers_total").increment(1);
        }
    }

    /// Whether no call waits for an answer.
    pub fn is_idle(&self) -> bool {
        self.calls().as_ref().is_none_or(HashMap::is_empty)
    }

    /// Closes the connection. Waiting calls fail.
    pub fn close(&self) {
        drop(self.calls().take());
    }

    pub(super) fn is_closed(&self) -> bool {
        self.calls().is_none()
    }

    /// Sends a call and waits for its answer. Dropping the future abandons the call.
    pub(super) async fn call(
        &self,
        target: &TargetId,
        execute: &Execute<'_>,
        outgoing: &Outgoing<'_>,
    ) -> Result<Answered, Error> {
        let number = self.next_id.fetch_add(1, Ordering::Relaxed);
        let answered = self.wait_for(number).ok_or_else(|| gone(target))?;
        let _waiting = Waiting { connection: self, number };
        let place = self.outgoing.reserve().await.map_err(|_| gone(target))?;
        outgoing
            .send_state()
            .map_or(Ok(()), SendState::mark_sent)
            .map_err(|off| Error::Unavailable { target: target.clone(), source: off.into() })?;
        let text = number.to_string();
        let id = Id::parse(&text).map_err(ProtocolViolation::from)?;
        let buffered = outgoing.request().and_then(|request| request.context.buffered.clone());
        place.send(QueuedMessage { text: execute.write(id), buffered });
        answered.await.map_err(|_| Error::Ended { how: "the agent disconnected".into() })
    }

    fn wait_for(&self, number: u64) -> Option<oneshot::Receiver<Answered>> {
        let (sender, answered) = oneshot::channel();
        self.calls().as_mut()?.insert(number, sender);
        Some(answered)
    }

    fn calls(&self) -> MutexGuard<'_, Option<HashMap<u64, oneshot::Sender<Answered>>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes an abandoned call, so that its answer is late.
struct Waiting<'a> {
    connection: &'a AgentConnection,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(calls) = self.connection.calls().as_mut() {
            calls.remove(&self.number);
        }
    }
}

fn gone(target: &TargetId) -> Error {
    Error::Unavailable { target: target.clone(), source: "the agent disconnected".into() }
}
