//! Event streams that notify clients of changes: `subscriptions/listen`, and `GET` of sessions.
//!
//! A stream compares the caller's own lists before and after each change of the catalog or of the
//! upstreams, so changes of invisible tools cause no notification. Progress and log messages belong
//! to the response of their request instead.

mod tasks;
mod watcher;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    time::Duration,
};

use axum::response::Response;
use bytes::Bytes;
use futures_util::{future::join_all, stream};
use gateway_protocol::{
    jsonrpc::{self, Id, ObjectWriter},
    mcp::{Era, TASKS},
};
use gateway_upstream::Subscription;
use http::HeaderValue;
use serde::Deserialize;
use tokio::sync::watch;

pub(super) use self::tasks::{poll_interval, watches as task_watches};
use self::{
    tasks::Tasks,
    watcher::{Change, ChangeWatcher},
};
use super::{
    Endpoint, Rejection,
    capabilities::{self, Capability},
    incoming::Incoming,
    replay::Reader,
    requester::{self, Requester},
    session::Session,
};
use crate::{
    audit::{self, CallRecord},
    identity::authenticator::Authentication,
    ingress::event_stream::{event, respond},
    mcp::render::{http::SizedResponse, result::MODERN_META},
    pipeline::{self, Invocation, Output},
};

/// An open stream marks its session as used at this interval.
const TOUCH: Duration = Duration::from_mins(1);
/// Maximum resources per subscription.
const MOST_RESOURCES: usize = 1_000;

/// `GET` of a session.
pub(super) fn of_session(
    endpoint: &Arc<Endpoint>,
    session: &Arc<Session>,
    caller: Authentication,
) -> Result<Response, Rejection> {
    let caller = caller.without_token().with_client(session.client());
    let requester = Requester { era: Era::Legacy, caller, session: None, takes_tasks: false };
    let mut watcher = ChangeWatcher::new(endpoint, &requester)?;
    // Changes between the last list and this stream are sent at once.
    watcher.compare_with(session.last_listed());
    let turn = session.take_stream();
    let stream = SessionStream { watcher, turn, session: Arc::downgrade(session) };
    Ok(respond(stream::unfold(stream, async |mut stream| {
        let change = stream.changed().await?;
        Some((event(None, &notification(&change, None)), stream))
    })))
}

/// `GET` with `Last-Event-ID`: the rest of a stream.
pub(super) fn resumed(
    endpoint: &Endpoint,
    session: &Session,
    last_event: &HeaderValue,
) -> Result<Response, Rejection> {
    let last_event = last_event.to_str().map_err(|_| Rejection::EventUnknown)?;
    let reader = endpoint.state.replays.resume(session.id(), last_event)?;
    Ok(of_reader(reader))
}

pub(super) fn of_reader(reader: Reader) -> Response {
    respond(stream::unfold(reader, async |mut reader| {
        let event = reader.next().await?;
        Some((event, reader))
    }))
}

/// The stream of a session. The weak reference lets the stream end with its session.
struct SessionStream {
    watcher: ChangeWatcher,
    turn: watch::Receiver<u64>,
    session: Weak<Session>,
}

impl SessionStream {
    /// Waits for a change. `None` at the end of the stream.
    async fn changed(&mut self) -> Option<Change> {
        loop {
            let endpoint = self.watcher.endpoint().clone();
            tokio::select! {
                change = self.watcher.changed() => {
                    let session = self.session.upgrade()?;
                    match change {
                        Change::Task { servers, id, params } => {
                            let known = session.tasks(|tasks| {
                                let mut known = servers.iter().filter_map(|server| tasks.known(server, &id));
                                known.next().map(str::to_owned)
                            });
                            let message = self.watcher.task_messages();
                            let told = known.and_then(|known| {
                                super::tasks::status(&params, (&id, &known), message)
                            });
                            if let Some(params) = told {
                                return Some(Change::TaskStatus(params.into()));
                            }
                        }
                        Change::Updated(uri) if session.watches(&uri) => {
                            if self.watcher.admits_updates(&uri) {
                                return Some(Change::Updated(uri));
                            }
                            session.unwatch(&uri);
                        }
                        change if change.is_list() => return Some(change),
                        _ => {}
                    }
                }
                // A newer stream replaced this one, or the session has ended.
                _ = self.turn.changed() => return None,
                () = endpoint.gateway.closing().cancelled() => self.watcher.follow_reload()?,
                () = tokio::time::sleep(TOUCH) => endpoint.state.sessions.touch(&*self.session.upgrade()?),
            }
        }
    }
}

/// The requested notifications.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Filter {
    tools_list_changed: bool,
    prompts_list_changed: bool,
    resources_list_changed: bool,
    resource_subscriptions: Vec<Box<str>>,
    task_ids: BTreeSet<Box<str>>,
}

impl Filter {
    fn is_small(&self) -> bool {
        self.resource_subscriptions.len() <= MOST_RESOURCES
            && self.task_ids.len() <= tasks::MAX_TASKS
    }
}

/// `subscriptions/listen`.
pub(super) async fn subscribe(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'_>,
    requester: &Requester,
) -> Result<SizedResponse, Rejection> {
    let filter = incoming.param("notifications").and_then(jsonrpc::read_object);
    let filter: Filter = filter.filter(Filter::is_small).ok_or(Rejection::Params {
        what: "params.notifications must be an object of flags, of at most 1,000 \
                   resourceSubscriptions and of at most 100 taskIds",
    })?;
    let context = requester::context(incoming, requester)?;
    if !filter.task_ids.is_empty() {
        requester::require_extension(&context, TASKS)?;
    }
    let available = capabilities::available_features(endpoint, requester);
    let filter = Filter {
        prompts_list_changed: filter.prompts_list_changed && available.has(Capability::Prompts),
        resources_list_changed: filter.resources_list_changed
            && available.has(Capability::Resources),
        ..filter
    };
    // Before the subscriptions, so that no change is missed.
    let watcher = ChangeWatcher::new(endpoint, requester)?;
    let (resources, tasks) = tokio::join!(
        resources(endpoint, incoming, (requester, &filter)),
        Tasks::watch(endpoint, (requester, &context), &filter.task_ids),
    );
    let subscription = EventSubscription {
        id: incoming.id.as_raw().into(),
        watcher,
        watched: resources,
        tasks,
        filter,
        state: State::New,
    };
    let events = stream::unfold(subscription, async |mut subscription| {
        let message = subscription.next().await?;
        Some((event(None, &message), subscription))
    });
    Ok(SizedResponse::stream(respond(events)))
}

/// Subscribes to the visible resources. Resources that their servers reject are not acknowledged.
async fn resources(
    endpoint: &Endpoint,
    incoming: &Incoming<'_>,
    (requester, filter): (&Requester, &Filter),
) -> BTreeMap<Box<str>, Subscription> {
    let watched = filter.resource_subscriptions.iter().map(async |uri| {
        let span = endpoint.gateway.tracer().begin(&incoming.trace());
        let (event, origin) = ("subscriptions/listen", audit::origin(uri));
        let mut record = CallRecord::begin(event, requester.era, origin, incoming.bytes, span)
            .of_request(incoming.headers());
        let mut call = Invocation::subscription(requester.caller.clone(), uri);
        let output = pipeline::invoke(&endpoint.gateway, &mut call, &mut record).await;
        let subscribed = output.and_then(Output::into_subscription).ok()?;
        Some((uri.clone(), subscribed))
    });
    join_all(watched).await.into_iter().flatten().collect()
}

/// A subscription of the stateless era.
struct EventSubscription {
    id: Box<str>,
    watcher: ChangeWatcher,
    filter: Filter,
    watched: BTreeMap<Box<str>, Subscription>,
    tasks: Tasks,
    state: State,
}

enum State {
    New,
    Open,
    Closed,
}

impl EventSubscription {
    /// The next message: first the acknowledgment, and the result at shutdown.
    async fn next(&mut self) -> Option<Bytes> {
        match self.state {
            State::New => {
                self.state = State::Open;
                Some(self.acknowledgement())
            }
            State::Open => loop {
                let closing = self.watcher.endpoint().gateway.closing().clone();
                tokio::select! {
                    change = self.watcher.changed() => {
                        if self.wants(&change) {
                            return Some(notification(&change, Some(&self.meta())));
                        }
                    }
                    Some(task) = self.tasks.next() => return Some(self.task_notification(&task)),
                    () = closing.cancelled() => if self.watcher.follow_reload().is_none() {
                        self.state = State::Closed;
                        return self.result();
                    }
                }
            },
            State::Closed => None,
        }
    }

    fn wants(&mut self, change: &Change) -> bool {
        match change {
            Change::Tools => self.filter.tools_list_changed,
            Change::Prompts => self.filter.prompts_list_changed,
            Change::Resources => self.filter.resources_list_changed,
            Change::Updated(uri) => self.watches(uri),
            Change::Task { .. } | Change::TaskStatus(_) => false,
        }
    }

    /// Whether the client subscribed to a resource. A subscription ends when the policies no
    /// longer admit it.
    fn watches(&mut self, uri: &str) -> bool {
        if !self.watched.contains_key(uri) {
            return false;
        }
        let is_admitted = self.watcher.admits_updates(uri);
        if !is_admitted {
            self.watched.remove(uri);
        }
        is_admitted
    }

    /// `notifications/tasks` with the state of a task.
    fn task_notification(&self, task: &str) -> Bytes {
        let members = task.strip_prefix('{').unwrap_or_default();
        let separator = if members == "}" { "" } else { "," };
        let params = format!(r#"{{"_meta":{}{separator}{members}"#, self.meta());
        jsonrpc::notification("notifications/tasks", Some(&params))
    }

    fn meta(&self) -> String {
        format!(r#"{{"io.modelcontextprotocol/subscriptionId":{}}}"#, self.id)
    }

    fn acknowledgement(&self) -> Bytes {
        let mut accepted = ObjectWriter::with_capacity(128);
        for (name, is_wanted) in [
            ("toolsListChanged", self.filter.tools_list_changed),
            ("promptsListChanged", self.filter.prompts_list_changed),
            ("resourcesListChanged", self.filter.resources_list_changed),
        ] {
            if is_wanted {
                accepted.raw(name, "true");
            }
        }
        if !self.watched.is_empty() {
            let uris: Vec<_> = self.watched.keys().collect();
            accepted.raw("resourceSubscriptions", &serde_json::json!(uris).to_string());
        }
        if !self.tasks.known().is_empty() {
            accepted.raw("taskIds", &serde_json::json!(self.tasks.known()).to_string());
        }
        let params =
            format!(r#"{{"_meta":{},"notifications":{}}}"#, self.meta(), accepted.finish_string());
        jsonrpc::notification("notifications/subscriptions/acknowledged", Some(&params))
    }

    fn result(&self) -> Option<Bytes> {
        let id = Id::parse(&self.id).ok()?;
        let result = format!(
            r#"{{"resultType":"complete","_meta":{{{MODERN_META},"io.modelcontextprotocol/subscriptionId":{}}}}}"#,
            self.id
        );
        Some(jsonrpc::result(id, &result))
    }
}

fn notification(change: &Change, meta: Option<&str>) -> Bytes {
    if let Change::TaskStatus(params) = change {
        return jsonrpc::notification("notifications/tasks/status", Some(params));
    }
    let mut params = ObjectWriter::with_capacity(128);
    if let Some(meta) = meta {
        params.raw("_meta", meta);
    }
    let method = match change {
        Change::Tools => "notifications/tools/list_changed",
        Change::Prompts => "notifications/prompts/list_changed",
        Change::Resources => "notifications/resources/list_changed",
        Change::Updated(uri) => {
            params.string("uri", uri);
            "notifications/resources/updated"
        }
        Change::Task { .. } | Change::TaskStatus(_) => "notifications/tasks/status",
    };
    let params = params.finish_string();
    jsonrpc::notification(method, Some(params.as_str()).filter(|params| *params != "{}"))
}
