//! `GET /rpc`: the methods in both directions over one WebSocket.
//!
//! Requests of the peer run concurrently. A peer that does not read, or that answers no ping, is
//! disconnected. The credentials are those of the upgrade; as for other streams, a reload with other
//! rules for callers ends the connection, and the expiry of a token does not.

#[cfg(test)]
mod tests;

use std::{future::pending, io, sync::Arc, time::Duration};

use agent_rpc::{
    Failure, Reason, Request as Rpc,
    envelope::{Message as Envelope, Reply, read_message},
};
use axum::{
    extract::{
        FromRequestParts as _, Request, State,
        ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade},
    },
    response::Response,
};
use bytes::Bytes;
use futures_util::{
    Sink, SinkExt as _, StreamExt as _,
    stream::{FuturesUnordered, SplitStream},
};
use gateway_policy::QuotaExceeded;
use gateway_protocol::{
    jsonrpc::Limits,
    trace_context::{BAGGAGE_NAME, PARENT_NAME, STATE_NAME},
};
use gateway_upstream::{AgentConnection, QueuedMessage};
use tokio::{
    sync::mpsc,
    time::{Instant, interval_at, sleep, timeout, timeout_at},
};
use tokio_tungstenite::tungstenite::{Error as StreamError, error::ProtocolError};

use super::{AgentRpc, Answer, Received, Refusal, peer::Peer};
use crate::{
    audit,
    identity::sender::RequestHead,
    ingress::{
        EnteredRequest, HeldConnection, IngressError, ReceivedBytes, UpgradeSlot, authentication,
        check_origin,
    },
    pipeline::{EventStreamPlace, Gateway},
};

/// Size of the read buffer of a connection, which idle connections keep.
const READ_BUFFER: usize = 8 * 1024;
/// Maximum concurrent requests of a connection.
const REQUESTS: usize = 32;
/// Maximum time for the close frame.
const CLOSE: Duration = Duration::from_secs(1);
/// Polling interval of the calls in progress at a stop.
const DRAIN_POLL: Duration = Duration::from_millis(50);
/// Size of the head of a control frame of a client (RFC 6455, section 5.2).
const CONTROL_HEAD: usize = 6;
/// Maximum length of the reason in a close frame, in bytes (RFC 6455, section 5.5).
const REASON_BYTES: usize = 123;

/// The time limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Interval of pings.
    ping: Duration,
    /// Maximum time without a message of the peer. A pong is one.
    silence: Duration,
    /// Maximum time for writing one message.
    write: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            ping: Duration::from_secs(20),
            silence: Duration::from_secs(50),
            write: Duration::from_secs(30),
        }
    }
}

/// The end of a connection.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The peer closed it, or it broke.
    Left,
    /// The gateway stops, or rejects the caller since a reload.
    Stopping,
    /// The peer sent a binary message.
    Binary,
    /// The peer sent a message beyond the limit.
    TooLarge(String),
    /// The peer violated the protocol.
    Protocol(String),
    /// The peer sent a text that is not UTF-8.
    NotUtf8,
    /// The memory for messages of the caller is used up.
    OutOfMemory,
    /// The peer sent nothing, not even answers to pings.
    Silent,
    /// The peer does not read.
    NotReading,
}

impl End {
    /// The end by an error of the stream.
    fn of_error(error: axum::Error) -> Self {
        let Ok(error) = error.into_inner().downcast::<StreamError>() else { return Self::Left };
        match *error {
            StreamError::Io(error) if is_quota(&error) => Self::OutOfMemory,
            StreamError::Capacity(problem) => Self::TooLarge(problem.to_string()),
            StreamError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Self::Left,
            StreamError::Protocol(problem) => Self::Protocol(problem.to_string()),
            StreamError::Utf8(_) => Self::NotUtf8,
            _ => Self::Left,
        }
    }

    /// The close frame (RFC 6455, section 7.4.1).
    fn frame(&self) -> CloseFrame {
        let (code, reason) = match self {
            Self::Left => (1000, ""),
            Self::Stopping => (1001, "the gateway is stopping or was reconfigured; connect again"),
            Self::Binary => (1003, "binary messages are not supported; send text"),
            Self::Protocol(problem) => (1002, problem.as_str()),
            Self::NotUtf8 => (1007, "the text is not UTF-8"),
            Self::TooLarge(problem) => (1009, problem.as_str()),
            Self::OutOfMemory => {
                (1013, "the memory for messages is used up; retry later with fewer connections")
            }
            Self::Silent => (1008, "no message or answer to a ping arrived in time"),
            Self::NotReading => (1008, "messages were not read in time"),
        };
        let end = reason.floor_char_boundary(REASON_BYTES);
        CloseFrame { code, reason: Utf8Bytes::from(&reason[..end]) }
    }
}

/// Whether the quota of the caller was used up.
fn is_quota(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(cause) if cause.is::<QuotaExceeded>())
}

/// Opens a WebSocket.
pub(super) async fn open(State(surface): State<AgentRpc>, request: Request) -> Response {
    match upgrade(&surface, request).await {
        Ok(response) => response,
        Err(refusal) => {
            audit::count_rejection(refusal.metric);
            refusal.respond(None)
        }
    }
}

async fn upgrade(surface: &AgentRpc, request: Request) -> Result<Response, Refusal> {
    let entered = EnteredRequest::authenticate(&surface.gateway, request).await?;
    check_origin(&entered.gateway, &entered.parts)?;
    let EnteredRequest { gateway, mut parts, .. } = entered;
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    let upgrade = upgrade.map_err(|rejection| Refusal::upgrade(&rejection))?;
    let place = gateway.streams().open(&authentication(&parts).payer);
    let place = place.map_err(IngressError::TooManyStreams)?;
    // Each request begins its own trace.
    for name in [PARENT_NAME, STATE_NAME, BAGGAGE_NAME] {
        parts.headers.remove(name);
    }
    let held = parts.extensions.remove::<Arc<UpgradeSlot>>().and_then(|slot| slot.hold());
    let most_bytes = gateway.settings().request_bytes;
    let received = held.as_ref().map(|held| held.received.clone()).unwrap_or_default();
    let socket = Socket { parts, pace: surface.pace, place, held, received };
    let upgrade = upgrade.read_buffer_size(READ_BUFFER).write_buffer_size(0);
    let upgrade = upgrade.max_message_size(most_bytes).max_frame_size(most_bytes);
    Ok(upgrade.on_upgrade(move |stream| Box::pin(socket.serve(stream, gateway))))
}

/// A WebSocket and the request that opened it.
struct Socket {
    parts: RequestHead,
    pace: Pace,
    /// The place in the limits of open streams, in total and per caller.
    place: EventStreamPlace,
    /// The place in the limits of connections. `None`: the listener has none.
    held: Option<HeldConnection>,
    /// The memory of an incomplete message.
    received: ReceivedBytes,
}

impl Socket {
    /// Serves until either side ends the connection.
    async fn serve(self, socket: WebSocket, gateway: Arc<Gateway>) {
        self.received.begin(gateway.open_buffer(&authentication(&self.parts)));
        let (connection, queue) = AgentConnection::new();
        let upstreams = Arc::clone(gateway.upstreams());
        let peer = Arc::new(Peer::new(connection));
        let (mut sink, stream) = socket.split();
        let end = tokio::select! {
            end = write(&mut sink, queue, self.pace) => end,
            end = self.read(stream, &peer, gateway) => end,
        };
        tracing::debug!(?end, "a WebSocket has ended");
        peer.close(&upstreams);
        let closing = sink.send(Message::Close(Some(end.frame())));
        let _ = timeout(CLOSE, closing).await;
        // Other connections may use the places now.
        drop((self.place, self.held));
    }

    /// Reads messages and runs the requests in them.
    async fn read(
        &self,
        mut stream: SplitStream<WebSocket>,
        peer: &Arc<Peer>,
        mut gateway: Arc<Gateway>,
    ) -> End {
        let mut requests = FuturesUnordered::new();
        let (mut heard, mut is_stopping) = (Instant::now(), false);
        loop {
            if is_stopping && requests.is_empty() && peer.connection().is_idle() {
                return End::Stopping;
            }
            let closing = gateway.closing().clone();
            tokio::select! {
                received = timeout_at(heard + self.pace.silence, stream.next()) => {
                    heard = Instant::now();
                    let text = match received {
                        Err(_) => return End::Silent,
                        Ok(None | Some(Ok(Message::Close(_)))) => return End::Left,
                        Ok(Some(Err(error))) => return End::of_error(error),
                        Ok(Some(Ok(Message::Binary(_)))) => return End::Binary,
                        Ok(Some(Ok(Message::Ping(payload) | Message::Pong(payload)))) => {
                            self.received.release(CONTROL_HEAD + payload.len());
                            continue;
                        }
                        Ok(Some(Ok(Message::Text(text)))) => Bytes::from(text),
                    };
                    // A request reserves its own memory.
                    self.received.release(usize::MAX);
                    let has_room = requests.len() < REQUESTS && !is_stopping;
                    match Self::sort(&gateway, peer, text, has_room) {
                        Sorted::Done => {}
                        Sorted::Request(body) => {
                            let (gateway, peer) = (Arc::clone(&gateway), Arc::clone(peer));
                            let parts = self.parts.clone();
                            requests.push(Box::pin(answer(gateway, parts, peer, body)));
                        }
                        // The peer reads its answers before it sends more requests.
                        Sorted::Rejected(text) => {
                            let message = QueuedMessage { text, buffered: None };
                            if peer.connection().outgoing().send(message).await.is_err() {
                                return End::Left;
                            }
                        }
                    }
                }
                Some(()) = requests.next(), if !requests.is_empty() => {}
                () = closing.cancelled(), if !is_stopping => {
                    match gateway.successor().cloned() {
                        Some(next) => gateway = next,
                        None => is_stopping = true,
                    }
                }
                () = sleep(DRAIN_POLL), if is_stopping => {}
                () = self.aborted() => return End::Stopping,
            }
        }
    }

    /// Completes the call of an answer, rejects an invalid message, or returns a request.
    fn sort(gateway: &Gateway, peer: &Peer, body: Bytes, has_room: bool) -> Sorted {
        let limits = Limits::with_max_bytes(gateway.settings().request_bytes);
        let rejection = match read_message(&body, limits) {
            Ok(Envelope::Answer(answer)) => {
                peer.connection().answer(&answer);
                return Sorted::Done;
            }
            Ok(Envelope::Frame(_)) if has_room => None,
            Ok(Envelope::Frame(frame)) => {
                let message = format!(
                    "the connection has {REQUESTS} requests in progress, or the gateway is stopping; \
                     retry later"
                );
                let mut failure = Failure::new(Reason::Internal, message);
                failure.reason = "TOO_MANY_REQUESTS".into();
                audit::count_rejection("too-many-requests");
                Some(Reply { id: frame.id, trace_id: None, execution: None }.failure(&failure))
            }
            Err(rejected) => {
                audit::count_rejection("invalid-request");
                Some(rejected.reply())
            }
        };
        match rejection {
            None => Sorted::Request(body),
            Some(reply) => Sorted::Rejected(reply),
        }
    }

    /// Resolves when the listener aborts its connections.
    async fn aborted(&self) {
        match &self.held {
            Some(held) => held.abort.cancelled().await,
            None => pending().await,
        }
    }
}

/// The effect of a message.
enum Sorted {
    /// It is processed.
    Done,
    /// A request to run. It is read again there, because it borrows from its body.
    Request(Bytes),
    /// The answer to a message that is rejected.
    Rejected(Bytes),
}

/// Runs a request and queues its answer.
async fn answer(gateway: Arc<Gateway>, mut parts: RequestHead, peer: Arc<Peer>, body: Bytes) {
    let limits = Limits::with_max_bytes(gateway.settings().request_bytes);
    let buffered = gateway.open_buffer(&authentication(&parts));
    let reserved = buffered.reserve(body.len());
    parts.sender.buffered = Some(Arc::clone(&buffered));
    let reply = match (Rpc::read(&body, limits), reserved) {
        (Ok(Rpc { id, .. }), Err(full)) => {
            Some(Refusal::from(IngressError::Buffers(full)).write(id))
        }
        (Ok(Rpc { id, trace_id, call }), Ok(())) => {
            let (bytes, trace_id) = (body.len(), trace_id.as_deref());
            let (gateway, parts, peer) = (&gateway, &parts, Some(&*peer));
            let received = Received { gateway, parts, peer, id, trace_id, bytes };
            match Box::pin(received.answer(call)).await {
                // JSON-RPC answers no notification. A failure must be visible, though.
                Ok(Answer { is_error: false, .. }) if id.is_none() => None,
                Ok(Answer { body, .. }) => Some(body),
                Err(refusal) => {
                    audit::count_rejection(refusal.metric);
                    Some(refusal.write(id))
                }
            }
        }
        (Err(rejected), _) => {
            audit::count_rejection("invalid-request");
            Some(rejected.reply())
        }
    };
    if let Some(text) = reply {
        let message = QueuedMessage { text, buffered: Some(buffered) };
        // The connection has ended if this fails.
        let _ = peer.connection().outgoing().send(message).await;
    }
}

/// Writes queued messages and pings.
async fn write(
    sink: &mut (impl Sink<Message> + Unpin),
    mut queue: mpsc::Receiver<QueuedMessage>,
    pace: Pace,
) -> End {
    let mut pings = interval_at(Instant::now() + pace.ping, pace.ping);
    loop {
        let (message, buffered) = tokio::select! {
            queued = queue.recv() => {
                let Some(QueuedMessage { text, buffered }) = queued else { return End::Left };
                // All messages are JSON.
                let Ok(text) = Utf8Bytes::try_from(text) else { continue };
                (Message::Text(text), buffered)
            }
            _ = pings.tick() => (Message::Ping(Bytes::new()), None),
        };
        let written = timeout(pace.write, sink.send(message)).await;
        drop(buffered);
        match written {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return End::Left,
            Err(_) => return End::NotReading,
        }
    }
}
