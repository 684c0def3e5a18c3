//! Tasks under ids that belong to whoever began them: sealed for one caller, they are nothing for any
//! other. An id says which tool began the task, where it runs, and how that server calls it, so
//! nothing is kept here.
//!
//! Deliberately absent: what a task is; its server knows.

use std::sync::Arc;

use registry_core::Key;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Error, Gateway, validate};
use crate::{
    audit::CallRecord,
    config::Mode,
    identity::HeaderClaim,
    jsonrpc::{self, Object},
    seal::Sealer,
    view::Offer,
};

/// What ids of tasks are sealed for, besides for whom.
const PURPOSE: &str = "mcp-task-1";

/// A task of one caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The tool that began it, as callers know it.
    pub tool: Box<str>,
    /// Where it runs.
    pub server: Key,
    /// How that server calls it.
    pub id: Box<str>,
}

impl Task {
    /// The task behind an id, if it is this caller's.
    pub fn open(gateway: &Gateway, caller: &HeaderClaim, known: &str) -> Option<Self> {
        let content = gateway.task_ids().open(&owner(caller), known)?;
        serde_json::from_slice(&content).ok()
    }
}

/// Checks what a task gave like any result of the tool that began it.
pub(super) fn check(
    gateway: &Gateway,
    offer: &Offer,
    task: &RawValue,
    record: &mut CallRecord,
) -> Result<(), Error> {
    let members = Object::parse(task).unwrap_or_default();
    let Some(result) = members.find("result").filter(|_| offer.checks().output != Mode::Ignore)
    else {
        return Ok(());
    };
    let Given { is_error } = jsonrpc::read_object(result).unwrap_or_default();
    if is_error { Ok(()) } else { validate::output(gateway, offer, result, record) }
}

#[derive(Default, Deserialize)]
struct Given {
    #[serde(rename = "isError", default)]
    is_error: bool,
}

/// Sealed for one caller and no other.
fn owner(caller: &HeaderClaim) -> Vec<u8> {
    // A claim is texts and nothing else, which can be written.
    let caller = serde_json::to_string(caller).unwrap_or_default();
    format!("{PURPOSE} {caller}").into_bytes()
}

/// Gives the tasks of one result the ids under which its caller knows them.
#[derive(Debug)]
pub struct TaskNames {
    sealer: Arc<Sealer>,
    owner: Vec<u8>,
    tool: Box<str>,
    server: Key,
    /// The task that was asked for, and its id: it keeps that.
    asked: Option<(Box<str>, Box<str>)>,
}

impl TaskNames {
    /// For what a tool begins.
    pub(super) fn begun(gateway: &Gateway, caller: &HeaderClaim, tool: &str, server: &Key) -> Self {
        let (sealer, owner) = (Arc::clone(gateway.task_ids()), owner(caller));
        Self { sealer, owner, tool: tool.into(), server: server.clone(), asked: None }
    }

    /// For what is said of a task that its caller knows by this id.
    pub(super) fn asked(gateway: &Gateway, caller: &HeaderClaim, task: &Task, known: &str) -> Self {
        let asked = Some((task.id.clone(), known.into()));
        Self { asked, ..Self::begun(gateway, caller, &task.tool, &task.server) }
    }

    /// The id under which the caller knows a task.
    pub fn known(&self, id: &str) -> String {
        if let Some((_, known)) = self.asked.as_ref().filter(|(own, _)| **own == *id) {
            return known.as_ref().to_owned();
        }
        let task = Task { tool: self.tool.clone(), server: self.server.clone(), id: id.into() };
        let sealed = serde_json::to_vec(&task).ok();
        // Without random bytes nothing can be sealed; that text names no task.
        sealed.and_then(|sealed| self.sealer.seal(&self.owner, &sealed).ok()).unwrap_or_default()
    }
}
