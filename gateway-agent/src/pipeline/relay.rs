//! One request about something besides tools, from end to end: a prompt, a resource, a completion,
//! a task.
//!
//! Deliberately absent: lists, which are answered from what is known.

use std::sync::Arc;

use registry_core::entity::Exposure;

use super::{Error, Gateway, Outcome, finish_input};
use crate::{
    audit::CallRecord,
    freshness::Freshness,
    identity::{Caller, ClientInfo, HeaderClaim},
    permit::{self, Denial, Permit},
    upstream::{Context, Method, Param, Request, Side, Subscribed, naming},
    view::{Shown, Snapshot},
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

/// What a request is about, under the name that callers know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// A prompt.
    Prompt(Box<str>),
    /// A resource, or the template of some.
    Resource(Box<str>),
    /// A task.
    Task(Box<str>),
}

impl About {
    /// Whose it is, and how its server calls it.
    fn split(&self) -> (&str, &str) {
        match self {
            Self::Prompt(name) => naming::prompt(name),
            Self::Resource(uri) => naming::uri(uri),
            Self::Task(id) => naming::task(id),
        }
    }

    fn exposure(&self) -> Option<Exposure> {
        match self {
            Self::Prompt(_) => Some(Exposure::Prompts),
            Self::Resource(_) => Some(Exposure::Resources),
            // A task comes of a tool.
            Self::Task(_) => None,
        }
    }
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
    let (shown, permit) = admit(gateway, &snapshot, &caller, (&relay.about, &freshness))?;
    record.of_server(&shown.server);
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
    };
    let result = gateway.upstreams().send(permit, request).await;
    record.returned();
    let result = result?;
    finish_input(&result, &relay.context)?;
    record.finished(&result);
    let (revision, prefix) = (snapshot.catalog.revision(), Some(shown.prefix));
    Ok(Outcome { result, revision, freshness, prefix, steps: None })
}

/// Watches a resource for a caller.
pub fn watch(
    gateway: &Gateway,
    (claim, client): (&HeaderClaim, Option<Arc<ClientInfo>>),
    uri: &str,
) -> Result<Subscribed, Error> {
    let freshness = gateway.watchman().look();
    let snapshot = gateway.views().now();
    let caller = gateway.identify(&snapshot, claim, client);
    let about = About::Resource(uri.into());
    let (_, permit) = admit(gateway, &snapshot, &caller, (&about, &freshness))?;
    Ok(gateway.upstreams().watch(&permit)?)
}

fn admit(
    gateway: &Gateway,
    snapshot: &Snapshot,
    caller: &Caller,
    (about, freshness): (&About, &Freshness),
) -> Result<(Shown, Permit), Error> {
    if !snapshot.has_catalog() {
        return Err(Error::NoCatalog);
    }
    let showcase = gateway.showcase(snapshot, &gateway.view(snapshot, caller));
    let (prefix, own) = about.split();
    let shown = showcase
        .find(prefix)
        .filter(|shown| about.exposure().is_none_or(|needed| shown.exposes(needed)));
    let shown = shown.ok_or(Denial::NoSuchTool)?.clone();
    let permit = permit::admit_shown(freshness, &shown, own)?;
    Ok((shown, permit))
}
