//! The tasks of a caller: `ListTasks`, and the answers and events that fill the index.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use a2a::{ErrorKind, Operation, Request, TaskState, model::Task, task::ListFilter};
use futures_util::{StreamExt as _, stream};
use registry_core::Timestamp;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep_until};

use super::{
    address::AgentName,
    calls::AgentOperation,
    failure::Refusal,
    push::PendingConfig,
    task_index::{ListedTask, TaskIndex},
    waiting,
};
use crate::{
    clock,
    identity::authenticator::Authentication,
    pipeline::{Gateway, TaskOwner},
};

/// Concurrent requests for the tasks of one list.
const CONCURRENCY: usize = 32;
/// Maximum unfinished tasks that are read before a page is cut. The others have their last known
/// states.
const MAX_REFRESHED: usize = 100;
/// Time limit of all requests for the tasks of one list.
const LIST_LIMIT: Duration = Duration::from_secs(2);

/// Adds the tasks in answers and events to the index of their caller.
#[derive(Debug, Clone)]
pub(super) struct TaskObserver {
    index: Arc<TaskIndex>,
    /// `None`: the caller has no list.
    owner: Option<TaskOwner>,
    agent: Box<str>,
    /// The push notification configuration of the operation.
    config: Option<Arc<PendingConfig>>,
}

impl TaskObserver {
    pub(super) fn new(index: &Arc<TaskIndex>, owner: Option<TaskOwner>, agent: &AgentName) -> Self {
        Self { index: Arc::clone(index), owner, agent: agent.name.as_str().into(), config: None }
    }

    pub(super) fn with_config(self, config: Arc<PendingConfig>) -> Self {
        Self { config: Some(config), ..self }
    }

    pub(super) fn config(&self) -> Option<&PendingConfig> {
        self.config.as_deref()
    }

    /// Whether the caller can list its tasks.
    pub(super) fn has_list(&self) -> bool {
        self.owner.is_some()
    }

    /// Reads an answer or an event. Tasks of messages that were not sent have no place in the index.
    pub(super) fn saw(&self, operation: Operation, answer: &Value) {
        let Some(owner) = self.owner.filter(|_| !waiting::is_waiting(answer)) else { return };
        let task = match operation {
            Operation::GetTask | Operation::CancelTask => self.task(answer),
            _ => match (answer.get("task"), answer.get("statusUpdate")) {
                (Some(task), _) => self.task(task),
                (None, Some(update)) => self.update(update),
                (None, None) => None,
            },
        };
        if let Some(task) = task {
            if let Some(config) = &self.config {
                config.started(&task.id);
            }
            self.index.record(owner, task, clock::timestamp());
        }
    }

    fn task(&self, task: &Value) -> Option<ListedTask> {
        let task = Task::of(task)?;
        self.listed(task.id()?, task.context_id(), task.state(), task.timestamp())
    }

    fn update(&self, update: &Value) -> Option<ListedTask> {
        let text = |value: &Value, name: &str| value.get(name)?.as_str().map(str::to_owned);
        let status = update.get("status")?;
        let state = text(status, "state").as_deref().and_then(TaskState::parse)?;
        let (context, time) = (text(update, "contextId"), text(status, "timestamp"));
        self.listed(&text(update, "taskId")?, context.as_deref(), state, time.as_deref())
    }

    fn listed(
        &self,
        id: &str,
        context: Option<&str>,
        state: TaskState,
        time: Option<&str>,
    ) -> Option<ListedTask> {
        if id.is_empty() {
            return None;
        }
        let time = time.and_then(|time| Timestamp::parse(time).ok());
        // A read without a time must not change the order of a list.
        let known = || self.index.time_of(self.owner?, id, state);
        let at = time.or_else(known).unwrap_or_else(clock::timestamp);
        let (id, context) = (id.into(), context.unwrap_or_default().into());
        Some(ListedTask { id, context, agent: self.agent.clone(), state, at })
    }
}

/// A list of one caller.
pub(super) struct TaskList<'a> {
    pub(super) index: &'a TaskIndex,
    pub(super) gateway: &'a Arc<Gateway>,
    pub(super) caller: &'a Authentication,
    /// The agent of the tasks. `None`: all agents.
    pub(super) agent: Option<&'a AgentName>,
}

/// The result of reading a task from its agent.
enum Reading {
    Current(Value),
    /// The agent no longer has the task, or is no longer visible to the caller.
    Gone,
    Failed,
}

impl TaskList<'_> {
    /// The page of a request. Each task on it is read from its agent. The filters and the order depend
    /// on the states, so unfinished tasks are read before the page is cut. A task that is not read in
    /// [`LIST_LIMIT`] has its last known state.
    pub(super) async fn page(
        &self,
        request: &Request,
        operation: impl Fn(AgentName, Request) -> AgentOperation,
    ) -> Result<Value, Refusal> {
        let filter = ListFilter::of(request)?;
        let Some(owner) = TaskOwner::of(self.gateway, &self.caller.claim) else {
            return Ok(filter.page(Vec::new()));
        };
        let until = Instant::now() + LIST_LIMIT;
        let unfinished = self.tasks(owner, &filter).into_iter();
        let unfinished = unfinished.filter(|task| !task.state.is_terminal()).take(MAX_REFRESHED);
        let read = self.read((owner, &filter, until), unfinished.collect(), &operation);
        let mut readings = Box::pin(read).await;
        let mut tasks = self.tasks(owner, &filter);
        tasks.retain(|task| !matches!(readings.get(&task.id), Some(Reading::Gone)));
        let mut page = filter.page(tasks.iter().map(known).collect());
        let Some(Value::Array(listed)) = page.get_mut("tasks").map(Value::take) else {
            return Ok(page);
        };
        let ids: HashSet<_> = listed.iter().filter_map(|known| known["id"].as_str()).collect();
        tasks.retain(|task| ids.contains(&*task.id) && !readings.contains_key(&task.id));
        readings.extend(Box::pin(self.read((owner, &filter, until), tasks, &operation)).await);
        let is_in_state = |task: &Value| {
            let state = Task::of(task).map(Task::state);
            filter.state.is_none_or(|wanted| state == Some(wanted))
        };
        let current = |known: Value| match readings.remove(known["id"].as_str()?) {
            Some(Reading::Current(task)) => Some(task).filter(is_in_state),
            Some(Reading::Gone) => None,
            Some(Reading::Failed) | None => Some(known),
        };
        page["tasks"] = listed.into_iter().filter_map(current).collect();
        Ok(page)
    }

    /// The known tasks of the list, the latest status first.
    fn tasks(&self, owner: TaskOwner, filter: &ListFilter) -> Vec<ListedTask> {
        let mut tasks = self.index.tasks(owner, clock::timestamp());
        tasks.retain(|task| {
            self.agent.is_none_or(|agent| *task.agent == *agent.name.as_str())
                && filter.context_id.as_deref().is_none_or(|context| *task.context == *context)
        });
        tasks
    }

    /// Reads tasks from their agents, by id. A task that is not read in time has no reading.
    async fn read(
        &self,
        (owner, filter, until): (TaskOwner, &ListFilter, Instant),
        tasks: Vec<ListedTask>,
        operation: &impl Fn(AgentName, Request) -> AgentOperation,
    ) -> HashMap<Box<str>, Reading> {
        let readings = stream::iter(tasks.into_iter().map(|task| {
            let agent = AgentName::parse(&task.agent);
            let call = agent.map(|agent| operation(agent, get(&task.id, filter)));
            self.current((owner, filter), task.id, call)
        }));
        let readings = readings.buffer_unordered(CONCURRENCY).take_until(sleep_until(until));
        Box::pin(readings.collect()).await
    }

    async fn current(
        &self,
        (owner, filter): (TaskOwner, &ListFilter),
        id: Box<str>,
        call: Option<AgentOperation>,
    ) -> (Box<str>, Reading) {
        let Some(call) = call else { return (id, Reading::Failed) };
        let tasks = call.tasks.clone();
        let (result, _) = Box::pin(call.run(self.gateway, None, None)).await;
        let reading = match result {
            Ok(task) => {
                tasks.saw(Operation::GetTask, &task);
                let task = if filter.include_artifacts { task } else { without_artifacts(task) };
                Reading::Current(task)
            }
            Err(refusal) if refusal.failure.kind == ErrorKind::TaskNotFound => {
                self.index.remove(owner, &id);
                Reading::Gone
            }
            Err(refusal) if refusal.failure.kind == ErrorKind::AgentNotFound => Reading::Gone,
            Err(_) => Reading::Failed,
        };
        (id, reading)
    }
}

fn known(task: &ListedTask) -> Value {
    let ListedTask { id, context, agent: _, state, at } = task;
    let status = json!({ "state": state.name(), "timestamp": at });
    json!({ "id": id, "contextId": context, "status": status })
}

fn get(id: &str, filter: &ListFilter) -> Request {
    let mut params = Map::new();
    params.insert("id".to_owned(), id.into());
    if let Some(length) = filter.history_length {
        params.insert("historyLength".to_owned(), length.into());
    }
    Request::new(Operation::GetTask, params)
}

fn without_artifacts(mut task: Value) -> Value {
    if let Some(members) = task.as_object_mut() {
        members.remove("artifacts");
    }
    task
}
