//! The catalog, its age and the caller at one moment, and the decisions that depend on them.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use gateway_policy::{Denial, QuotaKey, Standing};
use gateway_protocol::{mcp::Method, naming};
use registry_core::{Key, Kind, Name, entity::Exposure};

use super::{
    AgentCall, Error, FeatureSubject, Gateway, Invocation, RetiredDependency, Target, agent,
    route::{self, AgentRoute, FeatureRoute, ResolvedTool, Route, TaskRoute},
};
use crate::{
    audit::CallRecord,
    freshness::Freshness,
    identity::{Caller, authenticator::Authentication, challenge::AuthenticationError},
    view::{ServedTool, Snapshot, ToolLookup},
};

/// The state that one round of an operation uses.
#[derive(Debug)]
pub(super) struct Moment {
    pub(super) freshness: Freshness,
    pub(super) snapshot: Arc<Snapshot>,
    /// `None` for a step, which the authorization of its composition covers.
    caller: Option<Caller>,
    pub(super) principal: QuotaKey,
}

impl Moment {
    /// Takes a snapshot and resolves the caller in it.
    pub(super) fn now(gateway: &Gateway, call: &Invocation) -> Self {
        if let Target::Step(step) = &call.target {
            return Self {
                freshness: gateway.staleness().check(),
                snapshot: gateway.views().now(),
                caller: None,
                principal: step.quota_key.clone(),
            };
        }
        Self::resolve(gateway, &call.caller)
    }

    /// Records the caller, the catalog and its age. The record of a step already has those of its
    /// composition.
    pub(super) fn record_in(&self, gateway: &Gateway, record: &mut CallRecord) {
        let governance = self.snapshot.governance.as_ref();
        if governance.is_some_and(|governance| governance.inspects()) {
            record.hide_values(gateway.inspections());
        }
        if let Some(caller) = &self.caller {
            record.set_caller(self.snapshot.catalog.revision(), caller);
            record.set_freshness(self.freshness);
        }
    }

    /// The registered agent that calls. `None` also for steps.
    pub(super) fn agent(&self) -> Option<&Key> {
        self.caller.as_ref().and_then(Caller::agent)
    }

    fn resolve(gateway: &Gateway, authentication: &Authentication) -> Self {
        let Authentication { claim, quota_key, client, .. } = authentication;
        // Read first: the age must not be younger than the snapshot.
        let freshness = gateway.staleness().check();
        let snapshot = gateway.views().now();
        let caller = gateway.identify(&snapshot, claim, client.clone());
        let principal = if caller.has_own_quota(claim) { quota_key.clone() } else { None };
        Self { freshness, snapshot, caller: Some(caller), principal }
    }

    /// Resolves the caller's name of the target, and checks the scopes of the request in the same
    /// snapshot.
    ///
    /// Invisible targets are reported as unknown, and reveal no scopes of their own.
    pub(super) fn route(&self, gateway: &Gateway, call: &Invocation) -> Result<Route, Error> {
        let is_ready = || self.snapshot.has_catalog().then_some(()).ok_or(Error::NoCatalog);
        match &call.target {
            Target::Tool(tool) => {
                let resolved = self.resolved(gateway, &tool.name);
                let operation = (Method::CallTool, Some(&*tool.name));
                check_scopes(gateway, &call.caller, operation, resolved.as_ref().ok())?;
                is_ready()?;
                Ok(Route::Tool(resolved?))
            }
            Target::Step(step) => {
                let served = Arc::clone(&step.served);
                Ok(Route::Tool(ResolvedTool { served, standing: Standing::Declared }))
            }
            Target::Agent(agent_call) => {
                let route = is_ready().and_then(|()| self.agent_route(gateway, call, agent_call));
                let name = &agent_call.agent.name;
                let operation = (agent_call.request.operation.name(), Some(name.as_str()));
                let skill = route.as_ref().ok().map(|route| &route.resolved);
                if !agent_call.push.is_notification() {
                    check_scopes_of(gateway, &call.caller, operation, skill)?;
                }
                Ok(Route::Agent(Box::new(route?)))
            }
            Target::Feature { method, subject } => {
                let route = is_ready().and_then(|()| self.feature(gateway, *method, subject));
                let task =
                    if let Ok(Route::Task(task)) = &route { Some(&task.resolved) } else { None };
                let operation = (*method, task.map(|task| task.served.name().as_str()));
                check_scopes(gateway, &call.caller, operation, task)?;
                route
            }
        }
    }

    /// Resolves a tool for a call.
    fn resolved(&self, gateway: &Gateway, tool: &str) -> Result<ResolvedTool, Error> {
        self.resolved_in(gateway, gateway.views().lookup(&self.snapshot), tool)
    }

    /// Resolves the tool that started a task, even if retired: the task may finish, and its caller may
    /// answer its questions.
    pub(super) fn resolved_of_task(
        &self,
        gateway: &Gateway,
        tool: &str,
    ) -> Result<ResolvedTool, Error> {
        self.resolved_in(gateway, gateway.views().lookup(&self.snapshot).with_retired(), tool)
    }

    fn resolved_in(
        &self,
        gateway: &Gateway,
        lookup: ToolLookup<'_>,
        tool: &str,
    ) -> Result<ResolvedTool, Error> {
        let caller = self.caller.as_ref().ok_or(Denial::UnknownCaller)?;
        route::resolved(gateway.policy(), caller, &lookup, tool).map_err(|denial| {
            let agent = caller.agent().filter(|_| denial == Denial::RetiredDependency);
            match agent.and_then(|agent| self.retired_dependency(lookup, agent, tool)) {
                Some(retired) => Error::from(Box::new(retired)),
                None => denial.into(),
            }
        })
    }

    /// The facts about a retired dependency for its error. Skills name no newer version.
    fn retired_dependency(
        &self,
        lookup: ToolLookup<'_>,
        agent: &Key,
        tool: &str,
    ) -> Option<RetiredDependency> {
        let Snapshot { catalog, governance, .. } = &*self.snapshot;
        let declared = lookup.declared_retired(agent, tool)?;
        let is_visible = |served: &ServedTool| {
            let governance = governance.as_deref();
            let policies = governance.and_then(|found| served.policies(found, Some(agent)));
            catalog.find(served.key()).is_some_and(|record| record.is_active())
                && !served.is_quarantined()
                && policies.is_none_or(|found| found.hidden(served.called().action()).is_none())
        };
        let is_tool = declared.kind == Kind::Tool;
        let newest = is_tool.then(|| lookup.newest(&declared.name)).flatten();
        let newest = newest.filter(|served| is_visible(served));
        let record = catalog.find(&declared)?;
        Some(RetiredDependency {
            is_of_retired_server: record.is_usable(),
            newest: newest.map(|served| served.key().version.clone()),
            declared,
        })
    }

    fn agent_route(
        &self,
        gateway: &Gateway,
        call: &Invocation,
        agent_call: &AgentCall,
    ) -> Result<AgentRoute, Error> {
        let caller = self.caller.as_ref().ok_or(Denial::UnknownCaller)?;
        agent::find_route(gateway, &self.snapshot, (caller, &call.caller.claim), agent_call)
    }

    /// The route of a subscription to a task of an agent's skill.
    pub(super) fn subscription(
        &self,
        gateway: &Gateway,
        agent_call: &AgentCall,
        skill: (&Key, &str),
    ) -> Result<Route, Error> {
        if !self.snapshot.has_catalog() {
            return Err(Error::NoCatalog);
        }
        let caller = self.caller.as_ref().ok_or(Denial::UnknownCaller)?;
        let requested = &agent_call.agent;
        let route = agent::find_subscription(gateway, &self.snapshot, caller, requested, skill)?;
        Ok(Route::Agent(Box::new(route)))
    }

    fn feature(
        &self,
        gateway: &Gateway,
        method: Method,
        subject: &FeatureSubject,
    ) -> Result<Route, Error> {
        let ((prefix, own), needed) = match subject {
            FeatureSubject::Prompt(name) => {
                let (prefix, own) = naming::prompt(name);
                ((prefix, Cow::Borrowed(own)), Exposure::Prompts)
            }
            FeatureSubject::Resource(uri) => {
                (self.snapshot.definitions.interfaces().resolve(uri), Exposure::Resources)
            }
            FeatureSubject::Task(known, task) => {
                let (task, known) = (task.clone().ok_or(Denial::NoSuchTool)?, known.clone());
                let resolved = self.resolved_of_task(gateway, &task.tool)?;
                return Ok(Route::Task(TaskRoute { method, resolved, task, known }));
            }
        };
        let caller = self.caller.as_ref().ok_or(Denial::UnknownCaller)?;
        let view = gateway.view(&self.snapshot, caller);
        let visible_servers = gateway.visible_servers(&self.snapshot, &view, caller);
        let visible = visible_servers.find(prefix).filter(|visible| visible.exposes(needed));
        let visible = visible.ok_or(Denial::NoSuchTool)?;
        let (server, subject) = (visible.server.clone(), (&*own).into());
        Ok(Route::Feature(FeatureRoute { method, server, subject }))
    }
}

/// Records the caller of an operation that a surface serves itself.
pub(crate) fn record_caller(gateway: &Gateway, caller: &Authentication, record: &mut CallRecord) {
    Moment::resolve(gateway, caller).record_in(gateway, record);
}

/// Checks the scopes of a method that a surface serves itself.
pub(crate) fn check_method_scopes(
    gateway: &Gateway,
    caller: &Authentication,
    method: &str,
) -> Result<(), AuthenticationError> {
    check_scopes_of(gateway, caller, (method, None), None)
}

/// Checks the scopes for a tool and its inner tools. For requests that continue an earlier call.
pub(crate) fn check_call_scopes(
    gateway: &Gateway,
    caller: &Authentication,
    tool: &str,
) -> Result<(), AuthenticationError> {
    if !gateway.authenticator().has_scopes() {
        return Ok(());
    }
    let resolved = Moment::resolve(gateway, caller).resolved(gateway, tool).ok();
    check_scopes(gateway, caller, (Method::CallTool, Some(tool)), resolved.as_ref())
}

fn check_scopes(
    gateway: &Gateway,
    caller: &Authentication,
    (method, tool): (Method, Option<&str>),
    resolved: Option<&ResolvedTool>,
) -> Result<(), AuthenticationError> {
    check_scopes_of(gateway, caller, (method.as_str(), tool), resolved)
}

pub(super) fn check_scopes_of(
    gateway: &Gateway,
    caller: &Authentication,
    operation: (&str, Option<&str>),
    resolved: Option<&ResolvedTool>,
) -> Result<(), AuthenticationError> {
    let authenticator = gateway.authenticator();
    if !authenticator.has_scopes() {
        return Ok(());
    }
    let tools = resolved.map(|resolved| tools_of(&resolved.served)).unwrap_or_default();
    authenticator.check_scopes(caller, operation, &tools)
}

fn tools_of(served: &ServedTool) -> BTreeSet<Name> {
    let mut tools = served.composed().map(|composed| composed.reach().clone()).unwrap_or_default();
    tools.insert(served.name().clone());
    tools
}
