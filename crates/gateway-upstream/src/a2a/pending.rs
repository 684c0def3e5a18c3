//! The response to the message of a step. It is read even if the step is abandoned, so that the task
//! can be canceled.

use std::{sync::Arc, time::Duration};

use a2a::{
    ErrorKind, Operation, Request,
    tool::{SendResponse, Task},
};
use gateway_protocol::jsonrpc::ObjectWriter;
use retry_backoff::jittered;
use serde_json::{
    Map,
    value::{RawValue, to_raw_value},
};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{AgentLink, RequestMeta, exchange::Outbound, step::read_response};
use crate::{
    client_channel::ClientChannel,
    error::{Error, ProtocolViolation},
    send_state::SendState,
};

/// The delay before the first poll of a task; each following delay is 1.5 times as long.
const FIRST_POLL_DELAY: Duration = Duration::from_millis(50);
const MAX_POLL_DELAY: Duration = Duration::from_secs(2);
/// Time limit of one poll.
pub(super) const POLL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for a response that only serves to learn the task id.
const TASK_ID_TIMEOUT: Duration = Duration::from_secs(30);
/// That limit when the gateway stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The delays between the polls of a task.
#[derive(Debug)]
pub(super) struct PollDelay(Duration);

impl Default for PollDelay {
    fn default() -> Self {
        Self(FIRST_POLL_DELAY)
    }
}

impl PollDelay {
    pub(super) fn next(&mut self) -> Duration {
        let delay = self.0;
        self.0 = MAX_POLL_DELAY.min(delay * 3 / 2);
        jittered(delay)
    }
}

/// The status messages of a task as progress notifications.
#[derive(Debug, Default)]
struct Progress {
    last: String,
    count: u32,
}

impl Progress {
    /// Reports a message that differs from the last one.
    fn report(&mut self, channel: &ClientChannel, words: String) {
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

/// The response to a message. Dropping it before the end of its task cancels the task.
pub(super) struct PendingResponse {
    link: Arc<AgentLink>,
    meta: RequestMeta,
    /// The task id of the first response, if it is a task.
    id: Option<String>,
    response: SendResponse,
}

impl AgentLink {
    /// Sends a message and waits for the response. If the step stops waiting, a detached task takes
    /// over; a message that was not sent by then is never sent.
    pub(super) async fn deliver(
        self: &Arc<Self>,
        message: Request,
        meta: RequestMeta,
        send_state: SendState,
    ) -> Result<PendingResponse, Error> {
        let (mut sender, receiver) = oneshot::channel();
        let link = Arc::clone(self);
        self.transport.client.spawn(async move {
            let mut answer = std::pin::pin!(link.answer(&message, meta, &send_state));
            let answer = tokio::select! {
                answer = &mut answer => Some(answer),
                () = sender.closed() => {
                    if send_state.cancel_if_unsent() { None } else { link.read_abandoned(answer).await }
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

    /// Reads the response of an abandoned message, within the limits.
    async fn read_abandoned(
        &self,
        answer: impl Future<Output = Result<PendingResponse, Error>>,
    ) -> Option<Result<PendingResponse, Error>> {
        let _place = self.read_abandoned.try_acquire().ok()?;
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
        message: &Request,
        meta: RequestMeta,
        send_state: &SendState,
    ) -> Result<PendingResponse, Error> {
        let outbound = Outbound { request: message, meta: &meta, send_state, sink: None };
        let response = read_response(&self.call(outbound).await?)?;
        let id = match &response {
            SendResponse::Message(_) => None,
            SendResponse::Task(task) => Some(task.id.clone()),
        };
        Ok(PendingResponse { link: Arc::clone(self), meta, id, response })
    }
}

impl PendingResponse {
    /// Waits until the task has ended or needs input.
    /// Reports changes of its status message as progress.
    pub(super) async fn ended(
        &mut self,
        channel: Option<&ClientChannel>,
    ) -> Result<&SendResponse, Error> {
        let mut delay = PollDelay::default();
        let mut progress = Progress::default();
        while self.is_running() {
            if let (Some(channel), SendResponse::Task(task)) = (channel, &self.response) {
                progress.report(channel, task.words());
            }
            sleep(delay.next()).await;
            if let Some(task) = self.poll().await? {
                self.response = SendResponse::Task(task);
            }
        }
        Ok(&self.response)
    }

    fn is_running(&self) -> bool {
        let SendResponse::Task(task) = &self.response else { return false };
        matches!(task.state(), a2a::TaskState::Submitted | a2a::TaskState::Working)
    }

    /// The state of the task. `None`: the poll failed and the task may still be running.
    async fn poll(&self) -> Result<Option<Task>, Error> {
        let Some(id) = self.id.as_deref() else { return Ok(None) };
        let request = about(Operation::GetTask, id);
        let send_state = SendState::default();
        let outbound =
            Outbound { request: &request, meta: &self.meta, send_state: &send_state, sink: None };
        match timeout(POLL_TIMEOUT, Box::pin(self.link.call(outbound))).await {
            Ok(Ok(task)) => {
                let task = to_raw_value(&task).ok().and_then(|task| Task::read(&task));
                let malformed = || lost(Some(&ProtocolViolation::Shape("GetTask").into()), None);
                task.map(Some).ok_or_else(malformed)
            }
            Ok(Err(Error::Agent(failure))) if is_final(failure.kind) => {
                Err(lost(None, Some(failure.message)))
            }
            Ok(Err(Error::Agent(_))) => Ok(None),
            Ok(Err(error)) if !may_pass(&error) => Err(lost(Some(&error), None)),
            Ok(Err(_)) | Err(_) => Ok(None),
        }
    }

    /// The running task, which is then no longer canceled with this response.
    pub(super) fn release(&mut self) -> Option<&Task> {
        if !self.is_running() {
            return None;
        }
        self.id = None;
        if let SendResponse::Task(task) = &self.response { Some(task) } else { None }
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
        let SendResponse::Task(task) = &self.response else { return };
        if task.state().is_terminal() {
            return;
        }
        if let Some(id) = &self.id {
            self.link.cancel(id, &self.meta);
        }
    }
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
    error.is_about_reach() || matches!(error, Error::Refused { status: 429 })
}

/// The error of an accepted message with an unknown outcome.
fn lost(error: Option<&Error>, said: Option<String>) -> Error {
    let error = error.map(|error| format!(": {error}")).unwrap_or_default();
    Error::OpenTask { why: format!("the outcome of the agent's task is unknown{error}"), said }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn tasks_are_polled_and_canceled_by_id() {
        let params = |operation| Value::from(about(operation, "t\"1").params);
        assert_eq!(params(Operation::GetTask), json!({ "id": "t\"1", "historyLength": 0 }));
        assert_eq!(params(Operation::CancelTask), json!({ "id": "t\"1" }));
    }
}
