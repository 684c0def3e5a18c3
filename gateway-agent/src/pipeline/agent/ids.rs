//! The ids of tasks and contexts of agents, sealed for one caller.
//!
//! A caller's id contains the agent and the agent's own id, so a task belongs to the caller that
//! started it, and the gateway stores nothing. Equal ids are sealed equally: a task has one id in
//! all answers.

use std::sync::Arc;

use a2a::{Failure, Operation, Request};
use gateway_policy::CallerIdentity;
use registry_core::{Key, Name};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::{Gateway, task};
use crate::seal::Sealer;

/// The purposes in the associated data of the seal.
const TASK: &str = "a2a-task-1";
const CONTEXT: &str = "a2a-context-1";
/// Of contexts whose id the caller chose. The sealed text is the agent's id.
const CHOSEN_CONTEXT: &str = "a2a-chosen-context-1";
/// Maximum length of a context id that a caller chooses, in bytes.
const CHOSEN_BYTES: usize = 256;
/// Ids shorter than this are not replaced within texts: they can be a part of other words.
const MIN_REPLACED: usize = 8;

/// A task of one caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct AgentTask {
    /// The agent that runs it.
    pub(in super::super) agent: Key,
    /// The skill that started it.
    pub(in super::super) skill: Box<str>,
    /// The agent's id.
    pub(in super::super) id: Box<str>,
}

/// A context of one caller. Other versions of the agent may continue it.
#[derive(Serialize, Deserialize)]
struct Context {
    agent: Box<str>,
    id: Box<str>,
}

/// The kind of an id in a message, task or event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdKind {
    Task,
    Context,
    /// Of a message or an artifact. It is not translated.
    Other,
}

/// The seals of one caller's ids.
#[derive(Debug)]
pub(super) struct Seals {
    sealer: Arc<Sealer>,
    task: Vec<u8>,
    context: Vec<u8>,
    chosen_context: Vec<u8>,
}

/// An id in a request: the agent's and the caller's.
#[derive(Debug)]
struct RequestedId {
    own: Box<str>,
    known: Box<str>,
}

/// A request with the agent's ids.
#[derive(Debug)]
pub(super) struct OpenedRequest {
    pub(super) request: Request,
    pub(super) ids: RequestIds,
}

/// The ids in one request. They keep their text in its answers.
#[derive(Debug)]
pub(super) struct RequestIds {
    seals: Seals,
    requested: Vec<RequestedId>,
}

/// Translates the ids in the answers of an agent to the caller's ids.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnswerIds<'a> {
    ids: &'a RequestIds,
    agent: &'a Key,
    skill: &'a str,
}

impl OpenedRequest {
    /// Replaces the caller's ids in a request to an agent.
    pub(super) fn open(
        gateway: &Gateway,
        caller: &CallerIdentity,
        agent: &Name,
        mut request: Request,
    ) -> Result<Self, Box<Failure>> {
        let seals = Seals::of(gateway, caller);
        let mut requested = Vec::new();
        let known = request.task_id().filter(|_| !request.operation.sends_message());
        if let Some(known) = known.map(str::to_owned) {
            let task = seals.task_of(agent, &known)?;
            request.set_task_id(&task.id);
            requested.push(RequestedId { own: task.id, known: known.into() });
        }
        let mut failed = None;
        if let Some(sent) = request.params.get_mut("message") {
            message(sent, &mut |kind, id| {
                let Some(known) = id.as_str().filter(|known| !known.is_empty()) else { return };
                let own = match kind {
                    IdKind::Task => seals.task_of(agent, known).map(|task| task.id),
                    IdKind::Context => seals.context_of(agent, known),
                    IdKind::Other => return,
                };
                match own {
                    Ok(own) => {
                        requested.push(RequestedId { own: own.clone(), known: known.into() });
                        *id = (&*own).into();
                    }
                    Err(failure) => {
                        failed.get_or_insert(failure);
                    }
                }
            });
        }
        match failed {
            Some(failure) => Err(failure),
            None => Ok(Self { request, ids: RequestIds { seals, requested } }),
        }
    }
}

impl Seals {
    pub(super) fn of(gateway: &Gateway, caller: &CallerIdentity) -> Self {
        let owner = |purpose| task::owner(purpose, caller);
        Self {
            sealer: Arc::clone(gateway.sealer()),
            task: owner(TASK),
            context: owner(CONTEXT),
            chosen_context: owner(CHOSEN_CONTEXT),
        }
    }

    /// The caller's id of a task.
    pub(super) fn known_task(&self, task: &AgentTask) -> String {
        self.seal(&self.task, task)
    }

    /// The task of a caller's id. A task of another caller or agent does not exist.
    pub(super) fn task_of(&self, agent: &Name, known: &str) -> Result<AgentTask, Box<Failure>> {
        let task = self.sealer.open(&self.task, known);
        let task = task.and_then(|task| serde_json::from_slice::<AgentTask>(&task).ok());
        task.filter(|task| task.agent.name == *agent)
            .ok_or_else(|| Box::new(Failure::task_not_found(known)))
    }

    /// The agent's id of a caller's context. One that the gateway did not issue to this caller is
    /// the caller's choice: the agent gets an id that is bound to the caller.
    fn context_of(&self, agent: &Name, known: &str) -> Result<Box<str>, Box<Failure>> {
        let invalid = |problem: &str| {
            Box::new(Failure::invalid_params("/message/contextId", problem.to_owned()))
        };
        if let Some(context) = self.sealer.open(&self.context, known) {
            let context = serde_json::from_slice::<Context>(&context).ok();
            let context = context.filter(|context| *context.agent == *agent.as_str());
            return context
                .map(|context| context.id)
                .ok_or_else(|| invalid("the context belongs to another agent; omit it"));
        }
        if known.len() > CHOSEN_BYTES {
            return Err(invalid("an id that the caller chooses has at most 256 bytes"));
        }
        let sealed = self.sealer.seal_equally(&self.chosen_context, known.as_bytes());
        sealed.map(Into::into).map_err(|_| invalid("the gateway has no key for ids; omit it"))
    }

    /// Seals the content of an id. Sealing fails only without a key; an empty id names nothing.
    fn seal(&self, owner: &[u8], content: &impl Serialize) -> String {
        let content = serde_json::to_vec(content).ok();
        content
            .and_then(|content| self.sealer.seal_equally(owner, &content).ok())
            .unwrap_or_default()
    }
}

impl RequestIds {
    /// The ids of the answers of an agent's skill.
    pub(super) fn of_answers<'a>(&'a self, agent: &'a Key, skill: &'a str) -> AnswerIds<'a> {
        AnswerIds { ids: self, agent, skill }
    }

    fn requested(&self, own: &str) -> Option<String> {
        let id = self.requested.iter().find(|id| *id.own == *own)?;
        Some(id.known.as_ref().to_owned())
    }
}

impl AnswerIds<'_> {
    /// Translates all ids in an answer or event.
    pub(super) fn translate(&self, operation: Operation, answer: &mut Value) {
        each_id(operation, answer, &mut |kind, id| {
            let Some(own) = id.as_str().filter(|own| !own.is_empty()) else { return };
            match kind {
                IdKind::Task => *id = self.task(own).into(),
                IdKind::Context => *id = self.context(own).into(),
                IdKind::Other => {}
            }
        });
    }

    fn task(&self, own: &str) -> String {
        let new = || {
            let (agent, skill) = (self.agent.clone(), self.skill.into());
            let task = AgentTask { agent, skill, id: own.into() };
            self.ids.seals.known_task(&task)
        };
        self.ids.requested(own).unwrap_or_else(new)
    }

    fn context(&self, own: &str) -> String {
        let seals = &self.ids.seals;
        let chosen = || String::from_utf8(seals.sealer.open(&seals.chosen_context, own)?).ok();
        let new = || {
            let context = Context { agent: self.agent.name.as_str().into(), id: own.into() };
            seals.seal(&seals.context, &context)
        };
        self.ids.requested(own).or_else(chosen).unwrap_or_else(new)
    }

    /// Removes the agent's ids from an error.
    pub(super) fn translate_failure(&self, mut failure: Failure) -> Failure {
        for RequestedId { own, known } in &self.ids.requested {
            let in_text = |text: &str| text.contains(&**own);
            if in_text(&failure.message) {
                failure.message = if own.len() < MIN_REPLACED {
                    "the agent rejected the request about this task".to_owned()
                } else {
                    failure.message.replace(&**own, known)
                };
            }
            for value in failure.metadata.values_mut().filter(|value| in_text(value)) {
                *value = if **value == **own || own.len() >= MIN_REPLACED {
                    value.replace(&**own, known)
                } else {
                    String::new()
                };
            }
            failure.details.retain(|detail| !in_text(&detail.to_string()));
        }
        failure
    }
}

/// Takes the ids out of an answer or event, so that inspection does not mistake them for data.
/// Returns them in their order.
pub(super) fn take_ids(operation: Operation, answer: &mut Value) -> Vec<Value> {
    let mut taken = Vec::new();
    each_id(operation, answer, &mut |_, id| taken.push(id.take()));
    taken
}

/// Puts the ids back into an answer whose texts may have changed.
pub(super) fn put_ids(operation: Operation, answer: &mut Value, taken: Vec<Value>) {
    let mut taken = taken.into_iter();
    each_id(operation, answer, &mut |_, id| *id = taken.next().unwrap_or_default());
}

/// A function that receives ids.
type Found<'f> = dyn FnMut(IdKind, &mut Value) + 'f;

/// Calls `found` with each id in an answer of an operation, or in an event.
fn each_id(operation: Operation, answer: &mut Value, found: &mut Found<'_>) {
    type Read = fn(&mut Value, &mut Found<'_>);
    if matches!(operation, Operation::GetTask | Operation::CancelTask) {
        return task(answer, found);
    }
    let payloads: [(&str, Read); 4] = [
        ("task", task),
        ("message", message),
        ("statusUpdate", update),
        ("artifactUpdate", update),
    ];
    for (name, read) in payloads {
        if let Some(payload) = answer.get_mut(name) {
            read(payload, found);
        }
    }
}

fn task(task: &mut Value, found: &mut Found<'_>) {
    each(task, &[("id", IdKind::Task), ("contextId", IdKind::Context)], found);
    status(task, found);
    for sent in items(task, "history") {
        message(sent, found);
    }
    for artifact in items(task, "artifacts") {
        each(artifact, &[("artifactId", IdKind::Other)], found);
    }
}

fn update(update: &mut Value, found: &mut Found<'_>) {
    each(update, &[("taskId", IdKind::Task), ("contextId", IdKind::Context)], found);
    status(update, found);
    if let Some(artifact) = update.get_mut("artifact") {
        each(artifact, &[("artifactId", IdKind::Other)], found);
    }
}

fn status(of: &mut Value, found: &mut Found<'_>) {
    if let Some(said) = of.get_mut("status").and_then(|status| status.get_mut("message")) {
        message(said, found);
    }
}

pub(super) fn message(message: &mut Value, found: &mut Found<'_>) {
    const IDS: [(&str, IdKind); 3] =
        [("messageId", IdKind::Other), ("taskId", IdKind::Task), ("contextId", IdKind::Context)];
    each(message, &IDS, found);
    for id in items(message, "referenceTaskIds") {
        found(IdKind::Task, id);
    }
}

fn each(of: &mut Value, names: &[(&str, IdKind)], found: &mut Found<'_>) {
    for (name, kind) in names {
        if let Some(id) = of.get_mut(*name) {
            found(*kind, id);
        }
    }
}

fn items<'v>(of: &'v mut Value, name: &str) -> impl Iterator<Item = &'v mut Value> {
    of.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}
