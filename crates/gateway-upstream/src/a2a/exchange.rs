//! One request to an agent and its answer, in the version and binding that the agent supports.

use std::{
    borrow::Cow,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use a2a::{
    Binding, Dialect, ErrorKind, Failure, Operation, Request, Untranslatable, Version,
    extensions::{EXTENSIONS_HEADER, LEGACY_EXTENSIONS_HEADER},
    rest, rpc,
    version::VERSION_HEADER,
};
use bytes::Bytes;
use gateway_protocol::{
    content,
    jsonrpc::{self, Id, Limits, Message, Response, ResponsePayload},
};
use http::{HeaderMap, HeaderValue, StatusCode, header::ACCEPT, header::CONTENT_TYPE};
use hyper::body::Incoming;
use retry_backoff::jittered;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::{AgentLink, EventSink, RequestMeta, grpc, stream::EventStream};
use crate::{
    error::{Error, Phase, ProtocolViolation},
    http::{WholeBody, is_event_stream, is_media_type, is_refusal, read_whole, status_error},
    send_state::{Body, SendState},
};

/// The delay before a retry.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// A request to an agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outbound<'a> {
    pub(super) request: &'a Request,
    pub(super) meta: &'a RequestMeta,
    pub(super) send_state: &'a SendState,
    /// The receiver of the events of a streaming operation.
    pub(super) sink: Option<&'a EventSink<'a>>,
}

/// A request in a dialect.
#[derive(Debug)]
pub(super) struct WrittenRequest {
    /// The id of the JSON-RPC request.
    pub(super) id: u64,
    pub(super) operation: Operation,
    pub(super) request: http::Request<Body>,
}

/// A response that is not an event stream.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    /// The id of the JSON-RPC request.
    id: u64,
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
    /// The trailers of gRPC.
    trailers: HeaderMap,
}

impl AgentLink {
    /// Sends a request and waits for its answer. The answer of a stream is null. Retries once
    /// if nothing was sent, or if an operation without effects lost its connection.
    pub(super) async fn call_with_retry(&self, outbound: Outbound<'_>) -> Result<Value, Error> {
        let is_safe = |error: &Error| {
            let has_no_effect = outbound.request.operation == Operation::GetTask;
            error.is_unsent() || (has_no_effect && error.is_lost())
        };
        match self.call(outbound).await {
            Err(error) if is_safe(&error) => {
                sleep(jittered(RETRY_DELAY)).await;
                Box::pin(self.call(outbound)).await
            }
            outcome => outcome,
        }
    }

    /// Sends a request. It is sent again only if the agent rejected it unprocessed because the
    /// version or binding that it supports has changed.
    pub(super) async fn call(&self, outbound: Outbound<'_>) -> Result<Value, Error> {
        let before = self.supported_dialect().await?;
        let answer = self.call_in(before, outbound).await;
        let operation = outbound.request.operation;
        // Agents need not have the other operations.
        let is_required = operation.sends_message() || operation == Operation::GetTask;
        if !(is_required && answer.as_ref().is_err_and(may_have_changed)) {
            return answer;
        }
        outbound.send_state.reset();
        let Some(now) = Box::pin(self.dialect_after(before)).await else { return answer };
        Box::pin(self.call_in(now, outbound)).await
    }

    async fn call_in(&self, dialect: Dialect, outbound: Outbound<'_>) -> Result<Value, Error> {
        let Outbound { request, meta, send_state, sink } = outbound;
        let mut written = self.written(dialect, request, meta)?;
        written.request.body_mut().track(send_state);
        let Some(sink) = sink else {
            let answer = self.exchange(written, meta).await?;
            return self.read(dialect, request, &answer);
        };
        let WrittenRequest { id, request: http_request, .. } = written;
        let started = Instant::now();
        let opening = Box::pin(self.open(http_request, &meta.subject));
        let head = sink.within_limit(opening, || !send_state.cancel_if_unsent()).await;
        let response = head.unwrap_or_else(|| Err(timed_out(send_state, sink.limit)))?;
        let opens_stream = match dialect.binding {
            Binding::Grpc => grpc::opens_stream(response.headers()),
            Binding::JsonRpc | Binding::HttpJson => is_event_stream(response.headers()),
        };
        if response.status().is_success() && opens_stream {
            meta.observe(response.headers());
            let limit_bytes = self.transport.client.limits().response_bytes;
            let buffered = meta.buffered.as_deref();
            let stream = EventStream::new((dialect, id, response), limit_bytes, buffered);
            return Box::pin(stream.read(sink, request.task_id())).await.map(|()| Value::Null);
        }
        // Agents reject a stream with an error that is no event.
        let left = sink.limit.saturating_sub(started.elapsed());
        let answer = timeout(left, self.read_body((id, request.operation), response, meta)).await;
        let answer = answer.unwrap_or_else(|_| Err(timed_out(send_state, sink.limit)))?;
        self.read(dialect, request, &answer)?;
        Err(ProtocolViolation::ContentType.into())
    }

    /// Sends a request and reads the whole response.
    pub(super) async fn exchange(
        &self,
        written: WrittenRequest,
        meta: &RequestMeta,
    ) -> Result<HttpAnswer, Error> {
        let WrittenRequest { id, operation, request } = written;
        let response = self.transport.send(request, &meta.subject).await?;
        self.read_body((id, operation), response, meta).await
    }

    async fn read_body(
        &self,
        (id, operation): (u64, Operation),
        response: http::Response<Incoming>,
        meta: &RequestMeta,
    ) -> Result<HttpAnswer, Error> {
        let (head, body) = response.into_parts();
        meta.observe(&head.headers);
        let is_json = || {
            let wanted = ["application/json", "application/a2a+json"];
            wanted.iter().any(|wanted| is_media_type(&head.headers, wanted))
        };
        let is_readable = if self.is_grpc { grpc::is_grpc(&head.headers) } else { is_json() };
        if head.status.is_success() && !is_readable {
            return Err(ProtocolViolation::ContentType.into());
        }
        let limit_bytes = self.transport.client.limits().response_bytes;
        let buffered = meta.buffered.as_deref();
        let WholeBody { bytes: body, trailers } = read_whole(body, limit_bytes, buffered).await?;
        if let Some(buffered) = buffered {
            let parsed = if self.is_grpc {
                a2a::grpc::answer_bytes(operation, &body)
            } else {
                std::str::from_utf8(&body).map_or(0, content::tree_bytes)
            };
            buffered.reserve(parsed)?;
        }
        // The head of a call without messages is also its trailers.
        let trailers = if trailers.is_empty() && self.is_grpc { head.headers } else { trailers };
        meta.observe(&trailers);
        Ok(HttpAnswer { id, status: head.status, body, trailers })
    }

    /// The answer to a request in its internal form, or the error of the agent.
    pub(super) fn read(
        &self,
        dialect: Dialect,
        request: &Request,
        answer: &HttpAnswer,
    ) -> Result<Value, Error> {
        let HttpAnswer { id, status, body, trailers } = answer;
        let (version, limits) = (dialect.version, self.limits());
        if dialect.binding == Binding::JsonRpc {
            if !status.is_success() && !is_rpc_error(body, limits) {
                return Err(status_error(*status));
            }
            return Ok(rpc::read_answer(version, request.operation, *id, body, limits)?);
        }
        if dialect.binding == Binding::Grpc {
            if !status.is_success() {
                return Err(status_error(*status));
            }
            let answer = a2a::grpc::read_answer(request.operation, body, trailers);
            return answer.map_err(grpc::call_error);
        }
        // Errors of proxies in front of an agent have no form of A2A.
        let is_error_of_agent = || {
            let is_object =
                serde_json::from_slice::<Value>(body).is_ok_and(|body| body.is_object());
            is_object && !is_refusal(*status) && !matches!(status.as_u16(), 502..=504)
        };
        if !status.is_success() && !is_error_of_agent() {
            return Err(status_error(*status));
        }
        Ok(rest::read_answer(version, request, status.as_u16(), body, limits)?)
    }

    pub(super) fn limits(&self) -> Limits {
        Limits::with_max_bytes(self.transport.client.limits().response_bytes)
    }

    /// Writes a request in a dialect, for the tenant of the agent's interface.
    pub(super) fn written(
        &self,
        dialect: Dialect,
        request: &Request,
        meta: &RequestMeta,
    ) -> Result<WrittenRequest, Error> {
        // Operations of callers have the tenant already.
        let mut request = Cow::Borrowed(request);
        if dialect.version == Version::V1 && request.tenant() != self.tenant.as_deref() {
            request.to_mut().set_tenant(self.tenant.as_deref());
        }
        let request = &*request;
        let operation = request.operation;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let address = &self.transport.address;
        let mut headers: HeaderMap = address.headers.clone();
        let accepted = match (dialect.binding, operation.is_streaming()) {
            (Binding::JsonRpc, false) => "application/json",
            (Binding::JsonRpc, true) => "text/event-stream, application/json",
            (_, false) => "application/a2a+json, application/json",
            (_, true) => "text/event-stream, application/a2a+json, application/json",
        };
        headers.insert(ACCEPT, HeaderValue::from_static(accepted));
        headers.insert(VERSION_HEADER, HeaderValue::from_static(dialect.version.as_str()));
        if let Some(extensions) = meta.extensions.header_value() {
            let name = match dialect.version {
                Version::V1 => EXTENSIONS_HEADER,
                Version::V03 => LEGACY_EXTENSIONS_HEADER,
            };
            headers.insert(name, extensions);
        }
        headers.extend(meta.trace.iter().cloned());
        if dialect.binding == Binding::Grpc {
            let request = grpc::write_request(address, headers, request, meta.deadline)?;
            return Ok(WrittenRequest { id, operation, request });
        }
        let invalid = |error: Untranslatable| Error::from(error.into_request_failure());
        if dialect.binding == Binding::JsonRpc {
            let text = id.to_string();
            let rpc_id = Id::parse(&text).map_err(ProtocolViolation::from)?;
            let body = rpc::write_call(dialect.version, rpc_id, request).map_err(invalid)?;
            return Ok(WrittenRequest { id, operation, request: address.post(headers, body) });
        }
        let rest::Outgoing { method, path, body } =
            rest::write_call(dialect.version, request).map_err(invalid)?;
        if body.is_none() {
            headers.remove(CONTENT_TYPE);
        }
        let body = body.unwrap_or_default().into();
        let request = address.request_below(&path, method, headers, body).ok_or_else(|| {
            let problem = "the id is too long for a URL, which the binding of the agent needs";
            Failure::invalid_params("/id", problem)
        })?;
        Ok(WrittenRequest { id, operation, request })
    }
}

/// Whether an agent rejected a request unprocessed because it does not know the method or the
/// version.
fn is_version_error(error: &Error) -> bool {
    let Error::Agent(failure) = error else { return false };
    matches!(failure.kind, ErrorKind::MethodNotFound | ErrorKind::VersionNotSupported)
}

/// Whether an error can mean that the agent supports another version or binding now. A 404 without a
/// body of A2A is that of a server without the path.
fn may_have_changed(error: &Error) -> bool {
    is_version_error(error)
        || matches!(error, Error::Protocol { what: ProtocolViolation::Status(404) })
}

/// The error of an expired time limit. A request that was not sent by now never is.
pub(super) fn timed_out(send_state: &SendState, limit: Duration) -> Error {
    let after_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let phase = if send_state.cancel_if_unsent() { Phase::Connect } else { Phase::Call };
    Error::Timeout { phase, after_ms }
}

/// Whether a body is a JSON-RPC error.
fn is_rpc_error(body: &[u8], limits: Limits) -> bool {
    let message = jsonrpc::parse(body, limits);
    matches!(message, Ok(Message::Response(Response { outcome: ResponsePayload::Error(_), .. })))
}
