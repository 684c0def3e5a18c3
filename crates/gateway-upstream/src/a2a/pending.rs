//! The tasks of messages: the polls until their end, and the response to the message of a step, which
//! is a stream if the agent has streams.
//!
//! The response of a step is read even if the step is abandoned, so that the task can be canceled.

use std::{sync::Arc, time::Duration};

use a2a::{
    ErrorKind, Failure, Operation, Request, TaskState,
    hidden::Hidden,
    model::{self, Event},
    tool::{SendResponse, Task},
};
use gateway_policy::BufferReservation;
use gateway_protocol::jsonrpc::ObjectWriter;
use retry_backoff::jittered;
use serde_json::{Map, Value, value::RawValue};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout},
};

use super::{
    AgentLink, EventSink, RequestMeta,
    assembly::apply,
    check::check_answer,
    exchange::{Outbound, timed_out},
    question::{next_message, question_id},
    step::read_response,
};
use crate::{
    client_channel::ClientChannel,
    error::{Error, ProtocolViolation},
    request::{AgentEvent, StreamedEvent},
    send_state::SendState,
};

/// The delay before the first poll of a task; each following delay is 1.5 times as long.
const FIRST_POLL_DELAY: Duration = Duration::from_millis(50);
const MAX_POLL_DELAY: Duration = Duration::from_secs(2);
/// Time limit of one poll.
const POLL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for a response that only serves to learn the task id.
pub(super) const TASK_ID_TIMEOUT: Duration = Duration::from_secs(30);
/// That limit when the gateway stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The pointer to the task in an answer.
const TASK: &str = "/task";

/// The delays between the polls of a task.
#[derive(Debug)]
struct PollDelay(Duration);

impl Default for PollDelay {
    fn default() -> Self {
        Self(FIRST_POLL_DELAY)
    }
}

impl PollDelay {
    fn next(&mut self) -> Duration {
        let delay = self.0;
        self.0 = MAX_POLL_DELAY.min(delay * 3 / 2);
        jittered(delay)
    }
}

/// The status messages of a task as progress notifications.
#[derive(Debug, Default)]
pub(super) struct Progress<'a> {
    channel: Option<&'a ClientChannel>,
    /// The agent's address, which the notifications do not contain.
    hidden: Option<&'a Hidden>,
    last: String,
    count: u32,
}

impl Progress<'_> {
    /// Reports the status message of a task, if it differs from the last one.
    fn report(&mut self, answer: &Value) {
        let (Some(channel), Some(Event::Task(task))) = (self.channel, Event::of(answer)) else {
            return;
        };
        let mut words = task.status_message().map(model::Message::text).unwrap_or_default();
        if let Some(hidden) = self.hidden {
            hidden.replace_in_text(&mut words);
        }
        if words.is_empty() || words == self.last {
            return;
        }
        self.count += 1;
        let mut params = ObjectWriter::with_capacity(words.len() + 64);
        // The surface replaces the token by the client's own.
        params.raw("progressToken", "0").raw("progress", &self.count.to_string());
        params.string("message", &words);
        let params = RawValue::from_string(params.finish_string()).ok();
        channel.try_notify("notifications/progress", params.as_deref());
        self.last = words;
    }
}

/// Polls the task of a message.
pub(super) struct Poller<'a> {
    pub(super) link: &'a AgentLink,
    pub(super) meta: &'a RequestMeta,
    /// The request for the task.
    pub(super) request: Request,
    /// The end of the polls. `None`: the future is dropped at the end.
    pub(super) until: Option<Instant>,
    pub(super) progress: Progress<'a>,
    /// The question that has an answer. A task that still has it is running.
    pub(super) answered: Option<&'a str>,
}

impl Poller<'_> {
    /// Replaces an answer by the states of its task until the task ends, needs its caller, or the
    /// time is over. Fails if further polls are useless; the answer then has the last known state.
    pub(super) async fn end(mut self, answer: &mut Value) -> Result<(), Error> {
        let mut delay = PollDelay::default();
        // Each state has memory of its own, which the next one releases.
        let mut held = None;
        let outcome = loop {
            if !(is_running(answer) || self.has_answered_question(answer)) {
                break Ok(());
            }
            self.progress.report(answer);
            let wait = delay.next();
            if self.left().is_some_and(|left| left <= wait) {
                break Ok(());
            }
            sleep(wait).await;
            let part = self.meta.buffered.as_ref().map(|buffered| buffered.part());
            match Box::pin(self.poll(part.clone())).await {
                Ok(state) => {
                    *answer = state;
                    held = part;
                }
                Err(error) if self.is_final(&error) => break Err(error),
                Err(_) => {}
            }
        };
        if let (Some(buffered), Some(held)) = (&self.meta.buffered, held) {
            buffered.absorb(&held);
        }
        outcome
    }

    /// Whether an answer is the state before the last message. Agents return it if they do not wait.
    fn has_answered_question(&self, answer: &Value) -> bool {
        let Some(Event::Task(task)) = Event::of(answer) else { return false };
        let is_asking = task.state() == TaskState::InputRequired;
        is_asking && self.answered.is_some_and(|answered| question_id(task) == Some(answered))
    }

    fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// The answer with the state of the task.
    pub(super) async fn poll(
        &self,
        buffered: Option<Arc<BufferReservation>>,
    ) -> Result<Value, Error> {
        let limit = self.left().map_or(POLL_TIMEOUT, |left| left.min(POLL_TIMEOUT));
        let deadline = Some(Instant::now() + limit);
        let meta = RequestMeta { buffered, deadline, ..self.meta.clone() };
        let (request, send_state) = (&self.request, SendState::default());
        let outbound = Outbound { request, meta: &meta, send_state: &send_state, sink: None };
        let answer = timeout(limit, self.link.call(outbound)).await;
        let task = answer.unwrap_or_else(|_| Err(timed_out(&send_state, limit)))?;
        let id = model::Task::of(&task).and_then(model::Task::id);
        if id.is_none() || !task["status"]["state"].is_string() {
            return Err(ProtocolViolation::Shape("GetTask").into());
        }
        if id != request.task_id() {
            return Err(Failure::invalid_answer("it is another task").into());
        }
        Ok(Value::Object(Map::from_iter([("task".to_owned(), task)])))
    }

    /// Whether further polls are useless. The caller of a message waits for its time limit, because
    /// memory can be released and agents can return.
    fn is_final(&self, error: &Error) -> bool {
        match error {
            Error::Agent(failure) => is_final(failure.kind),
            error => self.until.is_none() && !may_pass(error),
        }
    }
}

/// Whether an answer is a task that runs.
fn is_running(answer: &Value) -> bool {
    let Some(Event::Task(task)) = Event::of(answer) else { return false };
    matches!(task.state(), TaskState::Submitted | TaskState::Working)
}

/// The response to the message of a step. Dropping it before the end of its task cancels the task.
pub(super) struct PendingResponse {
    link: Arc<AgentLink>,
    meta: RequestMeta,
    /// The task id of the first response, if it is a task.
    id: Option<String>,
    /// The response in its internal form, or what the events so far make up.
    answer: Value,
    /// The further events of a stream.
    events: Option<mpsc::Receiver<StreamedEvent>>,
    /// The last question that has an answer.
    answered: Option<String>,
}

impl AgentLink {
    /// Sends a message and waits for the response, or for the first event if it `streams`. If the
    /// step stops waiting, a detached task takes over; a message that was not sent by then is never
    /// sent.
    pub(super) async fn deliver(
        self: &Arc<Self>,
        (message, streams): (Request, bool),
        meta: RequestMeta,
        send_state: SendState,
    ) -> Result<PendingResponse, Error> {
        let (mut sender, receiver) = oneshot::channel();
        let link = Arc::clone(self);
        self.transport.client.spawn(async move {
            let mut answer = std::pin::pin!(link.answer((&message, streams), meta, &send_state));
            let answer = tokio::select! {
                answer = &mut answer => Some(answer),
                () = sender.closed() => {
                    let is_sent = !send_state.cancel_if_unsent();
                    match link.read_abandoned.try_acquire() {
                        Ok(_place) if is_sent => link.read_abandoned(answer).await,
                        _ => None,
                    }
                }
            };
            if let Some(answer) = answer {
                // Without a receiver the response is dropped, which cancels its task.
                let _ = sender.send(answer);
            }
        });
        // The task is only dropped when the runtime shuts down.
        receiver.await.unwrap_or_else(|_| Err(ProtocolViolation::Closed.into()))
    }

    /// Reads the response to a message whose caller waits no longer, within the limits.
    pub(super) async fn read_abandoned<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        let last = async {
            self.stop.cancelled().await;
            sleep(SHUTDOWN_TIMEOUT).await;
        };
        tokio::select! {
            answer = timeout(TASK_ID_TIMEOUT, answer) => answer.ok(),
            () = last => None,
        }
    }

    /// Cancels a task without waiting.
    pub(super) fn cancel(&self, task: &str, meta: &RequestMeta) {
        let cancel = about(Operation::CancelTask, task);
        let Some(dialect) = self.known() else { return };
        if let Ok(written) = self.written(dialect, &cancel, meta) {
            self.transport.send_in_background(written.request, meta.subject.clone(), ());
        }
    }

    async fn answer(
        self: &Arc<Self>,
        (message, streams): (&Request, bool),
        meta: RequestMeta,
        send_state: &SendState,
    ) -> Result<PendingResponse, Error> {
        let first =
            if streams { self.first_event(message, &meta, send_state).await? } else { None };
        let (answer, events) = if let Some((answer, events)) = first {
            (answer, Some(events))
        } else {
            let outbound = Outbound { request: message, meta: &meta, send_state, sink: None };
            (self.call(outbound).await?, None)
        };
        let id = match read_response(&answer)? {
            SendResponse::Message(_) => None,
            SendResponse::Task(task) => Some(task.id),
        };
        let link = Arc::clone(self);
        Ok(PendingResponse { link, meta, id, answer, events, answered: None })
    }

    /// Sends a message as a stream and waits for the first event. The stream is read until the end of
    /// its receiver. `None`: the agent rejected the stream unprocessed.
    async fn first_event(
        self: &Arc<Self>,
        message: &Request,
        meta: &RequestMeta,
        send_state: &SendState,
    ) -> Result<Option<(Value, mpsc::Receiver<StreamedEvent>)>, Error> {
        let request = Request::new(Operation::SendStreamingMessage, message.params.clone());
        let (link, own, sent) = (Arc::clone(self), meta.clone(), send_state.clone());
        let limit = Duration::from_millis(self.transport.client.limits().call_timeout_ms);
        let (sender, mut events) = mpsc::channel(1);
        let (ended, outcome) = oneshot::channel();
        self.transport.client.spawn(async move {
            let sink = EventSink::new(&sender, None, limit, None);
            let (meta, sink) = (&own, Some(&sink));
            let outbound = Outbound { request: &request, meta, send_state: &sent, sink };
            tokio::select! {
                biased;
                outcome = Box::pin(link.call(outbound)) => drop(ended.send(outcome)),
                () = sender.closed() => {}
            }
        });
        if let Some(AgentEvent { event, buffered }) = events.recv().await {
            if let (Some(whole), Some(part)) = (&meta.buffered, &buffered) {
                whole.absorb(part);
            }
            let mut answer = Value::Null;
            apply(&mut answer, event.into_value()?);
            return Ok(Some((answer, events)));
        }
        match outcome.await {
            Ok(Err(Error::Agent(failure))) if has_no_streams(failure.kind) => {
                send_state.reset();
                Ok(None)
            }
            Ok(Err(error)) => Err(error),
            Ok(Ok(_)) | Err(_) => Err(ProtocolViolation::Closed.into()),
        }
    }
}

impl PendingResponse {
    /// Waits until the task has ended or needs input.
    /// Reports changes of its status message as progress.
    pub(super) async fn ended(
        &mut self,
        channel: Option<&ClientChannel>,
    ) -> Result<SendResponse, Error> {
        let link = Arc::clone(&self.link);
        let hidden = Some(&link.hidden);
        let mut progress = Progress { channel, hidden, ..Progress::default() };
        self.follow(&mut progress).await;
        if let Some(id) = &self.id {
            let request = about(Operation::GetTask, id);
            let (link, meta, answered) = (&self.link, &self.meta, self.answered.as_deref());
            let poller = Poller { link, meta, request, until: None, progress, answered };
            poller.end(&mut self.answer).await.map_err(lost)?;
        }
        self.link.hide_address(&mut self.answer, TASK);
        read_response(&self.answer)
    }

    /// Sends the answer to the question of the task to a skill.
    pub(super) async fn continue_with(
        &mut self,
        part: &Value,
        (skill, hops): (&str, Option<u32>),
    ) -> Result<(), Error> {
        let Some(task) = model::Task::of(&self.answer["task"]) else { return Ok(()) };
        self.answered = question_id(task).map(str::to_owned);
        let request = next_message(task, part, (skill, hops));
        let send_state = SendState::default();
        let (meta, sink) = (&self.meta, None);
        let outbound = Outbound { request: &request, meta, send_state: &send_state, sink };
        let answer = self.link.call(outbound).await.map_err(lost)?;
        check_answer(&request, &answer).map_err(|failure| lost(failure.into()))?;
        self.answer = answer;
        Ok(())
    }

    /// Applies the events of a stream. The polls continue after an interrupted stream. They also
    /// decide about a task that is too large, or has no memory.
    async fn follow(&mut self, progress: &mut Progress<'_>) {
        let Some(mut events) = self.events.take() else { return };
        let limit = self.link.transport.client.limits().response_bytes;
        // The memory of the artifacts, and that of the last status.
        let (mut held, mut status) = (Vec::new(), None);
        let mut bytes = 0;
        while is_running(&self.answer) {
            progress.report(&self.answer);
            let Some(AgentEvent { event, buffered }) = events.recv().await else { break };
            let Ok(event) = event.into_value() else { break };
            match Event::of(&event) {
                Some(Event::Status { .. }) => status = buffered,
                Some(Event::Artifact { .. }) => {
                    bytes += event.to_string().len();
                    held.extend(buffered);
                }
                _ => (held, status) = (Vec::from_iter(buffered), None),
            }
            if bytes > limit {
                break;
            }
            apply(&mut self.answer, event);
        }
        if is_running(&self.answer) {
            // The polls read them again.
            if let Some(task) = self.answer["task"].as_object_mut() {
                task.remove("artifacts");
            }
        } else if let Some(buffered) = &self.meta.buffered {
            held.iter().chain(&status).for_each(|part| buffered.absorb(part));
        }
    }

    /// The running task, which is then no longer canceled with this response.
    pub(super) fn release(&mut self) -> Option<Task> {
        if !is_running(&self.answer) {
            return None;
        }
        self.link.hide_address(&mut self.answer, TASK);
        let SendResponse::Task(task) = read_response(&self.answer).ok()? else { return None };
        self.id = None;
        Some(task)
    }
}

/// A request about a task, without its history.
pub(super) fn about(operation: Operation, id: &str) -> Request {
    let mut params = Map::from_iter([("id".to_owned(), id.into())]);
    if operation == Operation::GetTask {
        params.insert("historyLength".to_owned(), 0.into());
    }
    Request::new(operation, params)
}

impl Drop for PendingResponse {
    fn drop(&mut self) {
        let Some(Event::Task(task)) = Event::of(&self.answer) else { return };
        if task.state().is_terminal() {
            return;
        }
        if let Some(id) = &self.id {
            self.link.cancel(id, &self.meta);
        }
    }
}

/// Whether an agent rejects streams, although its card has them.
fn has_no_streams(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnsupportedOperation | ErrorKind::MethodNotFound)
}

/// Whether an error is permanent.
pub(super) fn is_final(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::TaskNotFound
            | ErrorKind::MethodNotFound
            | ErrorKind::VersionNotSupported
            | ErrorKind::UnsupportedOperation
            | ErrorKind::InvalidParams
            | ErrorKind::InvalidRequest
    )
}

/// Whether a failed poll may succeed later.
fn may_pass(error: &Error) -> bool {
    error.is_failure() || matches!(error, Error::Refused { status: 429 } | Error::QuotaExceeded(_))
}

/// The error of an accepted message with an unknown outcome.
fn lost(error: Error) -> Error {
    let (error, said) = match error {
        Error::Agent(failure) => (String::new(), Some(failure.message)),
        error => (format!(": {error}"), None),
    };
    Error::OpenTask { why: format!("the outcome of the agent's task is unknown{error}"), said }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tasks_are_polled_and_canceled_by_id() {
        let params = |operation| Value::from(about(operation, "t\"1").params);
        assert_eq!(params(Operation::GetTask), json!({ "id": "t\"1", "historyLength": 0 }));
        assert_eq!(params(Operation::CancelTask), json!({ "id": "t\"1" }));
    }
}
