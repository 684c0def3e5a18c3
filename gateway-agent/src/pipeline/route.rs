//! The route of an operation: the resolved target, and the facts that authorize it.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use a2a::Request;
use gateway_policy::{
    Authorized, Denial, Facts, Permit, PolicyFinding, RuntimeValidation, StaleCatalog, Standing,
    authorize, authorize_composition, check_standing,
};
use gateway_protocol::mcp::Method;
use registry_core::{Key, Kind, Name, spec::Target};

use super::{Invocation, Task, agent::AgentTask};
use crate::{
    freshness::Freshness,
    identity::{Caller, Identity},
    view::{Audience, Backend, Composed, ServedTool, ToolLookup},
};

/// The standing of a caller without a matching dependency.
pub(super) fn undeclared(caller: &Caller) -> Standing {
    match caller.identity() {
        Identity::Agent(_) => Standing::Undeclared,
        Identity::Retired => Standing::RetiredAgent,
        Identity::UnknownVersion => Standing::UnknownVersion,
        Identity::Unknown => Standing::UnknownCaller,
    }
}

/// Returns the audience of a caller's list: the agent's dependencies, or all tools for unidentified
/// callers. Undeclared tools are never listed, even if the policy allows calls to them.
pub(super) fn audience(policy: RuntimeValidation, caller: &Caller) -> Audience {
    match caller.identity() {
        Identity::Agent(agent) => Audience::Agent(agent.clone()),
        Identity::Retired | Identity::UnknownVersion | Identity::Unknown => {
            let is_allowed = check_standing(policy, undeclared(caller)).is_ok();
            if is_allowed { Audience::Everyone } else { Audience::Nobody }
        }
    }
}

#[derive(Debug)]
pub(super) enum Route {
    Tool(ResolvedTool),
    Feature(FeatureRoute),
    Task(TaskRoute),
    Agent(Box<AgentRoute>),
}

impl Route {
    /// The name of the called skill in audit events, usage and metrics: `AGENT/SKILL`.
    pub(super) fn skill_name(&self) -> Option<String> {
        let served = match self {
            Self::Tool(resolved) => &resolved.served,
            Self::Agent(route) => &route.resolved.served,
            Self::Feature(_) | Self::Task(_) => return None,
        };
        let (agent, skill) = served.skill()?;
        Some(Target::Agent { name: agent.name.clone(), skill: skill.to_owned() }.to_string())
    }
}

/// A prompt or resource that is visible to the caller.
#[derive(Debug)]
pub(super) struct FeatureRoute {
    pub(super) method: Method,
    pub(super) server: Key,
    /// The server's name of the prompt or resource.
    pub(super) subject: Arc<str>,
}

/// A task of the caller. Access still requires authorization for the tool that started it.
#[derive(Debug)]
pub(super) struct TaskRoute {
    pub(super) method: Method,
    pub(super) resolved: ResolvedTool,
    pub(super) task: Task,
    /// The caller's id of the task.
    pub(super) known: Box<str>,
}

/// An operation of A2A at a skill of an agent. One about a task requires authorization for the skill
/// that started it.
#[derive(Debug)]
pub(super) struct AgentRoute {
    pub(super) resolved: ResolvedTool,
    /// The agent that receives the operation: the one that runs the task, or that of the skill.
    pub(super) agent: Key,
    /// The task of the request, including the one that a message continues.
    pub(super) task: Option<AgentTask>,
    /// The request with the caller's ids. Its parameters are moved here after the authorization,
    /// because a copy can be large.
    pub(super) request: Request,
}

impl AgentRoute {
    /// The id of the skill.
    pub(super) fn skill(&self) -> &str {
        self.resolved.served.skill().map_or("", |(_, skill)| skill)
    }
}

/// An authorized operation with the permit for its upstream.
#[derive(Debug)]
pub(super) enum AuthorizedRoute {
    Tool(Arc<ServedTool>, ToolBackend),
    Feature(FeatureRoute, Permit),
    Task(TaskRoute, Permit),
    Agent(Box<AgentRoute>, Permit),
}

/// The upstream or composition that runs a tool.
#[derive(Debug)]
pub(super) enum ToolBackend {
    Upstream(Permit),
    /// Each step gets its own permit.
    Composition(Arc<Composed>),
}

impl AuthorizedRoute {
    /// The called tool or skill.
    pub(super) fn served(&self) -> Option<&Arc<ServedTool>> {
        match self {
            Self::Tool(served, _) => Some(served),
            Self::Agent(route, _) if route.request.operation.sends_message() => {
                Some(&route.resolved.served)
            }
            Self::Feature(..) | Self::Task(..) | Self::Agent(..) => None,
        }
    }

    /// Moves the parameters of an operation of A2A into its route.
    pub(super) fn take_request(&mut self, call: &mut Invocation) {
        if let (Self::Agent(route, _), super::Target::Agent(sent)) = (self, &mut call.target) {
            route.request.params = std::mem::take(&mut sent.request.params);
        }
    }

    /// The called composition.
    pub(super) fn composed(&self) -> Option<&Composed> {
        match self {
            Self::Tool(_, ToolBackend::Composition(composed)) => Some(&**composed),
            Self::Tool(..) | Self::Feature(..) | Self::Task(..) | Self::Agent(..) => None,
        }
    }

    /// The server of a prompt, resource or task, or the agent.
    pub(super) fn server(&self) -> Option<&Key> {
        match self {
            Self::Tool(..) => None,
            Self::Feature(route, _) => Some(&route.server),
            Self::Task(route, _) => Some(&route.task.server),
            Self::Agent(route, _) => Some(&route.agent),
        }
    }
}

/// A tool, and the standing of the caller that named it.
#[derive(Debug)]
pub(super) struct ResolvedTool {
    pub(super) served: Arc<ServedTool>,
    pub(super) standing: Standing,
}

/// Finds a tool by the caller's name of it. A dependency of the agent selects its exact version;
/// other callers get the newest version. So does an agent whose dependency is retired, if the policy
/// allows undeclared tools.
pub(super) fn resolved(
    policy: RuntimeValidation,
    caller: &Caller,
    lookup: &ToolLookup<'_>,
    tool: &str,
) -> Result<ResolvedTool, Denial> {
    let declared = caller.agent().and_then(|agent| lookup.declared(agent, tool));
    if let Some(served) = declared {
        return Ok(ResolvedTool { served, standing: Standing::Declared });
    }
    let name = Name::parse(Kind::Tool, tool).map_err(|_| Denial::NoSuchTool)?;
    let retired = caller.agent().and_then(|agent| lookup.declared_retired(agent, tool));
    let (standing, missing) = match retired {
        Some(_) => (Standing::RetiredDependency, Denial::RetiredDependency),
        None => (undeclared(caller), Denial::NoSuchTool),
    };
    check_standing(policy, standing)?;
    let served = lookup.newest(&name).ok_or(missing)?;
    Ok(ResolvedTool { served, standing })
}

/// Authorizes an operation. Returns the violation that the policy lets pass, if there is one.
pub(super) fn authorize_route(
    policy: RuntimeValidation,
    freshness: &Freshness,
    route: Route,
) -> Result<(AuthorizedRoute, Option<PolicyFinding>), Denial> {
    match route {
        Route::Tool(ResolvedTool { served, standing }) => {
            let stale = stale(freshness, served.is_read_only());
            let facts = Facts { policy, standing, stale, is_quarantined: served.is_quarantined() };
            match served.backend() {
                Backend::Upstream(binding) => {
                    let authorized = authorize(facts, &binding.server, Arc::clone(&binding.tool))?;
                    let Authorized { permit, finding } = authorized;
                    Ok((AuthorizedRoute::Tool(served, ToolBackend::Upstream(permit)), finding))
                }
                Backend::Composed(composed) => {
                    let finding = authorize_composition(facts)?;
                    let backend = ToolBackend::Composition(Arc::clone(composed));
                    Ok((AuthorizedRoute::Tool(served, backend), finding))
                }
            }
        }
        Route::Feature(route) => {
            let (standing, stale) = (Standing::Declared, stale(freshness, true));
            let facts = Facts { policy, standing, stale, is_quarantined: false };
            let Authorized { permit, finding } =
                authorize(facts, &route.server, Arc::clone(&route.subject))?;
            Ok((AuthorizedRoute::Feature(route, permit), finding))
        }
        Route::Task(route) => {
            let (standing, stale) = (route.resolved.standing, stale(freshness, true));
            let facts = Facts { policy, standing, stale, is_quarantined: false };
            let Authorized { permit, finding } =
                authorize(facts, &route.task.server, &*route.task.id)?;
            Ok((AuthorizedRoute::Task(route, permit), finding))
        }
        Route::Agent(route) => {
            let ResolvedTool { served, standing } = &route.resolved;
            let is_call = route.request.operation.sends_message();
            let stale = stale(freshness, !is_call || served.is_read_only());
            let is_quarantined = is_call && served.is_quarantined();
            let facts = Facts { policy, standing: *standing, stale, is_quarantined };
            let subject = match &route.task {
                Some(task) if !is_call => &*task.id,
                _ => route.skill(),
            };
            let Authorized { permit, finding } = authorize(facts, &route.agent, subject)?;
            Ok((AuthorizedRoute::Agent(route, permit), finding))
        }
    }
}

fn stale(freshness: &Freshness, is_read_only: bool) -> Option<StaleCatalog> {
    let is_stale = !freshness.level.admits(is_read_only);
    let limit = freshness.limit(is_read_only);
    is_stale.then_some(StaleCatalog { age: freshness.age, limit, is_read_only })
}
