//! The operations of callers.

use std::time::{Duration, Instant};

use a2a::{
    Operation, Request,
    model::{Event, SKILL_ID},
};
use gateway_protocol::{mcp::HOPS, trace_context};
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use super::{
    AgentLink, EventSink, RequestMeta,
    check::check_answer,
    exchange::{Outbound, timed_out},
    pending::{POLL_TIMEOUT, PollDelay, is_final},
};
use crate::{error::Error, request::AgentRequest, send_state::SendState};

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
        let started = Instant::now();
        let within = if sink.is_some() { MAX_STREAM_TIME } else { limit };
        let AgentRequest { context, trace, extensions, .. } = request;
        let meta = RequestMeta {
            subject: self.transport.subject_of(context)?,
            trace: trace_context::headers(trace).collect(),
            extensions: extensions.clone(),
            buffered: context.buffered.clone(),
            deadline: Some(started + within),
        };
        let request = permitted(request.request, subject, context.hops);
        let send_state = SendState::default();
        let outbound = Outbound { request: &request, meta: &meta, send_state: &send_state, sink };
        let answer = timeout(within, Box::pin(self.call_with_retry(outbound))).await;
        let answer = answer.unwrap_or_else(|_| Err(timed_out(&send_state, within)))?;
        check_answer(request.operation, &answer)?;
        if request.operation != Operation::SendMessage || request.returns_immediately() {
            return Ok(answer);
        }
        let left = limit.saturating_sub(started.elapsed());
        Box::pin(self.ended(answer, &request, &meta, left)).await
    }

    /// Polls the task of an agent that does not wait for its end, as the caller requested. Returns the
    /// last known task if the time is over or its state is unknown.
    async fn ended(
        &self,
        mut answer: Value,
        sent: &Request,
        meta: &RequestMeta,
        left: Duration,
    ) -> Result<Value, Error> {
        let until = Instant::now() + left;
        let mut delay = PollDelay::default();
        while let Some(Event::Task(task)) = Event::of(&answer)
            && !task.state().is_terminal()
            && !task.state().is_interrupted()
            && let Some(id) = task.id()
        {
            let poll = poll(id, sent);
            let left = until.saturating_duration_since(Instant::now());
            let wait = delay.next();
            if left <= wait {
                break;
            }
            sleep(wait).await;
            let send_state = SendState::default();
            let outbound = Outbound { request: &poll, meta, send_state: &send_state, sink: None };
            match timeout(POLL_TIMEOUT.min(left), Box::pin(self.call(outbound))).await {
                Ok(Ok(task)) => answer = json!({ "task": task }),
                Ok(Err(Error::Agent(failure))) if is_final(failure.kind) => break,
                Ok(Err(_)) | Err(_) => {}
            }
        }
        Ok(answer)
    }
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

/// The request for the agent: it concerns what its permit names. The number of hops lets other
/// gateways limit loops.
pub(super) fn permitted(request: &Request, subject: &str, hops: Option<u32>) -> Request {
    let mut request = request.clone();
    if !request.operation.sends_message() {
        request.set_task_id(subject);
        return request;
    }
    // A2A has no field for the skill. An agent may read it from the metadata of the request, too.
    if let Some(Value::Object(metadata)) = request.params.get_mut("metadata") {
        metadata.remove(SKILL_ID);
    }
    if let Some(message) = request.params.get_mut("message") {
        set_metadata(message, SKILL_ID, subject.into());
    }
    if let Some(hops) = hops {
        let mut params = Value::Object(std::mem::take(&mut request.params));
        set_metadata(&mut params, HOPS, hops.saturating_add(1).into());
        if let Value::Object(members) = params {
            request.params = members;
        }
    }
    request
}

fn set_metadata(of: &mut Value, name: &str, value: Value) {
    let Some(members) = of.as_object_mut() else { return };
    let metadata = members.entry("metadata").or_insert_with(|| json!({}));
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata[name] = value;
}
