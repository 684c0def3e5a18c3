//! The channel from an upstream to the caller of a running request: notifications and questions.
//!
//! The channel is bounded: a caller that does not read blocks only its own request.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU32, Ordering},
};

use gateway_policy::QuotaExceeded;
use gateway_protocol::{
    jsonrpc::{Object, ObjectWriter},
    mcp::RpcError,
};
use serde_json::value::RawValue;
use tokio::sync::{SetOnce, mpsc, oneshot};

use super::visit::Visit;

/// Maximum queued messages.
const QUEUE: usize = 16;

/// A message to the caller of a running request.
#[derive(Debug)]
pub enum Meanwhile {
    /// Progress or a log message.
    Notification {
        /// The method.
        method: Box<str>,
        /// The raw parameters.
        params: Option<Box<RawValue>>,
    },
    /// A request that only the client can answer.
    Question(Question),
}

/// A request that only the client can answer: elicitation, sampling, roots.
#[derive(Debug)]
pub struct Question {
    /// The method.
    pub method: Box<str>,
    /// Its parameters, raw.
    pub params: Option<Box<RawValue>>,
    /// The receiver of the answer. Dropping it means that there is no answer.
    pub answer: oneshot::Sender<Answered>,
    refused: Arc<SetOnce<QuotaExceeded>>,
}

impl Question {
    /// Rejects the question and ends its request, because a quota is exceeded.
    pub fn refuse(self, why: QuotaExceeded) {
        let _ = self.refused.set(why);
    }
}

/// The answer of a client: a result or an error.
pub type Answered = Result<Box<RawValue>, RpcError>;

/// The channel to the caller of a request.
#[derive(Debug, Clone)]
pub struct Side {
    caller: mpsc::Sender<Meanwhile>,
    questions: Arc<AtomicU32>,
    told: Told,
    /// The request, while it is running at its upstream.
    visit: Option<Weak<Visit>>,
    /// The exceeded quota that ends the request.
    refused: Arc<SetOnce<QuotaExceeded>>,
}

/// The notifications that are forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Nothing,
    /// Progress without its message.
    Numbers,
    Everything,
}

impl Side {
    /// Creates a channel and its receiver.
    pub fn open() -> (Self, mpsc::Receiver<Meanwhile>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (questions, refused) = (Arc::default(), Arc::default());
        let side = Self { caller: sender, questions, told: Told::Everything, visit: None, refused };
        (side, receiver)
    }

    /// The channel for a tool with a projection: of the notifications, only progress numbers pass.
    /// Questions pass, because only the client can answer them.
    pub fn with_numbers_only(&self) -> Self {
        Self { told: Told::Numbers.min(self.told), ..self.clone() }
    }

    /// The channel for a step of a composition, whose caller sees the progress of the composition:
    /// only questions pass.
    pub fn for_questions(&self) -> Self {
        let (questions, refused) = (Arc::default(), Arc::default());
        let caller = self.caller.clone();
        Self { caller, questions, told: Told::Nothing, visit: None, refused }
    }

    /// The channel for a request that is running at its upstream.
    pub(super) fn of(&self, visit: &Arc<Visit>) -> Self {
        Self { visit: Some(Arc::downgrade(visit)), ..self.clone() }
    }

    /// The exceeded quota that ended the request, if there is one.
    pub fn refusal(&self) -> Option<QuotaExceeded> {
        self.refused.get().copied()
    }

    /// Resolves when an exceeded quota ends the request.
    pub(super) async fn refused(&self) -> QuotaExceeded {
        *self.refused.wait().await
    }

    /// The forwarded form of a notification, if it is forwarded.
    fn passed(&self, method: &str, params: Option<&RawValue>) -> Option<Meanwhile> {
        let params = match method {
            "notifications/elicitation/complete" => params.map(ToOwned::to_owned),
            _ if self.told == Told::Everything => params.map(ToOwned::to_owned),
            "notifications/progress" if self.told == Told::Numbers => Some(numbers(params?)?),
            _ => return None,
        };
        Some(Meanwhile::Notification { method: method.into(), params })
    }

    /// The number of questions so far.
    pub(crate) fn questions(&self) -> u32 {
        self.questions.load(Ordering::Relaxed)
    }

    /// Sends a notification and waits for room in the queue.
    pub(crate) async fn tell(&self, method: &str, params: Option<&RawValue>) {
        if let Some(told) = self.passed(method, params) {
            // The caller may have disconnected.
            let _ = self.caller.send(told).await;
        }
    }

    /// Sends a notification without waiting. It is dropped if the queue is full.
    pub fn try_tell(&self, method: &str, params: Option<&RawValue>) {
        if let Some(told) = self.passed(method, params) {
            let _ = self.caller.try_send(told);
        }
    }

    /// Sends a question. The answer may never arrive. A question beyond the quota is rejected.
    pub fn ask(&self, method: &str, params: Option<&RawValue>) -> oneshot::Receiver<Answered> {
        let (answer, answered) = oneshot::channel();
        let params = params.map(ToOwned::to_owned);
        let refused = Arc::clone(&self.refused);
        let visit = self.visit.as_ref().and_then(Weak::upgrade);
        let question = Question { method: method.into(), params, answer, refused };
        if let Some(Err(why)) = visit.map(|visit| visit.asks()) {
            question.refuse(why);
            return answered;
        }
        self.questions.fetch_add(1, Ordering::Relaxed);
        let _ = self.caller.try_send(Meanwhile::Question(question));
        answered
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
