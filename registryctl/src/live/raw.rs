//! The raw results of requests. The SDK drops unknown members, such as `execution`.
//!
//! Requests are sequential, so the last result belongs to the last request.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream::BoxStream};
use http::{HeaderName, HeaderValue};
use reqwest::{
    Client, RequestBuilder, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_client::{
        SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    },
};
use serde::Deserialize;
use serde_json::value::RawValue;
use sse_stream::{Sse, SseStream};
use tokio::io::{AsyncRead, ReadBuf};

use super::BYTES;

const SESSION: &str = "mcp-session-id";
const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";

/// The last received result.
#[derive(Debug, Clone, Default)]
pub(super) struct LastResult(Arc<Mutex<Option<Box<RawValue>>>>);

impl LastResult {
    pub(super) fn take(&self) -> Option<Box<RawValue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn record(&self, message: &[u8]) {
        #[derive(Deserialize)]
        struct Response<'a> {
            #[serde(borrow)]
            result: &'a RawValue,
        }
        if let Ok(Response { result }) = serde_json::from_slice(message) {
            let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some(result.to_owned());
        }
    }
}

/// The output of a program with one message per line.
pub(super) struct Lines<R> {
    inner: R,
    line: Vec<u8>,
    last: LastResult,
}

impl<R> Lines<R> {
    pub(super) fn new(inner: R, last: LastResult) -> Self {
        Self { inner, line: Vec::new(), last }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let Self { line, last, .. } = &mut *self;
        for part in buffer.filled()[before..].split_inclusive(|byte| *byte == b'\n') {
            if line.len() <= BYTES {
                line.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                last.record(line);
                line.clear();
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// An HTTP client of the SDK that keeps raw results of `tools/list`.
#[derive(Debug, Clone)]
pub(super) struct RawClient {
    inner: Client,
    last: LastResult,
}

type Events = BoxStream<'static, Result<Sse, SseError>>;
type Failed = StreamableHttpError<reqwest::Error>;

impl RawClient {
    pub(super) fn new(inner: Client, last: LastResult) -> Self {
        Self { inner, last }
    }

    /// Sends `tools/list`. The SDK handles the events of a stream: a server may send requests before its
    /// response.
    async fn list_tools(
        &self,
        request: RequestBuilder,
        has_session: bool,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let response = request.send().await?;
        let status = response.status();
        let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        let (kind, session) = (header(CONTENT_TYPE.as_str()), header(SESSION));
        let is = |wanted: &str| kind.as_ref().is_some_and(|kind| kind.starts_with(wanted));
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && has_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        if status.is_success() && is(EVENT_STREAM) {
            let events = SseStream::from_bytes_stream(bounded(response.bytes_stream()));
            return Ok(StreamableHttpPostResponse::Sse(self.recorded(events), session));
        }
        let is_json = is(JSON);
        if status.is_success() && !is_json {
            return Err(StreamableHttpError::UnexpectedContentType(kind));
        }
        let body = body(response).await?;
        let answer = serde_json::from_slice::<ServerJsonRpcMessage>(&body);
        let reason = match answer {
            Ok(answer) if is_json && (status.is_success() || is_error(&answer)) => {
                self.last.record(&body);
                return Ok(StreamableHttpPostResponse::Json(answer, session));
            }
            Err(e) if status.is_success() => format!("invalid response: {e}"),
            _ => format!("HTTP {status}: {}", String::from_utf8_lossy(&body)),
        };
        Err(StreamableHttpError::UnexpectedServerResponse(reason.into()))
    }

    /// Keeps the last result of events.
    fn recorded(
        &self,
        events: impl Stream<Item = Result<Sse, SseError>> + Send + 'static,
    ) -> Events {
        let last = self.last.clone();
        let record = move |event: &Result<Sse, SseError>| {
            if let Ok(Sse { data: Some(data), .. }) = event {
                last.record(data.as_bytes());
            }
        };
        events.inspect(record).boxed()
    }
}

fn is_error(message: &ServerJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Error(_))
}

/// Limits the size of a stream.
fn bounded(
    chunks: impl Stream<Item = reqwest::Result<Bytes>>,
) -> impl Stream<Item = io::Result<Bytes>> {
    let mut left = BYTES;
    chunks.map(move |chunk| {
        let chunk = chunk.map_err(io::Error::other)?;
        let too_large = || io::Error::other(format!("the stream has more than {BYTES} bytes"));
        left = left.checked_sub(chunk.len()).ok_or_else(too_large)?;
        Ok(chunk)
    })
}

async fn body(mut response: Response) -> Result<Vec<u8>, Failed> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > BYTES {
            return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: BYTES });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

impl StreamableHttpClient for RawClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        self.post_message_with_max_sse_event_size(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            BYTES,
        )
        .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let is_list = matches!(&message, JsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::ListToolsRequest(_)));
        if is_list {
            let body = serde_json::to_vec(&message)?;
            let mut request = self.inner.post(uri.as_ref()).body(body);
            request = request.header(CONTENT_TYPE, JSON);
            request = request.header(ACCEPT, format!("{EVENT_STREAM}, {JSON}"));
            request = request.headers(custom_headers.into_iter().collect());
            if let Some(session) = &session_id {
                request = request.header(SESSION, session.as_ref());
            }
            if let Some(token) = &auth_header {
                request = request.bearer_auth(token);
            }
            return self.list_tools(request, session_id.is_some()).await;
        }
        self.inner
            .post_message_with_max_sse_event_size(
                uri,
                message,
                session_id,
                auth_header,
                custom_headers,
                max_sse_event_size,
            )
            .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        self.inner.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Failed> {
        let opened =
            self.inner.get_stream(uri, session_id, last_event_id, auth_header, custom_headers);
        // A resumed stream contains the response.
        Ok(self.recorded(opened.await?))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn last_result_of_events_is_kept() {
        let client = RawClient::new(Client::new(), LastResult::default());
        let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
        let result = r#"{"tools":[{"name":"a","inputSchema":{},"execution":{"x":1}}]}"#;
        let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        for end in ["\n", "\r\n"] {
            let text = format!(": hello{end}{end}data: {ping}{end}{end}id: 1{end}data: {answer}");
            let text = Bytes::from(text + end + end);
            let parts = text.chunks(5).map(|part| Ok(Bytes::copy_from_slice(part)));
            let parts = futures_util::stream::iter(parts.collect::<Vec<_>>());
            let events = client.recorded(SseStream::from_bytes_stream(bounded(parts)));
            let data: Vec<_> = events.filter_map(async |event| event.unwrap().data).collect().await;
            assert_eq!(data, [ping, &*answer]);
            assert_eq!(client.last.take().unwrap().get(), result);
        }
    }

    #[tokio::test]
    async fn streams_fail_above_limit() {
        let chunks = [vec![0; BYTES], vec![0]].map(|chunk| Ok(Bytes::from(chunk)));
        let chunks: Vec<_> = bounded(futures_util::stream::iter(chunks)).collect().await;
        assert!(chunks[0].is_ok() && chunks[1].is_err());
    }

    #[tokio::test]
    async fn last_result_of_lines_is_kept() {
        let text =
            b"noise\n{\"result\":{\"a\":1}}\n{\"result\":{\"b\": 2}}\n{\"method\":\"m\"}\n{\"resu";
        let last = LastResult::default();
        let mut lines = Lines::new(&text[..], last.clone());
        let mut all = Vec::new();
        lines.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, text);
        assert_eq!(last.take().unwrap().get(), r#"{"b": 2}"#);
    }
}
