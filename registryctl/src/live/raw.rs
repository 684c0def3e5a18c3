//! The raw text of results. The SDK drops members that it does not know, such as `execution`.
//!
//! Requests are sent one after another, so the last result belongs to the last request.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use reqwest::{
    Client,
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
use tokio::io::{AsyncRead, ReadBuf};

use super::BYTES;

const SESSION: &str = "mcp-session-id";

/// The last result that was received.
#[derive(Debug, Clone, Default)]
pub(super) struct LastResult(Arc<Mutex<Option<Box<RawValue>>>>);

impl LastResult {
    pub(super) fn take(&self) -> Option<Box<RawValue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, message: &[u8]) {
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

/// The output of a program, of which each line is a message.
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
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let Self { line, last, .. } = &mut *self;
        for part in buffer.filled()[before..].split_inclusive(|byte| *byte == b'\n') {
            if line.len() <= BYTES {
                line.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                last.note(line);
                line.clear();
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The SDK's HTTP client, which keeps the raw results of lists of tools.
#[derive(Debug, Clone)]
pub(super) struct RawClient {
    inner: Client,
    last: LastResult,
}

impl RawClient {
    pub(super) fn new(inner: Client, last: LastResult) -> Self {
        Self { inner, last }
    }

    /// Sends a request and reads its answer; `None` if the answer is anything but a result, for which
    /// the SDK asks again.
    async fn result(&self, request: reqwest::RequestBuilder) -> Option<StreamableHttpPostResponse> {
        let mut response =
            request.send().await.ok().filter(|answer| answer.status().is_success())?;
        let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        let (kind, session) = (header(CONTENT_TYPE.as_str())?, header(SESSION));
        let is_stream = kind.starts_with("text/event-stream");
        let (mut body, mut scanned) = (Vec::new(), 0);
        while let Some(chunk) = response.chunk().await.ok()? {
            body.extend_from_slice(&chunk);
            if body.len() > BYTES {
                return None;
            }
            if is_stream && let Some(message) = self.answer_in(&mut body, &mut scanned) {
                return Some(StreamableHttpPostResponse::Json(message, session));
            }
        }
        let message = self.answer(&body).filter(|_| !is_stream)?;
        Some(StreamableHttpPostResponse::Json(message, session))
    }

    /// The answer among the complete events of a stream, which are removed. No event ends in the first
    /// `scanned` bytes.
    fn answer_in(&self, stream: &mut Vec<u8>, scanned: &mut usize) -> Option<ServerJsonRpcMessage> {
        loop {
            let from = scanned.saturating_sub(3);
            let Some(end) = end_of_event(&stream[from..]) else {
                *scanned = stream.len();
                return None;
            };
            *scanned = 0;
            let event: Vec<u8> = stream.drain(..from + end).collect();
            let data: Vec<_> = event
                .split(|byte| matches!(byte, b'\n' | b'\r'))
                .filter_map(|line| line.strip_prefix(b"data:"))
                .collect();
            let answer = self.answer(&data.join(&b'\n'));
            if answer.is_some() {
                return answer;
            }
        }
    }

    fn answer(&self, message: &[u8]) -> Option<ServerJsonRpcMessage> {
        let answer = serde_json::from_slice(message).ok()?;
        if !matches!(answer, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) {
            return None;
        }
        self.last.note(message);
        Some(answer)
    }
}

/// The length of the first event with the blank line after it.
fn end_of_event(stream: &[u8]) -> Option<usize> {
    let ends: [&[u8]; 2] = [b"\n\n", b"\r\n\r\n"];
    let end = |mark: &[u8]| {
        let at = stream.windows(mark.len()).position(|part| part == mark)?;
        Some(at + mark.len())
    };
    ends.into_iter().filter_map(end).min()
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
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<Self::Error>> {
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
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<Self::Error>> {
        let is_list = matches!(&message, JsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::ListToolsRequest(_)));
        if is_list && let Ok(body) = serde_json::to_vec(&message) {
            let mut request = self.inner.post(uri.as_ref()).body(body);
            request = request.header(CONTENT_TYPE, "application/json");
            request = request.header(ACCEPT, "text/event-stream, application/json");
            request = request.headers(custom_headers.clone().into_iter().collect());
            if let Some(session) = &session_id {
                request = request.header(SESSION, session.as_ref());
            }
            if let Some(token) = &auth_header {
                request = request.bearer_auth(token);
            }
            if let Some(answer) = self.result(request).await {
                return Ok(answer);
            }
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
    ) -> Result<(), StreamableHttpError<Self::Error>> {
        self.inner.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<
        BoxStream<'static, Result<sse_stream::Sse, SseError>>,
        StreamableHttpError<Self::Error>,
    > {
        self.inner.get_stream(uri, session_id, last_event_id, auth_header, custom_headers).await
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn last(client: &RawClient) -> Option<String> {
        client.last.take().map(|raw| raw.get().to_owned())
    }

    #[test]
    fn answer_is_found_among_events_in_parts() {
        let client = RawClient::new(Client::new(), LastResult::default());
        let note = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        let result = r#"{"tools":[{"name":"a","inputSchema":{},"execution":{"x":1}}]}"#;
        let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        for end in ["\n", "\r\n"] {
            let text =
                format!(": hello{end}{end}data: {note}{end}{end}id: 1{end}data: {answer}{end}");
            let (mut stream, mut scanned) = (text.into_bytes(), 0);
            assert!(client.answer_in(&mut stream, &mut scanned).is_none());
            stream.extend_from_slice(end.as_bytes());
            assert!(client.answer_in(&mut stream, &mut scanned).is_some());
            assert_eq!(last(&client).as_deref(), Some(result));
        }
        let error = br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#;
        assert!(client.answer(error).is_some() && last(&client).is_none());
    }

    #[tokio::test]
    async fn lines_pass_and_their_last_result_is_kept() {
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
