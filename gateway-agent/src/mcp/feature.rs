//! Prompts, resources, completion and tasks.
//!
//! Lists come from the gateway's cache of the servers that the caller can use. All other requests
//! are forwarded to the server with the prefix of the name.

mod entries;
mod listing;

use std::{borrow::Cow, sync::Arc};

use gateway_protocol::{
    jsonrpc::{Id, Object},
    mcp::{Era, Method, Param, TASKS},
    naming,
};
use gateway_upstream::ClientChannel;
use tokio::time::Instant;

pub(crate) use self::entries::FeatureList;
use self::listing::Listing;
use super::{
    Endpoint, Rejection, capabilities,
    exchange::{Exchange, PendingCall, RenderResponse},
    incoming::Incoming,
    inputs,
    requester::{self, Requester},
    session, tasks,
};
use crate::{
    audit::{self, CallRecord},
    mcp::render::{self, http::SizedResponse},
    pipeline::{self, FeatureSubject, Invocation, Output, Target, Task},
};

/// A feature of MCP servers other than tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feature {
    List(List),
    /// A request that is forwarded to a server.
    Relayed(Method),
    /// The list of the session's tasks (2025-11-25).
    Tasks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Prompts,
    Resources,
    Templates,
}

impl Feature {
    pub(super) fn from_method(method: &str) -> Option<Self> {
        Some(match method {
            "prompts/list" => Self::List(List::Prompts),
            "resources/list" => Self::List(List::Resources),
            "resources/templates/list" => Self::List(List::Templates),
            "prompts/get" => Self::Relayed(Method::GetPrompt),
            "resources/read" => Self::Relayed(Method::ReadResource),
            "resources/subscribe" => Self::Relayed(Method::Subscribe),
            "resources/unsubscribe" => Self::Relayed(Method::Unsubscribe),
            "completion/complete" => Self::Relayed(Method::Complete),
            "tasks/get" => Self::Relayed(Method::GetTask),
            "tasks/result" => Self::Relayed(Method::TaskResult),
            "tasks/list" => Self::Tasks,
            "tasks/update" => Self::Relayed(Method::UpdateTask),
            "tasks/cancel" => Self::Relayed(Method::CancelTask),
            _ => return None,
        })
    }

    /// Whether the feature exists in an era.
    pub(super) fn is_served(self, era: Era) -> bool {
        match self {
            Self::Tasks
            | Self::Relayed(Method::Subscribe | Method::Unsubscribe | Method::TaskResult) => {
                era == Era::Legacy
            }
            Self::Relayed(Method::UpdateTask) => era == Era::Modern,
            Self::List(_) | Self::Relayed(_) => true,
        }
    }
}

pub(super) async fn serve(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'_>,
    (requester, feature, running): (Requester, Feature, Option<session::RunningRequest>),
) -> Result<SizedResponse, Rejection> {
    let available = capabilities::available_features(endpoint, &requester);
    if !available.serves(feature) && !has_own_task(endpoint, incoming, (&requester, feature)) {
        let method = incoming.method.to_owned();
        return Err(Rejection::UnknownMethod { method, era: requester.era });
    }
    match feature {
        Feature::List(list) => {
            let listing = Listing { endpoint, incoming, requester: &requester, list };
            listing.page(&available.visible_servers, &available.interfaces).await
        }
        Feature::Tasks => tasks::list(endpoint, incoming, &requester).await,
        Feature::Relayed(Method::Subscribe | Method::Unsubscribe) => {
            let is_wanted = feature == Feature::Relayed(Method::Subscribe);
            // Boxed, to keep the future of each request small.
            Box::pin(subscribed(endpoint, incoming, (&requester, is_wanted))).await
        }
        Feature::Relayed(method) => {
            Ok(begin(endpoint, incoming, (requester, method, running))?.respond().await)
        }
    }
}

/// Whether a request is about a task of the caller. The caller need not see its tool: the policy may
/// allow undeclared tools, and a task outlives the retirement of its tool.
fn has_own_task(
    endpoint: &Endpoint,
    incoming: &Incoming<'_>,
    (requester, feature): (&Requester, Feature),
) -> bool {
    match (feature, &requester.session) {
        (Feature::Tasks, Some(session)) => session.tasks(|tasks| !tasks.is_empty()),
        _ => own_task(endpoint, incoming, (requester, feature)).is_some(),
    }
}

/// The caller's task that a request names.
fn own_task(
    endpoint: &Endpoint,
    incoming: &Incoming<'_>,
    (requester, feature): (&Requester, Feature),
) -> Option<Task> {
    if !matches!(feature, Feature::Relayed(method) if method.concerns_task()) {
        return None;
    }
    Task::open(&endpoint.gateway, &requester.caller.claim, &incoming.text("taskId")?)
}

/// Before 2026-07-28, a request subscribes to one resource.
async fn subscribed(
    endpoint: &Endpoint,
    incoming: &Incoming<'_>,
    (requester, is_wanted): (&Requester, bool),
) -> Result<SizedResponse, Rejection> {
    let Some(uri) = incoming.text("uri") else {
        return Err(Rejection::Params { what: "params.uri must be a string" });
    };
    let Some(session) = &requester.session else { return Err(Rejection::SessionRequired) };
    if !is_wanted {
        session.unwatch(&uri);
        return Ok(render::result::raw(incoming.id, "{}"));
    }
    let span = endpoint.gateway.tracer().begin(&incoming.trace());
    let origin = audit::origin(&uri);
    let mut record =
        CallRecord::begin(Method::Subscribe.as_str(), requester.era, origin, incoming.bytes, span)
            .of_request(incoming.headers());
    let mut call = Invocation::subscription(requester.caller.clone(), &uri);
    let output = pipeline::invoke(&endpoint.gateway, &mut call, &mut record).await;
    let answer = match output.and_then(Output::into_subscription) {
        Ok(subscribed) => {
            session.watch(&uri, subscribed);
            render::result::raw(incoming.id, "{}")
        }
        Err(error) => {
            render::relay_error(incoming.id, requester.era, (Method::Subscribe, &uri), &error)
        }
    };
    record.answered(answer.bytes);
    Ok(answer)
}

/// Starts a request that is forwarded to a server.
fn begin<'a>(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'a>,
    (requester, method, running): (Requester, Method, Option<session::RunningRequest>),
) -> Result<Exchange<'a>, Rejection> {
    let subject = feature_subject(endpoint, incoming, (&requester, method))?;
    let name: Arc<str> = subject.known().into();
    let context = requester::context(incoming, &requester)?;
    if method.concerns_task() && requester.era == Era::Modern {
        requester::require_extension(&context, TASKS)?;
    }
    let mut response_context =
        requester::response_context(incoming, &requester, &context, (method, name.clone()));
    if let FeatureSubject::Task(known, Some(task)) = &subject {
        response_context.task = Some((task.id.clone(), known.clone()));
    }
    if let Some(handle) = inputs::handle(endpoint, incoming) {
        return Ok(inputs::resume(endpoint, incoming, (response_context, &handle)));
    }
    let (side, meanwhile) = ClientChannel::open();
    let span = endpoint.gateway.tracer().begin(&context.trace);
    let audited = subject.audited();
    let record = CallRecord::begin(method.as_str(), requester.era, &*audited, incoming.bytes, span)
        .of_request(incoming.headers());
    let call = Invocation {
        caller: requester.caller,
        params: params(incoming, method, &subject),
        target: Target::Feature { method, subject },
        context,
        client: Some(side),
        input: inputs::input_handling(requester.era),
    };
    let request = Box::pin(run(endpoint.clone(), (call, record), (requester.era, method, name)));
    let pending = PendingCall { running: requester::cancellable(running, request), meanwhile };
    Ok(Exchange::new(endpoint, incoming.id, response_context, pending))
}

/// Reads the subject of a request.
fn feature_subject(
    endpoint: &Endpoint,
    incoming: &Incoming<'_>,
    (requester, method): (&Requester, Method),
) -> Result<FeatureSubject, Rejection> {
    const MESSAGE: &str = "params must have the name, uri or taskId of the subject, as a string";
    let text = |name: &str| incoming.text(name).map(|text| Box::from(text.as_ref()));
    let subject = match method {
        Method::GetPrompt => text("name").map(FeatureSubject::Prompt),
        Method::ReadResource => text("uri").map(FeatureSubject::Resource),
        method if method.concerns_task() => {
            let task = own_task(endpoint, incoming, (requester, Feature::Relayed(method)));
            text("taskId").map(|known| FeatureSubject::Task(known, task))
        }
        _ => return reference(incoming),
    };
    subject.ok_or(Rejection::Params { what: MESSAGE })
}

/// Reads the reference of a completion.
fn reference(incoming: &Incoming<'_>) -> Result<FeatureSubject, Rejection> {
    const MESSAGE: &str =
        "params.ref must be a ref/prompt with a name or a ref/resource with a uri";
    let members = incoming.param("ref").and_then(|raw| Object::parse(raw).ok());
    let text = |name: &str| {
        let raw = members.as_ref()?.find(name)?;
        serde_json::from_str::<Box<str>>(raw.get()).ok()
    };
    let subject = match text("type").as_deref() {
        Some("ref/prompt") => text("name").map(FeatureSubject::Prompt),
        Some("ref/resource") => text("uri").map(FeatureSubject::Resource),
        _ => None,
    };
    subject.ok_or(Rejection::Params { what: MESSAGE })
}

/// The parameters with the server's names.
fn params(incoming: &Incoming<'_>, method: Method, feature: &FeatureSubject) -> Vec<Param> {
    let Some(subject) = method.subject() else {
        let mut params = incoming.other_params(&["ref"]);
        let (kind, key, own) = match feature {
            FeatureSubject::Prompt(name) => ("ref/prompt", "name", naming::prompt(name).1.into()),
            FeatureSubject::Resource(uri) => ("ref/resource", "uri", naming::uri(uri).1),
            // A reference cannot name a task.
            FeatureSubject::Task(..) => ("", "", Cow::Borrowed("")),
        };
        let reference = serde_json::json!({ "type": kind, key: own });
        if let Ok(value) = serde_json::value::to_raw_value(&reference) {
            params.push(Param { name: "ref".into(), value });
        }
        return params;
    };
    incoming.other_params(&[subject])
}

async fn run(
    endpoint: Arc<Endpoint>,
    (mut call, mut record): (Invocation, CallRecord),
    (era, method, subject): (Era, Method, Arc<str>),
) -> RenderResponse {
    let until = Instant::now() + tasks::MAX_RESULT_WAIT;
    let outcome = loop {
        if method == Method::TaskResult
            && let Err(error) =
                tasks::wait_until_settled(&endpoint, (&call, until), &mut record).await
        {
            error.record_in(&mut record);
            break Err(error);
        }
        let outcome = pipeline::invoke(&endpoint.gateway, &mut call, &mut record).await;
        let outcome = outcome.and_then(Output::into_result);
        if method == Method::TaskResult && tasks::is_still_running(&outcome, until) {
            record.reopen();
            continue;
        }
        break outcome;
    };
    Box::new(move |id: Id<'_>| {
        let answer = match &outcome {
            Ok(outcome) => render::result::relayed(id, era, method, outcome),
            Err(error) => render::relay_error(id, era, (method, &subject), error),
        };
        record.answered(answer.bytes);
        answer
    })
}
