//! The ids of tasks and contexts of agents, sealed for one caller.
//!
//! A caller's id contains the agent and the agent's own id, so a task belongs to the principal that
//! started it, and the gateway stores nothing. Equal ids are sealed equally: a task has one id in
//! all answers.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use a2a::{Failure, Operation, Request};
use gateway_policy::CallerIdentity;
use registry_core::{Key, Name};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::{Gateway, task::SealOwner};
use crate::seal::Sealer;

/// The purposes in the associated data of the seal.
const TASK: &str = "a2a-task-1";
const CONTEXT: &str = "a2a-context-1";
/// Of contexts whose id the caller chose. The sealed text is the agent's id.
const CHOSEN_CONTEXT: &str = "a2a-chosen-context-1";
/// Maximum length of a context id that a caller chooses, in bytes.
const CHOSEN_BYTES: usize = 256;
/// Maximum ids that are kept for one request.
const MAX_TRANSLATED: usize = 32;
/// Replaces an unknown id of the agent in the text of an error.
const NEW_ID: &str = "(id)";
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

/// The kind of a sealed id. Those of messages and artifacts are not sealed: they are data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdKind {
    Task,
    Context,
}

/// The seals of one caller's ids.
#[derive(Debug)]
pub(super) struct Seals {
    sealer: Arc<Sealer>,
    owner: SealOwner,
}

/// An id: the agent's and the caller's.
#[derive(Debug)]
struct TranslatedId {
    kind: IdKind,
    own: Box<str>,
    known: Box<str>,
}

/// A request with the agent's ids.
#[derive(Debug)]
pub(super) struct OpenedRequest {
    pub(super) request: Request,
    pub(super) ids: RequestIds,
}

/// The ids in one request, and the first new ones in its answers. They keep their text in all
/// answers and errors.
#[derive(Debug)]
pub(super) struct RequestIds {
    seals: Seals,
    translated: Mutex<Vec<TranslatedId>>,
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
            let (kind, own) = (IdKind::Task, task.id);
            requested.push(TranslatedId { kind, own, known: known.into() });
        }
        let mut failed = None;
        if let Some(sent) = request.params.get_mut("message") {
            message(sent, &mut |kind, id| {
                let Some(known) = id.as_str().filter(|known| !known.is_empty()) else { return };
                let own = match kind {
                    IdKind::Task => seals.task_of(agent, known).map(|task| task.id),
                    IdKind::Context => seals.context_of(agent, known),
                };
                match own {
                    Ok(own) => {
                        let (agents, known) = (own.clone(), known.into());
                        requested.push(TranslatedId { kind, own: agents, known });
                        *id = (&*own).into();
                    }
                    Err(failure) => {
                        failed.get_or_insert(failure);
                    }
                }
            });
        }
        if let Some(failure) = failed {
            return Err(failure);
        }
        let ids = RequestIds { seals, translated: Mutex::new(requested) };
        Ok(Self { request, ids })
    }
}

impl Seals {
    pub(super) fn of(gateway: &Gateway, caller: &CallerIdentity) -> Self {
        Self { sealer: Arc::clone(gateway.sealer()), owner: SealOwner::of(gateway, caller) }
    }

    /// The caller's id of a task.
    pub(super) fn known_task(&self, task: &AgentTask) -> String {
        self.seal(TASK, task)
    }

    /// The task of a caller's id. A task of another caller or agent does not exist.
    pub(super) fn task_of(&self, agent: &Name, known: &str) -> Result<AgentTask, Box<Failure>> {
        let task = self.open(TASK, known);
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
        if let Some(context) = self.open(CONTEXT, known) {
            let context = serde_json::from_slice::<Context>(&context).ok();
            let context = context.filter(|context| *context.agent == *agent.as_str());
            return context
                .map(|context| context.id)
                .ok_or_else(|| invalid("the context belongs to another agent; omit it"));
        }
        if known.len() > CHOSEN_BYTES {
            return Err(invalid("an id that the caller chooses has at most 256 bytes"));
        }
        let data = self.owner.associated_data(CHOSEN_CONTEXT);
        let sealed = self.sealer.seal_equally(&data, known.as_bytes());
        sealed.map(Into::into).map_err(|_| invalid("the gateway has no key for ids; omit it"))
    }

    /// Seals the content of an id. Sealing fails only without a key; an empty id names nothing.
    fn seal(&self, purpose: &str, content: &impl Serialize) -> String {
        let data = self.owner.associated_data(purpose);
        let content = serde_json::to_vec(content).ok();
        content
            .and_then(|content| self.sealer.seal_equally(&data, &content).ok())
            .unwrap_or_default()
    }

    fn open(&self, purpose: &str, sealed: &str) -> Option<Vec<u8>> {
        self.sealer.open(&self.owner.associated_data(purpose), sealed)
    }
}

impl RequestIds {
    /// The ids of the answers of an agent's skill.
    pub(super) fn of_answers<'a>(&'a self, agent: &'a Key, skill: &'a str) -> AnswerIds<'a> {
        AnswerIds { ids: self, agent, skill }
    }

    /// The caller's id. A new one is kept, so that errors do not contain the agent's.
    fn known(&self, kind: IdKind, own: &str, new: impl FnOnce() -> String) -> String {
        let mut translated = self.translated();
        // An agent may give a task and its context the same id.
        if let Some(id) = translated.iter().find(|id| id.kind == kind && *id.own == *own) {
            return id.known.as_ref().to_owned();
        }
        let known = new();
        if translated.len() < MAX_TRANSLATED {
            let (own, known) = (own.into(), known.as_str().into());
            translated.push(TranslatedId { kind, own, known });
        }
        known
    }

    fn translated(&self) -> MutexGuard<'_, Vec<TranslatedId>> {
        self.translated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnswerIds<'_> {
    /// Puts the ids back into an answer or event whose texts may have changed, and translates all of
    /// them.
    pub(super) fn put_back(&self, taken: TakenIds, operation: Operation, answer: &mut Value) {
        let mut taken = taken.0.into_iter();
        each_id(operation, answer, &mut |kind, id| {
            put(&mut taken, id);
            let Some(own) = id.as_str().filter(|own| !own.is_empty()) else { return };
            let known = match kind {
                IdKind::Task => self.task(own),
                IdKind::Context => self.context(own),
            };
            *id = known.into();
        });
    }

    fn task(&self, own: &str) -> String {
        let new = || {
            let (agent, skill) = (self.agent.clone(), self.skill.into());
            let task = AgentTask { agent, skill, id: own.into() };
            self.ids.seals.known_task(&task)
        };
        self.ids.known(IdKind::Task, own, new)
    }

    fn context(&self, own: &str) -> String {
        let seals = &self.ids.seals;
        let chosen = || {
            let opened = seals.open(CHOSEN_CONTEXT, own)?;
            String::from_utf8(opened).ok()
        };
        let new = || {
            let context = Context { agent: self.agent.name.as_str().into(), id: own.into() };
            seals.seal(CONTEXT, &context)
        };
        self.ids.known(IdKind::Context, own, || chosen().unwrap_or_else(new))
    }

    /// Removes the agent's ids from an error of the request `sent`: ids of this exchange, those in
    /// members that are named like ids, and other UUIDs, which SDKs give to new tasks.
    pub(super) fn translate_failure(&self, mut failure: Failure, sent: &Request) -> Failure {
        let members = failure.metadata.iter_mut().filter(|(_, value)| !value.is_empty());
        for (name, value) in members {
            match IdKind::of_member(name) {
                Some(IdKind::Task) => *value = self.task(value),
                Some(IdKind::Context) => *value = self.context(value),
                None => {}
            }
        }
        let details = failure.details.iter_mut().filter_map(|detail| detail.get_mut("metadata"));
        for (name, value) in details.filter_map(Value::as_object_mut).flatten() {
            let Some(own) = value.as_str().filter(|own| !own.is_empty()) else { continue };
            match IdKind::of_member(name) {
                Some(IdKind::Task) => *value = self.task(own).into(),
                Some(IdKind::Context) => *value = self.context(own).into(),
                None => {}
            }
        }
        for TranslatedId { own, known, .. } in self.ids.translated().iter() {
            let in_text = |text: &str| text.contains(&**own);
            if in_text(&failure.message) {
                failure.message = if own.len() < MIN_REPLACED {
                    "the agent rejected the request about this task".to_owned()
                } else {
                    failure.message.replace(&**own, known)
                };
            }
            let others = failure.metadata.iter_mut();
            let others = others.filter(|(name, _)| IdKind::of_member(name).is_none());
            for (_, value) in others.filter(|(_, value)| in_text(value)) {
                *value = if **value == **own || own.len() >= MIN_REPLACED {
                    value.replace(&**own, known)
                } else {
                    String::new()
                };
            }
            failure.details.retain(|detail| !in_text(&detail.to_string()));
        }
        without_new_ids(failure, sent)
    }
}

impl IdKind {
    /// The kind of the id in a member of this name, in any spelling. `None`: the member has none.
    fn of_member(name: &str) -> Option<Self> {
        match name.replace('_', "").to_ascii_lowercase().as_str() {
            "taskid" => Some(Self::Task),
            "contextid" => Some(Self::Context),
            _ => None,
        }
    }
}

/// Removes UUIDs that the request does not have.
fn without_new_ids(mut failure: Failure, sent: &Request) -> Failure {
    let details: Vec<_> = failure.details.iter().map(Value::to_string).collect();
    let texts = failure.metadata.values().chain(&details).chain([&failure.message]);
    let mut new: HashSet<_> = texts.flat_map(|text| uuids(text)).map(str::to_owned).collect();
    if new.is_empty() {
        return failure;
    }
    let sent = serde_json::to_string(&sent.params).unwrap_or_default();
    for own in uuids(&sent) {
        new.remove(own);
    }
    let is_clean = |text: &str| uuids(text).all(|id| !new.contains(id));
    failure.message = replaced(&failure.message, &new);
    for value in failure.metadata.values_mut() {
        *value = replaced(value, &new);
    }
    failure.details.retain(|detail| is_clean(&detail.to_string()));
    failure
}

/// The UUIDs in a text, with or without hyphens.
fn uuids(text: &str) -> impl Iterator<Item = &str> {
    let runs = text.split(|c: char| !(c.is_ascii_hexdigit() || c == '-'));
    let runs = runs.map(|run| run.trim_matches('-'));
    runs.filter(|run| run.bytes().filter(|byte| *byte != b'-').count() == 32)
}

fn replaced(text: &str, new: &HashSet<String>) -> String {
    let (mut clean, mut rest) = (String::with_capacity(text.len()), text);
    for id in uuids(text).filter(|id| new.contains(*id)) {
        let Some((before, after)) = rest.split_once(id) else { break };
        clean.push_str(before);
        clean.push_str(NEW_ID);
        rest = after;
    }
    clean + rest
}

/// The sealed ids of a message, answer or event, in their order. They are opaque, so inspection does
/// not read them. A value of another type is no id.
#[derive(Debug, Default)]
pub(super) struct TakenIds(Vec<Option<Value>>);

impl TakenIds {
    pub(super) fn of_answer(operation: Operation, answer: &mut Value) -> Self {
        let mut taken = Self::default();
        each_id(operation, answer, &mut |_, id| taken.take(id));
        taken
    }

    pub(super) fn of_message(sent: &mut Value) -> Self {
        let mut taken = Self::default();
        message(sent, &mut |_, id| taken.take(id));
        taken
    }

    fn take(&mut self, id: &mut Value) {
        self.0.push(id.is_string().then(|| id.take()));
    }

    pub(super) fn put_into_message(self, sent: &mut Value) {
        let mut taken = self.0.into_iter();
        message(sent, &mut |_, id| put(&mut taken, id));
    }
}

fn put(taken: &mut impl Iterator<Item = Option<Value>>, id: &mut Value) {
    if let Some(taken) = taken.next().flatten() {
        *id = taken;
    }
}

/// A function that receives ids.
type Found<'f> = dyn FnMut(IdKind, &mut Value) + 'f;

/// Calls `found` with each member for a sealed id in an answer of an operation, or in an event.
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
}

fn update(update: &mut Value, found: &mut Found<'_>) {
    each(update, &[("taskId", IdKind::Task), ("contextId", IdKind::Context)], found);
    status(update, found);
}

fn status(of: &mut Value, found: &mut Found<'_>) {
    if let Some(sent) = of.get_mut("status").and_then(|status| status.get_mut("message")) {
        message(sent, found);
    }
}

fn message(message: &mut Value, found: &mut Found<'_>) {
    each(message, &[("taskId", IdKind::Task), ("contextId", IdKind::Context)], found);
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
