//! The tasks of a caller: `ListTasks`, and the answers and events that fill the index.

use std::sync::Arc;

use a2a::{
    ErrorKind, Operation, Request, TaskState,
    model::Task,
    task::{ListFilter, shorten_history},
};
use futures_util::{StreamExt as _, stream};
use registry_core::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    address::AgentName,
    calls::AgentOperation,
    failure::Refusal,
    push::PendingConfig,
    task_index::{ListedTask, TaskIndex},
};
use crate::{
    clock,
    identity::authenticator::Authentication,
    pipeline::{Gateway, TaskOwner},
};

/// Concurrent requests for the tasks of one page.
const CONCURRENCY: usize = 8;
/// The member of a listed task with its agent; not part of A2A.
const AGENT: &str = "agent";

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
    pub(super) fn new(
        index: &Arc<TaskIndex>,
        (gateway, caller): (&Gateway, &Authentication),
        agent: &AgentName,
    ) -> Self {
        let (index, owner) = (Arc::clone(index), TaskOwner::of(gateway, &caller.claim));
        Self { index, owner, agent: agent.name.as_str().into(), config: None }
    }

    pub(super) fn with_config(self, config: Arc<PendingConfig>) -> Self {
        Self { config: Some(config), ..self }
    }

    pub(super) fn config(&self) -> Option<&PendingConfig> {
        self.config.as_deref()
    }

    /// Reads an answer or an event.
    pub(super) fn saw(&self, operation: Operation, answer: &Value) {
        let Some(owner) = self.owner else { return };
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
        let at = time.unwrap_or_else(clock::timestamp);
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

impl TaskList<'_> {
    /// The page of a request. Each task on it is requested from its agent; a task of an
    /// unavailable agent has its last known state.
    pub(super) async fn page(
        &self,
        request: &Request,
        operation: impl Fn(AgentName, Request) -> AgentOperation,
    ) -> Result<Value, Refusal> {
        let filter = ListFilter::of(request)?;
        let Some(owner) = TaskOwner::of(self.gateway, &self.caller.claim) else {
            return Ok(filter.page(Vec::new()));
        };
        let tasks = self.index.tasks(owner, clock::timestamp()).into_iter();
        let is_wanted =
            |task: &ListedTask| self.agent.is_none_or(|agent| *task.agent == *agent.name.as_str());
        let mut page = filter.page(tasks.filter(is_wanted).map(|task| known(&task)).collect());
        let Some(Value::Array(known)) = page.get_mut("tasks").map(Value::take) else {
            return Ok(page);
        };
        let current = stream::iter(known.into_iter().map(|known| {
            let call = agent_of(&known).map(|agent| operation(agent, get(&known, &filter)));
            self.current(owner, known, call)
        }));
        let tasks: Vec<_> = Box::pin(current.buffered(CONCURRENCY).collect()).await;
        let is_in_state = |task: &Value| {
            let state = Task::of(task).map(|task| task.state().name());
            filter.state.as_deref().is_none_or(|wanted| state == Some(wanted))
        };
        let tasks = tasks.into_iter().flatten().filter(is_in_state);
        page["tasks"] = tasks.map(|task| shortened(task, &filter)).collect();
        Ok(page)
    }

    /// The current form of a task. `None`: its agent no longer has it.
    async fn current(
        &self,
        owner: TaskOwner,
        mut known: Value,
        call: Option<AgentOperation>,
    ) -> Option<Value> {
        let call = call?;
        let tasks = call.tasks.clone();
        let (result, _) = Box::pin(call.run(self.gateway, None)).await;
        match result {
            Ok(task) => {
                tasks.saw(Operation::GetTask, &task);
                Some(task)
            }
            Err(refusal) if refusal.failure.kind == ErrorKind::TaskNotFound => {
                self.index.remove(owner, known["id"].as_str()?);
                None
            }
            // The agent is no longer visible to the caller.
            Err(refusal) if refusal.failure.kind == ErrorKind::AgentNotFound => None,
            Err(_) => {
                known.as_object_mut()?.remove(AGENT);
                Some(known)
            }
        }
    }
}

fn known(task: &ListedTask) -> Value {
    let ListedTask { id, context, agent, state, at } = task;
    let status = json!({ "state": state.name(), "timestamp": at });
    json!({ "id": id, "contextId": context, "status": status, AGENT: agent })
}

fn agent_of(known: &Value) -> Option<AgentName> {
    AgentName::parse(known[AGENT].as_str()?)
}

fn get(known: &Value, filter: &ListFilter) -> Request {
    let mut params = Map::new();
    params.insert("id".to_owned(), known["id"].clone());
    if let Some(length) = filter.history_length {
        params.insert("historyLength".to_owned(), length.into());
    }
    Request::new(Operation::GetTask, params)
}

fn shortened(mut task: Value, filter: &ListFilter) -> Value {
    if let Some(members) = task.as_object_mut() {
        if !filter.include_artifacts {
            members.remove("artifacts");
        }
        shorten_history(members, filter.history_length);
    }
    task
}
