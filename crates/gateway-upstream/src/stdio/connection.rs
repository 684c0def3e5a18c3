//! The connection to one child: concurrent requests over one pair of streams.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use gateway_protocol::{
    jsonrpc::{self, Limits, Message, ResponsePayload},
    mcp::{Era, Method},
};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::timeout,
};

use super::{
    super::{
        client_channel::ClientChannel,
        error::{Error, ProtocolViolation},
        events::EventPublisher,
        handshake::UpstreamInfo,
        message::{self, Outgoing},
        reply::Reply,
        request::{Request, RequestContext},
        routing::TargetId,
        send_state::SendState,
        subscriptions::{SentSubscriptions, Subscriptions},
    },
    call_queue::Habits,
    lines::Line,
    server_requests::{Asker, ServerRequests},
    text::{on_one_line, response_id},
};
use crate::UpstreamLimits;

/// Bytes of each end of an unreadable message that can have its id.
const END_BYTES: usize = 256;
/// Maximum queued messages for a child that does not read.
const QUEUE: usize = 64;
/// Time limit of a subscription request.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// A request that waits for its response.
#[derive(Debug)]
pub(super) struct Waiting {
    /// `None`: the request was cancelled and the child may still work on it.
    answer: Option<oneshot::Sender<Result<Reply, Error>>>,
    /// The channel to the caller, if the request has one.
    pub(super) channel: Option<ClientChannel>,
    pub(super) asker: Option<Asker>,
}

/// The connection to one child.
#[derive(Debug)]
pub(super) struct Connection {
    server: TargetId,
    limit_bytes: usize,
    era: OnceLock<Era>,
    about: OnceLock<Arc<UpstreamInfo>>,
    next_id: AtomicU64,
    outgoing: mpsc::Sender<Bytes>,
    /// The waiting requests by id. `None`: the child has ended.
    pending: Mutex<Option<HashMap<u64, Waiting>>>,
    questions: ServerRequests,
    /// Whether the child has received a request with an inspected answer. It can report the data of it
    /// later, while another request runs.
    is_inspected: AtomicBool,
    /// The reason why the child ended.
    ended: OnceLock<Arc<str>>,
    publisher: Arc<EventPublisher>,
    /// The number of list requests that timed out since the last line of the child.
    unanswered: AtomicU64,
    /// The number of timeouts after which the child counts as hung.
    max_unanswered: u64,
    hung: Notify,
}

impl Connection {
    /// Creates a connection and the queue of messages for the child.
    pub(super) fn new(
        server: TargetId,
        limits: UpstreamLimits,
        (publisher, habits): (Arc<EventPublisher>, Arc<Habits>),
    ) -> (Arc<Self>, mpsc::Receiver<Bytes>) {
        let (outgoing, to_write) = mpsc::channel(QUEUE);
        let connection = Self {
            server,
            limit_bytes: limits.response_bytes,
            era: OnceLock::new(),
            about: OnceLock::new(),
            next_id: AtomicU64::new(1),
            outgoing,
            pending: Mutex::new(Some(HashMap::new())),
            questions: ServerRequests::new(habits, limits),
            is_inspected: AtomicBool::new(false),
            ended: OnceLock::new(),
            publisher,
            unanswered: AtomicU64::new(0),
            // At least two, and not before the longest call has ended: many servers process one
            // request at a time.
            max_unanswered: (limits.call_timeout_ms / limits.list_timeout_ms.max(1) + 1).max(2),
            hung: Notify::new(),
        };
        (Arc::new(connection), to_write)
    }

    /// The era; legacy until the handshake is done.
    pub(super) fn era(&self) -> Era {
        self.settled_era().unwrap_or(Era::Legacy)
    }

    /// The era after the handshake.
    pub(super) fn settled_era(&self) -> Option<Era> {
        self.era.get().copied()
    }

    /// Sets the era.
    pub(super) fn settle(&self, era: Era, about: Option<UpstreamInfo>) {
        self.introduced(about);
        let _ = self.era.set(era);
    }

    /// Stores the self-description of the child.
    pub(super) fn introduced(&self, about: Option<UpstreamInfo>) {
        if let Some(about) = about {
            let _ = self.about.set(Arc::new(about));
        }
    }

    /// The self-description of the child.
    pub(super) fn about(&self) -> Option<Arc<UpstreamInfo>> {
        self.about.get().cloned()
    }

    /// Sends a request in the negotiated era and waits for its response.
    pub(super) async fn request(self: &Arc<Self>, outgoing: &Outgoing<'_>) -> Result<Reply, Error> {
        self.request_in(self.era(), outgoing).await
    }

    /// Sends a request in this era and waits for its response.
    pub(super) async fn request_in(
        self: &Arc<Self>,
        era: Era,
        outgoing: &Outgoing<'_>,
    ) -> Result<Reply, Error> {
        let asker = match era {
            Era::Legacy => self.questions.enter(outgoing).await?,
            Era::Modern => None,
        };
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let request = outgoing.request();
        let channel = request.and_then(|request| request.channel).cloned();
        if request.is_some_and(|request| request.is_inspected) {
            self.is_inspected.store(true, Ordering::Relaxed);
        }
        let has_token = asker.as_ref().is_some_and(Asker::has_token);
        let waiting = Waiting { answer: Some(answer), channel, asker };
        match self.pending().as_mut() {
            Some(pending) => pending.insert(id, waiting),
            None => return Err(self.gone()),
        };
        let is_list = matches!(outgoing, Outgoing::List { .. });
        let mut cancel = CancelOnDrop { connection: self, id, is_list, must_notify: false };
        let line = on_one_line(if has_token {
            outgoing.write_with_token(id, era)
        } else {
            outgoing.write(id, era)
        });
        let place = self.outgoing.reserve().await.map_err(|_| self.gone())?;
        outgoing.send_state().map_or(Ok(()), SendState::mark_sent).map_err(|off| {
            Error::Unavailable { target: self.server.clone(), source: off.into() }
        })?;
        place.send(line);
        cancel.must_notify = outgoing.is_cancellable();
        answered.await.unwrap_or_else(|_| Err(Error::Ended { how: self.how_it_ended() }))
    }

    /// Sends a message without a response. It is dropped if the child does not read.
    pub(super) fn send(&self, message: Bytes) {
        if self.outgoing.try_send(on_one_line(message.into())).is_err() {
            tracing::debug!(target.server = %self.server, "dropped a message to a child that does not read");
        }
    }

    /// Subscribes to changes and to the watched resources, and updates the subscription when these
    /// change. The response is the notifications that follow.
    pub(super) async fn listen(self: &Arc<Self>, subscriptions: &Subscriptions) {
        let (mut subscribed, mut last) = (SentSubscriptions::default(), None);
        let mut answers = FuturesUnordered::new();
        loop {
            let wanted = subscriptions.wanted();
            match self.era() {
                Era::Modern => {
                    let id = self.next_id.fetch_add(1, Ordering::Relaxed);
                    let notifications = wanted.filter();
                    let listen = Outgoing::Listen { notifications: &notifications };
                    self.publisher.listening(id, &wanted);
                    self.send(listen.write(id, Era::Modern).into());
                    // The new subscription comes first, so that no notification is lost in between.
                    if let Some(last) = last.replace(id) {
                        self.send(message::cancelled(last));
                    }
                }
                Era::Legacy => {
                    let changes = subscribed.change(&wanted);
                    let new = changes.new.into_iter().map(|uri| (Method::Subscribe, uri));
                    let over = changes.over.into_iter().map(|uri| (Method::Unsubscribe, uri));
                    answers.extend(
                        new.chain(over).map(|(method, uri)| self.request_about(method, uri)),
                    );
                }
            }
            let mut other = pin!(subscriptions.other_than(&wanted));
            loop {
                tokio::select! {
                    () = &mut other => break,
                    Some((method, uri, answer)) = answers.next() => {
                        if method == Method::Unsubscribe {
                            continue;
                        }
                        if !matches!(answer, Some(Reply::Result(_))) {
                            subscribed.except(&uri);
                        }
                        if let Some(reply) = answer {
                            subscriptions.answered(&uri, reply);
                        }
                    }
                }
            }
        }
    }

    /// Sends a request about one resource. Returns the response if it arrives in time.
    async fn request_about(
        self: &Arc<Self>,
        method: Method,
        uri: Arc<str>,
    ) -> (Method, Arc<str>, Option<Reply>) {
        let context = RequestContext::default();
        let request = Request::plain(method, &[], &context);
        let outgoing = Outgoing::Asked { subject: &uri, request, send_state: None };
        let answer = timeout(RESPONSE_TIMEOUT, self.request_in(Era::Legacy, &outgoing)).await;
        (method, uri, answer.ok().and_then(Result::ok))
    }

    /// Closes the connection. Waiting requests fail with the reason.
    pub(super) fn close(&self, how: &Arc<str>) {
        let _ = self.ended.set(Arc::clone(how));
        drop(self.pending().take());
    }

    fn how_it_ended(&self) -> Arc<str> {
        self.ended.get().cloned().unwrap_or_else(|| "the process has just ended".into())
    }

    /// Resolves when the child counts as hung.
    pub(super) async fn hung(&self) {
        self.hung.notified().await;
    }

    /// Handles a line of the child. Returns whether it was a message.
    pub(super) fn receive(self: &Arc<Self>, line: &Line<'_>) -> bool {
        self.unanswered.store(0, Ordering::Relaxed);
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong { head, tail } => {
                let error = Error::TooLarge { limit_bytes: self.limit_bytes };
                return self.fail(head, tail, error);
            }
        };
        match jsonrpc::parse(line, Limits::with_max_bytes(self.limit_bytes)) {
            Ok(Message::Response(response)) => {
                let id = response.id.and_then(|id| id.as_raw().parse().ok());
                if let Some(waiting) = id.and_then(|id| self.take(id)) {
                    let result = match response.outcome {
                        ResponsePayload::Result(result) => Some(result),
                        ResponsePayload::Error(_) => None,
                    };
                    self.questions.answered(waiting.asker, result);
                    if let Some(answer) = waiting.answer {
                        let _ = answer.send(Ok(response.outcome.into()));
                    }
                    self.settle_questions();
                }
                true
            }
            Ok(Message::Notification(notification)) => {
                self.notified(&notification);
                true
            }
            Ok(Message::Request(request)) => {
                self.asked(&request);
                true
            }
            Err(error) => {
                let head = &line[..line.len().min(END_BYTES)];
                let tail = &line[line.len().saturating_sub(END_BYTES)..];
                self.fail(head, tail, ProtocolViolation::from(error).into())
            }
        }
    }

    /// Fails the request whose response cannot be read, by the ends of its line. Returns whether
    /// there is one.
    fn fail(self: &Arc<Self>, head: &[u8], tail: &[u8], error: Error) -> bool {
        let waiting = response_id(head, tail).and_then(|id| self.take(id));
        let answer = waiting.and_then(|waiting| {
            self.questions.answered(waiting.asker, None);
            waiting.answer
        });
        self.settle_questions();
        answer.is_some_and(|answer| answer.send(Err(error)).is_ok())
    }

    /// Handles a notification. Progress goes to its request. Other notifications go to all clients, or
    /// to the only caller unless they can have data of another request that is inspected.
    fn notified(&self, notification: &jsonrpc::Notification<'_>) {
        let (method, params) = (&*notification.method, notification.params);
        if self.publisher.hear(method, params) {
            return;
        }
        let channel = if method == "notifications/progress" {
            let id = params.and_then(message::request_of_token);
            self.pending().as_ref().and_then(|pending| pending.get(&id?)?.channel.clone())
        } else {
            self.only_caller().filter(|_| !self.is_inspected.load(Ordering::Relaxed))
        };
        if let Some(channel) = channel {
            channel.try_notify(method, params);
        }
    }

    /// The caller, if exactly one caller has running requests.
    fn only_caller(&self) -> Option<ClientChannel> {
        let pending = self.pending();
        let mut sides = pending.as_ref()?.values().filter_map(|waiting| waiting.channel.as_ref());
        let first = sides.next()?;
        sides.next().is_none().then(|| first.clone())
    }

    fn take(&self, id: u64) -> Option<Waiting> {
        self.pending().as_mut()?.remove(&id)
    }

    /// Cancels a request and returns whether it was waiting. A sent request that may cause questions
    /// stays in the table until the child answers it, at most for its time limit.
    fn leave(self: &Arc<Self>, id: u64, was_sent: bool) -> bool {
        let mut pending = self.pending();
        let Some(waiting) = pending.as_mut().and_then(|pending| pending.get_mut(&id)) else {
            return false;
        };
        waiting.answer = None;
        waiting.channel = None;
        let is_kept = was_sent && waiting.asker.as_mut().is_some_and(Asker::leave);
        if let Some(pending) = pending.as_mut() {
            pending.retain(|known, waiting| {
                (is_kept || *known != id)
                    && !waiting.asker.as_ref().is_some_and(Asker::is_forgotten)
            });
        }
        drop(pending);
        self.settle_questions();
        true
    }

    /// The registered server.
    pub(super) fn server(&self) -> &TargetId {
        &self.server
    }

    pub(super) fn questions(&self) -> &ServerRequests {
        &self.questions
    }

    pub(super) fn pending(&self) -> MutexGuard<'_, Option<HashMap<u64, Waiting>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gone(&self) -> Error {
        let source = self.how_it_ended().as_ref().into();
        Error::Unavailable { target: self.server.clone(), source }
    }
}

/// Cancels an abandoned request.
struct CancelOnDrop<'a> {
    connection: &'a Arc<Connection>,
    id: u64,
    is_list: bool,
    must_notify: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let was_waiting = self.connection.leave(self.id, self.must_notify);
        if was_waiting && self.must_notify {
            self.connection.send(message::cancelled(self.id));
        }
        if was_waiting && self.is_list {
            let unanswered = self.connection.unanswered.fetch_add(1, Ordering::Relaxed) + 1;
            if unanswered >= self.connection.max_unanswered {
                self.connection.hung.notify_one();
            }
        }
    }
}
