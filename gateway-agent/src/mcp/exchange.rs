//! A running request with its messages to the client. The response is JSON, unless messages precede
//! it; then it is an event stream.
//!
//! Without a session, dropping the response cancels the request, also upstream. With a session, the
//! request continues for a limited time, and its event stream can be resumed (`replay.rs`).

use std::{borrow::Cow, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use gateway_policy::{CallerIdentity, QuotaKey};
use gateway_protocol::{
    jsonrpc::{self, Id, Object, ObjectWriter},
    mcp::{Capabilities, LOG_LEVELS, Method, RpcError},
};
use gateway_upstream::{ClientRequest, InterimMessage, InterimMessages};
use http_body_util::BodyExt as _;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::{
    Endpoint,
    held_requests::{HeldRequest, Owner, PendingQuestion},
    inputs,
    rejection::Rejection,
    replay::Replay,
    session::Session,
    stream::of_reader,
    tasks,
};
use crate::{
    ingress::event_stream as events,
    mcp::render::{self, http::SizedResponse},
    pipeline::QUESTIONS,
    random::NoRandomness,
};

/// Time without a response after which a resumable event stream starts.
const QUIET: Duration = Duration::from_secs(1);

/// The running request. Its output renders the response.
pub(super) type PendingResult = Pin<Box<dyn Future<Output = RenderResponse> + Send>>;
pub(super) type RenderResponse = Box<dyn Render>;

/// The outcome of a request.
pub(super) trait Render: Send {
    /// Renders the response to the request with this id.
    fn render(self: Box<Self>, id: Id<'_>) -> SizedResponse;
}

impl<F: FnOnce(Id<'_>) -> SizedResponse + Send> Render for F {
    fn render(self: Box<Self>, id: Id<'_>) -> SizedResponse {
        self(id)
    }
}

/// A running request and its messages to the client.
pub(super) struct PendingCall {
    pub(super) running: PendingResult,
    pub(super) meanwhile: InterimMessages,
}

/// How messages and questions reach the client.
#[derive(Debug)]
pub(super) struct ResponseContext {
    /// Whether the client accepts messages before the response.
    pub(super) listens: bool,
    /// The session (before 2026-07-28).
    pub(super) session: Option<Arc<Session>>,
    /// Whether the client of the session accepts events with an id and without data (2025-11-25).
    pub(super) reads_empty_events: bool,
    /// The progress token: a JSON string or number.
    pub(super) progress: Option<Box<RawValue>>,
    /// The minimum log severity, as an index of [`LOG_LEVELS`].
    pub(super) log_level: Option<usize>,
    /// The client's capabilities.
    pub(super) capabilities: Capabilities,
    pub(super) claim: Arc<CallerIdentity>,
    pub(super) method: Method,
    /// The tool, prompt, resource or task.
    pub(super) subject: Arc<str>,
    /// The body of a request that can be held for input; otherwise empty.
    pub(super) body: Bytes,
    /// The quota key for a request without a connection, and for its events.
    pub(super) principal: QuotaKey,
    /// The task of the request: the server's id and the client's.
    pub(super) task: Option<(Box<str>, Box<str>)>,
}

impl ResponseContext {
    /// The identity of a held request. Other requests avoid the cost of parsing the body.
    pub(super) fn owner(&self) -> Owner {
        let params = inputs::digest(&self.body);
        let (claim, subject) = (self.claim.clone(), self.subject.clone());
        Owner { claim, method: self.method, subject, params }
    }
}

pub(super) struct Exchange<'a> {
    endpoint: Arc<Endpoint>,
    /// Borrowed from the request until the exchange outlives it.
    id: Cow<'a, str>,
    response_context: ResponseContext,
    pending: Option<PendingCall>,
    finished: Option<RenderResponse>,
    /// The last progress value; values must increase.
    progressed: f64,
    /// The ids of the questions to the client of a session.
    asked: Vec<u64>,
}

enum Step {
    Message(Bytes),
    SizedResponse(SizedResponse),
}

impl<'a> Exchange<'a> {
    pub(super) fn new(
        endpoint: &Arc<Endpoint>,
        id: Id<'a>,
        response_context: ResponseContext,
        pending: PendingCall,
    ) -> Self {
        Self {
            endpoint: endpoint.clone(),
            id: id.as_raw().into(),
            response_context,
            pending: Some(pending),
            finished: None,
            progressed: f64::NEG_INFINITY,
            asked: Vec::new(),
        }
    }

    /// The exchange without its request.
    fn into_owned(self) -> Exchange<'static> {
        let Self { endpoint, id, response_context, pending, finished, progressed, asked } = self;
        let id = Cow::Owned(id.into_owned());
        Exchange { endpoint, id, response_context, pending, finished, progressed, asked }
    }

    /// Waits for the response, or for the first message before it.
    pub(super) async fn respond(mut self) -> SizedResponse {
        if let Some(session) = self.response_context.session.clone() {
            // Boxed, to keep the future of each request small.
            return Box::pin(self.into_owned().respond_in_session(&session)).await;
        }
        match self.next().await {
            Step::SizedResponse(answer) => answer,
            Step::Message(first) => {
                let started = (Some(first), Some(self.into_owned()));
                let stream = stream::unfold(started, |(first, exchange)| async {
                    if let Some(first) = first {
                        return Some((events::event(None, &first), (None, exchange)));
                    }
                    let mut exchange = exchange?;
                    match exchange.next().await {
                        Step::Message(message) => {
                            Some((events::event(None, &message), (None, Some(exchange))))
                        }
                        Step::SizedResponse(answer) => {
                            Some((events::event(None, &content(answer).await), (None, None)))
                        }
                    }
                });
                SizedResponse::stream(events::respond(stream))
            }
        }
    }
}

impl Exchange<'static> {
    /// Like [`Exchange::respond`], but a dropped connection does not cancel the request.
    async fn respond_in_session(self, session: &Session) -> SizedResponse {
        let quiet = if self.response_context.reads_empty_events { QUIET } else { Duration::MAX };
        let mut connected = AttachedExchange(Some(self));
        let first = {
            let Some(exchange) = &mut connected.0 else { return render::http::cancelled() };
            timeout(quiet, exchange.next()).await
        };
        let Some(exchange) = connected.0.take() else { return render::http::cancelled() };
        let first = match first {
            Ok(Step::SizedResponse(answer)) => return answer,
            Ok(Step::Message(message)) => Some(message),
            Err(_) => None,
        };
        let Some(replay) = exchange.replay(session) else {
            return super::refuse(Id::parse(&exchange.id).ok(), &Rejection::NoRandomness);
        };
        let reader = replay.reader(0);
        exchange.run_apart(replay, first);
        SizedResponse::stream(of_reader(reader))
    }

    /// Runs the request in its own task, and keeps its events until they expire.
    fn run_apart(self, replay: Arc<Replay>, first: Option<Bytes>) {
        let replays = Arc::clone(&self.endpoint.state.replays);
        let (tasks, running) = (replays.tasks.clone(), replays.running.token());
        tasks.spawn(async move {
            tokio::select! {
                () = self.run(&replay, first) => {
                    replay.complete();
                    drop(running);
                    tokio::select! {
                        () = replay.abandoned() => {}
                        () = replays.stop.cancelled() => {}
                    }
                }
                () = replay.abandoned() => {}
                () = replays.stop.cancelled() => {}
            }
            replays.end(&replay);
            replay.complete();
        });
    }
}

impl Exchange<'_> {
    fn replay(&self, session: &Session) -> Option<Arc<Replay>> {
        let id = Id::parse(&self.id).ok()?;
        self.endpoint.state.replays.begin(session.id(), &self.response_context.principal, id).ok()
    }

    async fn run(mut self, replay: &Replay, first: Option<Bytes>) {
        // The id to resume from before the first message.
        if self.response_context.reads_empty_events {
            replay.push(Bytes::new(), false).await;
        }
        if let Some(first) = first {
            replay.push(first, false).await;
        }
        loop {
            match self.next().await {
                Step::Message(message) => replay.push(message, false).await,
                Step::SizedResponse(answer) => {
                    let message = content(answer).await;
                    if !message.is_empty() {
                        replay.push(message, true).await;
                    }
                    return;
                }
            }
        }
    }

    async fn next(&mut self) -> Step {
        loop {
            let Some(pending) = &mut self.pending else {
                return Step::SizedResponse(render::http::cancelled());
            };
            let said = if self.finished.is_none() {
                tokio::select! {
                    biased;
                    said = pending.meanwhile.recv() => said,
                    finished = &mut pending.running => {
                        self.finished = Some(finished);
                        continue;
                    }
                }
            } else if let Some(said) = pending.meanwhile.try_recv() {
                said
            } else if let Some(cancelled) = self.cancel_question() {
                return Step::Message(cancelled);
            } else {
                return Step::SizedResponse(self.answer());
            };
            let step = match said {
                InterimMessage::Notification { method, params } => {
                    self.notification(&method, params.as_deref()).map(Step::Message)
                }
                InterimMessage::Question(question) => self.question(question),
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    fn answer(&mut self) -> SizedResponse {
        self.pending = None;
        match (self.finished.take(), Id::parse(&self.id)) {
            (Some(finished), Ok(id)) => finished.render(id),
            _ => render::http::cancelled(),
        }
    }

    /// Adapts a notification to the client. `None`: the client does not receive it.
    fn notification(&mut self, method: &str, params: Option<&RawValue>) -> Option<Bytes> {
        if !self.response_context.listens {
            return None;
        }
        let members = Object::parse(params?).ok()?;
        let text = match method {
            "notifications/progress" => {
                let token = self.response_context.progress.as_deref()?;
                let progress: f64 = members.find("progress")?.get().parse().ok()?;
                if progress <= self.progressed {
                    return None;
                }
                self.progressed = progress;
                rewritten(&members, ("progressToken", token.get()))
            }
            "notifications/message" if self.wants(&members) => params?.get().to_owned(),
            "notifications/elicitation/complete" => params?.get().to_owned(),
            _ => return None,
        };
        let known = self.with_known_task(&text);
        Some(jsonrpc::notification(method, Some(known.as_deref().unwrap_or(&text))))
    }

    /// Replaces the server's task id in parameters by the client's.
    fn with_known_task(&self, params: &str) -> Option<String> {
        let task = self.response_context.task.as_ref().map(|(own, known)| (&**own, &**known));
        tasks::with_known_task(params, task)
    }

    /// Whether a log message meets the client's level. A session without `logging/setLevel`
    /// receives all messages.
    fn wants(&self, message: &Object<'_>) -> bool {
        let Some(wanted) = self.response_context.log_level else {
            return self.response_context.session.is_some();
        };
        let level = message.find("level").map(|raw| raw.get().trim_matches('"'));
        LOG_LEVELS.iter().position(|known| Some(*known) == level).is_some_and(|l| l >= wanted)
    }

    /// Forwards a question. With a session, it is a request to the client; otherwise the response
    /// asks for input (multi-round-trip request), and the upstream request is held.
    fn question(&mut self, question: ClientRequest) -> Option<Step> {
        let needed = QUESTIONS.iter().find(|(method, _)| **method == *question.method);
        if !needed.is_some_and(|(_, capability)| self.response_context.capabilities.has(capability))
        {
            refuse(question, "the client did not declare the capability for this request");
            return None;
        }
        if self.response_context.session.is_some() {
            return self.question_in_session(question).map(Step::Message);
        }
        let endpoint = &self.endpoint;
        let principal = endpoint.gateway.principal(&self.response_context.claim);
        let place = match endpoint.state.held.place(&principal) {
            Ok(place) => place,
            Err(why) => {
                // Refusing the question also ends the request.
                question.reject(why);
                return None;
            }
        };
        let ClientRequest { method, params, answer, .. } = question;
        let known = params.as_deref().and_then(|params| self.with_known_task(params.get()));
        let params = known.and_then(|known| RawValue::from_string(known).ok()).or(params);
        let question = PendingQuestion { method, params, answer };
        let pending = self.pending.take()?;
        let owner = self.response_context.owner();
        let id = Id::parse(&self.id).ok()?;
        Some(Step::SizedResponse(
            match self.endpoint.state.held.hold(HeldRequest { pending, owner, question, place }) {
                Ok(result) => render::result::raw(id, &result),
                // Dropping the request notifies the upstream.
                Err(NoRandomness) => super::refuse(Some(id), &Rejection::NoRandomness),
            },
        ))
    }

    /// If the session cannot queue the question, dropping it notifies the upstream.
    fn question_in_session(&mut self, question: ClientRequest) -> Option<Bytes> {
        let ClientRequest { method, params, answer, .. } = question;
        let number = self.response_context.session.as_ref()?.ask(answer)?;
        self.asked.push(number);
        let number = number.to_string();
        let params = params.as_deref().map_or("{}", RawValue::get);
        let known = self.with_known_task(params);
        let params = known.as_deref().unwrap_or(params);
        Some(jsonrpc::request(Id::parse(&number).ok()?, &method, params))
    }

    /// Withdraws an unanswered question of the ended request, and notifies the client.
    fn cancel_question(&mut self) -> Option<Bytes> {
        let session = self.response_context.session.as_ref()?;
        let number = std::iter::from_fn(|| self.asked.pop()).find(|one| session.withdraw(*one))?;
        let params = format!(r#"{{"requestId":{number},"reason":"the request has ended"}}"#);
        Some(jsonrpc::notification("notifications/cancelled", Some(&params)))
    }
}

/// A request of a session whose connection waits for the response. If the connection drops, the
/// request continues.
struct AttachedExchange(Option<Exchange<'static>>);

impl Drop for AttachedExchange {
    fn drop(&mut self) {
        let Some(exchange) = self.0.take() else { return };
        let Some(session) = exchange.response_context.session.clone() else { return };
        if let Some(replay) = exchange.replay(&session) {
            drop(replay.reader(0));
            exchange.run_apart(replay, None);
        }
    }
}

fn refuse(question: ClientRequest, why: &str) {
    let code = jsonrpc::code::METHOD_NOT_FOUND;
    let _ = question.answer.send(Err(RpcError { code, message: why.to_owned(), data: None }));
}

fn rewritten(members: &Object<'_>, (name, value): (&str, &str)) -> String {
    let mut object = ObjectWriter::with_capacity(128);
    for member in members.members() {
        object.member(&member.name, if member.name == name { value } else { member.value.get() });
    }
    object.finish_string()
}

/// The body of a response that is already in memory.
async fn content(answer: SizedResponse) -> Bytes {
    answer.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default()
}
