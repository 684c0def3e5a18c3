//! The endpoints of the gateway that agents send push notifications to.
//!
//! A URL contains the agent and the skill, because a notification can arrive before the answer that
//! starts its task.

use a2a::{Failure, Operation, Request};
use gateway_policy::CallerIdentity;
use registry_core::{Key, Name};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    super::{Gateway, PushEndpoint},
    ids::{AgentTask, Seals},
};
use crate::seal::Sealer;

/// The purpose of the seal.
const PURPOSE: &[u8] = b"a2a-push-1";

/// A task of a caller, for the comparison of ids: a task has several after a rotation of keys.
#[derive(Debug)]
pub(crate) struct ComparedTask {
    seals: Seals,
    task: AgentTask,
}

impl ComparedTask {
    /// Opens an id. Fails if the task belongs to another principal or agent.
    pub(crate) fn open(
        gateway: &Gateway,
        caller: &CallerIdentity,
        (agent, known): (&Name, &str),
    ) -> Result<Self, Failure> {
        let seals = Seals::of(gateway, caller);
        let task = seals.task_of(agent, known).map_err(|failure| *failure)?;
        Ok(Self { seals, task })
    }

    /// Whether a caller's id is that of this task.
    pub(crate) fn has_id(&self, known: &str) -> bool {
        let other = self.seals.task_of(&self.task.agent.name, known);
        other.is_ok_and(|other| other.id == self.task.id)
    }
}

/// The sealed part of the URL of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PushAddress {
    /// The id of the configuration.
    pub(crate) id: Box<str>,
    agent: Key,
    skill: Box<str>,
}

impl PushAddress {
    /// Opens the last segment of a URL.
    pub(crate) fn open(gateway: &Gateway, sealed: &str) -> Option<Self> {
        serde_json::from_slice(&gateway.sealer().open(PURPOSE, sealed)?).ok()
    }

    /// The name of the agent that has the URL.
    pub(crate) fn agent(&self) -> &Name {
        &self.agent.name
    }

    /// The caller's id of a task with the agent's id `own`. `known`: the caller's id of the task
    /// that the configuration is for. `None`: the task is another one.
    pub(crate) fn known_task(
        &self,
        gateway: &Gateway,
        caller: &CallerIdentity,
        (known, own): (Option<&str>, &str),
    ) -> Option<String> {
        let seals = Seals::of(gateway, caller);
        let Some(known) = known else {
            let Self { agent, skill, .. } = self.clone();
            return Some(seals.known_task(&AgentTask { agent, skill, id: own.into() }));
        };
        let task = seals.task_of(&self.agent.name, known).ok()?;
        (*task.id == *own).then(|| known.to_owned())
    }
}

/// Replaces the caller's configuration in a request by that of the gateway.
pub(super) fn register(
    sealer: &Sealer,
    (endpoint, agent, skill): (&PushEndpoint, &Key, &str),
    request: &mut Request,
) -> Result<(), Failure> {
    let PushEndpoint { id, base, token } = endpoint;
    let address = PushAddress { id: id.clone(), agent: agent.clone(), skill: skill.into() };
    let content = serde_json::to_vec(&address).unwrap_or_default();
    let address = sealer.seal(PURPOSE, &content).map_err(|_| Failure::push_not_supported())?;
    let token = token.expose();
    let config = json!({
        "id": id,
        "url": format!("{base}{address}"),
        "token": token,
        // Agents send one of the two.
        "authentication": { "scheme": "Bearer", "credentials": token },
    });
    if request.operation == Operation::CreatePushConfig {
        let task = request.params.remove("taskId");
        request.params = config.as_object().cloned().unwrap_or_default();
        request.params.extend(task.map(|task| ("taskId".to_owned(), task)));
    } else if let Some(configuration) =
        request.params.get_mut("configuration").and_then(Value::as_object_mut)
    {
        configuration.insert("taskPushNotificationConfig".to_owned(), config);
    }
    Ok(())
}
