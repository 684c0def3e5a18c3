//! Tasks of upstreams under sealed ids. An id is valid only for the principal that started the task.
//! It contains the tool, the server and the server's id, so the gateway stores nothing.

use std::{borrow::Cow, sync::Arc};

use gateway_policy::{CallerIdentity, Principal, QuotaKey, ValidationMode};
use gateway_protocol::{
    jsonrpc::{self, Object},
    mcp::{Method, Param, RawResult, ResultType, TASK_PARAM},
};
use gateway_upstream::RequestContext;
use registry_core::{Digest, Key};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    Error, Gateway, Invocation, Target, ToolCall,
    purchase::{self, Outcome, StartedTask},
    validate,
};
use crate::{
    audit::CallRecord,
    identity::account::is_agent_of,
    seal::Sealer,
    view::{ServedTool, TaskSupport},
};

/// The purpose in the associated data of the seal.
const PURPOSE: &str = "mcp-task-1";

/// The principal that owns tasks, contexts and push notification configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct TaskOwner(Digest);

impl TaskOwner {
    /// The owner of a caller's tasks. `None`: the caller cannot be distinguished from others.
    pub(crate) fn of(gateway: &Gateway, caller: &CallerIdentity) -> Option<Self> {
        let snapshot = gateway.views().now();
        let named = snapshot.named(caller);
        let is_own = |agent: &str| is_agent_of(&snapshot.catalog, agent, caller);
        named.principal(is_own).map(Self::from)
    }
}

impl From<Principal<'_>> for TaskOwner {
    fn from(principal: Principal<'_>) -> Self {
        // A principal consists of texts, so serialization cannot fail.
        Self(Digest::compute(&serde_json::to_vec(&principal).unwrap_or_default()))
    }
}

/// A task of one principal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The tool that started it, named as callers know it.
    pub tool: Box<str>,
    /// The server that runs it.
    pub server: Key,
    /// The server's id.
    pub id: Box<str>,
}

impl Task {
    /// Decrypts an id. `None` if it is invalid or belongs to another principal.
    pub fn open(gateway: &Gateway, caller: &CallerIdentity, known: &str) -> Option<Self> {
        let data = SealOwner::of(gateway, caller).associated_data(PURPOSE);
        let content = gateway.sealer().open(&data, known)?;
        serde_json::from_slice(&content).ok()
    }
}

/// Validates the result of a task by the output schema of its tool.
pub(super) async fn check(
    gateway: &Gateway,
    served: &ServedTool,
    (method, context, task): (Method, &RequestContext, &RawResult),
    record: &mut CallRecord,
) -> Result<(), Error> {
    if method == Method::TaskResult {
        if served.projection().is_some() {
            return Err(Error::TaskSupport { is_required: false });
        }
        let is_checked = !task.is_error && served.checks().output != ValidationMode::Ignore;
        return if is_checked {
            validate::output(gateway, served, (&task.result, context), record).await
        } else {
            Ok(())
        };
    }
    let members = Object::parse(&task.result).unwrap_or_default();
    let Some(result) =
        members.find("result").filter(|_| served.checks().output != ValidationMode::Ignore)
    else {
        return Ok(());
    };
    let IsError { is_error } = jsonrpc::read_object(result).unwrap_or_default();
    if is_error {
        return Ok(());
    }
    validate::output(gateway, served, (result, context), record).await
}

/// Lowers the price of a task to the one that its result reports.
pub(super) fn settle_price(
    gateway: &Gateway,
    caller: &CallerIdentity,
    (method, task, answer): (Method, &Task, &RawResult),
    record: &mut CallRecord,
) {
    let settle = |outcome: Outcome<'_>, record: &mut CallRecord| {
        if let Some(open) =
            gateway.spending().take_task(&key(gateway, caller, (&task.server, &task.id)))
        {
            purchase::settle_task(open, outcome, gateway.traces(), record);
        }
    };
    match method {
        Method::TaskResult if answer.result_type.is_final() => {
            settle(Outcome::Result(answer), record);
        }
        // The state of an ended task has its result or its error since 2026-07-28.
        Method::GetTask => {
            let state = Object::parse(&answer.result).unwrap_or_default();
            if let Some(result) = state.find("result") {
                let IsError { is_error } = jsonrpc::read_object(result).unwrap_or_default();
                let (result, result_type) = (result.to_owned(), ResultType::Complete);
                let (era, has_meta) = (answer.era, answer.has_meta);
                let result = RawResult { result, is_error, result_type, has_meta, era };
                settle(Outcome::Result(&result), record);
            } else if state.find("error").is_some() {
                settle(Outcome::Failed, record);
            }
        }
        _ => {}
    }
}

/// The task that the result of a call has started.
pub(super) fn started<'a>(
    gateway: &Gateway,
    call: &Invocation,
    server: Option<&Key>,
    principal: &'a QuotaKey,
    result: &Result<RawResult, Error>,
) -> Option<StartedTask<'a>> {
    let result = result.as_ref().ok().filter(|result| result.result_type == ResultType::Task)?;
    // A step returns no task.
    let Target::Tool(_) = &call.target else { return None };
    let id = id_in(&result.result)?;
    let key = key(gateway, &call.caller.claim, (server?, &id));
    Some(StartedTask { key, caller: principal })
}

/// The identity of a task. Servers choose ids of any length, also the same one for several callers.
pub(super) fn key(
    gateway: &Gateway,
    caller: &CallerIdentity,
    (server, id): (&Key, &str),
) -> Digest {
    let mut text = SealOwner::of(gateway, caller).associated_data(PURPOSE);
    text.extend_from_slice(format!("\n{server}\n{id}").as_bytes());
    Digest::compute(&text)
}

#[derive(Default, Deserialize)]
struct IsError {
    #[serde(rename = "isError", default)]
    is_error: bool,
}

/// The owner of a caller's seals. All callers without an identity share one.
#[derive(Debug, Clone, Copy)]
pub(super) struct SealOwner(Option<TaskOwner>);

impl SealOwner {
    pub(super) fn of(gateway: &Gateway, caller: &CallerIdentity) -> Self {
        Self(TaskOwner::of(gateway, caller))
    }

    /// The associated data of the owner's seals for a purpose.
    pub(super) fn associated_data(self, purpose: &str) -> Vec<u8> {
        let owner = self.0.map_or_else(|| "-".to_owned(), |TaskOwner(digest)| digest.to_string());
        format!("{purpose} {owner}").into_bytes()
    }
}

/// Translates the server's task ids in one result to the caller's ids.
#[derive(Debug)]
pub struct TaskNames {
    sealer: Arc<Sealer>,
    owner: SealOwner,
    tool: Box<str>,
    server: Key,
    requested: Option<RequestedTask>,
}

/// The ids of the task that a request is about or has started.
#[derive(Debug)]
struct RequestedTask {
    /// The id at the server.
    server_id: Box<str>,
    /// The id that the caller knows.
    caller_id: Box<str>,
}

impl TaskNames {
    /// For a result that starts a task.
    pub(super) fn begun(
        gateway: &Gateway,
        caller: &CallerIdentity,
        (tool, server): (&str, &Key),
        result: &RawValue,
    ) -> Self {
        let names = Self::new(gateway, caller, (tool, server));
        let requested = id_in(result).map(|server_id| {
            let caller_id = names.known(&server_id).into();
            RequestedTask { server_id, caller_id }
        });
        Self { requested, ..names }
    }

    /// For a result about an existing task.
    pub(super) fn requested(
        gateway: &Gateway,
        caller: &CallerIdentity,
        task: &Task,
        known: &str,
    ) -> Self {
        let requested = Some(RequestedTask { server_id: task.id.clone(), caller_id: known.into() });
        Self { requested, ..Self::new(gateway, caller, (&task.tool, &task.server)) }
    }

    fn new(gateway: &Gateway, caller: &CallerIdentity, (tool, server): (&str, &Key)) -> Self {
        let (sealer, owner) = (Arc::clone(gateway.sealer()), SealOwner::of(gateway, caller));
        Self { sealer, owner, tool: tool.into(), server: server.clone(), requested: None }
    }

    /// The caller's id of a task.
    pub fn known(&self, id: &str) -> String {
        if let Some(task) = self.requested.as_ref().filter(|task| *task.server_id == *id) {
            return task.caller_id.as_ref().to_owned();
        }
        let task = Task { tool: self.tool.clone(), server: self.server.clone(), id: id.into() };
        let data = self.owner.associated_data(PURPOSE);
        let content = serde_json::to_vec(&task).ok();
        // Sealing fails only without random bytes; an empty id names no task.
        content.and_then(|content| self.sealer.seal(&data, &content).ok()).unwrap_or_default()
    }

    /// The caller's id of the task of this result.
    pub fn id(&self) -> Option<&str> {
        self.requested.as_ref().map(|task| &*task.caller_id)
    }

    /// Whether a text contains the id of the task at its server.
    pub fn contains_server_id(&self, json: &str) -> bool {
        let server_id = self.requested.as_ref().map(|task| &*task.server_id);
        server_id.is_some_and(|id| {
            if id.len() < MIN_REPLACED_ID {
                json.contains(&format!("\"{id}\""))
            } else {
                json.contains(id)
            }
        })
    }

    /// Replaces the server's task id in a text. `None`: the text does not contain it.
    pub fn rewrite_text(&self, text: &str) -> Option<String> {
        let task = self.requested.as_ref().filter(|task| text.contains(&*task.server_id))?;
        let RequestedTask { server_id, caller_id } = task;
        // A short id can be part of other words.
        Some(if server_id.len() < MIN_REPLACED_ID {
            String::new()
        } else {
            text.replace(&**server_id, caller_id)
        })
    }

    /// Removes the server's task id from an error.
    pub(super) fn rewrite_error(&self, error: gateway_upstream::Error) -> gateway_upstream::Error {
        let gateway_upstream::Error::Rpc { code, message, data } = error else { return error };
        let server_id = self.requested.as_ref().map(|task| &*task.server_id);
        let data = data.filter(|raw| !server_id.is_some_and(|id| raw.get().contains(id)));
        let message = match self.rewrite_text(&message) {
            Some(text) if text.is_empty() => {
                format!("the server rejected the request about this task (error {code})")
            }
            Some(text) => text,
            None => message,
        };
        gateway_upstream::Error::Rpc { code, message, data }
    }
}

/// Task ids shorter than this are not replaced within texts.
const MIN_REPLACED_ID: usize = 8;

/// Reads the id of a started task: a member of the result, or of `task` in 2025-11-25.
fn id_in(result: &RawValue) -> Option<Box<str>> {
    let members = Object::parse(result).ok()?;
    let id = match members.find("task") {
        Some(task) => Object::parse(task).ok()?.find("taskId").map(ToOwned::to_owned),
        None => members.find("taskId").map(ToOwned::to_owned),
    };
    serde_json::from_str(id?.get()).ok()
}

/// The parameters for the upstream, with `task` of 2025-11-25 only if the client and the tool
/// support it.
pub(super) fn params<'a>(
    served: &ServedTool,
    call: &'a Invocation,
) -> Result<Cow<'a, [Param]>, Error> {
    let Target::Tool(ToolCall { takes_tasks, .. }) = &call.target else {
        return Ok(Cow::Borrowed(&call.params));
    };
    let is_other = |param: &&Param| &*param.name != TASK_PARAM;
    let asks = call.params.iter().any(|param| !is_other(&param));
    match (asks && *takes_tasks, served.task_support()) {
        (true, TaskSupport::Forbidden) => Err(Error::TaskSupport { is_required: false }),
        (false, TaskSupport::Required) => Err(Error::TaskSupport { is_required: true }),
        (false, _) if asks => Ok(call.params.iter().filter(is_other).cloned().collect()),
        _ => Ok(Cow::Borrowed(&call.params)),
    }
}
