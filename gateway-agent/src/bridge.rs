//! The stdio bridge: connects MCP clients on stdio to a gateway, for all protocol versions.
//!
//! Each line of the client becomes an HTTP request to the endpoint of a remote or embedded gateway.
//! Each message of a response becomes a line. Requests run concurrently; notifications and
//! responses of the client are sent in order. A call with an unknown outcome is never retried.

mod endpoint;
mod exchange;
mod failure;
mod incoming;
mod listen;
mod output;
mod params;
mod running;
mod session;
#[cfg(test)]
mod tests;

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::join_all;
use gateway_protocol::jsonrpc::{self, Id, InvalidMessage, Limits, Message, Notification, Request};
use gateway_upstream::{Line, Lines, id_at_ends};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::endpoint::{Address, Endpoint, Identity, InvalidEndpoint, Token};
use self::{
    exchange::OPEN_TIMEOUT,
    incoming::ClientRequest,
    output::Output,
    params::ParamHeaders,
    running::{Kind, RequestSlot, RunningRequests},
    session::{Session, SessionSnapshot},
};

/// Drain time of running requests after the client has closed its input.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time for the end of the session and the last write.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of queued notifications and responses of the client.
const QUEUE: usize = 64;
const CANCELLED: &str = "notifications/cancelled";

/// Size limits.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Maximum size of a line of the client, in bytes.
    pub message_bytes: usize,
    /// Maximum size of a message of the gateway, in bytes.
    pub response_bytes: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { message_bytes: 4 * 1024 * 1024, response_bytes: 64 * 1024 * 1024 }
    }
}

/// Serves a client until it closes its input and its requests have finished, or until `stop`.
pub async fn run(
    endpoint: Endpoint,
    sizes: Sizes,
    (input, output): (impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send + 'static),
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let (output, mut writing) = Output::start(output);
    let bridge = Arc::new(Bridge {
        endpoint,
        sizes,
        output,
        session: Session::new(),
        params: ParamHeaders::default(),
        running: RunningRequests::default(),
        tasks: TaskTracker::new(),
        stop: CancellationToken::new(),
    });
    let (in_order, messages) = mpsc::channel(QUEUE);
    let sending = tokio::spawn(Arc::clone(&bridge).send_in_order(messages));
    let read = tokio::select! {
        read = bridge.read_lines(input, &in_order) => read.map(|()| true),
        () = stop => Ok(false),
        // Standard output is closed.
        _ = &mut writing => Ok(false),
    };
    // A client that has closed its input does not wait for a starting gateway.
    bridge.endpoint.end_start();
    drop(in_order);
    bridge.end(sending, read.as_ref().is_ok_and(|is_finished| *is_finished)).await;
    drop(bridge);
    let _ = timeout(CLOSE_TIMEOUT, async {
        if !writing.is_finished() {
            let _ = writing.await;
        }
    })
    .await;
    read.map(drop)
}

/// The bridge of one client.
#[derive(Debug)]
struct Bridge {
    endpoint: Endpoint,
    sizes: Sizes,
    output: Output,
    session: Session,
    params: ParamHeaders,
    running: RunningRequests,
    tasks: TaskTracker,
    /// Cancelled at shutdown.
    stop: CancellationToken,
}

impl Bridge {
    fn limits(&self) -> Limits {
        Limits::with_max_bytes(self.sizes.message_bytes)
    }

    async fn read_lines(
        self: &Arc<Self>,
        input: impl AsyncRead + Unpin,
        in_order: &mpsc::Sender<Bytes>,
    ) -> io::Result<()> {
        let limit_bytes = self.sizes.message_bytes;
        let mut lines = Lines::new(input, limit_bytes);
        while let Some(line) = lines.next().await? {
            match line {
                Line::Whole(line) if line.trim_ascii().is_empty() => {}
                Line::Whole(line) => self.receive(Bytes::copy_from_slice(line), in_order).await,
                Line::TooLong { head, tail } => {
                    let id = id_of_long_request(head, tail);
                    let id = id.as_deref().and_then(|id| Id::parse(id).ok());
                    let invalid = InvalidMessage::TooLarge { limit_bytes };
                    self.output.send(failure::invalid(id, &invalid)).await;
                }
            }
        }
        Ok(())
    }

    async fn receive(self: &Arc<Self>, line: Bytes, in_order: &mpsc::Sender<Bytes>) {
        match jsonrpc::parse(&line, self.limits()) {
            Ok(Message::Request(request)) => match self.start_request(&line, &request) {
                Ok(work) => {
                    let opens_session = work.0.opens_session();
                    let task = self.spawn(work);
                    // Some clients send further messages before the response. They need the session.
                    if opens_session {
                        let _ = timeout(OPEN_TIMEOUT, task).await;
                    }
                }
                Err(response) => self.output.send(response).await,
            },
            Ok(Message::Notification(notification)) if self.is_cancellation(&notification) => {}
            Ok(Message::Notification(_) | Message::Response(_)) => {
                let _ = in_order.send(line).await;
            }
            Err(InvalidMessage::Batch) if self.session.takes_batches() => {
                self.receive_batch(&line, in_order).await;
            }
            Err(invalid) => {
                let invalid = failure::invalid(jsonrpc::readable_id(&line), &invalid);
                self.output.send(invalid).await;
            }
        }
    }

    /// Sends each message of a batch on its own, and returns the responses as one batch.
    async fn receive_batch(self: &Arc<Self>, line: &Bytes, in_order: &mpsc::Sender<Bytes>) {
        let members: Vec<&RawValue> = serde_json::from_slice(line).unwrap_or_default();
        if members.is_empty() {
            return self.output.send(failure::empty_batch()).await;
        }
        let (mut work, mut responses) = (Vec::new(), Vec::new());
        for member in members {
            let member = Bytes::copy_from_slice(member.get().as_bytes());
            match jsonrpc::parse(&member, self.limits()) {
                Ok(Message::Request(request)) => match self.start_request(&member, &request) {
                    Ok(admitted) => work.push(admitted),
                    Err(response) => responses.push(response),
                },
                Ok(Message::Notification(notification)) if self.is_cancellation(&notification) => {}
                Ok(_) => drop(in_order.send(member).await),
                Err(invalid) => responses.push(failure::invalid(None, &invalid)),
            }
        }
        let bridge = Arc::clone(self);
        self.tasks.spawn(async move {
            let exchanges = work
                .iter()
                .map(|(client_request, slot)| bridge.exchange_until_stop(client_request, slot));
            responses.extend(join_all(exchanges).await.into_iter().flatten());
            if !responses.is_empty() {
                bridge.output.send([b"[", &*responses.join(&b","[..]), b"]"].concat()).await;
            }
        });
    }

    /// Registers a request, or returns an error response.
    fn start_request(
        &self,
        line: &Bytes,
        request: &Request<'_>,
    ) -> Result<(ClientRequest, RequestSlot), Bytes> {
        let client_request = ClientRequest::read(line.clone(), request);
        let slot = self.running.begin(request.id.as_raw(), line.len(), client_request.kind());
        let slot = slot.map_err(|full| full.response(request.id))?;
        Ok((client_request, slot))
    }

    fn spawn(
        self: &Arc<Self>,
        (client_request, slot): (ClientRequest, RequestSlot),
    ) -> JoinHandle<()> {
        let bridge = Arc::clone(self);
        self.tasks.spawn(async move {
            if let Some(response) = bridge.exchange_until_stop(&client_request, &slot).await {
                // The client can reuse the id when it has the response.
                drop(slot);
                bridge.output.send(response).await;
            }
        })
    }

    /// Handles the cancellation of a stateless request, which needs no message to the gateway.
    fn is_cancellation(&self, notification: &Notification<'_>) -> bool {
        if notification.method != CANCELLED {
            return false;
        }
        // A request that is no longer running has been answered.
        let cancelled = cancelled_id(notification).and_then(|id| self.running.cancel(id));
        cancelled != Some(Kind::Session)
    }

    /// Sends notifications and responses of the client in order.
    async fn send_in_order(self: Arc<Self>, mut messages: mpsc::Receiver<Bytes>) {
        while let Some(body) = messages.recv().await {
            let Some(()) = self.stop.run_until_cancelled(self.send_one(body)).await else { return };
        }
    }

    async fn send_one(self: &Arc<Self>, body: Bytes) {
        let (mut stateless, mut is_initialized, mut cancelled) = (None, false, None);
        if let Ok(Message::Notification(notification)) = jsonrpc::parse(&body, self.limits()) {
            stateless = incoming::stateless_headers(&notification);
            is_initialized = notification.method == "notifications/initialized";
            cancelled = cancelled_id(&notification).map(Box::from);
        }
        let snapshot = self.session.snapshot();
        if let Some(id) = cancelled {
            self.repeat_cancellation(id, &snapshot, &body);
        }
        let is_stateless = stateless.is_some();
        let headers = stateless.unwrap_or_else(|| snapshot.headers.clone());
        match self.endpoint.post(headers, body.clone()).await {
            Ok(response) if response.status() == 404 && !is_stateless && snapshot.has_session() => {
                // A response to a request of the lost session has no receiver.
                if let Err(failure) = self.reopen(snapshot.generation).await {
                    tracing::warn!("{failure}");
                }
            }
            Ok(response) if !response.status().is_success() => {
                let status = response.status();
                tracing::warn!(%status, "the gateway rejected a message from the client");
            }
            Ok(_) => {}
            Err(_) => {
                let gateway = self.endpoint.name();
                tracing::warn!("a message from the client was lost: cannot reach {gateway}");
            }
        }
        if is_initialized && self.session.initialized() {
            let bridge = Arc::clone(self);
            self.tasks.spawn(async move {
                bridge.stop.run_until_cancelled(bridge.listen()).await;
            });
        }
    }

    /// Repeats a cancellation while its request runs: the first one may have overtaken the request.
    fn repeat_cancellation(
        self: &Arc<Self>,
        id: Box<str>,
        snapshot: &SessionSnapshot,
        body: &Bytes,
    ) {
        /// The delays before each repetition.
        const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];
        let (bridge, snapshot, body) = (Arc::clone(self), snapshot.clone(), body.clone());
        self.tasks.spawn(async move {
            let again = async {
                for pause in PAUSES {
                    sleep(pause).await;
                    if !bridge.running.is_cancelled(&id) {
                        return;
                    }
                    let _ = bridge.endpoint.post(snapshot.headers.clone(), body.clone()).await;
                }
            };
            bridge.stop.run_until_cancelled(again).await;
        });
    }

    /// Ends the bridge. Running requests finish if the client only closed its input.
    async fn end(&self, sending: JoinHandle<()>, may_finish: bool) {
        self.tasks.close();
        if may_finish {
            let finished = async {
                let _ = sending.await;
                self.running.finished().await;
            };
            if timeout(DRAIN_TIMEOUT, finished).await.is_err() {
                tracing::warn!(
                    "some requests did not finish within {DRAIN_TIMEOUT:?} and were aborted"
                );
            }
        }
        self.stop.cancel();
        let ended = async {
            self.tasks.wait().await;
            let snapshot = self.session.snapshot();
            if snapshot.has_session() {
                let _ = self.endpoint.delete(snapshot.headers).await;
            }
        };
        let _ = timeout(CLOSE_TIMEOUT, ended).await;
    }
}

/// The id of the request that a notification cancels.
fn cancelled_id<'a>(notification: &Notification<'a>) -> Option<&'a str> {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(rename = "requestId", borrow)]
        request_id: &'a RawValue,
    }
    let params = notification.params.filter(|_| notification.method == CANCELLED)?;
    jsonrpc::read_object::<Cancelled<'a>>(params).map(|cancelled| cancelled.request_id.get())
}

/// Reads the id of an overlong request from the ends of its line.
fn id_of_long_request(head: &[u8], tail: &[u8]) -> Option<String> {
    let names_method = |part: &[u8]| part.windows(8).any(|window| window == b"\"method\"");
    if !names_method(head) && !names_method(tail) {
        return None;
    }
    let id = id_at_ends(head, tail)?;
    // A truncated id is not valid JSON.
    serde_json::from_str::<serde_json::Value>(&id).ok()?;
    Some(id)
}
