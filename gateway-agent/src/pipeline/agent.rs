//! Operations of A2A: their requests, answers and events have the internal form of the crate `a2a`.
//!
//! A message is called like a tool, and an operation about a task needs no further price or rate. A
//! caller that disconnects cancels nothing.

mod ids;
mod message;
mod price;
mod push;
mod route;
mod tail;

use std::{
    future::{pending, poll_fn},
    mem,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
};

use a2a::{
    Failure, Operation, Request, TaskState,
    hidden::{Hidden, REPLACEMENT},
    model::{Event, Message},
    skill::DataPart,
    stream::StreamEvent,
    task::limit_history,
};
use gateway_policy::{BufferReservation, Permit, ValidationMode};
use gateway_protocol::content;
use gateway_upstream::{AgentEvent, AgentRequest, PollOnWake, StreamedEvent};
use registry_core::Key;
use serde_json::{Map, Value, value::to_raw_value};
use tokio::{
    sync::{
        mpsc::{self, error::TryRecvError},
        watch,
    },
    time::{Instant, sleep_until},
};

pub(crate) use self::push::{ComparedTask, PushAddress};
pub(super) use self::{
    ids::AgentTask,
    message::data_of_answer,
    route::{find_route, find_subscription},
};
use self::{
    ids::{AnswerIds, OpenedRequest, TakenIds},
    message::PolicyRequest,
    price::Progress,
    tail::{Released, StreamInput, Tail, TextChecks, put_texts},
};
use super::{
    AgentCall, Error, Output, PushRole, Target,
    admit::{ContinuedIds, Governed, OperationData, SentAdmission},
    arguments::Arguments,
    inspect::CallInspection,
    moment::Moment,
    prepare::without_messages,
    route::{AgentRoute, authorize_route},
    send::Sending,
    validate,
};
use crate::{audit::CallRecord, inspection::Inspection, view::ServedTool};

/// The number of events that wait for the caller. The agent waits while an event does.
const WAITING_EVENTS: usize = 1;
/// A longer event waits alone, in bytes. Several of them could exceed the memory quota of a caller that
/// does not read, which would end the stream.
const SHORT_EVENT_BYTES: usize = 64 << 10;

impl<'a> Sending<'a> {
    /// Sends an operation to an agent and finishes its answers.
    pub(super) async fn agent(
        &self,
        route: AgentRoute,
        permit: Permit,
        record: &mut CallRecord,
    ) -> Result<Output, Error> {
        let skill: Arc<str> = route.skill().into();
        let AgentRoute { resolved, agent, task, request } = route;
        let OpenedRequest { mut request, ids } = self.opened((&agent, &*skill), request)?;
        let served = &resolved.served;
        let operation = request.operation;
        let viewed = if operation.sends_message() {
            // An agent without a target gets nothing, also no rates and prices.
            if let Some(server) = served.missing_target() {
                let missing = server.clone();
                return Err(gateway_upstream::Error::NotConfigured { server: missing }.into());
            }
            self.prepare_message(served, &mut request, task.is_none(), record).await?
        } else {
            self.viewed(&mut request)
        };
        let continues = ContinuedIds {
            task: task.as_ref().map(|task| &*task.id),
            context: request.message().and_then(Message::context_id),
            references: request.params.get("message").and_then(|sent| sent.get("referenceTaskIds")),
        };
        let admission = if self.moment.snapshot.governance.is_some() {
            Box::pin(self.admitted(&viewed, continues, record)).await?
        } else {
            None
        };
        drop(viewed);
        let address = self.gateway.upstreams().http_url(&agent);
        let hidden = Hidden::new(address.as_slice(), REPLACEMENT);
        let exchange = Exchange {
            sending: *self,
            served,
            agent: &agent,
            skill: &skill,
            operation,
            history_length: request.history_length(),
            ids: ids.of_answers(&agent, &skill),
            hidden: &hidden,
            is_approved: admission.as_ref().is_some_and(SentAdmission::is_approved),
        };
        let mut progress = Progress::of(operation, admission.as_ref());
        let result = Box::pin(exchange.run(permit, request, &mut progress, record)).await;
        progress.settle(&exchange, admission, result.as_ref().err(), record);
        result.map(Output::Agent)
    }

    fn agent_call(&self) -> Result<&'a AgentCall, Error> {
        match &self.call.target {
            Target::Agent(agent_call) => Ok(agent_call),
            _ => Err(Error::UnknownInput),
        }
    }

    /// The request as policies see it. Without policies, nothing is read.
    fn viewed(&self, request: &mut Request) -> PolicyRequest {
        let governance = self.moment.snapshot.governance.as_ref();
        governance.map(|_| PolicyRequest::of(request)).unwrap_or_default()
    }

    /// Checks the placeholders of a request, evaluates the policies, and starts sending.
    async fn admitted(
        &self,
        PolicyRequest { arguments, rest }: &PolicyRequest,
        continues: ContinuedIds<'_>,
        record: &mut CallRecord,
    ) -> Result<Option<SentAdmission<'a>>, Error> {
        self.inspecting().check_placeholders(rest.as_deref()).await?;
        let mut arguments = arguments.as_deref().map(|raw| Arguments::new(Some(raw)));
        let arguments = match &mut arguments {
            Some(Ok(arguments)) => Some(arguments),
            _ => None,
        };
        let extensions = Some(&self.agent_call()?.extensions);
        let rest = rest.as_deref();
        let data = OperationData { arguments, rest, extensions, continues, continued: None };
        self.start(data, record).await
    }

    /// The request as the agent receives it, except for the restored placeholders.
    fn opened(
        &self,
        (agent, skill): (&Key, &str),
        mut request: Request,
    ) -> Result<OpenedRequest, Error> {
        let Self { gateway, call, .. } = *self;
        let agent_call = self.agent_call()?;
        // The tenant of the caller's request selected the agent.
        request.set_tenant(None);
        let mut opened = OpenedRequest::open(gateway, &call.caller.claim, &agent.name, request)?;
        if let PushRole::Register(endpoint) = &agent_call.push {
            push::register(gateway.sealer(), (endpoint, agent, skill), &mut opened.request)?;
        }
        Ok(opened)
    }

    /// Restores placeholders in a message, validates its data, and returns it as policies see it.
    /// The schema describes the first message of a task. An answer to a question of the agent is
    /// validated only for policies, which rely on the types of arguments.
    async fn prepare_message(
        &self,
        served: &Arc<ServedTool>,
        request: &mut Request,
        is_first: bool,
        record: &mut CallRecord,
    ) -> Result<PolicyRequest, Error> {
        let Self { gateway, call, moment, governed, inspection } = *self;
        let Some(message) = request.params.get_mut("message") else {
            return Err(Failure::invalid_params("/message", "a message is required").into());
        };
        let mut is_restored = false;
        if moment.snapshot.governance.is_some() {
            // JSON values always serialize.
            let text = to_raw_value(&*message).ok();
            let restored = inspection.restored(self.inspecting(), served, text.as_deref()).await?;
            if let Some(restored) = restored {
                *message = serde_json::from_str(restored.get()).unwrap_or_default();
                is_restored = true;
            }
        }
        let reads_arguments = governed.is_some_and(Governed::reads_arguments);
        let mode = match (reads_arguments, is_first) {
            (true, _) => ValidationMode::Error,
            (false, true) => served.checks().input,
            (false, false) => ValidationMode::Ignore,
        };
        let data = message::data_for(served, request);
        let validated =
            validate::message(gateway, served, (&data, &call.context, mode), record).await;
        validated.map_err(|error| if is_restored { without_messages(error) } else { error })?;
        drop(data);
        let viewed = self.viewed(request);
        if reads_arguments {
            let Some(arguments) = &viewed.arguments else {
                let problem = "a policy reads the arguments of this skill: send one data part \
                               with an object, or only text";
                return Err(Failure::invalid_params("/message/parts", problem).into());
            };
            // Policies parse them.
            let reserved = call.context.buffer(content::tree_bytes(arguments.get()));
            reserved.map_err(gateway_upstream::Error::from)?;
        }
        Ok(viewed)
    }
}

/// The authorization of a running stream with a newer catalog.
struct Renewed {
    moment: Moment,
    governed: Option<Governed>,
    inspection: CallInspection,
}

/// Waits for a change of a value. Without a sender, there is none.
async fn changed<T>(mut value: watch::Receiver<T>) -> watch::Receiver<T> {
    if value.changed().await.is_err() {
        pending::<()>().await;
    }
    value
}

/// The next event of a sender that the same task polls before. So it needs no waker, which would poll
/// the whole task once more for each event. `None`: the sender is dropped.
pub(crate) async fn sent_event(
    events: &mut mpsc::Receiver<StreamedEvent>,
) -> Option<StreamedEvent> {
    let receive = |_: &mut Context<'_>| match events.try_recv() {
        Err(TryRecvError::Empty) => Poll::Pending,
        event => Poll::Ready(event.ok()),
    };
    poll_fn(receive).await
}

/// Resolves when the receiver is dropped.
async fn dropped(events: Option<&mpsc::Sender<StreamedEvent>>) {
    match events {
        Some(events) => events.closed().await,
        None => pending().await,
    }
}

/// The places of an event among those that wait for the caller.
fn places(event: &StreamedEvent, events: &mpsc::Sender<StreamedEvent>) -> usize {
    let bytes = match &event.event {
        StreamEvent::Whole(event) | StreamEvent::Template(event) => content::value_bytes(event),
        StreamEvent::Repeat(repeat) => repeat.text().len(),
    };
    let is_short = bytes <= SHORT_EVENT_BYTES;
    if is_short { 1 } else { events.max_capacity() }
}

/// Resolves at a time.
async fn reached(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// One operation that is sent to an agent.
#[derive(Clone, Copy)]
struct Exchange<'a> {
    sending: Sending<'a>,
    served: &'a ServedTool,
    /// The agent that receives the operation.
    agent: &'a Key,
    skill: &'a str,
    operation: Operation,
    /// Maximum messages of a history for the caller.
    history_length: Option<usize>,
    ids: AnswerIds<'a>,
    /// The address of the agent.
    hidden: &'a Hidden,
    /// Whether people have approved the message, who do not see `baggage`.
    is_approved: bool,
}

impl<'a> Exchange<'a> {
    /// Sends the request. Returns the finished answer, or null after the last event of a stream.
    async fn run(
        &self,
        permit: Permit,
        mut request: Request,
        progress: &mut Progress,
        record: &mut CallRecord,
    ) -> Result<Value, Error> {
        let Sending { gateway, call, moment, .. } = self.sending;
        let agent_call = self.sending.agent_call()?;
        if let PushRole::Event(event) = &agent_call.push {
            progress.observe(self.operation, event);
            return self.finish(event.clone(), call.context.buffered.as_deref(), record).await;
        }
        let mut trace = record.onward(&call.context.trace);
        if self.is_approved {
            trace.baggage = None;
        }
        let sent = AgentRequest {
            request: &mut request,
            extensions: &agent_call.extensions,
            context: &call.context,
            timeout: Some(gateway.settings().call_timeout(self.served.key())),
            trace: &trace,
            quota_key: &moment.principal,
            events: None,
            late: agent_call.late.as_deref(),
        };
        let answer = if self.operation.is_streaming() {
            let events = agent_call.events.as_ref();
            let streamed = self.stream((permit, sent), events, progress, record);
            Box::pin(streamed).await.map(|()| Value::Null)
        } else {
            let answer = gateway.upstreams().send_to_agent(permit, sent).await;
            answer.map_err(|error| self.translated(error, &request))
        };
        record.end_upstream();
        let answer = answer?;
        if self.operation.is_push_config() {
            // The agent's configuration is that of the gateway, which has its own for the caller.
            return Ok(Value::Object(Map::new()));
        }
        if answer.is_null() {
            return Ok(answer);
        }
        progress.observe(self.operation, &answer);
        self.finish(answer, call.context.buffered.as_deref(), record).await
    }

    /// Forwards the events of a stream. It ends if its receiver is dropped, which does not cancel the
    /// task, or if the current policies deny the caller a subscription.
    async fn stream(
        &self,
        (permit, request): (Permit, AgentRequest<'_>),
        events: Option<&mpsc::Sender<StreamedEvent>>,
        progress: &mut Progress,
        record: &mut CallRecord,
    ) -> Result<(), Error> {
        let Sending { gateway, moment, .. } = self.sending;
        let (mut catalog, _) = gateway.views().subscribe();
        if catalog.borrow_and_update().revision() != moment.snapshot.catalog.revision() {
            catalog.mark_changed();
        }
        let mut catalog_change = pin!(PollOnWake::new(changed(catalog)));
        let mut left = pin!(PollOnWake::new(dropped(events)));
        let (sender, mut receiver) = mpsc::channel(WAITING_EVENTS);
        let streamed =
            AgentRequest { request: &mut *request.request, events: Some(&sender), ..request };
        let sending = gateway.upstreams().send_to_agent(permit, streamed);
        let mut sent = Box::pin(PollOnWake::new(sending));
        let mut ended: Option<Result<_, gateway_upstream::Error>> = None;
        let (mut renewed, mut tail, mut is_last) = (None, Tail::default(), false);
        while !is_last {
            let input = if let Some(outcome) = &ended {
                // The last event can still wait.
                match receiver.try_recv() {
                    // The text that waits is incomplete. The task has all of it.
                    Err(_) if outcome.is_err() => break,
                    event => event.map_or(StreamInput::End, StreamInput::Event),
                }
            } else {
                tokio::select! {
                    biased;
                    // First, so that the next event has the current policies.
                    catalog = &mut catalog_change => {
                        catalog_change.set(PollOnWake::new(changed(catalog)));
                        renewed = Some(Box::new(self.renewed(record)?));
                        continue;
                    }
                    () = &mut left => return Ok(()),
                    () = reached(tail.late_at()) => StreamInput::Timeout,
                    outcome = &mut sent => {
                        ended = Some(outcome);
                        continue;
                    }
                    Some(event) = sent_event(&mut receiver) => StreamInput::Event(event),
                }
            };
            is_last = matches!(input, StreamInput::End);
            let current = renewed.as_deref().map_or(*self, |renewed| self.with(renewed));
            let start = Instant::now();
            let finished = current.finish_next(&mut tail, (input, start), progress, record).await?;
            let Some(events) = events else { continue };
            for event in finished {
                let count = places(&event, events);
                let free = events.try_reserve_many(count).ok();
                if let Some(place) = free.and_then(|mut free| free.next()) {
                    place.send(event);
                    continue;
                }
                let mut reserved = Box::pin(events.reserve_many(count));
                let place = loop {
                    tokio::select! {
                        biased;
                        outcome = &mut reserved => match outcome {
                            Ok(mut free) => break free.next(),
                            Err(_) => return Ok(()),
                        },
                        // The time limit also applies while the caller does not read.
                        outcome = &mut sent, if ended.is_none() => {
                            ended = Some(outcome);
                        }
                    }
                };
                if let Some(place) = place {
                    place.send(event);
                }
            }
            // The next text of the agent can wait for the inspection, or for a caller that does not read.
            if tail.is_waiting() {
                tail.pause(start.elapsed());
            }
        }
        drop(sent);
        // The ids of all events are known now.
        let ended = ended.map_or(Ok(()), |outcome| outcome.map(drop));
        ended.map_err(|error| self.translated(error, request.request))
    }

    /// Adds an input to the events that wait. Returns the finished events to send.
    async fn finish_next(
        &self,
        tail: &mut Tail,
        (input, now): (StreamInput<StreamedEvent>, Instant),
        progress: &mut Progress,
        record: &mut CallRecord,
    ) -> Result<Vec<StreamedEvent>, Error> {
        let input = match input {
            StreamInput::Event(event) if self.passes(tail, &event) => return Ok(vec![event]),
            input => input,
        };
        let can_repeat = match &input {
            StreamInput::Event(AgentEvent { event: StreamEvent::Whole(_), .. }) => false,
            _ => self.takes_repeats(),
        };
        let input = input.into_values().map_err(gateway_upstream::Error::from)?;
        if let StreamInput::Event(AgentEvent { event, .. }) = &input {
            progress.observe(self.operation, event);
        }
        let finished = if self.is_checked() {
            let checked = self.finish_input(mem::take(tail), (input, now), record);
            let (next, finished) = Box::pin(checked).await?;
            *tail = next;
            finished
        } else {
            self.translate_input(tail, (input, now))
        };
        let form = if can_repeat && tail.has_passed() {
            StreamEvent::Template
        } else {
            StreamEvent::Whole
        };
        let finished = finished.into_iter().map(|AgentEvent { event, buffered }| {
            let event = form(event);
            AgentEvent { event, buffered }
        });
        Ok(finished.collect())
    }

    /// Whether an event repeats the event that was sent before, and nothing in it changes or waits. Its
    /// text is then added to the tail.
    fn passes(&self, tail: &mut Tail, event: &StreamedEvent) -> bool {
        let StreamEvent::Repeat(repeat) = &event.event else { return false };
        self.takes_repeats() && tail.passes_repeat(repeat.text(), self.hidden)
    }

    /// Whether events can be sent as repetitions, which have no tree to check.
    fn takes_repeats(&self) -> bool {
        self.sending.agent_call().is_ok_and(|call| call.takes_repeats) && !self.is_checked()
    }

    /// Adds an input to the events that wait, without checks. Returns those to send.
    fn translate_input(
        &self,
        tail: &mut Tail,
        (input, now): (StreamInput, Instant),
    ) -> Vec<AgentEvent> {
        let checks = TextChecks { hidden: self.hidden, inspection: None };
        let released = tail.add(input, now, checks).events.into_iter().map(|waiting| {
            let (AgentEvent { mut event, buffered }, texts) = waiting.into_parts();
            let ids = self.without_address(&mut event);
            self.ids.put_back(ids, self.operation, &mut event);
            put_texts(texts, &mut event);
            AgentEvent { event, buffered }
        });
        released.collect()
    }

    /// Adds an input to the events that wait, and checks those to send.
    async fn finish_input(
        &self,
        mut tail: Tail,
        (input, now): (StreamInput, Instant),
        record: &mut CallRecord,
    ) -> Result<(Tail, Vec<AgentEvent>), Error> {
        let bytes = match &input {
            StreamInput::Event(AgentEvent { event, .. }) => content::value_bytes(event),
            StreamInput::Timeout | StreamInput::End => 0,
        };
        let (bytes, hidden) = (bytes + tail.bytes(), self.hidden.clone());
        let add = move |inspection: Option<&Inspection>| {
            let checks = TextChecks { hidden: &hidden, inspection };
            let Released { events, found } = tail.add(input, now, checks);
            ((tail, events), found)
        };
        let Sending { inspection, .. } = self.sending;
        let checked = inspection.check_stream(self.sending.inspecting(), bytes, add, record);
        let (tail, released) = Box::pin(checked).await?;
        let mut finished = Vec::with_capacity(released.len());
        for waiting in released {
            let (AgentEvent { event, buffered }, texts) = waiting.into_parts();
            let mut event = self.finish(event, buffered.as_deref(), record).await?;
            put_texts(texts, &mut event);
            finished.push(AgentEvent { event, buffered });
        }
        Ok((tail, finished))
    }

    /// Authorizes the stream again, like a subscription to its task.
    fn renewed(&self, record: &mut CallRecord) -> Result<Renewed, Error> {
        let Sending { gateway, call, .. } = self.sending;
        let agent_call = self.sending.agent_call()?;
        let moment = Moment::now(gateway, call);
        let route = moment.subscription(gateway, agent_call, (self.agent, self.skill))?;
        let governed = Governed::find(&moment, call, &route, record.agent());
        authorize_route(gateway.policy(), &moment.freshness, route).map(drop)?;
        let mut audit = Vec::new();
        if let Some(governed) = &governed
            && let Err(finding) = governed.authorize_call(call, &moment, &Map::new(), &mut audit)
        {
            moment.record_in(gateway, record);
            return Err(governed.revoked(finding, &audit, &moment, record));
        }
        let inspection =
            CallInspection::of(gateway, call, &moment, governed.as_ref(), None, record.agent());
        Ok(Renewed { moment, governed, inspection })
    }

    fn with<'b>(&self, renewed: &'b Renewed) -> Exchange<'b>
    where
        'a: 'b,
    {
        let Renewed { moment, governed, inspection } = renewed;
        let sending = Sending { moment, governed: governed.as_ref(), inspection, ..self.sending };
        Exchange { sending, ..*self }
    }

    /// Limits the history in an answer or event, hides the agent's address in it, validates and
    /// inspects it, and translates its ids. `buffered`: the memory of the answer, for a changed one.
    async fn finish(
        &self,
        mut answer: Value,
        buffered: Option<&BufferReservation>,
        record: &mut CallRecord,
    ) -> Result<Value, Error> {
        let ids = self.without_address(&mut answer);
        if self.is_checked() {
            answer = Box::pin(self.checked(answer, buffered, record)).await?;
        }
        self.ids.put_back(ids, self.operation, &mut answer);
        Ok(answer)
    }

    /// Limits the history in an answer or event, and hides the agent's address in it. Returns its
    /// ids, which are opaque, so that nothing replaces a part of them.
    fn without_address(&self, answer: &mut Value) -> TakenIds {
        limit_history(self.operation, answer, self.history_length);
        let ids = TakenIds::of_answer(self.operation, answer);
        self.hidden.replace_in(answer);
        ids
    }

    /// Whether answers are validated or inspected.
    fn is_checked(&self) -> bool {
        let Self { served, sending, .. } = self;
        let has_schema =
            served.checks().output != ValidationMode::Ignore && served.output().is_some();
        has_schema || sending.inspection.has_results()
    }

    /// Validates and inspects an answer or event without its ids.
    async fn checked(
        &self,
        mut answer: Value,
        buffered: Option<&BufferReservation>,
        record: &mut CallRecord,
    ) -> Result<Value, Error> {
        let Sending { gateway, call, inspection, .. } = self.sending;
        let is_validated = self.served.checks().output != ValidationMode::Ignore;
        if is_validated && !has_failed(self.operation, &answer) {
            let data: Vec<DataPart<'_>> = data_of_answer(&answer);
            validate::answer(gateway, self.served, (&data, &call.context), record).await?;
        }
        if inspection.has_results() {
            let inspecting = self.sending.inspecting();
            let checked =
                inspection.check_answer(inspecting, self.served, answer, buffered, record);
            answer = checked.await?;
            answer = Box::pin(inspection.check_texts(inspecting, answer, record)).await?;
        }
        Ok(answer)
    }

    /// The error of a request with the caller's ids and without the agent's address.
    fn translated(&self, error: gateway_upstream::Error, sent: &Request) -> Error {
        match error {
            gateway_upstream::Error::Agent(failure) => {
                let mut failure = self.ids.translate_failure(*failure, sent);
                self.hidden.replace_in_failure(&mut failure);
                gateway_upstream::Error::from(failure).into()
            }
            error => error.into(),
        }
    }
}

/// Whether an answer reports that its task has no result. Artifacts of it need not conform.
fn has_failed(operation: Operation, answer: &Value) -> bool {
    let state = match Event::of(answer) {
        Some(Event::Task(task)) => task.state(),
        Some(Event::Status { state, .. }) => state,
        None if matches!(operation, Operation::GetTask | Operation::CancelTask) => {
            let task = a2a::model::Task::of(answer);
            task.map_or(TaskState::Unspecified, a2a::model::Task::state)
        }
        _ => return false,
    };
    matches!(state, TaskState::Failed | TaskState::Canceled | TaskState::Rejected)
}
