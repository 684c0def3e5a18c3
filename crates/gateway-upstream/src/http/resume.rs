//! Resumes an event stream with `GET` and `Last-Event-ID` (2025-11-25, basic/transports,
//! resumability). The modern era has no resumption.
//!
//! Attempts are not counted: the time limit of the request ends them.

use std::time::Duration;

use gateway_protocol::sse::Events;
use http::{HeaderName, HeaderValue};
use hyper::body::Incoming;

use super::{Error, ProtocolViolation, answer, message_sink::MessageSink};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The reconnect delay if the server sets none.
const DEFAULT_DELAY: Duration = Duration::from_secs(1);
/// The minimum and maximum reconnect delay.
const DELAY_BOUNDS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(10));

/// Requests the rest of a stream.
pub(super) async fn reopen(sink: MessageSink<'_>, events: &Events) -> Result<Incoming, Error> {
    let id = events.last_id().filter(|_| sink.session.is_legacy());
    let id = id.and_then(|id| HeaderValue::from_str(id).ok()).ok_or(ProtocolViolation::Closed)?;
    let wait = events.retry().unwrap_or(DEFAULT_DELAY).clamp(DELAY_BOUNDS.0, DELAY_BOUNDS.1);
    tokio::time::sleep(wait).await;
    let mut headers = sink.session.headers.clone();
    headers.insert(LAST_EVENT_ID, id);
    let request = sink.transport.address.get(headers);
    let response = sink.transport.send(request, &sink.session.subject()).await?;
    if !response.status().is_success() || !answer::is_event_stream(response.headers()) {
        return Err(ProtocolViolation::Closed.into());
    }
    Ok(response.into_body())
}
