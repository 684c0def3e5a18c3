//! The notifications of agents.

use std::sync::Arc;

use a2a::{
    Dialect, ErrorKind, Failure, Operation, Request as AgentRequest, Version,
    extensions::Extensions, model::Event, translate,
};
use axum::{body::Body, extract::Request, response::Response};
use gateway_protocol::content;
use gateway_upstream::RequestContext;
use http::{
    HeaderMap, HeaderValue, Method,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use serde_json::{Map, Value, json};
use subtle::ConstantTimeEq as _;

use super::{
    super::{
        A2a, address::AgentName, answer::AnswerForm, calls::AgentOperation, era, failure::Refusal,
        tasks::TaskObserver,
    },
    PATH,
    config::Registration,
    delivery::TOKEN,
    store::{Full, Notification},
};
use crate::{
    audit::CallRecord,
    clock,
    identity::authenticator::Authentication,
    ingress,
    pipeline::{Gateway, PushAddress, PushRole, TaskOwner},
    random::random_text,
};

/// The event of a notification in the audit.
const EVENT: &str = "PushNotification";

/// The address in the path of a notification. Other paths below [`PATH`] belong to agents.
pub(in super::super) fn address(a2a: &A2a, path: &str) -> Option<PushAddress> {
    let sealed = path.strip_prefix(PATH)?;
    a2a.gateway.read(|gateway| PushAddress::open(gateway, sealed))
}

/// Receives a notification of an agent.
pub(in super::super) async fn receive(
    a2a: &A2a,
    address: &PushAddress,
    request: Request,
) -> Response {
    let outcome = Box::pin(accept(a2a, address, request)).await.err();
    let label = if outcome.is_none() { "accepted" } else { "rejected" };
    metrics::counter!("gateway_push_notifications_received_total", "outcome" => label).increment(1);
    let Some(refusal) = outcome else {
        let mut response = Response::new(Body::from("{}"));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        return response;
    };
    AnswerForm::new(Dialect::http_json(Version::V1)).refusal(&refusal)
}

async fn accept(a2a: &A2a, address: &PushAddress, request: Request) -> Result<(), Refusal> {
    let gateway = a2a.gateway.current();
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        return Err(Refusal::method_not_allowed("POST"));
    }
    let configs = &a2a.state.push.configs;
    let found = configs.find(&address.id, clock::timestamp());
    let found = found.filter(|_| gateway.settings().push().is_some());
    let registration = found.ok_or_else(unknown)?;
    if !has_token(&parts.headers, registration.token.expose()) {
        let message = "the token of the push notification configuration is missing or invalid";
        return Err(Failure::new(ErrorKind::Unauthenticated, message).into());
    }
    if !a2a.state.push.is_authorized(&gateway, &registration) {
        return Err(unknown());
    }
    if !gateway.views().now().has_catalog() {
        // The owner of the task is not known yet.
        return Err(Refusal::no_catalog());
    }
    let caller = Authentication::without_request(registration.caller.clone());
    let buffered = gateway.open_buffer(&caller);
    let body = ingress::read_body(&gateway, body, &buffered).await?;
    if let Ok(text) = std::str::from_utf8(&body) {
        buffered.reserve(content::tree_bytes(text)).map_err(ingress::IngressError::Buffers)?;
    }
    let event = read_event(&body)?;
    let own = Event::of(&event).and_then(Event::task_id).ok_or_else(invalid)?;
    let known =
        address.known_task(&gateway, &registration.caller, (registration.task.as_deref(), own));
    let task = known.ok_or_else(unknown)?;
    configs.bind(&address.id, &task);
    let context =
        RequestContext { buffered: Some(Arc::clone(&buffered)), ..RequestContext::default() };
    let notified = Notified { a2a, gateway: &gateway, registration: &registration, caller, task };
    let event = notified.checked(address, event, (context, body.len())).await?;
    let is_last = Event::of(&event).is_some_and(Event::is_last);
    let version = if registration.client.is_legacy { Version::V03 } else { Version::V1 };
    let written = translate::event_out(Dialect::json_rpc(version), event);
    let written = written.map_err(a2a::Untranslatable::into_answer_failure)?;
    let id = random_text().map_err(|_| no_randomness())?;
    let notification = Notification { id: id.into(), body: written.to_string().into() };
    if configs.push(&address.id, notification).map_err(|Full| Refusal::push_queue_full())? {
        a2a.state.push.deliveries.start(a2a, &address.id);
    }
    if is_last {
        configs.ended(&address.id);
    }
    Ok(())
}

/// A notification of a known configuration.
struct Notified<'a> {
    a2a: &'a A2a,
    gateway: &'a Arc<Gateway>,
    registration: &'a Registration,
    caller: Authentication,
    /// The caller's id of the task.
    task: String,
}

impl Notified<'_> {
    /// Checks and translates an event as the pipeline does for streams. Receivers of 0.3 get tasks
    /// only, so that the task is requested if the event is another one.
    async fn checked(
        self,
        address: &PushAddress,
        event: Value,
        (context, bytes): (RequestContext, usize),
    ) -> Result<Value, Refusal> {
        let Self { a2a, gateway, registration, caller, task } = self;
        let needs_task = registration.client.is_legacy && event.get("task").is_none();
        let (operation, push) = if needs_task {
            (Operation::GetTask, PushRole::TaskChanged)
        } else {
            (Operation::SubscribeToTask, PushRole::Event(event))
        };
        let agent = AgentName { name: address.agent().clone(), version: None };
        let params = Map::from_iter([("id".to_owned(), task.into())]);
        let version = if registration.client.is_legacy { Version::V03 } else { Version::V1 };
        let span = gateway.tracer().begin(&context.trace);
        let name = agent.name.as_str();
        let owner = TaskOwner::of(gateway, &caller.claim);
        let tasks = TaskObserver::new(&a2a.state.index, owner, &agent);
        let observer = tasks.clone();
        let call = AgentOperation {
            record: CallRecord::begin(EVENT, era(version), name, bytes, span),
            request: AgentRequest::new(operation, params),
            extensions: Extensions::default(),
            agent,
            caller,
            context,
            tasks,
            push,
            takes_repeats: false,
        };
        let answer = Box::pin(call.run(gateway, None, None)).await.0?;
        observer.saw(operation, &answer);
        Ok(if needs_task { json!({ "task": answer }) } else { answer })
    }
}

/// Compares the token in constant time. Agents send it in one of two headers.
fn has_token(headers: &HeaderMap, expected: &str) -> bool {
    let own = headers.get(TOKEN).map(HeaderValue::as_bytes);
    let bearer = || headers.get(AUTHORIZATION)?.as_bytes().strip_prefix(b"Bearer ");
    let token = own.or_else(bearer).unwrap_or_default();
    token.ct_eq(expected.as_bytes()).into()
}

/// Reads an event of 1.0, or a task of 0.3.
fn read_event(body: &[u8]) -> Result<Value, Failure> {
    let mut event: Value = serde_json::from_slice(body).map_err(|_| invalid())?;
    if event.get("kind").is_none() && event.get("status").is_none() {
        return translate::event_in(Dialect::json_rpc(Version::V1), event).map_err(|_| invalid());
    }
    if let Some(task) = event.as_object_mut() {
        task.entry("kind").or_insert_with(|| "task".into());
    }
    translate::event_in(Dialect::json_rpc(Version::V03), event).map_err(|_| invalid())
}

fn invalid() -> Failure {
    let message = "the body is no StreamResponse of 1.0 and no Task of 0.3 with the id of a task";
    Failure::new(ErrorKind::InvalidRequest, message)
}

/// The error of a system without random numbers.
pub(super) fn no_randomness() -> Failure {
    let message = "the operating system returned no random bytes; retry, and check its entropy";
    Failure::new(ErrorKind::Internal, message)
}

/// The error of an address that is no longer valid, or for another task.
fn unknown() -> Refusal {
    let message =
        "no push notification configuration has this address and task; stop sending to it";
    Failure::new(ErrorKind::TaskNotFound, message).into()
}
