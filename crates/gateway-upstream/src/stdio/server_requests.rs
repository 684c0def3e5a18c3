//! Routing of a child's questions before 2026-07-28 to the callers they belong to.
//!
//! A question that repeats a progress token belongs to the request with that token. Any other question
//! belongs to the only running request. While several run, the question is ambiguous and waits until
//! one request remains. The gateway rejects a question that a cancelled or former call of another
//! caller may have asked.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gateway_protocol::{
    jsonrpc::{self, Object, code},
    mcp::{Method, RELATED_TASK, RpcError},
};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use super::{
    super::{
        error::Error,
        message::{self, Outgoing},
    },
    call_queue::{CallQueue, CallSlot, Habits},
    connection::Connection,
    former_calls::{Caller, FormerCalls, is_final, started_task},
};
use crate::UpstreamLimits;

/// Maximum time that a question stays ambiguous.
const AMBIGUOUS_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between two checks of ambiguous questions.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of ambiguous questions of one child.
const MAX_HELD: usize = 64;
/// Minimum time that a cancelled request without a response may still ask questions.
const MIN_CANCELLED_PERIOD: Duration = Duration::from_secs(30);

/// The relation of a request to questions.
#[derive(Debug, PartialEq, Eq)]
enum Role {
    /// It may cause questions.
    Call,
    /// It may cause questions, and may continue as a task (2025-11-25).
    TaskCall,
    /// `tasks/result` of this task. The questions of the task name it.
    TaskResult(Box<str>),
    /// `tasks/get` or `tasks/cancel` of this task, which may report its end.
    TaskStatus(Box<str>),
}

/// A running request that may cause questions or end a task that does.
#[derive(Debug)]
pub(super) struct Asker {
    /// The name in [`Habits`]: the tool, or the method of other requests.
    tool: Box<str>,
    caller: Caller,
    role: Role,
    has_asked: bool,
    slot: Option<CallSlot>,
    /// Maximum time after the cancellation that the request may ask questions.
    patience: Duration,
    /// For a request that was cancelled or timed out: the end of the period during which it may still ask.
    left: Option<Instant>,
}

impl Asker {
    /// Marks the request as cancelled, and returns whether it stays in the table. The child may work on it
    /// and ask until it answers. Servers need not answer a cancelled request, so this time is limited.
    pub(super) fn leave(&mut self) -> bool {
        self.slot = None;
        self.left = Some(Instant::now() + self.patience);
        !matches!(self.role, Role::TaskStatus(_))
    }

    pub(super) fn is_forgotten(&self) -> bool {
        self.left.is_some_and(|at| at <= Instant::now())
    }

    /// Whether the gateway sends a progress token with the request.
    pub(super) fn has_token(&self) -> bool {
        !matches!(self.role, Role::TaskStatus(_))
    }

    /// Whether questions without a token may belong to the request.
    fn is_call(&self) -> bool {
        matches!(self.role, Role::Call | Role::TaskCall)
    }

    /// The task whose result the request waits for.
    fn result_of(&self) -> Option<&str> {
        match &self.role {
            Role::TaskResult(task) => Some(task),
            _ => None,
        }
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
pub(super) struct ServerRequests {
    call_queue: CallQueue,
    former: FormerCalls,
    limit: Duration,
    held: Mutex<Held>,
}

/// Ambiguous questions, and since when there are any.
#[derive(Debug, Default)]
struct Held {
    questions: Vec<Question>,
    since: Option<Instant>,
}

impl ServerRequests {
    pub(super) fn new(habits: Arc<Habits>, limits: UpstreamLimits) -> Self {
        Self {
            call_queue: CallQueue::new(habits, limits.requests),
            former: FormerCalls::default(),
            limit: Duration::from_millis(limits.call_timeout_ms),
            held: Mutex::default(),
        }
    }

    /// Waits until a request may start. Requests that cause no questions give `None`.
    pub(super) async fn enter(&self, outgoing: &Outgoing<'_>) -> Result<Option<Asker>, Error> {
        let Outgoing::Asked { subject, request, .. } = outgoing else { return Ok(None) };
        let (tool, role) = match request.method {
            Method::CallTool if request.begins_task() => (*subject, Role::TaskCall),
            Method::CallTool => (*subject, Role::Call),
            Method::GetPrompt | Method::ReadResource | Method::Complete => {
                (request.method.as_str(), Role::Call)
            }
            Method::TaskResult => (request.method.as_str(), Role::TaskResult((*subject).into())),
            Method::GetTask | Method::CancelTask => {
                (request.method.as_str(), Role::TaskStatus((*subject).into()))
            }
            _ => return Ok(None),
        };
        let limit = request.timeout.unwrap_or(self.limit);
        let mut asker = Asker {
            tool: tool.into(),
            caller: Caller::from_request(request),
            role,
            has_asked: false,
            slot: None,
            patience: limit.max(self.limit).max(MIN_CANCELLED_PERIOD),
            left: None,
        };
        if asker.is_call() {
            // Less than the time limit of the request, so that its caller reads this reason first.
            let within = limit / 10 * 9;
            asker.slot = self.call_queue.enter(&asker.tool, (request.quota_key, within)).await?;
            if asker.slot.is_some() && self.call_queue.habits().asks(&asker.tool) {
                // Else the gateway would have to reject its questions.
                self.former.settled(&asker.caller).await;
            }
        }
        Ok(Some(asker))
    }

    /// Records that the child has answered a request, with this result.
    pub(super) fn answered(&self, asker: Option<Asker>, result: Option<&RawValue>) {
        let Some(asker) = asker else { return };
        match asker.role {
            Role::Call | Role::TaskCall => {
                if asker.role == Role::TaskCall
                    && let Some(task) = result.and_then(started_task)
                {
                    self.former.task_started(task, asker.caller.clone());
                }
                // A call that waited for its answers has no late questions.
                if !asker.has_asked {
                    self.call_queue.habits().asked_nothing(&asker.tool);
                    self.former.ended(asker.caller);
                }
            }
            Role::TaskResult(task) => self.former.task_ended(&task),
            Role::TaskStatus(task) if result.is_some_and(is_final) => self.former.task_ended(&task),
            Role::TaskStatus(_) => {}
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
    /// No caller, for this reason: it may belong to a cancelled or former request.
    Doubtful(&'static str),
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
            return self.refuse(&question, "the request of this question has ended");
        }
        if let Some(task) = question.params.as_deref().and_then(related_task) {
            self.questions().former.task_is_named(&task);
            return match self.request_of_task(&task) {
                Some(id) => self.deliver(question, (id, true)),
                None => self.refuse(&question, "no client waits for the result of the task"),
            };
        }
        match self.addressee() {
            Addressee::Request(id) => self.deliver(question, (id, false)),
            Addressee::None => self.refuse(&question, "no request is running"),
            Addressee::Doubtful(why) => self.refuse_doubtful(&question, why),
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
        if held.questions.len() >= MAX_HELD {
            drop(held);
            return self.refuse(&question, "too many ambiguous questions");
        }
        held.questions.push(question);
        let is_first = held.since.is_none();
        held.since.get_or_insert_with(Instant::now);
        questions.call_queue.set_ambiguous(true);
        drop(held);
        if is_first {
            let connection = Arc::downgrade(self);
            tokio::spawn(async move {
                loop {
                    sleep(CHECK_INTERVAL).await;
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
                held.questions.len() >= among || since.elapsed() >= AMBIGUOUS_TIMEOUT
            }
            Addressee::Request(_) | Addressee::None | Addressee::Doubtful(_) => true,
        };
        if !is_over {
            return;
        }
        let Held { questions: waiting, .. } = std::mem::take(&mut *held);
        drop(held);
        for question in waiting {
            match addressee {
                Addressee::Request(id) => self.deliver(question, (id, false)),
                Addressee::None => self.refuse(&question, "the request of this question has ended"),
                Addressee::Doubtful(why) => self.refuse_doubtful(&question, why),
                Addressee::Ambiguous(among) => {
                    self.calls_may_have_asked();
                    tracing::warn!(
                        target.server = %self.server(), calls = among, method = %question.method,
                        "rejected a question that may belong to any of several calls; from now on \
                         these tools have one call at a time (`maxCallerChildren` gives each caller a \
                         process of its own)"
                    );
                    self.refuse(
                        &question,
                        "the question does not identify its call and several are running",
                    );
                }
            }
        }
        questions.call_queue.set_ambiguous(false);
    }

    /// The request that a question without a token belongs to.
    fn addressee(&self) -> Addressee {
        let mut pending = self.pending();
        let Some(pending) = pending.as_mut() else { return Addressee::None };
        pending.retain(|_, waiting| !waiting.asker.as_ref().is_some_and(Asker::is_forgotten));
        let askers =
            pending.iter().filter_map(|(id, waiting)| Some((*id, waiting.asker.as_ref()?)));
        let (left, running): (Vec<_>, Vec<_>) = askers
            .filter(|(_, asker)| asker.is_call())
            .partition(|(_, asker)| asker.left.is_some());
        let callers: Vec<_> = running.iter().map(|(_, asker)| &asker.caller).collect();
        let is_other = |asker: &Asker| callers.iter().any(|caller| !caller.is(&asker.caller));
        match running[..] {
            [] if left.is_empty() => return Addressee::None,
            [] => {
                return Addressee::Doubtful(
                    "the request of this question was cancelled or timed out",
                );
            }
            _ if left.iter().any(|(_, asker)| is_other(asker)) => {
                return Addressee::Doubtful(
                    "a call of another caller that was cancelled or timed out may have asked it",
                );
            }
            _ => {}
        }
        match (self.questions().former.doubt(&callers), &running[..]) {
            (Some(why), _) => Addressee::Doubtful(why),
            (None, [(id, _)]) => Addressee::Request(*id),
            (None, several) => Addressee::Ambiguous(several.len()),
        }
    }

    /// The running `tasks/result` of a task.
    fn request_of_task(&self, task: &str) -> Option<u64> {
        let pending = self.pending();
        let is_it = |asker: &Asker| asker.result_of() == Some(task);
        let mut found = pending.as_ref()?.iter().filter(|(_, waiting)| {
            waiting.channel.is_some() && waiting.asker.as_ref().is_some_and(is_it)
        });
        found.next().map(|(id, _)| *id)
    }

    fn is_pending(&self, id: u64) -> bool {
        self.pending().as_ref().is_some_and(|pending| pending.contains_key(&id))
    }

    /// Records that the tool of each call may have asked.
    fn calls_may_have_asked(&self) {
        self.of_calls(|tool| self.questions().call_queue.habits().has_asked(tool, false));
    }

    /// Does something with the tool of each call.
    fn of_calls(&self, act: impl Fn(&str)) {
        let pending = self.pending();
        let askers = pending.iter().flat_map(|pending| pending.values());
        let askers = askers.filter_map(|waiting| waiting.asker.as_ref());
        askers.filter(|asker| asker.is_call()).for_each(|asker| act(&asker.tool));
    }

    /// Rejects a question that may belong to a cancelled or former request.
    fn refuse_doubtful(&self, question: &Question, why: &str) {
        if &*question.method != "roots/list" {
            self.of_calls(|tool| self.questions().call_queue.habits().may_ask(tool));
        }
        tracing::warn!(
            target.server = %self.server(), method = %question.method, reason = why,
            "rejected a question without a progress token (`maxCallerChildren` gives each caller a \
             process of its own)"
        );
        self.refuse(question, why);
    }

    /// Delivers a question to the caller of a request, and returns the answer to the child.
    fn deliver(self: &Arc<Self>, question: Question, (id, has_token): (u64, bool)) {
        let channel = {
            let mut pending = self.pending();
            let waiting = pending.as_mut().and_then(|pending| pending.get_mut(&id));
            let Some(waiting) = waiting else {
                return self.refuse(&question, "the request of this question has ended");
            };
            if let Some(asker) =
                waiting.asker.as_mut().filter(|_| &*question.method != "roots/list")
            {
                asker.has_asked = true;
                self.questions().call_queue.habits().has_asked(&asker.tool, has_token);
            }
            waiting.channel.clone()
        };
        let Some(channel) = channel else {
            return self.refuse(&question, "the caller has disconnected");
        };
        // The data can be that of an earlier call, also of another tool.
        let channel = if has_token { channel } else { channel.for_unattributed() };
        let answered = channel.ask(&question.method, question.params.as_deref());
        let waits = (!has_token).then(|| self.questions().call_queue.unanswered());
        let connection = Arc::downgrade(self);
        tokio::spawn(async move {
            let answered = answered.await;
            drop(waits);
            let Some(connection) = connection.upgrade() else { return };
            match (answered, jsonrpc::Id::parse(&question.id)) {
                (Some(answered), Ok(id)) => connection.send(message::answered(id, &answered)),
                _ => connection.refuse(&question, "the request has ended"),
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
    use std::collections::HashMap;

    use bytes::Bytes;
    use futures_util::FutureExt as _;
    use gateway_protocol::mcp::{Era, Param, TASK_PARAM};
    use tokio::sync::mpsc;

    use super::*;
    use crate::{
        TargetId,
        client_channel::{
            ClientAnswer, ClientChannel, InterimMessage, InterimMessages, MessageFilter,
        },
        events::{EventBus, EventPublisher},
        request::{Request, RequestContext},
        stdio::{former_calls::GRACE, lines::Line},
    };

    const TOOL: &str = "t";

    fn connection() -> (Arc<Connection>, mpsc::Receiver<Bytes>) {
        let server: TargetId = "server/s@1.0.0".parse().unwrap();
        let publisher = EventPublisher::new(server.clone(), EventBus::new(), Arc::default());
        let habits = Arc::<Habits>::default();
        habits.asked_nothing(TOOL);
        Connection::new(server, UpstreamLimits::default(), (Arc::new(publisher), habits))
    }

    /// Sends a question, with this token if there is one.
    fn ask(connection: &Arc<Connection>, token: Option<&str>) {
        let meta = token.map(|token| serde_json::json!({ "progressToken": token }));
        let question = serde_json::json!({ "jsonrpc": "2.0", "id": "q",
            "method": "elicitation/create", "params": { "message": "?", "_meta": meta } });
        assert!(connection.receive(&Line::Whole(question.to_string().as_bytes())));
    }

    fn is_asked(meanwhile: &mut InterimMessages) -> bool {
        matches!(meanwhile.try_recv(), Some(InterimMessage::Question(_)))
    }

    /// Whether the child got an error since the last check.
    fn is_rejected(written: &mut mpsc::Receiver<Bytes>) -> bool {
        let lines: Vec<_> = std::iter::from_fn(|| written.try_recv().ok()).collect();
        lines.iter().any(|line| String::from_utf8_lossy(line).contains(r#""code":-32601"#))
    }

    #[tokio::test]
    async fn question_reaches_the_call_of_its_token_only() {
        let (connection, mut written) = connection();
        let context = RequestContext::default();
        let (channel, mut meanwhile) = ClientChannel::open();
        let request =
            Request { channel: Some(&channel), ..Request::plain(Method::CallTool, &[], &context) };
        let outgoing = Outgoing::Asked { subject: TOOL, request, send_state: None };
        let mut call = Box::pin(connection.request_in(Era::Legacy, &outgoing));
        assert!(call.as_mut().now_or_never().is_none());
        ask(&connection, Some("gateway-7"));
        assert!(!is_asked(&mut meanwhile) && is_rejected(&mut written), "call 7 is not running");
        ask(&connection, Some("gateway-1"));
        assert!(is_asked(&mut meanwhile));
    }

    /// A caller with its own session.
    fn session(id: &str) -> RequestContext {
        RequestContext { session: Some(id.into()), ..RequestContext::default() }
    }

    /// A call, or another request about this subject.
    fn call<'a>(
        (method, subject, params): (Method, &'a str, &'a [Param]),
        (context, channel): (&'a RequestContext, &'a ClientChannel),
    ) -> Outgoing<'a> {
        let request = Request { channel: Some(channel), ..Request::plain(method, params, context) };
        Outgoing::Asked { subject, request, send_state: None }
    }

    /// A plain call.
    fn plain<'a>(context: &'a RequestContext, channel: &'a ClientChannel) -> Outgoing<'a> {
        call((Method::CallTool, TOOL, &[]), (context, channel))
    }

    fn answer(connection: &Arc<Connection>, id: u64, result: &str) {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        assert!(connection.receive(&Line::Whole(answer.as_bytes())));
    }

    /// Starts a request and leaves it running.
    macro_rules! start {
        ($connection:ident, $outgoing:ident) => {{
            let mut running = Box::pin($connection.request_in(Era::Legacy, &$outgoing));
            assert!(running.as_mut().now_or_never().is_none());
            running
        }};
    }

    #[tokio::test]
    async fn ambiguous_question_waits_until_one_call_remains() {
        let (connection, mut written) = connection();
        let alice = session("alice");
        let [(first, mut told_first), (second, mut told_second)] =
            [ClientChannel::open(), ClientChannel::open()];
        let (of_first, of_second) = (plain(&alice, &first), plain(&alice, &second));
        let _calls = [start!(connection, of_first), start!(connection, of_second)];
        ask(&connection, None);
        assert!(!is_asked(&mut told_first) && !is_asked(&mut told_second));
        answer(&connection, 1, "{}");
        assert!(!is_asked(&mut told_first) && is_asked(&mut told_second));
        assert!(!is_rejected(&mut written));
    }

    #[tokio::test]
    async fn ambiguous_question_of_two_callers_is_rejected() {
        let (connection, mut written) = connection();
        let (alice, bob) = (session("alice"), session("bob"));
        let [(first, _told_first), (second, mut told_second)] =
            [ClientChannel::open(), ClientChannel::open()];
        let (of_first, of_second) = (plain(&alice, &first), plain(&bob, &second));
        let _calls = [start!(connection, of_first), start!(connection, of_second)];
        ask(&connection, None);
        assert!(!is_rejected(&mut written));
        // The call of Alice may have asked without waiting for the answer.
        answer(&connection, 1, "{}");
        assert!(!is_asked(&mut told_second) && is_rejected(&mut written));
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_call_is_doubted_until_it_is_answered() {
        let (connection, mut written) = connection();
        let (alice, bob) = (session("alice"), session("bob"));
        let (channel, mut told) = ClientChannel::open();
        let (of_alice, of_bob) = (plain(&alice, &channel), plain(&bob, &channel));
        for is_answered in [true, false] {
            drop(start!(connection, of_alice));
            tokio::time::advance(GRACE * 2).await;
            let running = start!(connection, of_bob);
            ask(&connection, None);
            assert!(!is_asked(&mut told) && is_rejected(&mut written));
            if is_answered {
                answer(&connection, 1, "{}");
                ask(&connection, None);
                assert!(
                    !is_asked(&mut told) && is_rejected(&mut written),
                    "the call ended just now"
                );
                tokio::time::advance(GRACE).await;
            } else {
                tokio::time::advance(Duration::from_millis(
                    UpstreamLimits::default().call_timeout_ms,
                ))
                .await;
            }
            ask(&connection, None);
            assert!(is_asked(&mut told) && !is_rejected(&mut written));
            answer(&connection, if is_answered { 2 } else { 4 }, "{}");
            drop(running);
        }
        // A server that never answers cancelled requests does not fill the table.
        drop(start!(connection, of_alice));
        tokio::time::advance(Duration::from_mins(10)).await;
        drop(start!(connection, of_alice));
        assert_eq!(connection.pending().as_ref().map(HashMap::len), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn late_question_of_an_ended_call_reaches_no_other() {
        let (connection, mut written) = connection();
        let (alice, bob) = (session("alice"), session("bob"));
        let (channel, mut told) = ClientChannel::open();
        let (of_alice, of_bob) = (plain(&alice, &channel), plain(&bob, &channel));
        let _alice = start!(connection, of_alice);
        answer(&connection, 1, "{}");
        let _bob = start!(connection, of_bob);
        ask(&connection, None);
        assert!(!is_asked(&mut told) && is_rejected(&mut written));
        tokio::time::advance(GRACE).await;
        ask(&connection, None);
        assert!(is_asked(&mut told) && !is_rejected(&mut written));
        // A call that has asked does not disturb the next caller.
        answer(&connection, 2, "{}");
        let _alice = start!(connection, of_alice);
        ask(&connection, None);
        assert!(is_asked(&mut told) && !is_rejected(&mut written));
    }

    #[tokio::test(start_paused = true)]
    async fn question_during_the_task_of_another_is_rejected() {
        let (connection, mut written) = connection();
        let (alice, bob) = (session("alice"), session("bob"));
        let (channel, mut told) = ClientChannel::open();
        let task = RawValue::from_string("{}".to_owned()).unwrap();
        let params = [Param { name: TASK_PARAM.into(), value: task }];
        let of_alice = call((Method::CallTool, TOOL, &params), (&alice, &channel));
        let of_bob = plain(&bob, &channel);
        let _alice = start!(connection, of_alice);
        answer(&connection, 1, r#"{"task":{"taskId":"7","status":"working"}}"#);
        tokio::time::advance(GRACE * 2).await;
        let _bob = start!(connection, of_bob);
        ask(&connection, None);
        assert!(!is_asked(&mut told) && is_rejected(&mut written));
        for (id, method, result) in [
            (3, Method::GetTask, r#"{"taskId":"7","status":"working"}"#),
            (4, Method::CancelTask, r#"{"taskId":"7","status":"cancelled"}"#),
        ] {
            let about = call((method, "7", &[]), (&alice, &channel));
            let _about = start!(connection, about);
            answer(&connection, id, result);
            tokio::time::advance(GRACE).await;
            ask(&connection, None);
            assert_eq!(is_asked(&mut told), method == Method::CancelTask);
        }
    }

    #[tokio::test]
    async fn question_is_rejected_if_its_request_ended_meanwhile() {
        let (connection, mut written) = connection();
        let question =
            Question { id: r#""q""#.into(), method: "sampling/createMessage".into(), params: None };
        connection.deliver(question, (1, false));
        assert!(is_rejected(&mut written));
    }

    /// Rejects questions that name no request.
    #[derive(Debug)]
    struct Attributed {
        only: bool,
    }

    impl MessageFilter for Attributed {
        fn notification(&self, _: &str, params: &RawValue) -> Option<Box<RawValue>> {
            Some(params.to_owned())
        }

        fn question(&self, params: &RawValue) -> Result<Box<RawValue>, RpcError> {
            let rejected = RpcError { code: -1, message: "no".to_owned(), data: None };
            if self.only { Err(rejected) } else { Ok(params.to_owned()) }
        }

        fn answer(&self, answer: ClientAnswer) -> ClientAnswer {
            answer
        }

        fn unattributed(self: Arc<Self>) -> Arc<dyn MessageFilter> {
            Arc::new(Self { only: true })
        }
    }

    #[tokio::test]
    async fn question_without_token_passes_stricter_filter() {
        let (connection, _written) = connection();
        let context = RequestContext::default();
        let (channel, mut told) = ClientChannel::open();
        let channel = channel.filtered(Arc::new(Attributed { only: false }));
        let outgoing = plain(&context, &channel);
        let _call = start!(connection, outgoing);
        ask(&connection, None);
        assert!(!is_asked(&mut told));
        ask(&connection, Some("gateway-1"));
        assert!(is_asked(&mut told));
    }

    #[tokio::test]
    async fn log_message_after_an_inspected_call_reaches_no_other() {
        let (connection, _written) = connection();
        let context = RequestContext::default();
        let message = serde_json::json!({ "jsonrpc": "2.0", "method": "notifications/message",
            "params": { "level": "info", "data": "late" } });
        for (is_inspected, id) in [(false, 1), (true, 3)] {
            let request =
                Request { is_inspected, ..Request::plain(Method::CallTool, &[], &context) };
            let first = Outgoing::Asked { subject: TOOL, request, send_state: None };
            let mut first = Box::pin(connection.request_in(Era::Modern, &first));
            assert!(first.as_mut().now_or_never().is_none());
            answer(&connection, id, "{}");
            assert!(first.await.is_ok());
            let (channel, mut meanwhile) = ClientChannel::open();
            let second = plain(&context, &channel);
            let mut second = Box::pin(connection.request_in(Era::Modern, &second));
            assert!(second.as_mut().now_or_never().is_none());
            assert!(connection.receive(&Line::Whole(message.to_string().as_bytes())));
            assert_eq!(meanwhile.try_recv().is_some(), !is_inspected);
            answer(&connection, id + 1, "{}");
            assert!(second.await.is_ok());
        }
    }

    #[tokio::test]
    async fn question_of_a_cancelled_call_reaches_no_other() {
        let (connection, _written) = connection();
        let context = RequestContext::default();
        let (channel, mut meanwhile) = ClientChannel::open();
        let request =
            Request { channel: Some(&channel), ..Request::plain(Method::CallTool, &[], &context) };
        let outgoing = Outgoing::Asked { subject: TOOL, request, send_state: None };
        let mut cancelled = Box::pin(connection.request_in(Era::Legacy, &outgoing));
        let mut running = Box::pin(connection.request_in(Era::Legacy, &outgoing));
        assert!(cancelled.as_mut().now_or_never().is_none());
        assert!(running.as_mut().now_or_never().is_none());
        drop(cancelled);
        ask(&connection, None);
        assert!(!is_asked(&mut meanwhile), "the child may not have noticed the cancellation");
    }
}
