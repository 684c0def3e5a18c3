//! One request about something besides tools, from end to end: a prompt, a resource, a completion,
//! a task.
//!
//! Deliberately absent: lists, which are answered from what is known.

use std::{borrow::Cow, sync::Arc};

use registry_core::{Key, entity::Exposure};

use super::{Error, Gateway, Outcome, Task, TaskNames, finish_input, task};
use crate::{
    audit::{self, CallRecord},
    freshness::Freshness,
    identity::{Caller, ClientInfo, HeaderClaim},
    permit,
    policy::{Denial, Finding, Permit},
    upstream::{Context, Method, Param, Request, Side, Subscribed, naming},
    view::{Offer, Snapshot},
};

/// A request as it arrived.
#[derive(Debug)]
pub struct Relay {
    /// Whom the headers name.
    pub claim: HeaderClaim,
    /// What the client says that it is.
    pub client: Option<Arc<ClientInfo>>,
    /// What is asked.
    pub method: Method,
    /// What it is about.
    pub about: About,
    /// All other parameters.
    pub params: Vec<Param>,
    /// What else belongs to it.
    pub context: Context,
    /// The way back to the caller.
    pub side: Option<Side>,
}

impl Relay {
    /// `tasks/get` in a caller's name.
    pub fn task_status(
        (claim, client): (HeaderClaim, Option<Arc<ClientInfo>>),
        about: About,
        context: Context,
    ) -> Self {
        let (method, params, side) = (Method::GetTask, Vec::new(), None);
        Self { claim, client, method, about, params, context, side }
    }
}

/// What a request is about, under the name that callers know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// A prompt.
    Prompt(Box<str>),
    /// A resource, or the template of some.
    Resource(Box<str>),
    /// A task: its id, and what is behind that, if it is one of the caller's.
    Task(Box<str>, Option<Task>),
}

impl About {
    /// Its name, as callers know it.
    pub fn known(&self) -> &str {
        match self {
            Self::Prompt(known) | Self::Resource(known) | Self::Task(known, _) => known,
        }
    }

    /// The same for the audit: of a resource where it is, of a task which tool began it.
    pub fn audited(&self) -> Cow<'_, str> {
        match self {
            Self::Prompt(name) => Cow::Borrowed(name),
            Self::Resource(uri) => audit::place(uri).into(),
            Self::Task(_, task) => task.as_ref().map_or("", |task| &task.tool).into(),
        }
    }
}

/// A request that may go on.
struct Admitted {
    server: Key,
    permit: Permit,
    finding: Option<Finding>,
    /// The tool that began a task, if its server is still the same.
    began: Option<Arc<Offer>>,
}

/// Runs one request.
pub async fn relay(
    gateway: &Gateway,
    relay: &Relay,
    record: &mut CallRecord,
) -> Result<Outcome, Error> {
    let freshness = gateway.watchman().look();
    let snapshot = gateway.views().now();
    let caller = gateway.identify(&snapshot, &relay.claim, relay.client.clone());
    record.identified(snapshot.catalog.revision(), &caller);
    record.dated(freshness);
    let admitted = admit(gateway, &snapshot, &caller, (&relay.about, &freshness))?;
    let Admitted { server, permit, finding, began } = admitted;
    record.of_server(&server, finding);
    let trace = record.onward(&relay.context.trace);
    let request = Request {
        method: relay.method,
        arguments: None,
        params: &relay.params,
        context: &relay.context,
        is_repeatable: relay.method.only_reads(),
        timeout: None,
        trace: &trace,
        side: relay.side.as_ref(),
        principal: &caller.principal(&relay.claim),
    };
    let tasks = match &relay.about {
        About::Task(known, Some(task)) => {
            Some(TaskNames::asked(gateway, &relay.claim, task, known))
        }
        _ => None,
    };
    let result = gateway.upstreams().send(permit, request).await;
    record.returned();
    let result = result.map_err(|error| match &tasks {
        Some(names) => names.in_error(error),
        None => error,
    })?;
    finish_input(&result, &relay.context)?;
    if let Some(offer) = began {
        task::check(gateway, &offer, (relay, &result), record).await?;
    }
    record.finished(&result);
    let revision = snapshot.catalog.revision();
    let names = gateway.resource_names(&snapshot, &server);
    Ok(Outcome { result, revision, freshness, names, tasks, steps: None })
}

/// Watches a resource for a caller, if its server agrees.
pub async fn watch(
    gateway: &Gateway,
    (claim, client): (&HeaderClaim, Option<Arc<ClientInfo>>),
    uri: &str,
    record: &mut CallRecord,
) -> Result<Subscribed, Error> {
    let freshness = gateway.watchman().look();
    let snapshot = gateway.views().now();
    let caller = gateway.identify(&snapshot, claim, client);
    let about = About::Resource(uri.into());
    let admitted = admit(gateway, &snapshot, &caller, (&about, &freshness));
    record.identified(snapshot.catalog.revision(), &caller);
    record.dated(freshness);
    let admitted = admitted?;
    record.of_server(&admitted.server, admitted.finding);
    let watching = gateway.upstreams().watch(&admitted.permit, &caller.principal(claim))?;
    Ok(watching.agreed().await?)
}

fn admit(
    gateway: &Gateway,
    snapshot: &Snapshot,
    caller: &Caller,
    (about, freshness): (&About, &Freshness),
) -> Result<Admitted, Error> {
    if !snapshot.has_catalog() {
        return Err(Error::NoCatalog);
    }
    let ((prefix, own), needed) = match about {
        About::Prompt(name) => {
            let (prefix, own) = naming::prompt(name);
            ((prefix, Cow::Borrowed(own)), Exposure::Prompts)
        }
        About::Resource(uri) => {
            (snapshot.definitions.interfaces().resolve(uri), Exposure::Resources)
        }
        About::Task(_, task) => {
            let task = task.as_ref().ok_or(Denial::NoSuchTool)?;
            let sight = gateway.views().sight(snapshot);
            let offered = permit::offered(gateway.policy(), caller, &sight, &task.tool)?;
            let place = (&task.server, &*task.id);
            let (permit, finding) =
                permit::admit_task(gateway.policy(), freshness, &offered, place)?;
            let began = Some(offered.offer).filter(|offer| offer.server() == Some(&task.server));
            return Ok(Admitted { server: task.server.clone(), permit, finding, began });
        }
    };
    let showcase = gateway.showcase(snapshot, &gateway.view(snapshot, caller));
    let shown = showcase.find(prefix).filter(|shown| shown.exposes(needed));
    let shown = shown.ok_or(Denial::NoSuchTool)?;
    let permit = permit::admit_shown(gateway.policy(), freshness, shown, &own)?;
    Ok(Admitted { server: shown.server.clone(), permit, finding: None, began: None })
}
