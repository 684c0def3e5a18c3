//! Event streams that tell a client when its list of tools changed: `subscriptions/listen` of the
//! modern era and `GET` of the older one.
//!
//! A stream compares what its own caller sees before and after each change of the catalog or of
//! the upstreams' definitions, so it stays silent when others' tools change. Deliberately absent:
//! progress and log messages, which belong to the answer of the request that they are about.

mod watcher;

use std::{
    convert::Infallible,
    sync::{Arc, Weak},
    time::Duration,
};

use axum::response::{
    IntoResponse as _, Response,
    sse::{Event, KeepAlive, Sse},
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use tokio::sync::watch;

use self::watcher::Watcher;
use super::{Endpoint, Rejection, call::Who, incoming::Incoming, session::Session};
use crate::{
    jsonrpc::{self, Id},
    respond::{http::Answer, result::MODERN_META},
};

const LIST_CHANGED: &str = "notifications/tools/list_changed";
/// Between two comments that keep the connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Between two signs of life of the session behind a stream.
const TOUCH: Duration = Duration::from_mins(1);

/// `GET` of a session.
pub(super) fn of_session(
    endpoint: &Arc<Endpoint>,
    session: &Arc<Session>,
) -> Result<Response, Rejection> {
    let mut watcher = Watcher::new(endpoint, session.claim().clone(), session.client())?;
    // What changed between the last list and this stream is told at once.
    watcher.compare_with(session.last_listed());
    let turn = session.take_stream();
    let stream = SessionStream { watcher, turn, session: Arc::downgrade(session) };
    Ok(respond(stream::unfold(stream, async |mut stream| {
        stream.changed().await?;
        Some((event(&jsonrpc::notification(LIST_CHANGED, None)), stream))
    })))
}

/// The stream of a session; it holds the session only weakly, so that it ends with it.
struct SessionStream {
    watcher: Watcher,
    turn: watch::Receiver<u64>,
    session: Weak<Session>,
}

impl SessionStream {
    /// Resolves when the list changed, or with `None` at the end of the stream.
    async fn changed(&mut self) -> Option<()> {
        loop {
            let endpoint = self.watcher.endpoint().clone();
            tokio::select! {
                () = self.watcher.changed() => return Some(()),
                // A newer stream took over, or the session has ended.
                _ = self.turn.changed() => return None,
                () = endpoint.gateway.closing().cancelled() => return None,
                () = tokio::time::sleep(TOUCH) => endpoint.sessions.touch(&*self.session.upgrade()?),
            }
        }
    }
}

/// `subscriptions/listen`.
pub(super) fn subscribe(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'_>,
    who: &Who<'_>,
) -> Result<Answer, Rejection> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Filter {
        tools_list_changed: Option<bool>,
    }
    let filter = incoming.param("notifications").and_then(jsonrpc::read_object);
    let Some(Filter { tools_list_changed }) = filter else {
        return Err(Rejection::Params { what: "params.notifications must be an object of flags" });
    };
    let subscription = Subscription {
        id: incoming.id.as_raw().into(),
        watcher: Watcher::new(endpoint, who.claim.clone(), who.client.clone())?,
        wants_tools: tools_list_changed.unwrap_or(false),
        state: State::New,
    };
    let events = stream::unfold(subscription, async |mut subscription| {
        let message = subscription.next().await?;
        Some((event(&message), subscription))
    });
    Ok(Answer { response: respond(events), bytes: 0 })
}

/// A subscription of the modern era.
struct Subscription {
    id: Box<str>,
    watcher: Watcher,
    wants_tools: bool,
    state: State,
}

enum State {
    New,
    Open,
    Closed,
}

impl Subscription {
    /// The next message: first the acknowledgement, at a graceful end the result.
    async fn next(&mut self) -> Option<Bytes> {
        match self.state {
            State::New => {
                self.state = State::Open;
                Some(self.acknowledgement())
            }
            State::Open => {
                let closing = self.watcher.endpoint().gateway.closing().clone();
                tokio::select! {
                    () = self.watcher.changed(), if self.wants_tools => {
                        let params = format!("{{{}}}", self.meta());
                        Some(jsonrpc::notification(LIST_CHANGED, Some(&params)))
                    }
                    () = closing.cancelled() => {
                        self.state = State::Closed;
                        self.result()
                    }
                }
            }
            State::Closed => None,
        }
    }

    fn meta(&self) -> String {
        format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}"#, self.id)
    }

    fn acknowledgement(&self) -> Bytes {
        let honoured = if self.wants_tools { r#"{"toolsListChanged":true}"# } else { "{}" };
        let params = format!(r#"{{{},"notifications":{honoured}}}"#, self.meta());
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

fn event(message: &Bytes) -> Event {
    // Messages are put together from JSON text, which is UTF-8.
    Event::default().data(String::from_utf8_lossy(message))
}

fn respond(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let events = events.map(Ok::<_, Infallible>);
    let mut response =
        Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response();
    // Proxies must not hold events back.
    let name = HeaderName::from_static("x-accel-buffering");
    response.headers_mut().insert(name, HeaderValue::from_static("no"));
    response
}
