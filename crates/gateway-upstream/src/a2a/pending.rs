//! The response to a message. It is read even if the caller has disconnected, so that the task can
//! be canceled.

use std::{sync::Arc, time::Duration};

use ::a2a::{
    ErrorKind, TaskState, Version,
    tool::{Call, Message, SendResponse, Task},
};
use gateway_protocol::{jsonrpc::code, mcp::RpcError};
use retry_backoff::jittered;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{AgentLink, RequestMeta, version_probe::is_version_error};
use crate::{
    error::{Error, ProtocolViolation},
    reply::Reply,
    send_state::SendState,
};

/// The delay before the first poll of a task; each following delay is 1.5 times as long.
const FIRST_POLL_DELAY: Duration = Duration::from_millis(50);
const MAX_POLL_DELAY: Duration = Duration::from_secs(2);
/// Time limit of one poll.
const POLL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for a response that only serves to learn the task id.
const TASK_ID_TIMEOUT: Duration = Duration::from_secs(30);
/// That limit when the gateway stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The response to a message.
pub(super) enum DeliveryResult {
    Message(Message),
    Task(RunningTask),
    Refused(RpcError),
}

/// A running task. Dropping it before its end cancels the task.
pub(super) struct RunningTask {
    link: Arc<AgentLink>,
    version: Version,
    meta: RequestMeta,
    /// The task id of the first response.
    id: String,
    task: Task,
}

impl AgentLink {
    /// Sends a message and waits for the response. If the caller stops waiting, a detached task
    /// takes over; a message that was not sent by then is never sent.
    pub(super) async fn deliver(
        self: &Arc<Self>,
        (version, call): (Version, Call),
        meta: &RequestMeta,
        send_state: &SendState,
    ) -> Result<DeliveryResult, Error> {
        let (mut sender, receiver) = oneshot::channel();
        let (link, meta, send_state) = (Arc::clone(self), meta.clone(), send_state.clone());
        self.transport.client.spawn(async move {
            let mut answer = std::pin::pin!(link.answer((version, call), meta, &send_state));
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
        answer: impl Future<Output = Result<DeliveryResult, Error>>,
    ) -> Option<Result<DeliveryResult, Error>> {
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

    async fn answer(
        self: &Arc<Self>,
        (version, call): (Version, Call),
        meta: RequestMeta,
        send_state: &SendState,
    ) -> Result<DeliveryResult, Error> {
        let (id, mut request) = self.written(version, &call, &meta.trace);
        request.body_mut().track(send_state);
        let sent = match self.exchange((id, request), &meta).await? {
            Reply::Result(sent) => sent,
            Reply::Error(error) => return Ok(DeliveryResult::Refused(error)),
        };
        Ok(match SendResponse::read(&sent).ok_or(ProtocolViolation::Shape("SendMessage"))? {
            SendResponse::Message(message) => DeliveryResult::Message(message),
            SendResponse::Task(task) => {
                let (link, id) = (Arc::clone(self), task.id.clone());
                DeliveryResult::Task(RunningTask { link, version, meta, id, task })
            }
        })
    }
}

impl RunningTask {
    /// Waits until the task has ended or needs input.
    pub(super) async fn ended(&mut self) -> Result<&Task, Error> {
        let mut wait = FIRST_POLL_DELAY;
        while matches!(self.task.state(), TaskState::Submitted | TaskState::Working) {
            sleep(jittered(wait)).await;
            wait = MAX_POLL_DELAY.min(wait * 3 / 2);
            if let Some(task) = self.look().await? {
                self.task = task;
            }
        }
        Ok(&self.task)
    }

    /// The state of the task. `None`: the poll failed and the task may still be running.
    async fn look(&self) -> Result<Option<Task>, Error> {
        let poll = Call::get_task(self.version, &self.id);
        let asked = self.link.post((self.version, poll), &self.meta);
        match timeout(POLL_TIMEOUT, asked).await {
            Ok(Ok(Reply::Result(told))) => match Task::read(&told) {
                Some(task) => Ok(Some(task)),
                None => Err(lost(Some(&ProtocolViolation::Shape("GetTask").into()), None)),
            },
            Ok(Ok(Reply::Error(error))) if is_final(&error) => Err(lost(None, Some(error.message))),
            Ok(Err(error)) if !may_pass(&error) => Err(lost(Some(&error), None)),
            Ok(_) | Err(_) => Ok(None),
        }
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        if !self.task.state().is_terminal() {
            let cancel = Call::cancel_task(self.version, &self.id);
            let (_, request) = self.link.written(self.version, &cancel, &self.meta.trace);
            self.link.transport.send_in_background(request, self.meta.subject.clone(), ());
        }
    }
}

/// Whether the error is permanent.
fn is_final(error: &RpcError) -> bool {
    is_version_error(error)
        || error.code == ErrorKind::TaskNotFound.code()
        || matches!(error.code, code::INVALID_PARAMS | code::INVALID_REQUEST)
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
