//! HTTP responses from bytes, without copies of large ones.

use std::{
    array,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE};
use http_body::{Frame, SizeHint};

/// Usual number of headers of a response: type, length, date, request id and `Vary`. The map does not
/// grow for them.
const RESPONSE_HEADERS: usize = 5;

/// A response and the size of its body.
#[derive(Debug)]
pub(crate) struct SizedResponse {
    pub response: Response,
    pub bytes: usize,
}

impl IntoResponse for SizedResponse {
    fn into_response(self) -> Response {
        self.response
    }
}

pub(super) fn json(status: StatusCode, body: Bytes) -> SizedResponse {
    let bytes = body.len();
    SizedResponse { response: respond(status, Body::from(body)), bytes }
}

/// A JSON response of three parts. The middle part can be large and shared.
pub(super) fn json_parts(parts: [Bytes; 3]) -> SizedResponse {
    let parts = PartsBody::new(parts);
    let bytes = usize::try_from(parts.left).unwrap_or(usize::MAX);
    SizedResponse { response: respond(StatusCode::OK, Body::new(parts)), bytes }
}

fn respond(status: StatusCode, body: Body) -> Response {
    let mut headers = HeaderMap::with_capacity(RESPONSE_HEADERS);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// 202, for notifications and responses of the client.
pub(crate) fn accepted() -> SizedResponse {
    empty(StatusCode::ACCEPTED)
}

/// 204, for a deleted session.
pub(crate) fn no_content() -> SizedResponse {
    empty(StatusCode::NO_CONTENT)
}

/// The response to a cancelled request: an empty event stream, because JSON-RPC has no response for
/// it.
pub(crate) fn cancelled() -> SizedResponse {
    let mut answer = empty(StatusCode::OK);
    let stream = HeaderValue::from_static("text/event-stream");
    answer.response.headers_mut().insert(CONTENT_TYPE, stream);
    answer
}

fn empty(status: StatusCode) -> SizedResponse {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    SizedResponse { response, bytes: 0 }
}

/// A body of three parts with known length.
#[derive(Debug)]
struct PartsBody {
    parts: array::IntoIter<Bytes, 3>,
    left: u64,
}

impl PartsBody {
    fn new(parts: [Bytes; 3]) -> Self {
        let left = parts.iter().map(|part| part.len() as u64).sum();
        Self { parts: parts.into_iter(), left }
    }
}

impl http_body::Body for PartsBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let part = self.parts.next();
        self.left -= part.as_ref().map_or(0, |part| part.len() as u64);
        Poll::Ready(part.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
