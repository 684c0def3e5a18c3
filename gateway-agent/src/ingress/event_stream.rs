//! Responses that are streams of server-sent events.

use std::{
    convert::Infallible,
    task::{Poll, ready},
    time::Duration,
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{
    HeaderName, HeaderValue,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use tokio::time::{Instant, sleep};

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
    let mut events = Box::pin(events);
    // One timer for all events: a later deadline only changes it.
    let mut pause = Box::pin(sleep(KEEP_ALIVE));
    let events = stream::poll_fn(move |context| {
        let event = if let Poll::Ready(event) = events.as_mut().poll_next(context) {
            event
        } else {
            ready!(pause.as_mut().poll(context));
            Some(Bytes::from_static(b":\n\n"))
        };
        pause.as_mut().reset(Instant::now() + KEEP_ALIVE);
        Poll::Ready(event.map(Ok::<_, Infallible>))
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

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::{sync::mpsc, time::advance};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn comment_follows_each_interval_without_event() {
        let (sender, mut receiver) = mpsc::channel(1);
        let mut body =
            respond(stream::poll_fn(move |context| receiver.poll_recv(context))).into_body();
        let mut next = async || body.frame().await.map(|frame| frame.unwrap().into_data().unwrap());
        for seconds in [1, 14, 14] {
            advance(Duration::from_secs(seconds)).await;
            sender.send(event(None, b"{}")).await.unwrap();
            assert_eq!(next().await.unwrap(), "data: {}\n\n");
        }
        for _ in 0..2 {
            let start = Instant::now();
            assert_eq!(next().await.unwrap(), ":\n\n");
            assert_eq!(start.elapsed().as_secs(), KEEP_ALIVE.as_secs());
        }
        drop(sender);
        assert_eq!(next().await, None);
    }
}
