//! Questions of a child before 2026-07-28: for which of its callers each one is.
//!
//! A question that repeats a progress token is for the request with that token. Any other one is for
//! the only request that is under way. While there are several, it waits until one is left; a
//! question never goes to a caller that it may not be for.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use super::{
    super::{
        error::Error,
        message::{self, Outgoing},
        reply::RpcError,
        request::Method,
    },
    connection::Connection,
    turns::{Habits, Turn, Turns},
};
use crate::{
    config::LimitsConfig,
    jsonrpc::{self, code},
};

/// How long a question waits until it is clear for whom it is.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often that is looked at.
const PACE: Duration = Duration::from_millis(200);
/// Most questions that wait so.
const MOST: usize = 64;
/// How long a child may still ask for a request that was cancelled.
const AFTERMATH: Duration = Duration::from_secs(2);

/// A request for which the child may ask something.
#[derive(Debug)]
pub(super) struct Asker {
    /// What is learnt about: the tool, or the method of other requests.
    tool: Box<str>,
    has_asked: bool,
    turn: Option<Turn>,
    /// When the child has forgotten it, if it was cancelled.
    forgotten: Option<Instant>,
}

impl Asker {
    /// The request was cancelled. The child may still ask something for it, which is nobody's then.
    pub(super) fn leave(&mut self) -> bool {
        self.turn = None;
        self.forgotten = Some(Instant::now() + AFTERMATH);
        true
    }

    fn is_forgotten(&self) -> bool {
        self.forgotten.is_some_and(|at| at <= Instant::now())
    }
}

/// A question as it came.
#[derive(Debug)]
struct Question {
    id: Box<str>,
    method: Box<str>,
    params: Option<Box<RawValue>>,
}

/// The questions of one child.
#[derive(Debug)]
pub(super) struct Questions {
    turns: Turns,
    limit: Duration,
    unclear: Mutex<Unclear>,
}

/// Questions that wait until it is clear for whom they are.
#[derive(Debug, Default)]
struct Unclear {
    questions: Vec<Question>,
    since: Option<Instant>,
}

impl Questions {
    pub(super) fn new(habits: Arc<Habits>, limits: LimitsConfig) -> Self {
        Self {
            turns: Turns::new(habits, limits.upstream_requests),
            limit: Duration::from_millis(limits.call_timeout_ms),
            unclear: Mutex::default(),
        }
    }

    /// Waits until a request may start; of those for which a child never asks it is `None`.
    pub(super) async fn enter(&self, outgoing: &Outgoing<'_>) -> Result<Option<Asker>, Error> {
        let Outgoing::Asked { subject, request, .. } = outgoing else { return Ok(None) };
        let tool = match request.method {
            Method::CallTool => *subject,
            Method::GetPrompt | Method::ReadResource | Method::Complete => request.method.as_str(),
            _ => return Ok(None),
        };
        // Less than the request may take, so that its caller reads why it did not start.
        let within = request.timeout.unwrap_or(self.limit) / 10 * 9;
        let turn = self.turns.enter(tool, (request.principal, within)).await?;
        Ok(Some(Asker { tool: tool.into(), has_asked: false, turn, forgotten: None }))
    }

    /// Learns from a request that was answered.
    pub(super) fn answered(&self, asker: Option<&Asker>) {
        if let Some(asker) = asker.filter(|asker| !asker.has_asked) {
            self.turns.habits().asked_nothing(&asker.tool);
        }
    }

    fn unclear(&self) -> MutexGuard<'_, Unclear> {
        self.unclear.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For whom a question is.
enum Whom {
    Request(u64),
    Nobody,
    /// One of so many.
    Unclear(usize),
}

impl Connection {
    /// Takes a question.
    pub(super) fn asked(self: &Arc<Self>, request: &jsonrpc::Request<'_>) {
        if request.method == "ping" {
            return self.send(message::answer(request));
        }
        let question = Question {
            id: request.id.as_raw().into(),
            method: (*request.method).into(),
            params: request.params.map(ToOwned::to_owned),
        };
        let id = question.params.as_deref().and_then(message::request_of_token);
        if let Some(id) = id.filter(|id| self.is_pending(*id)) {
            return self.put(question, (id, true));
        }
        match self.whom() {
            Whom::Request(id) => self.put(question, (id, false)),
            Whom::Nobody => self.refuse(&question, "no request is under way"),
            // Roots are the client's, whatever it calls; servers ask for them at any time.
            Whom::Unclear(_) if &*question.method == "roots/list" => {
                self.refuse(&question, "several callers share this server");
            }
            Whom::Unclear(_) => self.keep(question),
        }
    }

    /// Keeps a question until it is clear for whom it is.
    fn keep(self: &Arc<Self>, question: Question) {
        let questions = self.questions();
        let mut unclear = questions.unclear();
        if unclear.questions.len() >= MOST {
            drop(unclear);
            return self.refuse(&question, "too many questions wait");
        }
        unclear.questions.push(question);
        let is_first = unclear.since.is_none();
        unclear.since.get_or_insert_with(Instant::now);
        questions.turns.set_unclear(true);
        drop(unclear);
        if is_first {
            let connection = Arc::downgrade(self);
            tokio::spawn(async move {
                loop {
                    sleep(PACE).await;
                    let Some(connection) = connection.upgrade() else { return };
                    connection.settle_questions();
                    if connection.questions().unclear().since.is_none() {
                        return;
                    }
                }
            });
        }
        self.settle_questions();
    }

    /// Sends on the questions that wait, once it is clear for whom they are, and refuses those of
    /// which it cannot become clear.
    pub(super) fn settle_questions(self: &Arc<Self>) {
        let questions = self.questions();
        let mut unclear = questions.unclear();
        let Some(since) = unclear.since else { return };
        let whom = self.whom();
        let is_over = match whom {
            // When each of them waits for an answer, none of them comes to an end.
            Whom::Unclear(among) => {
                unclear.questions.len() >= among || since.elapsed() >= PATIENCE
            }
            Whom::Request(_) | Whom::Nobody => true,
        };
        if !is_over {
            return;
        }
        let Unclear { questions: waiting, .. } = std::mem::take(&mut *unclear);
        drop(unclear);
        for question in waiting {
            match whom {
                Whom::Request(id) => self.put(question, (id, false)),
                Whom::Nobody => self.refuse(&question, "its request has ended"),
                Whom::Unclear(among) => {
                    self.all_may_have_asked();
                    tracing::warn!(
                        target.server = %self.server(), calls = among, method = %question.method,
                        "rejected a question that may belong to any of several calls; from now on \
                         these tools have one call at a time (`maxCallerChildren` gives each caller a \
                         process of its own)"
                    );
                    self.refuse(&question, "it does not say to which of several calls it belongs");
                }
            }
        }
        questions.turns.set_unclear(false);
    }

    /// For whom a question without a token is.
    fn whom(&self) -> Whom {
        let mut pending = self.pending();
        let Some(pending) = pending.as_mut() else { return Whom::Nobody };
        pending.retain(|_, waiting| !waiting.asker.as_ref().is_some_and(Asker::is_forgotten));
        let mut askers = pending.iter().filter(|(_, waiting)| waiting.asker.is_some());
        match (askers.next(), askers.count()) {
            (None, _) => Whom::Nobody,
            (Some((id, _)), 0) => Whom::Request(*id),
            (Some(_), others) => Whom::Unclear(others + 1),
        }
    }

    fn is_pending(&self, id: u64) -> bool {
        self.pending().as_ref().is_some_and(|pending| pending.contains_key(&id))
    }

    /// Learns that each of the tools that are called now may have asked.
    fn all_may_have_asked(&self) {
        let pending = self.pending();
        let askers = pending.iter().flat_map(|pending| pending.values());
        for asker in askers.filter_map(|waiting| waiting.asker.as_ref()) {
            self.questions().turns.habits().has_asked(&asker.tool, false);
        }
    }

    /// Puts a question to the caller of a request, and sends back the answer.
    fn put(self: &Arc<Self>, question: Question, (id, has_token): (u64, bool)) {
        let side = {
            let mut pending = self.pending();
            let waiting = pending.as_mut().and_then(|pending| pending.get_mut(&id));
            let Some(waiting) = waiting else { return };
            if let Some(asker) = waiting.asker.as_mut().filter(|_| &*question.method != "roots/list")
            {
                asker.has_asked = true;
                self.questions().turns.habits().has_asked(&asker.tool, has_token);
            }
            waiting.side.clone()
        };
        let Some(side) = side else { return self.refuse(&question, "its caller has gone") };
        let answered = side.ask(&question.method, question.params.as_deref());
        let connection = Arc::downgrade(self);
        tokio::spawn(async move {
            let answered = answered.await;
            let Some(connection) = connection.upgrade() else { return };
            match (answered, jsonrpc::Id::parse(&question.id)) {
                (Ok(answered), Ok(id)) => connection.send(message::answered(id, &answered)),
                _ => connection.refuse(&question, "its caller has gone"),
            }
        });
    }

    fn refuse(&self, question: &Question, why: &str) {
        let error =
            RpcError { code: code::METHOD_NOT_FOUND, message: format!("no answer: {why}"), data: None };
        if let Ok(id) = jsonrpc::Id::parse(&question.id) {
            self.send(message::answered(id, &Err(error)));
        }
    }
}
