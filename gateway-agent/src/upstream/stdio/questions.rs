//! Routing of a child's questions before 2026-07-28 to the callers they belong to.
//!
//! A question that repeats a progress token belongs to the request with that token. Any other question
//! belongs to the only running request. While several run, the question is ambiguous and waits until
//! one request remains. An ambiguous question never reaches a caller.

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
        request::{Method, RELATED_TASK},
    },
    connection::Connection,
    turns::{Habits, Turn, Turns},
};
use crate::{
    config::LimitsConfig,
    jsonrpc::{self, Object, code},
};

/// Longest time that a question stays ambiguous.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval between two checks of ambiguous questions.
const PACE: Duration = Duration::from_millis(200);
/// Most ambiguous questions of one child.
const MOST: usize = 64;
/// Time after a cancellation in which the child may still send questions of the request.
const AFTERMATH: Duration = Duration::from_secs(2);

/// A running request that may cause questions.
#[derive(Debug)]
pub(super) struct Asker {
    /// The name in [`Habits`]: the tool, or the method of other requests.
    tool: Box<str>,
    has_asked: bool,
    turn: Option<Turn>,
    /// End of the time in which a cancelled request may cause questions.
    forgotten: Option<Instant>,
    /// The task of a `tasks/result` (2025-11-25). Its questions name the task.
    task: Option<Box<str>>,
}

impl Asker {
    /// Marks the request as cancelled. The child may still send a question of it.
    pub(super) fn leave(&mut self) -> bool {
        self.turn = None;
        self.forgotten = Some(Instant::now() + AFTERMATH);
        true
    }

    fn is_forgotten(&self) -> bool {
        self.forgotten.is_some_and(|at| at <= Instant::now())
    }
}

/// A received question.
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
    held: Mutex<Held>,
}

/// Ambiguous questions, and since when there are any.
#[derive(Debug, Default)]
struct Held {
    questions: Vec<Question>,
    since: Option<Instant>,
}

impl Questions {
    pub(super) fn new(habits: Arc<Habits>, limits: LimitsConfig) -> Self {
        Self {
            turns: Turns::new(habits, limits.upstream_requests),
            limit: Duration::from_millis(limits.call_timeout_ms),
            held: Mutex::default(),
        }
    }

    /// Waits until a request may start. Requests that cause no questions give `None`.
    pub(super) async fn enter(&self, outgoing: &Outgoing<'_>) -> Result<Option<Asker>, Error> {
        let Outgoing::Asked { subject, request, .. } = outgoing else { return Ok(None) };
        if request.method == Method::TaskResult {
            let (tool, task) = (request.method.as_str().into(), Some((*subject).into()));
            return Ok(Some(Asker { tool, has_asked: false, turn: None, forgotten: None, task }));
        }
        let tool = match request.method {
            Method::CallTool => *subject,
            Method::GetPrompt | Method::ReadResource | Method::Complete => request.method.as_str(),
            _ => return Ok(None),
        };
        // Less than the time limit of the request, so that its caller reads this reason first.
        let within = request.timeout.unwrap_or(self.limit) / 10 * 9;
        let turn = self.turns.enter(tool, (request.principal, within)).await?;
        Ok(Some(Asker { tool: tool.into(), has_asked: false, turn, forgotten: None, task: None }))
    }

    /// Records that a request has ended.
    pub(super) fn answered(&self, asker: Option<&Asker>) {
        if let Some(asker) = asker.filter(|asker| !asker.has_asked) {
            self.turns.habits().asked_nothing(&asker.tool);
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task in the `_meta` of a question (2025-11-25).
fn related_task(params: &RawValue) -> Option<String> {
    let members = Object::parse(params).ok()?;
    let meta = Object::parse(members.find("_meta")?).ok()?;
    let task = Object::parse(meta.find(RELATED_TASK)?).ok()?;
    serde_json::from_str(task.find("taskId")?.get()).ok()
}

/// The request that a question belongs to.
enum Addressee {
    Request(u64),
    None,
    /// Any of this number of requests.
    Ambiguous(usize),
}

impl Connection {
    /// Routes a question.
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
        if let Some(id) = id {
            if self.is_pending(id) {
                return self.deliver(question, (id, true));
            }
            return self.refuse(&question, "its request has ended");
        }
        if let Some(task) = question.params.as_deref().and_then(related_task) {
            return match self.request_of_task(&task) {
                Some(id) => self.deliver(question, (id, true)),
                None => self.refuse(&question, "no client waits for the result of its task"),
            };
        }
        match self.addressee() {
            Addressee::Request(id) => self.deliver(question, (id, false)),
            Addressee::None => self.refuse(&question, "no request is under way"),
            // Servers ask for roots at any time, independently of requests.
            Addressee::Ambiguous(_) if &*question.method == "roots/list" => {
                self.refuse(&question, "several callers share this server");
            }
            Addressee::Ambiguous(_) => self.hold(question),
        }
    }

    /// Holds an ambiguous question.
    fn hold(self: &Arc<Self>, question: Question) {
        let questions = self.questions();
        let mut held = questions.held();
        if held.questions.len() >= MOST {
            drop(held);
            return self.refuse(&question, "too many questions wait");
        }
        held.questions.push(question);
        let is_first = held.since.is_none();
        held.since.get_or_insert_with(Instant::now);
        questions.turns.set_ambiguous(true);
        drop(held);
        if is_first {
            let connection = Arc::downgrade(self);
            tokio::spawn(async move {
                loop {
                    sleep(PACE).await;
                    let Some(connection) = connection.upgrade() else { return };
                    connection.settle_questions();
                    if connection.questions().held().since.is_none() {
                        return;
                    }
                }
            });
        }
        self.settle_questions();
    }

    /// Delivers the held questions once one request remains. Rejects them if that cannot happen or
    /// takes too long.
    pub(super) fn settle_questions(self: &Arc<Self>) {
        let questions = self.questions();
        let mut held = questions.held();
        let Some(since) = held.since else { return };
        let addressee = self.addressee();
        let is_over = match addressee {
            // If each request waits for an answer, none can end.
            Addressee::Ambiguous(among) => {
                held.questions.len() >= among || since.elapsed() >= PATIENCE
            }
            Addressee::Request(_) | Addressee::None => true,
        };
        if !is_over {
            return;
        }
        let Held { questions: waiting, .. } = std::mem::take(&mut *held);
        drop(held);
        for question in waiting {
            match addressee {
                Addressee::Request(id) => self.deliver(question, (id, false)),
                Addressee::None => self.refuse(&question, "its request has ended"),
                Addressee::Ambiguous(among) => {
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
        questions.turns.set_ambiguous(false);
    }

    /// The request that a question without a token belongs to.
    fn addressee(&self) -> Addressee {
        let mut pending = self.pending();
        let Some(pending) = pending.as_mut() else { return Addressee::None };
        pending.retain(|_, waiting| !waiting.asker.as_ref().is_some_and(Asker::is_forgotten));
        let is_asker = |asker: &Asker| asker.task.is_none();
        let mut askers =
            pending.iter().filter(|(_, waiting)| waiting.asker.as_ref().is_some_and(is_asker));
        match (askers.next(), askers.count()) {
            (None, _) => Addressee::None,
            (Some((id, _)), 0) => Addressee::Request(*id),
            (Some(_), others) => Addressee::Ambiguous(others + 1),
        }
    }

    /// The running `tasks/result` of a task.
    fn request_of_task(&self, task: &str) -> Option<u64> {
        let pending = self.pending();
        let is_it = |asker: &Asker| asker.task.as_deref() == Some(task);
        let mut found = pending.as_ref()?.iter().filter(|(_, waiting)| {
            waiting.side.is_some() && waiting.asker.as_ref().is_some_and(is_it)
        });
        found.next().map(|(id, _)| *id)
    }

    fn is_pending(&self, id: u64) -> bool {
        self.pending().as_ref().is_some_and(|pending| pending.contains_key(&id))
    }

    /// Records that each running tool may have asked.
    fn all_may_have_asked(&self) {
        let pending = self.pending();
        let askers = pending.iter().flat_map(|pending| pending.values());
        for asker in askers.filter_map(|waiting| waiting.asker.as_ref()) {
            self.questions().turns.habits().has_asked(&asker.tool, false);
        }
    }

    /// Delivers a question to the caller of a request, and returns the answer to the child.
    fn deliver(self: &Arc<Self>, question: Question, (id, has_token): (u64, bool)) {
        let side = {
            let mut pending = self.pending();
            let waiting = pending.as_mut().and_then(|pending| pending.get_mut(&id));
            let Some(waiting) = waiting else { return };
            if let Some(asker) =
                waiting.asker.as_mut().filter(|_| &*question.method != "roots/list")
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
        let error = RpcError {
            code: code::METHOD_NOT_FOUND,
            message: format!("no answer: {why}"),
            data: None,
        };
        if let Ok(id) = jsonrpc::Id::parse(&question.id) {
            self.send(message::answered(id, &Err(error)));
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::FutureExt as _;
    use tokio::sync::mpsc;

    use super::*;
    use crate::upstream::{
        TargetId,
        announce::{Announcer, Board},
        message::Era,
        request::{Context, Request},
        side::{Meanwhile, Side},
        stdio::lines::Line,
    };

    const TOOL: &str = "t";

    fn connection() -> (Arc<Connection>, mpsc::Receiver<Bytes>) {
        let server: TargetId = "server/s@1.0.0".parse().unwrap();
        let announcer = Announcer::new(server.clone(), Board::new(), Arc::default());
        let habits = Arc::<Habits>::default();
        habits.asked_nothing(TOOL);
        Connection::new(server, LimitsConfig::default(), (Arc::new(announcer), habits))
    }

    /// Asks without a token, or with this one.
    fn ask(connection: &Arc<Connection>, token: Option<&str>) {
        let meta = token.map(|token| serde_json::json!({ "progressToken": token }));
        let question = serde_json::json!({ "jsonrpc": "2.0", "id": "q",
            "method": "elicitation/create", "params": { "message": "?", "_meta": meta } });
        assert!(connection.receive(&Line::Whole(question.to_string().as_bytes())));
    }

    fn is_asked(meanwhile: &mut mpsc::Receiver<Meanwhile>) -> bool {
        matches!(meanwhile.try_recv(), Ok(Meanwhile::Question(_)))
    }

    /// Whether the child got an error instead of an answer.
    fn is_rejected(written: &mut mpsc::Receiver<Bytes>) -> bool {
        std::iter::from_fn(|| written.try_recv().ok())
            .any(|line| String::from_utf8_lossy(&line).contains(r#""code":-32601"#))
    }

    #[tokio::test]
    async fn question_reaches_the_call_of_its_token_only() {
        let (connection, mut written) = connection();
        let context = Context::default();
        let (side, mut meanwhile) = Side::open();
        let request =
            Request { side: Some(&side), ..Request::plain(Method::CallTool, &[], &context) };
        let outgoing = Outgoing::Asked { subject: TOOL, request, departure: None };
        let mut call = Box::pin(connection.request_in(Era::Legacy, &outgoing));
        assert!(call.as_mut().now_or_never().is_none());
        ask(&connection, Some("gateway-7"));
        assert!(!is_asked(&mut meanwhile) && is_rejected(&mut written), "call 7 is not running");
        ask(&connection, Some("gateway-1"));
        assert!(is_asked(&mut meanwhile));
    }

    #[tokio::test]
    async fn ambiguous_question_waits_until_one_call_remains() {
        let (connection, mut written) = connection();
        let context = Context::default();
        let sides = [Side::open(), Side::open()];
        let request =
            |side| Request { side: Some(side), ..Request::plain(Method::CallTool, &[], &context) };
        let [(first, mut told_first), (second, mut told_second)] = sides;
        let of_first = Outgoing::Asked { subject: TOOL, request: request(&first), departure: None };
        let of_second =
            Outgoing::Asked { subject: TOOL, request: request(&second), departure: None };
        let mut calls = [&of_first, &of_second]
            .map(|outgoing| Box::pin(connection.request_in(Era::Legacy, outgoing)));
        assert!(calls.iter_mut().all(|call| call.as_mut().now_or_never().is_none()));
        ask(&connection, None);
        assert!(!is_asked(&mut told_first) && !is_asked(&mut told_second));
        let answer = br#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        assert!(connection.receive(&Line::Whole(answer)));
        assert!(!is_asked(&mut told_first) && is_asked(&mut told_second));
        assert!(!is_rejected(&mut written));
    }

    #[tokio::test]
    async fn question_of_a_cancelled_call_reaches_no_other() {
        let (connection, _written) = connection();
        let context = Context::default();
        let (side, mut meanwhile) = Side::open();
        let request =
            Request { side: Some(&side), ..Request::plain(Method::CallTool, &[], &context) };
        let outgoing = Outgoing::Asked { subject: TOOL, request, departure: None };
        let mut cancelled = Box::pin(connection.request_in(Era::Legacy, &outgoing));
        let mut running = Box::pin(connection.request_in(Era::Legacy, &outgoing));
        assert!(cancelled.as_mut().now_or_never().is_none());
        assert!(running.as_mut().now_or_never().is_none());
        drop(cancelled);
        ask(&connection, None);
        assert!(!is_asked(&mut meanwhile), "the child may not have noticed the cancellation");
    }
}
