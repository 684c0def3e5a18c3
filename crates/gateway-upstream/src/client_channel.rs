//! The channel from an upstream to the caller of a running request: notifications and questions.
//!
//! The channel is bounded: a caller that does not read blocks only its own request.

use std::{
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
};

use gateway_policy::QuotaExceeded;
use gateway_protocol::{
    jsonrpc::{Object, ObjectWriter},
    mcp::RpcError,
};
use serde_json::value::RawValue;
use tokio::sync::{SetOnce, mpsc, oneshot};

use super::in_flight::InFlight;

/// Maximum queued messages.
const QUEUE: usize = 16;

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
    exceeded: Arc<SetOnce<QuotaExceeded>>,
}

impl ClientRequest {
    /// Rejects the question and ends its request, because a quota is exceeded.
    pub fn reject(self, why: QuotaExceeded) {
        let _ = self.exceeded.set(why);
    }
}

/// The answer of a client: a result or an error.
pub type ClientAnswer = Result<Box<RawValue>, RpcError>;

/// The channel to the caller of a request.
#[derive(Debug, Clone)]
pub struct ClientChannel {
    caller: mpsc::Sender<InterimMessage>,
    questions: Arc<AtomicU32>,
    /// The number of questions that wait for an answer.
    waiting: Arc<AtomicU32>,
    forwarded: Forwarded,
    /// The request, while it is running at its upstream.
    in_flight: Option<Weak<InFlight>>,
    /// The exceeded quota that ends the request.
    exceeded: Arc<SetOnce<QuotaExceeded>>,
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
    pub fn open() -> (Self, mpsc::Receiver<InterimMessage>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let channel = Self {
            caller: sender,
            questions: Arc::default(),
            waiting: Arc::default(),
            forwarded: Forwarded::Everything,
            in_flight: None,
            exceeded: Arc::default(),
        };
        (channel, receiver)
    }

    /// The channel for a tool with a projection: of the notifications, only progress numbers pass.
    /// Questions pass, because only the client can answer them.
    pub fn with_numbers_only(&self) -> Self {
        Self { forwarded: Forwarded::Numbers.min(self.forwarded), ..self.clone() }
    }

    /// The channel for a step of a composition, whose caller sees the progress of the composition:
    /// only questions pass.
    pub fn for_questions(&self) -> Self {
        Self {
            caller: self.caller.clone(),
            questions: Arc::default(),
            waiting: Arc::clone(&self.waiting),
            forwarded: Forwarded::Nothing,
            in_flight: None,
            exceeded: Arc::default(),
        }
    }

    /// The channel for a request that is running at its upstream.
    pub(super) fn for_request(&self, in_flight: &Arc<InFlight>) -> Self {
        Self { in_flight: Some(Arc::downgrade(in_flight)), ..self.clone() }
    }

    /// The exceeded quota that ended the request, if there is one.
    pub fn exceeded_quota(&self) -> Option<QuotaExceeded> {
        self.exceeded.get().copied()
    }

    /// Resolves when an exceeded quota ends the request.
    pub(super) async fn quota_exceeded(&self) -> QuotaExceeded {
        *self.exceeded.wait().await
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
        Some(InterimMessage::Notification { method: method.into(), params })
    }

    /// The number of questions so far.
    pub(crate) fn questions(&self) -> u32 {
        self.questions.load(Ordering::Relaxed)
    }

    /// Sends a notification and waits for room in the queue.
    pub(crate) async fn notify(&self, method: &str, params: Option<&RawValue>) {
        if let Some(message) = self.forward(method, params) {
            // The caller may have disconnected.
            let _ = self.caller.send(message).await;
        }
    }

    /// Sends a notification without waiting. It is dropped if the queue is full.
    pub fn try_notify(&self, method: &str, params: Option<&RawValue>) {
        if let Some(message) = self.forward(method, params) {
            let _ = self.caller.try_send(message);
        }
    }

    /// Whether a question waits for its answer.
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Sends a question. The answer may never arrive. A question beyond the quota is rejected.
    pub fn ask(&self, method: &str, params: Option<&RawValue>) -> PendingAnswer {
        let (answer, receiver) = oneshot::channel();
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let pending = PendingAnswer { receiver, waiting: Arc::clone(&self.waiting) };
        let params = params.map(ToOwned::to_owned);
        let exceeded = Arc::clone(&self.exceeded);
        let in_flight = self.in_flight.as_ref().and_then(Weak::upgrade);
        let request = ClientRequest { method: method.into(), params, answer, exceeded };
        if let Some(Err(why)) = in_flight.map(|in_flight| in_flight.record_question()) {
            request.reject(why);
            return pending;
        }
        self.questions.fetch_add(1, Ordering::Relaxed);
        let _ = self.caller.try_send(InterimMessage::Question(request));
        pending
    }
}

/// Resolves to the answer of a question. An error means that it stays unanswered.
#[derive(Debug)]
pub struct PendingAnswer {
    receiver: oneshot::Receiver<ClientAnswer>,
    waiting: Arc<AtomicU32>,
}

impl Future for PendingAnswer {
    type Output = Result<ClientAnswer, oneshot::error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(context)
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
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
