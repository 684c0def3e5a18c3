//! HTTP responses from bytes, without copies of large ones.

use std::{
    array,
    convert::Infallible,
    mem,
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

/// A response and the size of its body.
#[derive(Debug)]
pub(crate) struct SizedResponse {
    /// Without the media type of a JSON body.
    response: Response,
    pub(crate) bytes: usize,
    is_json: bool,
}

impl SizedResponse {
    /// An event stream, whose size is unknown.
    pub(crate) fn stream(response: Response) -> Self {
        Self { response, bytes: 0, is_json: false }
    }

    pub(crate) fn headers_mut(&mut self) -> &mut HeaderMap {
        self.response.headers_mut()
    }

    pub(crate) fn into_body(self) -> Body {
        self.response.into_body()
    }

    /// The response with its headers in the map of its request. The connection keeps that map for its
    /// next request, which has more headers than most responses.
    pub(crate) fn in_map_of_request(self, mut headers: HeaderMap) -> Response {
        let Self { mut response, is_json, .. } = self;
        headers.clear();
        headers.extend(mem::take(response.headers_mut()));
        if is_json {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        *response.headers_mut() = headers;
        response
    }
}

impl IntoResponse for SizedResponse {
    fn into_response(self) -> Response {
        self.in_map_of_request(HeaderMap::new())
    }
}

pub(super) fn json(status: StatusCode, body: Bytes) -> SizedResponse {
    let bytes = body.len();
    SizedResponse { response: respond(status, Body::from(body)), bytes, is_json: true }
}

/// A JSON response of three parts. The middle part can be large and shared.
pub(super) fn json_parts(parts: [Bytes; 3]) -> SizedResponse {
    let parts = PartsBody::new(parts);
    let bytes = usize::try_from(parts.left).unwrap_or(usize::MAX);
    SizedResponse { response: respond(StatusCode::OK, Body::new(parts)), bytes, is_json: true }
}

fn respond(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
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
    SizedResponse { response: respond(status, Body::empty()), bytes: 0, is_json: false }
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

#[cfg(test)]
mod tests {
    use http::header::{AUTHORIZATION, RETRY_AFTER};

    use super::*;

    #[test]
    fn response_has_no_header_of_request() {
        let mut request = HeaderMap::new();
        request.insert(AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        for media in ["text/plain", "text/html"] {
            request.append(CONTENT_TYPE, HeaderValue::from_static(media));
        }
        let mut answer = json(StatusCode::OK, Bytes::from_static(b"{}"));
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        let response = answer.in_map_of_request(request);
        let expected = [
            (RETRY_AFTER, HeaderValue::from_static("1")),
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ];
        assert_eq!(*response.headers(), HeaderMap::from_iter(expected));
    }
}
