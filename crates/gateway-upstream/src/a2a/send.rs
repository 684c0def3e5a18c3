//! The operations of callers.

use std::time::Duration;

use a2a::{
    ErrorKind, Failure, Operation, Request, Version,
    model::{self, SKILL_ID},
};
use gateway_protocol::{mcp::HOPS, trace_context};
use serde_json::{Map, Value, json};
use tokio::{
    sync::SetOnce,
    time::{Instant, timeout},
};

use super::{
    AgentLink, EventSink, RequestMeta,
    check::check_answer,
    exchange::{Outbound, timed_out},
    pending::{Poller, Progress, TASK_ID_TIMEOUT},
};
use crate::{
    error::{Error, Phase},
    request::AgentRequest,
    send_state::SendState,
};

/// Maximum time of a stream. Its caller can subscribe to the task again.
const MAX_STREAM_TIME: Duration = Duration::from_hours(1);

impl AgentLink {
    /// Sends an operation of a caller. `subject` is the skill or the agent's id of the task that the
    /// permit names.
    pub(crate) async fn send(
        &self,
        subject: &str,
        request: AgentRequest<'_>,
        limit: Duration,
        sink: Option<&EventSink<'_>>,
    ) -> Result<Value, Error> {
        let within = if sink.is_some() { MAX_STREAM_TIME } else { limit };
        let started = Instant::now();
        let until = started + limit;
        let AgentRequest { request, context, trace, extensions, late, .. } = request;
        let operation = request.operation;
        let polls = operation == Operation::SendMessage && !request.returns_immediately();
        let may_be_late = operation == Operation::SendMessage && request.task_id().is_none();
        let late = late.filter(|_| may_be_late);
        let extra = if late.is_some() { TASK_ID_TIMEOUT } else { Duration::ZERO };
        let meta = RequestMeta {
            subject: self.transport.subject_of(context)?,
            trace: trace_context::headers(trace).collect(),
            extensions: extensions.clone(),
            activated: context.activated.clone(),
            buffered: context.buffered.clone(),
            deadline: Some(started + within + extra),
        };
        restrict(request, subject, context.hops);
        // Set here, because a later change copies the request, which can be large.
        request.set_tenant(self.tenant.as_deref());
        let request = &*request;
        let send_state = SendState::default();
        let outbound = Outbound { request, meta: &meta, send_state: &send_state, sink };
        let poller = |id: &str, until| Poller {
            link: self,
            meta: &meta,
            request: poll(id, request),
            until: Some(until),
            progress: Progress::default(),
            answered: None,
        };
        let mut exchange = Box::pin(self.call_with_retry(outbound));
        let timely = timeout(within, &mut exchange).await;
        let Ok(answer) = timely else {
            if sink.is_some_and(EventSink::has_events) {
                let after_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
                return Err(Error::Timeout { phase: Phase::Stream, after_ms });
            }
            let error = timed_out(&send_state, within);
            if operation != Operation::SendMessage || !error.may_have_run() {
                return Err(error);
            }
            let answer = match (request.task_id(), late) {
                // The task is known, so its state is an answer.
                (Some(id), _) => {
                    drop(exchange);
                    let poller = poller(id, Instant::now() + limit);
                    Box::pin(poller.poll(meta.buffered.clone())).await.ok().map(Ok)
                }
                (None, Some(late)) => self.read_late(exchange, late, limit).await,
                (None, None) => None,
            };
            let answer = answer.unwrap_or(Err(error))?;
            check_answer(request, &answer)?;
            return Ok(answer);
        };
        if answer.as_ref().is_err_and(|error| self.may_mean_end(operation, sink, error)) {
            let poller = poller(subject, until);
            let state = Box::pin(poller.poll(meta.buffered.clone())).await;
            if state.is_ok_and(|state| has_ended(&state)) {
                let message = "the task has ended, so it has no more events";
                return Err(Failure::new(ErrorKind::UnsupportedOperation, message).into());
            }
        }
        let mut answer = answer?;
        check_answer(request, &answer)?;
        if let Some(id) = answer["task"]["id"].as_str().filter(|_| polls) {
            let poller = poller(id, until);
            // An agent that has no such task leaves the caller the last known state.
            let _ = Box::pin(poller.end(&mut answer)).await;
            check_answer(request, &answer)?;
        }
        Ok(answer)
    }

    /// Whether a failed subscription can mean that its task has ended. Version 0.3 has no error for it,
    /// and some of its agents break the stream.
    fn may_mean_end(
        &self,
        operation: Operation,
        sink: Option<&EventSink<'_>>,
        error: &Error,
    ) -> bool {
        let is_old = || self.known().is_some_and(|dialect| dialect.version == Version::V03);
        let is_possible = match error {
            Error::Agent(failure) => failure.kind != ErrorKind::TaskNotFound,
            Error::Protocol { .. } | Error::Ended { .. } => true,
            _ => false,
        };
        let has_events = sink.is_some_and(EventSink::has_events);
        operation == Operation::SubscribeToTask && is_possible && !has_events && is_old()
    }

    /// Reads the answer of an agent that ignores `returnImmediately`, so that the caller finds its
    /// task later. `late` ends the wait of the caller.
    async fn read_late(
        &self,
        answer: impl Future<Output = Result<Value, Error>>,
        late: &SetOnce<Duration>,
        limit: Duration,
    ) -> Option<Result<Value, Error>> {
        let _ = late.set(limit);
        self.read_abandoned(answer).await
    }
}

/// Whether the state of a poll is an end.
fn has_ended(answer: &Value) -> bool {
    model::Task::of(&answer["task"]).is_some_and(|task| task.state().is_terminal())
}

/// The poll of the task of a message, with as much history as its sender wants.
fn poll(id: &str, sent: &Request) -> Request {
    let mut params = Map::new();
    params.insert("id".to_owned(), id.into());
    let configuration = sent.params.get("configuration");
    if let Some(length) = configuration.and_then(|c| c.get("historyLength")) {
        params.insert("historyLength".to_owned(), length.clone());
    }
    Request::new(Operation::GetTask, params)
}

/// Limits a request to what its permit names. The answer does not wait for the end of a new task, whose
/// id would otherwise be unknown while it runs. A message that continues a task waits as its caller
/// wants, because the immediate answer can be the state before it. The number of hops lets other
/// gateways limit loops.
pub(super) fn restrict(request: &mut Request, subject: &str, hops: Option<u32>) {
    if !request.operation.sends_message() {
        request.set_task_id(subject);
        return;
    }
    if request.operation == Operation::SendMessage && request.task_id().is_none() {
        set(&mut request.params, "configuration", "returnImmediately", true.into());
    }
    // A2A has no field for the skill. An agent may read it from the metadata of the request, too.
    if let Some(Value::Object(metadata)) = request.params.get_mut("metadata") {
        metadata.remove(SKILL_ID);
    }
    if let Some(Value::Object(message)) = request.params.get_mut("message") {
        set(message, "metadata", SKILL_ID, subject.into());
    }
    if let Some(hops) = hops {
        set(&mut request.params, "metadata", HOPS, hops.saturating_add(1).into());
    }
}

/// Sets a member of an object in `of`.
fn set(of: &mut Map<String, Value>, object: &str, name: &str, value: Value) {
    let members = of.entry(object).or_insert_with(|| json!({}));
    if !members.is_object() {
        *members = json!({});
    }
    members[name] = value;
}
