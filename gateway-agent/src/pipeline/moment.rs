//! The catalog, its age and the caller at one moment, and the decisions that depend on them.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use gateway_policy::{Denial, Principal, Standing};
use gateway_protocol::{mcp::Method, naming};
use registry_core::{Name, entity::Exposure};

use super::{
    About, Error, Gateway, Invocation, Target,
    route::{self, FeatureRoute, Offered, Route, TaskRoute},
};
use crate::{
    audit::CallRecord,
    freshness::Freshness,
    identity::{Caller, authenticator::Authentication, challenge::Refusal},
    view::{Offer, Snapshot},
};

/// The state that one round of an operation uses.
#[derive(Debug)]
pub(super) struct Moment {
    pub(super) freshness: Freshness,
    pub(super) snapshot: Arc<Snapshot>,
    /// `None` for a step, which the authorization of its composition covers.
    caller: Option<Caller>,
    pub(super) principal: Principal,
}

impl Moment {
    /// Takes a snapshot and resolves the caller in it.
    pub(super) fn now(gateway: &Gateway, call: &Invocation, record: &mut CallRecord) -> Self {
        if let Target::Step(step) = &call.target {
            // The record of a step already has the caller and catalog of its composition.
            return Self {
                freshness: gateway.watchman().look(),
                snapshot: gateway.views().now(),
                caller: None,
                principal: step.principal.clone(),
            };
        }
        let moment = Self::of(gateway, &call.caller);
        if let Some(caller) = &moment.caller {
            record.identified(moment.snapshot.catalog.revision(), caller);
        }
        record.dated(moment.freshness);
        moment
    }

    fn of(gateway: &Gateway, Authentication { claim, client, .. }: &Authentication) -> Self {
        // Read first: the age must not be younger than the snapshot.
        let freshness = gateway.watchman().look();
        let snapshot = gateway.views().now();
        let caller = gateway.identify(&snapshot, claim, client.clone());
        let principal = caller.principal(claim);
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
                let offered = self.offered(gateway, &tool.name);
                let asked = (Method::CallTool, Some(&*tool.name));
                check_scopes(gateway, &call.caller, asked, offered.as_ref().ok())?;
                is_ready()?;
                Ok(Route::Tool(offered?))
            }
            Target::Step(step) => {
                let offer = Arc::clone(&step.offer);
                Ok(Route::Tool(Offered { offer, standing: Standing::Declared }))
            }
            Target::Feature { method, about } => {
                let route = is_ready().and_then(|()| self.feature(gateway, *method, about));
                let task = if let Ok(Route::Task(task)) = &route { Some(&task.offered) } else { None };
                let asked = (*method, task.map(|task| task.offer.name().as_str()));
                check_scopes(gateway, &call.caller, asked, task)?;
                route
            }
        }
    }

    fn offered(&self, gateway: &Gateway, tool: &str) -> Result<Offered, Denial> {
        let sight = gateway.views().sight(&self.snapshot);
        let caller = self.caller.as_ref().ok_or(Denial::UnknownCaller)?;
        route::offered(gateway.policy(), caller, &sight, tool)
    }

    fn feature(&self, gateway: &Gateway, method: Method, about: &About) -> Result<Route, Error> {
        let ((prefix, own), needed) = match about {
            About::Prompt(name) => {
                let (prefix, own) = naming::prompt(name);
                ((prefix, Cow::Borrowed(own)), Exposure::Prompts)
            }
            About::Resource(uri) => {
                (self.snapshot.definitions.interfaces().resolve(uri), Exposure::Resources)
            }
            About::Task(known, task) => {
                let (task, known) = (task.clone().ok_or(Denial::NoSuchTool)?, known.clone());
                let offered = self.offered(gateway, &task.tool)?;
                return Ok(Route::Task(TaskRoute { method, offered, task, known }));
            }
        };
        let caller = self.caller.as_ref().ok_or(Denial::UnknownCaller)?;
        let view = gateway.view(&self.snapshot, caller);
        let showcase = gateway.showcase(&self.snapshot, &view);
        let shown = showcase.find(prefix).filter(|shown| shown.exposes(needed));
        let shown = shown.ok_or(Denial::NoSuchTool)?;
        let (server, subject) = (shown.server.clone(), (&*own).into());
        Ok(Route::Feature(FeatureRoute { method, server, subject }))
    }
}

/// Checks the scopes for a tool and its inner tools. For requests that continue an earlier call.
pub(crate) fn check_call_scopes(
    gateway: &Gateway,
    caller: &Authentication,
    tool: &str,
) -> Result<(), Refusal> {
    if !gateway.authenticator().has_scopes() {
        return Ok(());
    }
    let offered = Moment::of(gateway, caller).offered(gateway, tool).ok();
    check_scopes(gateway, caller, (Method::CallTool, Some(tool)), offered.as_ref())
}

fn check_scopes(
    gateway: &Gateway,
    caller: &Authentication,
    (method, tool): (Method, Option<&str>),
    offered: Option<&Offered>,
) -> Result<(), Refusal> {
    let authenticator = gateway.authenticator();
    if !authenticator.has_scopes() {
        return Ok(());
    }
    let tools = offered.map(|offered| tools_of(&offered.offer)).unwrap_or_default();
    authenticator.check_scopes(caller, (method.as_str(), tool), &tools)
}

fn tools_of(offer: &Offer) -> BTreeSet<Name> {
    let mut tools = offer.composed().map(|composed| composed.reach().clone()).unwrap_or_default();
    tools.insert(offer.name().clone());
    tools
}
