//! The route of an operation: the resolved target, and the facts that authorize it.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use gateway_policy::{
    Authorized, Denial, Facts, Finding, Permit, RuntimeValidation, Stale, Standing, authorize,
    decide,
};
use gateway_protocol::mcp::Method;
use registry_core::{Key, Kind, Name};

use super::Task;
use crate::{
    freshness::Freshness,
    identity::{Caller, Identity},
    view::{Audience, ServedTool, ToolLookup},
};

/// The standing of a caller without a matching dependency.
fn undeclared(caller: &Caller) -> Standing {
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
            let is_allowed = decide(policy, undeclared(caller)).is_ok();
            if is_allowed { Audience::Everyone } else { Audience::Nobody }
        }
    }
}

#[derive(Debug)]
pub(super) enum Route {
    Tool(ResolvedTool),
    Feature(FeatureRoute),
    Task(TaskRoute),
}

/// A prompt or resource that is visible to the caller.
#[derive(Debug)]
pub(super) struct FeatureRoute {
    pub(super) method: Method,
    pub(super) server: Key,
    /// The server's name of the prompt or resource.
    pub(super) subject: Arc<str>,
}

/// A task of the caller, who must still be authorized for the tool that started it.
#[derive(Debug)]
pub(super) struct TaskRoute {
    pub(super) method: Method,
    pub(super) resolved: ResolvedTool,
    pub(super) task: Task,
    /// The caller's id of the task.
    pub(super) known: Box<str>,
}

impl Route {
    /// The called tool.
    pub(super) fn served(&self) -> Option<&Arc<ServedTool>> {
        if let Self::Tool(ResolvedTool { served, .. }) = self { Some(served) } else { None }
    }

    /// The server of a prompt, resource or task.
    pub(super) fn server(&self) -> Option<&Key> {
        match self {
            Self::Tool(_) => None,
            Self::Feature(route) => Some(&route.server),
            Self::Task(route) => Some(&route.task.server),
        }
    }
}

/// An authorized operation.
#[derive(Debug)]
pub(super) struct AuthorizedRoute {
    pub(super) route: Route,
    /// The violation that the policy lets pass.
    pub(super) finding: Option<Finding>,
    /// The permit for the upstream. `None`: a composition, whose steps get their own.
    pub(super) permit: Option<Permit>,
}

/// A tool, and the standing of the caller that named it.
#[derive(Debug)]
pub(super) struct ResolvedTool {
    pub(super) served: Arc<ServedTool>,
    pub(super) standing: Standing,
}

/// Finds a tool by the caller's name of it. A dependency of the agent selects its exact version;
/// other callers get the newest version.
pub(super) fn resolved(
    policy: RuntimeValidation,
    caller: &Caller,
    lookup: &ToolLookup<'_>,
    tool: &str,
) -> Result<ResolvedTool, Denial> {
    let name = Name::parse(Kind::Tool, tool).map_err(|_| Denial::NoSuchTool)?;
    let declared = caller.agent().and_then(|agent| lookup.declared(agent, &name));
    let standing = if declared.is_some() { Standing::Declared } else { undeclared(caller) };
    decide(policy, standing)?;
    let served = declared.or_else(|| lookup.newest(&name)).ok_or(Denial::NoSuchTool)?;
    Ok(ResolvedTool { served, standing })
}

pub(super) fn authorize_route(
    policy: RuntimeValidation,
    freshness: &Freshness,
    route: Route,
) -> Result<AuthorizedRoute, Denial> {
    let facts = match &route {
        Route::Tool(ResolvedTool { served, standing }) => Facts {
            policy,
            standing: *standing,
            stale: stale(freshness, served.is_read_only()),
            is_quarantined: served.is_quarantined(),
            upstream: served.upstream().map(|(server, tool)| (server, Arc::clone(tool))),
        },
        Route::Feature(FeatureRoute { server, subject, .. }) => Facts {
            policy,
            standing: Standing::Declared,
            stale: stale(freshness, true),
            is_quarantined: false,
            upstream: Some((server, Arc::clone(subject))),
        },
        Route::Task(TaskRoute { resolved, task, .. }) => Facts {
            policy,
            standing: resolved.standing,
            stale: stale(freshness, true),
            is_quarantined: false,
            upstream: Some((&task.server, (&*task.id).into())),
        },
    };
    let Authorized { finding, permit } = authorize(facts)?;
    Ok(AuthorizedRoute { route, finding, permit })
}

fn stale(freshness: &Freshness, is_read_only: bool) -> Option<Stale> {
    let is_stale = !freshness.level.admits(is_read_only);
    let limit = freshness.limit(is_read_only);
    is_stale.then_some(Stale { age: freshness.age, limit, is_read_only })
}
