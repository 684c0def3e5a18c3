//! What comes of a message: it is read also when nobody waits for it any more, for the task that it begins
//! is then to be canceled.

use std::{sync::Arc, time::Duration};

use gateway_protocol::{jsonrpc::code, mcp::RpcError};
use retry_backoff::jittered;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{
    AgentLink, Manner,
    dialect::{self, Call, Dialect},
    look::is_about_dialect,
    task::{Message, Said, State, Task},
};
use crate::{
    departure::Departure,
    error::{Breach, Error},
    reply::Reply,
};

/// Before a task is asked for the first time; each wait is half as long again as the one before.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// How long an agent may take to say how a task stands.
const ONE_LOOK: Duration = Duration::from_secs(10);
/// How long an answer is waited for that only names the task to cancel.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same when the gateway stops.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// The answer to a message.
pub(super) enum Answer {
    Message(Message),
    Task(Pending),
    Refused(RpcError),
}

/// A task that an agent has begun. Dropped before it is over, it is canceled.
pub(super) struct Pending {
    link: Arc<AgentLink>,
    dialect: Dialect,
    manner: Manner,
    /// Whatever the agent calls it later.
    id: String,
    task: Task,
}

impl AgentLink {
    /// Sends a message and waits for its answer. Who does not wait that long leaves it to a task that does;
    /// what has not left by then never does.
    pub(super) async fn deliver(
        self: &Arc<Self>,
        (dialect, call): (Dialect, Call),
        manner: &Manner,
        departure: &Departure,
    ) -> Result<Answer, Error> {
        let (mut tell, told) = oneshot::channel();
        let (link, manner, departure) = (Arc::clone(self), manner.clone(), departure.clone());
        self.way.client.spawn(async move {
            let mut answer = std::pin::pin!(link.answer((dialect, call), manner, &departure));
            let answer = tokio::select! {
                answer = &mut answer => Some(answer),
                () = tell.closed() => {
                    if departure.call_off() { None } else { link.unheard(answer).await }
                }
            };
            if let Some(answer) = answer {
                // Where nobody hears it, it is dropped, and with it the task is canceled.
                let _ = tell.send(answer);
            }
        });
        // The task is only dropped with the runtime.
        told.await.unwrap_or_else(|_| Err(Breach::Closed.into()))
    }

    /// What nobody hears, as far as there is time and room for it.
    async fn unheard(
        &self,
        answer: impl Future<Output = Result<Answer, Error>>,
    ) -> Option<Result<Answer, Error>> {
        let _place = self.unheard.try_acquire().ok()?;
        let last = async {
            self.stop.cancelled().await;
            sleep(LAST_PATIENCE).await;
        };
        tokio::select! {
            answer = timeout(PATIENCE, answer) => answer.ok(),
            () = last => None,
        }
    }

    async fn answer(
        self: &Arc<Self>,
        (dialect, call): (Dialect, Call),
        manner: Manner,
        departure: &Departure,
    ) -> Result<Answer, Error> {
        let (id, mut request) = self.written(dialect, &call, &manner.trace);
        request.body_mut().departs(departure);
        let sent = match self.exchange((id, request), &manner).await? {
            Reply::Result(sent) => sent,
            Reply::Error(error) => return Ok(Answer::Refused(error)),
        };
        Ok(match Said::read(&sent).ok_or(Breach::Shape("SendMessage"))? {
            Said::Message(message) => Answer::Message(message),
            Said::Task(task) => {
                let (link, id) = (Arc::clone(self), task.id.clone());
                Answer::Task(Pending { link, dialect, manner, id, task })
            }
        })
    }
}

impl Pending {
    /// The task, once it goes on no more without somebody's help.
    pub(super) async fn ended(&mut self) -> Result<&Task, Error> {
        let mut wait = FIRST_WAIT;
        while self.task.state() == State::Working {
            sleep(jittered(wait)).await;
            wait = LONGEST_WAIT.min(wait * 3 / 2);
            if let Some(task) = self.look().await? {
                self.task = task;
            }
        }
        Ok(&self.task)
    }

    /// How it stands; `None`: that cannot be heard just now, while it goes on.
    async fn look(&self) -> Result<Option<Task>, Error> {
        let asked = self.link.post((self.dialect, self.dialect.get_task(&self.id)), &self.manner);
        match timeout(ONE_LOOK, asked).await {
            Ok(Ok(Reply::Result(told))) => match Task::read(&told) {
                Some(task) => Ok(Some(task)),
                None => Err(lost(Some(&Breach::Shape("GetTask").into()), None)),
            },
            Ok(Ok(Reply::Error(error))) if is_final(&error) => Err(lost(None, Some(error.message))),
            Ok(Err(error)) if !may_pass(&error) => Err(lost(Some(&error), None)),
            Ok(_) | Err(_) => Ok(None),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.task.state().is_over() {
            let cancel = self.dialect.cancel_task(&self.id);
            let (_, request) = self.link.written(self.dialect, &cancel, &self.manner.trace);
            self.link.way.send_in_background(request, self.manner.on_behalf.clone(), ());
        }
    }
}

/// Whether an agent that says so will not say anything else later.
fn is_final(error: &RpcError) -> bool {
    is_about_dialect(error)
        || matches!(
            error.code,
            dialect::TASK_NOT_FOUND | code::INVALID_PARAMS | code::INVALID_REQUEST
        )
}

/// Whether a look may be in vain once, and not the next time.
fn may_pass(error: &Error) -> bool {
    error.is_about_reach() || matches!(error, Error::Refused { status: 429 })
}

/// The message was taken; what came of it cannot be known.
fn lost(error: Option<&Error>, said: Option<String>) -> Error {
    let error = error.map(|error| format!(": {error}")).unwrap_or_default();
    Error::OpenTask { why: format!("the agent does not say what became of its task{error}"), said }
}
