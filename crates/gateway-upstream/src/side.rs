//! What an upstream says while a request is under way: notifications, and questions for the caller.
//!
//! The way is narrow on purpose: who does not listen holds up its own request and nobody else's.

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

/// Most messages that wait for a caller.
const QUEUE: usize = 16;

/// What is said meanwhile.
#[derive(Debug)]
pub enum Meanwhile {
    /// Progress or a log message.
    Notification {
        /// The method.
        method: Box<str>,
        /// Its parameters, raw.
        params: Option<Box<RawValue>>,
    },
    /// Something that only the caller can answer.
    Question(Question),
}

/// Something that only the caller can answer: elicitation, sampling, roots.
#[derive(Debug)]
pub struct Question {
    /// The method.
    pub method: Box<str>,
    /// Its parameters, raw.
    pub params: Option<Box<RawValue>>,
    /// Where the answer goes; dropped, it is that nobody answers.
    pub answer: oneshot::Sender<Answered>,
    refused: Arc<SetOnce<QuotaExceeded>>,
}

impl Question {
    /// It cannot wait for an answer, and neither can the request that it belongs to.
    pub fn refuse(self, why: QuotaExceeded) {
        let _ = self.refused.set(why);
    }
}

/// What a caller answered: a result, or an error.
pub type Answered = Result<Box<RawValue>, RpcError>;

/// The way to a caller.
#[derive(Debug, Clone)]
pub struct Side {
    caller: mpsc::Sender<Meanwhile>,
    questions: Arc<AtomicU32>,
    told: Told,
    /// The request, while it is at its upstream.
    visit: Option<Weak<Visit>>,
    /// Why the request cannot wait for answers, and ends.
    refused: Arc<SetOnce<QuotaExceeded>>,
}

/// What of what is told passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Nothing,
    /// The numbers of progress.
    Numbers,
    Everything,
}

impl Side {
    /// A way, and its end at the caller.
    pub fn open() -> (Self, mpsc::Receiver<Meanwhile>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (questions, refused) = (Arc::default(), Arc::default());
        let side = Self { caller: sender, questions, told: Told::Everything, visit: None, refused };
        (side, receiver)
    }

    /// The same way for a tool of which not everything is to be known: of what is told, only the
    /// numbers of progress pass. Questions do, because nobody else can answer them.
    pub fn with_numbers_only(&self) -> Self {
        Self { told: Told::Numbers.min(self.told), ..self.clone() }
    }

    /// The same way for a step of a composition, whose caller hears of the composition itself: only
    /// questions pass.
    pub fn for_questions(&self) -> Self {
        let (questions, refused) = (Arc::default(), Arc::default());
        let caller = self.caller.clone();
        Self { caller, questions, told: Told::Nothing, visit: None, refused }
    }

    /// The same way for a request that is at its upstream now.
    pub(super) fn of(&self, visit: &Arc<Visit>) -> Self {
        Self { visit: Some(Arc::downgrade(visit)), ..self.clone() }
    }

    /// Why the request could not wait for an answer, if it could not.
    pub fn refusal(&self) -> Option<QuotaExceeded> {
        self.refused.get().copied()
    }

    /// Resolves when the request cannot wait for answers.
    pub(super) async fn refused(&self) -> QuotaExceeded {
        *self.refused.wait().await
    }

    /// What is told to the caller, if anything.
    fn passed(&self, method: &str, params: Option<&RawValue>) -> Option<Meanwhile> {
        let params = match method {
            "notifications/elicitation/complete" => params.map(ToOwned::to_owned),
            _ if self.told == Told::Everything => params.map(ToOwned::to_owned),
            "notifications/progress" if self.told == Told::Numbers => Some(numbers(params?)?),
            _ => return None,
        };
        Some(Meanwhile::Notification { method: method.into(), params })
    }

    /// How many questions were asked so far.
    pub(crate) fn questions(&self) -> u32 {
        self.questions.load(Ordering::Relaxed)
    }

    /// Tells something, and waits until there is room for it.
    pub(crate) async fn tell(&self, method: &str, params: Option<&RawValue>) {
        if let Some(told) = self.passed(method, params) {
            // A caller that is gone needs no news.
            let _ = self.caller.send(told).await;
        }
    }

    /// The same without waiting; what there is no room for is lost.
    pub fn try_tell(&self, method: &str, params: Option<&RawValue>) {
        if let Some(told) = self.passed(method, params) {
            let _ = self.caller.try_send(told);
        }
    }

    /// Asks something; the answer comes later, or never. Who asks too much is not put through.
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

/// Progress without its words.
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
