//! One tool call from end to end: identify, permit, prepare, invoke, project, finish. A step of a
//! composition takes the same way, but for identify.
//!
//! Deliberately absent: protocols. How a call arrives is `mcp`'s affair, how a failure is answered
//! `respond`'s.

pub mod arguments;
mod defaults;
pub mod error;
mod gateway;
mod handle;
pub(crate) mod input;
pub(crate) mod message;
pub mod mirror;
pub mod projection;
pub mod relay;
mod sagas;
mod settings;
mod steps;
mod task;
mod validate;

use std::{collections::BTreeSet, sync::Arc};

use http::HeaderMap;
use registry_core::{Name, Revision};
use serde_json::value::RawValue;

pub(crate) use self::sagas::{recover_sagas, retry_saga};
use self::{arguments::Arguments, projection::Shielded};
pub use self::{
    error::Error,
    gateway::{Gateway, Parts},
    handle::GatewayHandle,
    relay::{About, Relay, relay},
    settings::{Settings, ToolLimits},
    task::{Task, TaskNames},
};
use crate::{
    audit::CallRecord,
    composition::{self, RunScope, Steps},
    content,
    freshness::Freshness,
    identity::{Caller, ClientInfo, HeaderClaim},
    jsonrpc::Object,
    permit::{self, Admission},
    policy::{Denial, Mode},
    shares::Principal,
    upstream::{self, Context, Param, RawResult, Request, ResourceNames, ResultType, Side},
    view::{Offer, Snapshot},
};

/// A call as it arrived.
#[derive(Debug)]
pub struct Call {
    /// Whom the headers name.
    pub claim: HeaderClaim,
    /// What the client says that it is.
    pub client: Option<Arc<ClientInfo>>,
    /// The name that the caller uses.
    pub tool: Box<str>,
    /// The raw arguments, if there are any.
    pub arguments: Option<Box<RawValue>>,
    /// All other parameters.
    pub params: Vec<Param>,
    /// The headers that mirror arguments, where they must.
    pub mirror: Option<HeaderMap>,
    /// What else belongs to it.
    pub context: Context,
    /// The way back to the caller.
    pub side: Option<Side>,
    /// Whether the client knows tasks of 2025-11-25.
    pub takes_tasks: bool,
}

/// What a call came to.
#[derive(Debug)]
pub struct Outcome {
    /// The upstream's own result, or what its projection makes of it.
    pub result: RawResult,
    /// The revision of the catalog that decided.
    pub revision: Revision,
    /// How old that catalog was.
    pub freshness: Freshness,
    /// Resource names of the server for callers, if exposed.
    pub names: Option<ResourceNames>,
    /// Under which ids the caller knows tasks, if the result may have any.
    pub tasks: Option<TaskNames>,
    /// What was done of a composition.
    pub steps: Option<Steps>,
}

/// What goes with an admitted call, whoever makes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passage<'a> {
    pub(crate) claim: &'a HeaderClaim,
    pub(crate) arguments: Option<&'a RawValue>,
    pub(crate) params: &'a [Param],
    /// The headers that mirror arguments, where they must.
    pub(crate) mirror: Option<&'a HeaderMap>,
    pub(crate) context: &'a Context,
    pub(crate) side: Option<&'a Side>,
    /// Against whose share it counts.
    pub(crate) principal: &'a Principal,
    /// The enclosing run, if it is a step of a composition.
    pub(crate) scope: Option<&'a RunScope>,
}

/// What a call gave.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) result: RawResult,
    pub(crate) steps: Option<Steps>,
}

/// The catalog, its age and the caller, all read at one time.
#[derive(Debug)]
pub struct Moment {
    freshness: Freshness,
    snapshot: Arc<Snapshot>,
    caller: Caller,
}

impl Moment {
    /// Reads the present catalog and finds the caller in it.
    pub fn now(gateway: &Gateway, claim: &HeaderClaim, client: Option<Arc<ClientInfo>>) -> Self {
        // The age first: it must not be younger than the catalog.
        let freshness = gateway.watchman().look();
        let snapshot = gateway.views().now();
        let caller = gateway.identify(&snapshot, claim, client);
        Self { freshness, snapshot, caller }
    }

    /// A tool and every tool inside it. Empty where the caller may not call the tool.
    pub fn tools_of(&self, gateway: &Gateway, tool: &str) -> BTreeSet<Name> {
        let sight = gateway.views().sight(&self.snapshot);
        let offered = permit::offered(gateway.policy(), &self.caller, &sight, tool);
        let Ok(permit::Offered { offer, .. }) = offered else { return BTreeSet::new() };
        let mut tools =
            offer.composed().map(|composed| composed.reach().clone()).unwrap_or_default();
        tools.insert(offer.name().clone());
        tools
    }
}

/// Runs one call. It finishes on the snapshot that it began with, whatever happens meanwhile.
pub async fn call_tool(
    gateway: &Arc<Gateway>,
    call: &Call,
    moment: &Moment,
    record: &mut CallRecord,
) -> Result<Outcome, Error> {
    let Moment { freshness, snapshot, caller } = moment;
    let revision = snapshot.catalog.revision();
    record.identified(revision, caller);
    record.dated(*freshness);
    if !snapshot.has_catalog() {
        return Err(Error::NoCatalog);
    }
    let sight = gateway.views().sight(snapshot);
    let admission = permit::admit(gateway.policy(), freshness, caller, &sight, &call.tool)?;
    record.admitted(&admission);
    let offer = Arc::clone(&admission.offer);
    let params = task::params(&offer, call)?;
    let passage = Passage {
        claim: &call.claim,
        arguments: call.arguments.as_deref(),
        params: &params,
        mirror: call.mirror.as_ref(),
        context: &call.context,
        side: call.side.as_ref(),
        principal: &caller.principal(&call.claim),
        scope: None,
    };
    let Passed { result, steps } = pass(gateway, admission, &passage, record).await?;
    let names = offer.server().and_then(|server| gateway.resource_names(snapshot, server));
    let begins = offer.server().filter(|_| result.result_type == ResultType::Task);
    let begun =
        |server| TaskNames::begun(gateway, &call.claim, (&call.tool, server), &result.result);
    let tasks = begins.map(begun);
    Ok(Outcome { result, revision, freshness: *freshness, names, tasks, steps })
}

/// What comes after the decision: prepare, invoke, project, finish.
pub(crate) async fn pass(
    gateway: &Arc<Gateway>,
    admission: Admission,
    passage: &Passage<'_>,
    record: &mut CallRecord,
) -> Result<Passed, Error> {
    let Admission { offer, permit, .. } = admission;
    // Before the first step of a composition has side effects.
    if let Some(server) = offer.missing_target() {
        return Err(upstream::Error::NotConfigured { server: server.clone() }.into());
    }
    let arguments = prepare(gateway, &offer, passage, record).await?;
    let shielded = offer.projection().map(|_| Shielded::of(passage));
    let onward = match &shielded {
        Some(Shielded { params, context, side }) => {
            Passage { params, context, side: side.as_ref(), ..*passage }
        }
        None => *passage,
    };
    let (result, steps) = match (permit, offer.composed()) {
        (Some(permit), _) => {
            let trace = record.onward(&passage.context.trace);
            let request = Request {
                method: offer.method(),
                arguments: arguments.raw(),
                params: onward.params,
                context: onward.context,
                is_repeatable: offer.is_repeatable(),
                timeout: Some(gateway.settings().call_timeout(offer.key())),
                trace: &trace,
                side: onward.side,
                principal: passage.principal,
            };
            let result = gateway.upstreams().send(permit, request).await;
            record.returned();
            (result.map_err(Error::from), None)
        }
        (None, Some(composed)) => {
            let composed = steps::call(gateway, composed, (&offer, arguments), onward, record);
            let Passed { result, steps } = composed.await?;
            (Ok(result), steps)
        }
        (None, None) => (Err(Denial::NoSuchTool.into()), None),
    };
    match finish(gateway, &offer, (result, passage.context), record).await {
        Ok(result) => Ok(Passed { result, steps }),
        Err(error) => Err(match steps {
            Some(steps) => {
                let error = error.to_step(&offer.name().to_string());
                Error::Composition(Box::new(composition::rejected(offer.name(), error, steps)))
            }
            None => error,
        }),
    }
}

/// Checks the arguments as the caller knows them, then fills in what the caller does not send.
async fn prepare<'a>(
    gateway: &Gateway,
    offer: &Offer,
    passage: &Passage<'a>,
    record: &mut CallRecord,
) -> Result<Arguments<'a>, Error> {
    let mut arguments = Arguments::new(passage.arguments)?;
    let is_parsed = offer.composed().is_some()
        || offer.defaults().is_some()
        || !offer.hidden().is_empty()
        || (passage.mirror.is_some() && !offer.input().params.is_empty());
    if let Some(raw) = arguments.raw().filter(|_| is_parsed) {
        let reserved = passage.context.buffer(content::tree_bytes(raw.get()));
        reserved.map_err(upstream::Error::from)?;
    }
    if let Some(headers) = passage.mirror {
        let params = &offer.input().params;
        if !params.is_empty() {
            mirror::check_params(headers, params, arguments.members()?)?;
        }
    }
    for field in offer.hidden() {
        if field.find(arguments.members()?).is_some() {
            return Err(Error::HiddenField { pointer: field.pointer() });
        }
    }
    validate::input(gateway, offer, (&arguments, passage.context), record).await?;
    // After the validation, which tells more; but it may not have been asked to refuse.
    for field in offer.hidden() {
        if field.is_obstructed(arguments.members()?) {
            return Err(Error::HiddenField { pointer: field.pointer() });
        }
    }
    if let Some(defaults) = offer.defaults() {
        let filling =
            defaults::Filling { hidden: offer.hidden(), variables: &gateway.settings().variables };
        arguments.change(|members| filling.fill(defaults, members))?;
    }
    if offer.composed().is_none() {
        arguments.forget_value();
    }
    Ok(arguments)
}

/// Projects what came back, if it is to be, and looks at it.
async fn finish(
    gateway: &Gateway,
    offer: &Offer,
    (result, context): (Result<RawResult, Error>, &Context),
    record: &mut CallRecord,
) -> Result<RawResult, Error> {
    let result = match offer.projection() {
        Some(mappings) => {
            let most = gateway.settings().upstream.response_bytes;
            projection::outcome(mappings, (result, context), most)?
        }
        None => result?,
    };
    finish_input(&result, context)?;
    if result.result_type.is_final() && offer.checks().output != Mode::Ignore && !result.is_error {
        validate::output(gateway, offer, (&result.result, context), record).await?;
    }
    record.finished(&result);
    Ok(result)
}

/// The questions that an upstream may ask, with the capability that each needs.
pub const QUESTIONS: [(&str, &str); 3] = [
    ("elicitation/create", "elicitation"),
    ("sampling/createMessage", "sampling"),
    ("roots/list", "roots"),
];

/// A caller is asked nothing that it did not say it can answer.
fn finish_input(result: &RawResult, context: &Context) -> Result<(), Error> {
    if result.result_type != ResultType::InputRequired {
        return Ok(());
    }
    let members = Object::parse(&result.result).unwrap_or_default();
    let asked = members.find("inputRequests").and_then(|raw| Object::parse(raw).ok());
    for request in asked.unwrap_or_default().members() {
        let method = Object::parse(request.value)
            .ok()
            .and_then(|members| serde_json::from_str::<String>(members.find("method")?.get()).ok());
        let needed = QUESTIONS.iter().find(|(known, _)| Some(*known) == method.as_deref());
        match needed {
            Some((_, capability)) if !context.capabilities.can(capability) => {
                return Err(Error::Incapable { capability });
            }
            Some(_) => {}
            None => return Err(upstream::Error::from(upstream::Breach::ResultType).into()),
        }
    }
    Ok(())
}
