//! Reads the response to a POST: JSON or an event stream, within the size limit.

use std::time::{Duration, Instant};

use bytes::Bytes;
use gateway_policy::BufferReservation;
use gateway_protocol::{
    jsonrpc::{self, Limits, Message},
    mcp::header,
    sse::Events,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header::CONTENT_TYPE, response};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Frame, Incoming};

use super::{
    super::reply::Reply, Error, ProtocolViolation, message_sink::MessageSink, resume, spare_headers,
};

/// How long the rest of an event stream is read after the response, so that its connection can be
/// reused.
const REST: Duration = Duration::from_millis(500);
/// Maximum rate of messages before a response, in bytes per second.
const MESSAGE_BYTES_A_SECOND: u64 = 1024 * 1024;

/// The expected response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) id: u64,
    pub(super) limit_bytes: usize,
    /// The reservation of the caller's request.
    pub(super) buffered: Option<&'a BufferReservation>,
}

/// A received response.
#[derive(Debug)]
pub(super) struct PostResponse {
    pub(super) status: StatusCode,
    /// `None`: an error status without a JSON-RPC error.
    pub(super) reply: Option<Reply>,
    pub(super) session_id: Option<HeaderValue>,
}

impl PostResponse {
    pub(super) fn into_reply(self) -> Result<Reply, Error> {
        self.reply.ok_or_else(|| status_error(self.status))
    }
}

/// The error of a status without a JSON-RPC error.
pub(crate) fn status_error(status: StatusCode) -> Error {
    let status_code = status.as_u16();
    if is_refusal(status) {
        Error::Refused { status: status_code }
    } else {
        ProtocolViolation::Status(status_code).into()
    }
}

/// Whether a status concerns credentials or rate limits, not the request.
pub(crate) fn is_refusal(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
    )
}

/// Reads the response to a request. Messages before it go to the sink.
pub(super) async fn read(
    response: Response<Incoming>,
    expected: Expected<'_>,
    sink: MessageSink<'_>,
) -> Result<PostResponse, Error> {
    let (mut head, body) = response.into_parts();
    let status = head.status;
    let session_id = head.headers.remove(header::SESSION_ID);
    let reply = if status.is_success() && is_event_stream(&head.headers) {
        // Boxed, to keep the future of each call small.
        Some(Box::pin(read_events(body, expected, sink)).await?)
    } else {
        read_json((&head, body), expected).await?
    };
    spare_headers::put(head.headers);
    Ok(PostResponse { status, reply, session_id })
}

/// Returns `None` for an error status without a JSON-RPC error.
async fn read_json(
    (head, body): (&response::Parts, Incoming),
    expected: Expected<'_>,
) -> Result<Option<Reply>, Error> {
    let is_success = head.status.is_success();
    if is_success && !is_media_type(&head.headers, "application/json") {
        return Err(ProtocolViolation::ContentType.into());
    }
    let body = read_whole(body, expected.limit_bytes, expected.buffered).await?;
    match read_response(&body.bytes, expected) {
        Ok(reply) => Ok(Some(reply)),
        Err(error) if is_success => Err(error),
        Err(_) => Ok(None),
    }
}

/// Reads the response to a notification. Its content is ignored.
pub(super) async fn acknowledgement(response: Response<Incoming>) -> Result<StatusCode, Error> {
    let status = response.status();
    read_whole(response.into_body(), 64 * 1024, None).await?;
    Ok(status)
}

/// Whether the response is an event stream.
pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    is_media_type(headers, "text/event-stream")
}

pub(crate) fn is_media_type(headers: &HeaderMap, wanted: &str) -> bool {
    let value = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let Some((essence, parameters)) = value.trim_ascii().split_at_checked(wanted.len()) else {
        return false;
    };
    essence.eq_ignore_ascii_case(wanted.as_bytes())
        && matches!(parameters.trim_ascii_start(), [] | [b';', ..])
}

/// A whole body and the trailers after it.
pub(crate) struct WholeBody {
    pub(crate) bytes: Bytes,
    pub(crate) trailers: HeaderMap,
}

/// Reads a whole body and reserves memory for each chunk.
pub(crate) async fn read_whole(
    mut body: Incoming,
    limit_bytes: usize,
    buffered: Option<&BufferReservation>,
) -> Result<WholeBody, Error> {
    let too_large = || Error::TooLarge { limit_bytes };
    let announced = body.size_hint().lower();
    if announced > limit_bytes as u64 {
        return Err(too_large());
    }
    let mut first = Bytes::new();
    let mut rest = Vec::new();
    let mut trailers = HeaderMap::new();
    while let Some(frame) = next_frame(&mut body).await? {
        let chunk = match frame.into_data() {
            Ok(chunk) => chunk,
            Err(frame) => {
                trailers = frame.into_trailers().unwrap_or_default();
                continue;
            }
        };
        if first.len().max(rest.len()) + chunk.len() > limit_bytes {
            return Err(too_large());
        }
        if let Some(buffered) = buffered {
            buffered.reserve(chunk.len())?;
        }
        // Most bodies are one chunk, which needs no copy.
        if first.is_empty() && rest.is_empty() {
            first = chunk;
            continue;
        }
        if rest.is_empty() {
            rest.reserve(usize::try_from(announced).unwrap_or(0).max(first.len() + chunk.len()));
            rest.extend_from_slice(&first);
        }
        rest.extend_from_slice(&chunk);
    }
    let bytes = if rest.is_empty() { first } else { rest.into() };
    Ok(WholeBody { bytes, trailers })
}

/// The next chunk, or the trailers.
pub(crate) async fn next_frame(body: &mut Incoming) -> Result<Option<Frame<Bytes>>, Error> {
    body.frame().await.transpose().map_err(|_| ProtocolViolation::Closed.into())
}

pub(super) async fn next_chunk(body: &mut Incoming) -> Result<Option<Bytes>, Error> {
    while let Some(frame) = next_frame(body).await? {
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

fn read_response(body: &[u8], expected: Expected<'_>) -> Result<Reply, Error> {
    match jsonrpc::parse(body, Limits::with_max_bytes(expected.limit_bytes)) {
        Ok(Message::Response(response)) => own_response(response, expected.id),
        Ok(_) => Err(ProtocolViolation::Garbage(jsonrpc::InvalidMessage::Kind).into()),
        Err(error) => Err(ProtocolViolation::from(error).into()),
    }
}

/// An error without an id concerns the only request of this POST.
fn own_response(response: jsonrpc::Response<'_>, id: u64) -> Result<Reply, Error> {
    match response.id {
        Some(answered) if answered.as_raw().parse() != Ok(id) => {
            Err(ProtocolViolation::WrongId.into())
        }
        _ => Ok(response.outcome.into()),
    }
}

/// Limits the rate of messages before a response. A burst of the response size limit is read
/// immediately; a faster stream is read more slowly, so that its server waits.
struct Pace {
    started: Instant,
    at_once: usize,
    read: usize,
    /// Bytes of memory reserved for the messages.
    reserved: usize,
}

impl Pace {
    fn new(at_once: usize) -> Self {
        Self { started: Instant::now(), at_once, read: 0, reserved: 0 }
    }

    /// Counts a message. Returns how long to wait if the stream is too fast.
    fn count(&mut self, bytes: usize) -> Option<Duration> {
        self.read += bytes;
        let excess = self.read.saturating_sub(self.at_once) as u64;
        let due = Duration::from_micros(excess.saturating_mul(1_000_000) / MESSAGE_BYTES_A_SECOND);
        Some(due.saturating_sub(self.started.elapsed())).filter(|early| !early.is_zero())
    }
}

/// Reads an event stream up to the response. If a legacy server closes the stream before, it is
/// resumed. The size limit applies to each message. The reserved memory is that of the largest
/// messages that arrived together.
async fn read_events(
    mut body: Incoming,
    expected: Expected<'_>,
    sink: MessageSink<'_>,
) -> Result<Reply, Error> {
    let too_large = || Error::TooLarge { limit_bytes: expected.limit_bytes };
    let mut events = Events::new(expected.limit_bytes);
    let mut pace = Pace::new(expected.limit_bytes);
    loop {
        let Some(chunk) = next_chunk(&mut body).await? else {
            body = resume::reopen(sink, &events).await?;
            events.restart();
            continue;
        };
        if let Some(buffered) = expected.buffered {
            let needed = events.held_bytes() + chunk.len();
            buffered.reserve(needed.saturating_sub(pace.reserved))?;
            pace.reserved = pace.reserved.max(needed);
        }
        events.push(&chunk).map_err(|_| too_large())?;
        while let Some(data) = events.pop() {
            match jsonrpc::parse(&data, Limits::with_max_bytes(expected.limit_bytes)) {
                Ok(Message::Response(response)) => {
                    let reply = own_response(response, expected.id)?;
                    read_rest(body);
                    return Ok(reply);
                }
                Ok(Message::Request(request)) => sink.on_request(&request),
                Ok(Message::Notification(notification)) => {
                    sink.on_notification(&notification).await;
                }
                Err(error) => return Err(ProtocolViolation::Garbage(error).into()),
            }
            if let Some(early) = pace.count(data.len()) {
                Box::pin(tokio::time::sleep(early)).await;
            }
        }
    }
}

/// Reads the rest of a stream, which usually has ended already.
pub(crate) fn read_rest(mut body: Incoming) {
    if !body.is_end_stream() {
        tokio::spawn(async move {
            let rest = async { while let Ok(Some(_)) = next_chunk(&mut body).await {} };
            let _ = tokio::time::timeout(REST, rest).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_type_is_compared_without_parameters() {
        let is_json = |value: &'static str| {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]);
            is_media_type(&headers, "application/json")
        };
        for value in [
            "application/json",
            " Application/JSON ",
            "application/json;charset=utf-8",
            "application/json ; charset=utf-8",
        ] {
            assert!(is_json(value), "{value}");
        }
        for value in ["", "application/jso", "application/json5", "application/json x", "; json"] {
            assert!(!is_json(value), "{value}");
        }
        assert!(!is_media_type(&HeaderMap::new(), "application/json"));
    }
}
