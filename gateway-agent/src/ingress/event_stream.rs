//! Responses that are streams of server-sent events.

use std::{convert::Infallible, time::Duration};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::{
    HeaderName, HeaderValue,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use tokio::time::timeout;

/// Interval between comments that keep the connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Formats a message as an event, optionally with an id to resume from. An empty message has an
/// empty `data` line, so that clients see the id; axum's `Event` omits the line.
pub(crate) fn event(id: Option<&str>, message: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(message.len() + 64);
    if let Some(id) = id {
        text.extend([b"id: ", id.as_bytes(), b"\n"].concat());
    }
    // JSON of upstreams can have line breaks between tokens.
    for line in message.split(|byte| matches!(byte, b'\n' | b'\r')) {
        text.extend_from_slice(b"data: ");
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    text.push(b'\n');
    text.into()
}

/// An event stream response with a comment after each [`KEEP_ALIVE`] without an event.
pub(crate) fn respond(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let events = stream::unfold(Box::pin(events), async |mut events| {
        let event = match timeout(KEEP_ALIVE, events.next()).await {
            Ok(event) => event?,
            Err(_) => Bytes::from_static(b":\n\n"),
        };
        Some((Ok::<_, Infallible>(event), events))
    });
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Disables buffering in proxies.
    let name = HeaderName::from_static("x-accel-buffering");
    headers.insert(name, HeaderValue::from_static("no"));
    response
}
