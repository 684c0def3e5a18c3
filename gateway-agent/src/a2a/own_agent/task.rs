//! The tasks of the gateway's own agent.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use a2a::{ErrorKind, Failure, TaskState};
use gateway_policy::QuotaKey;
use registry_core::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::super::failure::Refusal;
use crate::{clock, pipeline::TaskOwner};

/// Maximum running tasks of one caller.
const MOST_RUNNING: usize = 100;
/// Maximum tasks of all callers. The oldest ended ones are dropped.
const MOST: usize = 1_000;
/// Maximum size of the results of all ended tasks, in bytes of JSON.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// A task: one call of a tool.
#[derive(Debug)]
pub(super) struct OwnTask {
    id: String,
    context: String,
    origin: TaskOrigin,
    status: watch::Sender<Arc<Status>>,
    cancel: CancellationToken,
}

/// The call that started a task.
#[derive(Debug)]
pub(super) struct TaskOrigin {
    /// `None`: the caller has no identity, so no request finds the task.
    pub(super) owner: Option<TaskOwner>,
    pub(super) payer: QuotaKey,
    /// The called tool.
    pub(super) tool: Box<str>,
}

/// The state of a task at a time.
#[derive(Debug, Clone)]
pub(super) struct Status {
    pub(super) state: TaskState,
    text: Option<String>,
    at: Timestamp,
    /// The parts of the artifact.
    parts: Vec<Value>,
    bytes: usize,
    /// Why the call was not made or failed. The operation that started it has this error.
    pub(super) refusal: Option<Box<Refusal>>,
}

/// Fails a task whose call was dropped, which happens when the gateway stops.
#[derive(Debug)]
pub(super) struct EndGuard<'a>(&'a OwnTask);

/// The tasks of all callers, in the order of their starts.
#[derive(Debug, Default)]
pub(in super::super) struct OwnTasks(Mutex<VecDeque<Arc<OwnTask>>>);

impl Status {
    fn new(state: TaskState, text: Option<String>, parts: Vec<Value>) -> Self {
        let bytes = parts.iter().map(|part| part.to_string().len()).sum();
        let text = text.filter(|text| !text.is_empty());
        Self { state, text, at: clock::timestamp(), parts, bytes, refusal: None }
    }

    pub(super) fn completed(parts: Vec<Value>) -> Self {
        Self::new(TaskState::Completed, None, parts)
    }

    pub(super) fn failed(text: String) -> Self {
        Self::new(TaskState::Failed, Some(text), Vec::new())
    }

    pub(super) fn canceled() -> Self {
        Self::new(TaskState::Canceled, None, Vec::new())
    }

    pub(super) fn refused(refusal: Refusal) -> Self {
        let failed = Self::failed(refusal.failure.message.clone());
        Self { refusal: Some(Box::new(refusal)), ..failed }
    }
}

impl OwnTask {
    pub(super) fn new(origin: TaskOrigin, context: String) -> Arc<Self> {
        let id = Uuid::new_v4().to_string();
        let working = Status::new(TaskState::Working, None, Vec::new());
        let (status, cancel) = (watch::Sender::new(Arc::new(working)), CancellationToken::new());
        Arc::new(Self { id, context, origin, status, cancel })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The called tool.
    pub(super) fn tool(&self) -> &str {
        &self.origin.tool
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Arc<Status>> {
        self.status.subscribe()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.status.borrow().state.is_terminal()
    }

    /// Ends the task, unless it has ended.
    pub(super) fn end(&self, status: Status) {
        self.status.send_if_modified(|now| {
            let is_running = !now.state.is_terminal();
            if is_running {
                *now = Arc::new(status);
            }
            is_running
        });
    }

    /// Shows progress.
    pub(super) fn report(&self, text: Option<String>) {
        if text.is_some() {
            let working = Status::new(TaskState::Working, text, Vec::new());
            self.status.send_replace(Arc::new(working));
        }
    }

    /// Fails the task when the guard is dropped, unless it has ended.
    pub(super) fn ends(&self) -> EndGuard<'_> {
        EndGuard(self)
    }

    pub(super) fn cancel(&self) -> Result<(), Failure> {
        if self.has_ended() {
            let message = "the task has ended and cannot be canceled";
            return Err(Failure::new(ErrorKind::TaskNotCancelable, message)
                .with_metadata("taskId", self.id.as_str()));
        }
        self.cancel.cancel();
        Ok(())
    }

    /// Resolves when the task is canceled.
    pub(super) async fn canceled(&self) {
        self.cancel.cancelled().await;
    }

    /// Waits for the end. The error is the one of the call.
    pub(super) async fn ended(&self) -> Result<(), Refusal> {
        let mut changes = self.subscribe();
        // The sender is a member of this task.
        let ended = changes.wait_for(|status| status.state.is_terminal()).await;
        let refusal = ended.ok().and_then(|status| status.refusal.clone());
        refusal.map_or(Ok(()), |refusal| Err(*refusal))
    }

    /// The task now.
    pub(super) fn now(&self) -> Value {
        let status = self.status.borrow().clone();
        self.shown(&status)
    }

    /// The task with a status.
    pub(super) fn shown(&self, status: &Status) -> Value {
        let mut task = json!({ "id": self.id, "contextId": self.context,
            "status": self.status_of(status) });
        if !status.parts.is_empty() {
            task["artifacts"] = json!([artifact(status)]);
        }
        task
    }

    /// The events of a new status.
    pub(super) fn updates(&self, status: &Status) -> Vec<Value> {
        let ids = json!({ "taskId": self.id, "contextId": self.context });
        let mut events = Vec::new();
        if !status.parts.is_empty() {
            let mut update = ids.clone();
            update["artifact"] = artifact(status);
            update["lastChunk"] = true.into();
            events.push(json!({ "artifactUpdate": update }));
        }
        let mut update = ids;
        update["status"] = self.status_of(status);
        events.push(json!({ "statusUpdate": update }));
        events
    }

    fn status_of(&self, status: &Status) -> Value {
        let mut shown = json!({ "state": status.state.name(), "timestamp": status.at });
        if let Some(text) = &status.text {
            shown["message"] = json!({ "messageId": format!("{}-status", self.id),
                "role": "ROLE_AGENT", "parts": [{ "text": text }], "taskId": self.id,
                "contextId": self.context });
        }
        shown
    }
}

fn artifact(status: &Status) -> Value {
    json!({ "artifactId": "result", "name": "result", "parts": status.parts })
}

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.end(Status::refused(Refusal::stopping()));
    }
}

impl OwnTasks {
    /// Adds a task, unless its caller has too many running ones.
    pub(super) fn add(&self, task: &Arc<OwnTask>) -> Result<(), Failure> {
        let mut tasks = self.tasks();
        let is_same =
            |other: &&Arc<OwnTask>| other.origin.payer == task.origin.payer && !other.has_ended();
        let is_full = tasks.iter().all(|other| !other.has_ended()) && tasks.len() >= MOST;
        if is_full || tasks.iter().filter(is_same).count() >= MOST_RUNNING {
            let message = format!(
                "{MOST_RUNNING} tasks of the caller or {MOST} of all callers are running; retry \
                 when one has ended"
            );
            let failure = Failure::new(ErrorKind::ResourceExhausted, message);
            return Err(failure.with_reason("QUOTA_EXCEEDED"));
        }
        tasks.push_back(Arc::clone(task));
        drop(tasks);
        self.shrink();
        Ok(())
    }

    /// Finds a task of a caller.
    pub(super) fn find(&self, owner: TaskOwner, id: &str) -> Option<Arc<OwnTask>> {
        let tasks = self.tasks();
        tasks.iter().find(|task| task.origin.owner == Some(owner) && task.id == id).cloned()
    }

    /// Drops the oldest ended tasks beyond the limits.
    pub(super) fn shrink(&self) {
        let mut tasks = self.tasks();
        let mut count = tasks.len();
        let mut bytes: usize = tasks.iter().map(|task| task.status.borrow().bytes).sum();
        tasks.retain(|task| {
            let status = task.status.borrow();
            let is_dropped = (count > MOST || bytes > MOST_BYTES) && status.state.is_terminal();
            if is_dropped {
                count -= 1;
                bytes -= status.bytes;
            }
            !is_dropped
        });
    }

    fn tasks(&self) -> MutexGuard<'_, VecDeque<Arc<OwnTask>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use gateway_policy::Principal;

    use super::*;

    fn task(caller: &str) -> Arc<OwnTask> {
        let origin = TaskOrigin {
            owner: Some(Principal::Agent(caller).into()),
            payer: Some(caller.into()),
            tool: "relay".into(),
        };
        OwnTask::new(origin, "c".into())
    }

    #[test]
    fn running_tasks_of_a_caller_are_limited() {
        let tasks = OwnTasks::default();
        let first = task("a");
        tasks.add(&first).unwrap();
        for _ in 1..MOST_RUNNING {
            tasks.add(&task("a")).unwrap();
        }
        assert_eq!(tasks.add(&task("a")).unwrap_err().kind, ErrorKind::ResourceExhausted);
        tasks.add(&task("b")).unwrap();
        first.end(Status::canceled());
        tasks.add(&task("a")).unwrap();
    }

    #[test]
    fn oldest_ended_tasks_are_dropped() {
        let tasks = OwnTasks::default();
        let running = task("a");
        tasks.add(&running).unwrap();
        let mut ended = Vec::new();
        for _ in 0..3 {
            let task = task("a");
            tasks.add(&task).unwrap();
            task.end(Status::completed(vec![json!({ "text": "x".repeat(MOST_BYTES / 2) })]));
            ended.push(task);
        }
        tasks.shrink();
        let owner = running.origin.owner.unwrap();
        let is_found = |task: &OwnTask| tasks.find(owner, &task.id).is_some();
        assert!(is_found(&running));
        assert_eq!(
            ended.iter().map(|task| is_found(task)).collect::<Vec<_>>(),
            [false, false, true]
        );
    }

    #[tokio::test]
    async fn dropped_call_fails_its_task_once() {
        let (dropped, ended) = (task("a"), task("a"));
        drop(dropped.ends());
        assert!(dropped.ended().await.is_err() && dropped.has_ended());
        let guard = ended.ends();
        ended.end(Status::completed(Vec::new()));
        drop(guard);
        assert!(ended.ended().await.is_ok());
    }
}
