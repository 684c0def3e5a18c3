//! Finds the skill that an operation of A2A is about.

use std::borrow::Cow;

use a2a::{
    ErrorKind, Failure, Operation, Request,
    skill::{check_input_modes, check_output_modes, select},
};
use gateway_policy::{CallerIdentity, Denial, RuntimeValidation, Standing, check_standing};
use registry_core::{
    Key,
    entity::{Agent, Dependency, Skill},
};
use serde_json::{Map, Value};

use super::{
    super::{
        AgentCall, Error, Gateway, PushRole, RetiredDependency,
        invocation::RequestedAgent,
        route::{AgentRoute, ResolvedTool, undeclared},
        validate,
    },
    ids::{AgentTask, Seals},
};
use crate::{
    identity::Caller,
    view::{AddressedAgent, Snapshot, ToolLookup},
};

/// Finds the skill of an operation. An agent without a visible skill is reported as unknown, unless the
/// caller declares it. A retired agent rejects messages. Its tasks can still be read and canceled.
pub(in super::super) fn find_route(
    gateway: &Gateway,
    snapshot: &Snapshot,
    (caller, claim): (&Caller, &CallerIdentity),
    call: &AgentCall,
) -> Result<AgentRoute, Error> {
    let request = &call.request;
    let lookup = gateway.views().lookup(snapshot);
    let lookup = match request.operation {
        Operation::GetTask
        | Operation::CancelTask
        | Operation::SubscribeToTask
        | Operation::DeletePushConfig => lookup.with_retired(),
        _ => lookup,
    };
    let skills = visible_skills(gateway.policy(), caller, &lookup, &call.agent)?;
    check_supported(call, &skills)?;
    let task = match request.task_id() {
        Some(known) => Some(Seals::of(gateway, claim).task_of(&call.agent.name, known)?),
        None => None,
    };
    let resolved = match &task {
        Some(task) => skill_of_task(skills, task, call)?,
        None => selected(gateway, skills, request)?,
    };
    if let (Some(message), Some((agent, skill))) = (request.message(), resolved.served.skill()) {
        check_input_modes(agent, agent.skill(skill), message)?;
        check_output_modes(agent, agent.skill(skill), request)?;
    }
    let agent = task.as_ref().map_or(resolved.served.key(), |task| &task.agent).clone();
    let request = Request::new(request.operation, Map::new());
    Ok(AgentRoute { resolved, agent, task, request })
}

/// Finds the route of a subscription to a task of a skill.
pub(in super::super) fn find_subscription(
    gateway: &Gateway,
    snapshot: &Snapshot,
    caller: &Caller,
    requested: &RequestedAgent,
    (agent, skill): (&Key, &str),
) -> Result<AgentRoute, Error> {
    let lookup = gateway.views().lookup(snapshot).with_retired();
    let skills = visible_skills(gateway.policy(), caller, &lookup, requested)?;
    let is_found =
        |resolved: &ResolvedTool| resolved.served.skill().is_some_and(|(_, own)| own == skill);
    let resolved = skills.into_iter().find(is_found).ok_or(Denial::NoSuchTool)?;
    let request = Request::new(Operation::SubscribeToTask, Map::new());
    Ok(AgentRoute { resolved, agent: agent.clone(), task: None, request })
}

/// The skills of one version of an agent that a caller may use: those that it declares, and the
/// others if the policy allows undeclared ones. At least one. A retired agent has none, unless the
/// lookup includes it.
fn visible_skills(
    policy: RuntimeValidation,
    caller: &Caller,
    lookup: &ToolLookup<'_>,
    requested: &RequestedAgent,
) -> Result<Vec<ResolvedTool>, Error> {
    let RequestedAgent { name, version } = requested;
    let addressed = lookup.addressed_agent(caller.agent(), name, version.as_ref());
    let standing = undeclared(caller);
    let may_use_others = check_standing(policy, standing);
    let others = match (&may_use_others, &addressed) {
        (Ok(_), Some(agent)) => lookup.skills_of(&agent.key),
        _ => Vec::new(),
    };
    let is_retired =
        |agent: &&AddressedAgent| !agent.declared.is_empty() && lookup.is_retired(&agent.key);
    let retired = addressed.as_ref().filter(is_retired).map(|agent| agent.key.clone());
    let declared = addressed.map(|agent| agent.declared).unwrap_or_default();
    let others = others.into_iter().filter(|skill| !declared.contains(skill));
    let resolve = |skill: &Dependency, standing| {
        lookup.skill(skill).map(|served| ResolvedTool { served, standing })
    };
    let mut skills: Vec<_> =
        declared.iter().filter_map(|skill| resolve(skill, Standing::Declared)).collect();
    skills.extend(others.filter_map(|skill| resolve(&skill, standing)));
    match retired {
        _ if !skills.is_empty() => Ok(skills),
        Some(declared) => {
            let retired = RetiredDependency { declared, is_of_retired_server: false, newest: None };
            Err(Box::new(retired).into())
        }
        None => Err(may_use_others.err().unwrap_or(Denial::NoSuchTool).into()),
    }
}

/// Checks that the agent and the gateway support the operation of any skill.
fn check_supported(call: &AgentCall, skills: &[ResolvedTool]) -> Result<(), Failure> {
    let AgentCall { request, extensions, push, .. } = call;
    let operation = request.operation;
    let has_push = request.push_config().is_some() || operation.is_push_config();
    let is_handled =
        matches!(push, PushRole::Register(_)) || operation == Operation::DeletePushConfig;
    if has_push && !is_handled {
        return Err(Failure::push_not_supported());
    }
    let Some((agent, _)) = skills.first().and_then(|skill| skill.served.skill()) else {
        return Ok(());
    };
    if has_push && agent.capabilities.push_notifications != Some(true) {
        return Err(Failure::push_not_supported());
    }
    let is_about_task = !operation.sends_message() && request.task_id().is_some();
    let streams = agent.capabilities.streaming == Some(true) || push.is_notification();
    if !(operation.sends_message() || is_about_task) || (operation.is_streaming() && !streams) {
        let message = format!("the agent does not support {}", operation.name());
        return Err(Failure::new(ErrorKind::UnsupportedOperation, message));
    }
    if is_about_task {
        // The agent gets the extensions of the caller, and decides itself about its tasks. Lists and
        // notifications have no request of the caller that could name extensions.
        return Ok(());
    }
    let required = agent.protocol_extensions().filter(|extension| extension.required == Some(true));
    extensions.require(required.map(|extension| extension.uri.as_str()))
}

/// The skill that started a task, in the version that the caller uses now.
fn skill_of_task(
    skills: Vec<ResolvedTool>,
    task: &AgentTask,
    call: &AgentCall,
) -> Result<ResolvedTool, Failure> {
    let is_addressed = call.agent.version.as_ref().is_none_or(|v| *v == task.agent.version);
    let is_its_skill = |resolved: &ResolvedTool| {
        resolved.served.skill().is_some_and(|(_, skill)| *skill == *task.skill)
    };
    let found = skills.into_iter().find(|resolved| is_addressed && is_its_skill(resolved));
    found.ok_or_else(|| Failure::task_not_found(call.request.task_id().unwrap_or_default()))
}

/// The skill that a message selects among the visible ones.
fn selected(
    gateway: &Gateway,
    mut skills: Vec<ResolvedTool>,
    request: &Request,
) -> Result<ResolvedTool, Failure> {
    let position = |id: &str| {
        skills.iter().position(|resolved| resolved.served.skill().is_some_and(|(_, own)| own == id))
    };
    let unknown = || {
        let problem = "the message does not select one skill: set it to the id of a skill";
        Failure::invalid_params("/message/metadata/skillId", problem)
    };
    let (agent, _) =
        skills.first().and_then(|resolved| resolved.served.skill()).ok_or_else(unknown)?;
    let visible = if skills.len() == agent.skills.len() {
        Cow::Borrowed(agent)
    } else {
        let skills = agent.skills.iter().filter(|skill| position(&skill.id).is_some());
        Cow::Owned(Agent { skills: skills.cloned().collect(), ..agent.clone() })
    };
    let matches = |skill: &Skill, data: &Value| {
        let found = position(&skill.id).and_then(|at| skills.get(at));
        found.is_some_and(|resolved| validate::matches(gateway, &resolved.served, data))
    };
    let skill = select(&visible, request, matches)?.ok_or_else(unknown)?;
    let at = position(&skill.id).ok_or_else(unknown)?;
    drop(visible);
    Ok(skills.swap_remove(at))
}
