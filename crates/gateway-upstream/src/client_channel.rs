//! The channel from an upstream to the caller of a running request: notifications and questions.
//!
//! The channel is bounded: a caller that does not read blocks only its own request.

mod queue;

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, ready},
};

use gateway_policy::QuotaExceeded;
use gateway_protocol::{
    jsonrpc::{Object, ObjectWriter},
    mcp::RpcError,
};
use serde_json::value::RawValue;
use tokio::sync::{SetOnce, oneshot, watch};
use tokio_util::sync::WaitForCancellationFutureOwned;

use self::queue::MessageQueue;
use super::in_flight::InFlight;

/// A message to the caller of a running request.
#[derive(Debug)]
pub enum InterimMessage {
    /// Progress or a log message.
    Notification {
        /// The method.
        method: Box<str>,
        /// The raw parameters.
        params: Option<Box<RawValue>>,
    },
    /// A request that only the client can answer.
    Question(ClientRequest),
}

/// A request that only the client can answer: elicitation, sampling, roots.
#[derive(Debug)]
pub struct ClientRequest {
    /// The method.
    pub method: Box<str>,
    /// Its parameters, raw.
    pub params: Option<Box<RawValue>>,
    /// The receiver of the answer. Dropping it means that there is no answer.
    pub answer: oneshot::Sender<ClientAnswer>,
    state: Arc<ChannelState>,
}

impl ClientRequest {
    /// Rejects the question and ends its request, because a quota is exceeded.
    pub fn reject(self, why: QuotaExceeded) {
        let _ = self.state.exceeded.set(why);
    }
}

/// The answer of a client: a result or an error.
pub type ClientAnswer = Result<Box<RawValue>, RpcError>;

/// Reads and changes the messages between the upstream and the caller of a request.
pub trait MessageFilter: fmt::Debug + Send + Sync {
    /// The parameters of a notification for the caller. `None`: it is dropped.
    fn notification(&self, method: &str, params: &RawValue) -> Option<Box<RawValue>>;

    /// The parameters of a question for the caller. An error is the answer to the upstream.
    fn question(&self, params: &RawValue) -> Result<Box<RawValue>, RpcError>;

    /// The answer for the upstream: a result or an error.
    fn answer(&self, answer: ClientAnswer) -> ClientAnswer;

    /// The filter of a question that names no request: it can have data of any request to the server.
    fn unattributed(self: Arc<Self>) -> Arc<dyn MessageFilter>;
}

/// The channel to the caller of a request.
#[derive(Debug, Clone)]
pub struct ClientChannel {
    state: Arc<ChannelState>,
    forwarded: Forwarded,
    /// From the innermost request to the outermost one.
    filters: Vec<Arc<dyn MessageFilter>>,
    /// The request, while it is running at its upstream.
    in_flight: Option<Weak<InFlight>>,
}

/// The messages to the caller of a running request. Dropping it closes the channel.
#[derive(Debug)]
pub struct InterimMessages(Arc<ChannelState>);

impl InterimMessages {
    /// Waits for the next message, also if there will be none. Cancel-safe.
    pub async fn recv(&mut self) -> InterimMessage {
        poll_fn(|context| self.0.messages.poll_pop(context)).await
    }

    /// The next message, if there is one.
    pub fn try_recv(&mut self) -> Option<InterimMessage> {
        self.0.messages.pop()
    }
}

impl Drop for InterimMessages {
    fn drop(&mut self) {
        self.0.messages.close();
    }
}

/// The state that the copies of a channel share. It is one allocation, because every call has one and
/// most calls send no message.
#[derive(Debug, Default)]
struct ChannelState {
    /// The state of the composition's call, whose queue and number of waiting questions its steps use.
    composition: Option<Arc<ChannelState>>,
    messages: MessageQueue,
    /// The number of questions that wait for an answer.
    waiting: OnceLock<watch::Sender<u32>>,
    /// The number of questions so far.
    questions: AtomicU32,
    /// The exceeded quota that ends the request.
    exceeded: SetOnce<QuotaExceeded>,
}

impl ChannelState {
    /// The queue of the call that the caller sent.
    fn messages(&self) -> &MessageQueue {
        &self.composition.as_deref().unwrap_or(self).messages
    }

    /// The number of questions of the call that the caller sent.
    fn waiting(&self) -> &watch::Sender<u32> {
        let call = self.composition.as_deref().unwrap_or(self);
        call.waiting.get_or_init(watch::Sender::default)
    }
}

/// The notifications that are forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Forwarded {
    Nothing,
    /// Progress without its message.
    Numbers,
    Everything,
}

impl ClientChannel {
    /// Creates a channel and its receiver.
    pub fn open() -> (Self, InterimMessages) {
        let state = Arc::<ChannelState>::default();
        let messages = InterimMessages(Arc::clone(&state));
        (Self::of(state, Forwarded::Everything), messages)
    }

    fn of(state: Arc<ChannelState>, forwarded: Forwarded) -> Self {
        Self { state, forwarded, filters: Vec::new(), in_flight: None }
    }

    /// The channel for a tool with a projection: of the notifications, only progress numbers pass.
    /// Questions pass, because only the client can answer them.
    pub fn with_numbers_only(&self) -> Self {
        Self { forwarded: Forwarded::Numbers.min(self.forwarded), ..self.clone() }
    }

    /// The channel for a step of a composition, whose caller sees the progress of the composition:
    /// only questions pass.
    pub fn for_questions(&self) -> Self {
        let call = self.state.composition.as_ref().unwrap_or(&self.state);
        let state = ChannelState { composition: Some(Arc::clone(call)), ..ChannelState::default() };
        let filters = self.filters.clone();
        Self { filters, ..Self::of(Arc::new(state), Forwarded::Nothing) }
    }

    /// The channel whose messages pass a filter, and then those of the enclosing requests.
    pub fn filtered(&self, filter: Arc<dyn MessageFilter>) -> Self {
        let filters = std::iter::once(filter).chain(self.filters.iter().cloned()).collect();
        Self { filters, ..self.clone() }
    }

    /// The channel for a question that names no request.
    pub(super) fn for_unattributed(&self) -> Self {
        let filters = self.filters.iter().map(|filter| Arc::clone(filter).unattributed()).collect();
        Self { filters, ..self.clone() }
    }

    /// The channel for a request that is running at its upstream.
    pub(super) fn for_request(&self, in_flight: &Arc<InFlight>) -> Self {
        Self { in_flight: Some(Arc::downgrade(in_flight)), ..self.clone() }
    }

    /// The exceeded quota that ended the request, if there is one.
    pub fn exceeded_quota(&self) -> Option<QuotaExceeded> {
        self.state.exceeded.get().copied()
    }

    /// Resolves when an exceeded quota ends the request.
    pub(super) async fn quota_exceeded(&self) -> QuotaExceeded {
        *self.state.exceeded.wait().await
    }

    /// The forwarded form of a notification, if it is forwarded.
    fn forward(&self, method: &str, params: Option<&RawValue>) -> Option<InterimMessage> {
        let params = match method {
            "notifications/elicitation/complete" => params.map(ToOwned::to_owned),
            _ if self.forwarded == Forwarded::Everything => params.map(ToOwned::to_owned),
            "notifications/progress" if self.forwarded == Forwarded::Numbers => {
                Some(numbers(params?)?)
            }
            _ => return None,
        };
        let filtered = |params: Box<RawValue>| {
            let mut filters = self.filters.iter();
            filters.try_fold(params, |params, filter| filter.notification(method, &params))
        };
        let params = match params {
            Some(params) => Some(filtered(params)?),
            None => None,
        };
        Some(InterimMessage::Notification { method: method.into(), params })
    }

    /// The number of questions so far.
    pub(crate) fn questions(&self) -> u32 {
        self.state.questions.load(Ordering::Relaxed)
    }

    /// Sends a notification and waits for room in the queue.
    pub(crate) async fn notify(&self, method: &str, params: Option<&RawValue>) {
        if let Some(message) = self.forward(method, params) {
            self.state.messages().push(message).await;
        }
    }

    /// Sends a notification without waiting. It is dropped if the queue is full.
    pub fn try_notify(&self, method: &str, params: Option<&RawValue>) {
        if let Some(message) = self.forward(method, params) {
            let _ = self.state.messages().try_push(message);
        }
    }

    /// The number of questions that wait for an answer.
    pub fn waiting(&self) -> watch::Receiver<u32> {
        self.state.waiting().subscribe()
    }

    /// Sends a question. The answer may never arrive. A question beyond the quota is rejected.
    pub fn ask(&self, method: &str, params: Option<&RawValue>) -> PendingAnswer {
        let (answer, receiver) = oneshot::channel();
        self.state.waiting().send_modify(|waiting| *waiting += 1);
        let in_flight = self.in_flight.as_ref().and_then(Weak::upgrade);
        // Answers to the question of a result are parameters of the next request.
        let is_answer_sent = self.in_flight.is_some();
        let filters = if is_answer_sent { self.filters.clone() } else { Vec::new() };
        let ended = in_flight.as_ref().map(|in_flight| in_flight.ended().cancelled_owned());
        let (state, ended) = (Arc::clone(&self.state), ended.map(Box::pin));
        let pending = PendingAnswer { receiver, state, filters, ended };
        if in_flight.is_none() && is_answer_sent {
            // The request has ended. Dropping the sender ends the wait.
            return pending;
        }
        let mut question = params.map(ToOwned::to_owned).map(Ok);
        for filter in &self.filters {
            question = question.map(|params| params.and_then(|params| filter.question(&params)));
        }
        let params = match question.transpose() {
            Ok(params) => params,
            Err(error) => {
                let _ = answer.send(Err(error));
                return pending;
            }
        };
        let state = Arc::clone(&self.state);
        let request = ClientRequest { method: method.into(), params, answer, state };
        if let Some(Err(why)) = in_flight.map(|in_flight| in_flight.record_question()) {
            request.reject(why);
            return pending;
        }
        self.state.questions.fetch_add(1, Ordering::Relaxed);
        let _ = self.state.messages().try_push(InterimMessage::Question(request));
        pending
    }
}

/// Resolves to the answer of a question. `None`: it stays unanswered, or its request has ended. The
/// upstream of an ended request must not receive the answer.
#[derive(Debug)]
pub struct PendingAnswer {
    receiver: oneshot::Receiver<ClientAnswer>,
    state: Arc<ChannelState>,
    /// From the innermost request to the outermost one.
    filters: Vec<Arc<dyn MessageFilter>>,
    /// Resolves at the end of the request.
    ended: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl Future for PendingAnswer {
    type Output = Option<ClientAnswer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let has_ended = |ended: &mut Pin<Box<WaitForCancellationFutureOwned>>| {
            ended.as_mut().poll(context).is_ready()
        };
        if self.ended.as_mut().is_some_and(has_ended) {
            return Poll::Ready(None);
        }
        let answered = ready!(Pin::new(&mut self.receiver).poll(context));
        let filtered = |answer: ClientAnswer| {
            let filters = self.filters.iter().rev();
            filters.fold(answer, |answer, filter| filter.answer(answer))
        };
        Poll::Ready(answered.ok().map(filtered))
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        self.state.waiting().send_modify(|waiting| *waiting -= 1);
    }
}

/// Progress without its message.
fn numbers(progress: &RawValue) -> Option<Box<RawValue>> {
    let members = Object::parse(progress).ok()?;
    let mut kept = ObjectWriter::with_capacity(64);
    for name in ["progressToken", "progress", "total"] {
        let value = members.find(name).map(RawValue::get);
        let is_kept = |text: &&str| name == "progressToken" || text.parse::<f64>().is_ok();
        if let Some(value) = value.filter(is_kept) {
            kept.raw(name, value);
        }
    }
    RawValue::from_string(kept.finish_string()).ok()
}
