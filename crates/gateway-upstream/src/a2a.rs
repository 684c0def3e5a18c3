//! Agents over A2A's JSON-RPC binding: a step sends its input as one message to a skill, and its
//! result is the reply or the result of the task.
//!
//! The gateway asks for an immediate reply and polls the task until it ends, so that it knows which
//! task to cancel when the caller disconnects. Streams, push notifications, other bindings and
//! replies to an agent that requests input are not supported.

mod pending;
mod version_probe;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ::a2a::{
    Version,
    tool::{Call, OpenTask, SkillCall, Text, of_message, of_task},
    version::VERSION_HEADER,
};
use arc_swap::ArcSwapOption;
use gateway_policy::BufferReservation;
use gateway_protocol::mcp::{Era, Method, RpcError};
use http::{HeaderMap, HeaderName, HeaderValue, header::ACCEPT};
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::pending::DeliveryResult;
use super::{
    error::{Error, ProtocolViolation},
    events::EventPublisher,
    http::{Client, Expected, InvalidAddress, Subject, Transport, read_one},
    message::Outgoing,
    reply::Reply,
    request::Request,
    routing::TargetId,
    send_state::{Body, SendState},
    single_flight::SingleFlight,
};
use crate::TransportConfig;

/// The tool list of an agent: its skills are registered, not listed.
const NO_TOOLS: &str = r#"{"tools":[]}"#;
/// Maximum abandoned messages whose response is still read, to learn the task id and cancel it.
const MAX_ABANDONED: usize = 64;

/// The link to one agent.
#[derive(Debug)]
pub(super) struct AgentLink {
    transport: Arc<Transport>,
    version: ArcSwapOption<Version>,
    looks: SingleFlight,
    next_id: AtomicU64,
    read_abandoned: Semaphore,
    stop: CancellationToken,
}

/// The subject and the trace headers of a request.
#[derive(Debug, Clone, Default)]
struct RequestMeta {
    subject: Subject,
    trace: Vec<(HeaderName, HeaderValue)>,
    buffered: Option<Arc<BufferReservation>>,
}

impl AgentLink {
    /// Creates a link without connecting. Once it is stopped, it does not wait long for responses.
    /// Must be called inside a Tokio runtime.
    pub(super) fn new(
        (publisher, agent): (Arc<EventPublisher>, TargetId),
        transport: &TransportConfig,
        shared: &Client,
        stop: CancellationToken,
    ) -> Result<Self, InvalidAddress> {
        Ok(Self {
            transport: Arc::new(Transport::new(agent, publisher, transport, shared)?),
            version: ArcSwapOption::empty(),
            looks: SingleFlight::default(),
            next_id: AtomicU64::new(1),
            read_abandoned: Semaphore::new(MAX_ABANDONED),
            stop,
        })
    }

    /// The version that the agent supports, if it is known.
    pub(super) fn speaks(&self) -> Option<&'static str> {
        self.version.load().as_deref().map(|version| match version {
            Version::V1 => "a2a-1.0",
            Version::V03 => "a2a-0.3",
        })
    }

    /// Sends a message and returns the outcome as a tool result. Listing only checks that the agent
    /// responds. Error codes of an agent are not MCP codes.
    pub(super) async fn request(
        self: &Arc<Self>,
        outgoing: &Outgoing<'_>,
        trace: &[(HeaderName, HeaderValue)],
    ) -> Result<(Reply, Era), Error> {
        let result = if let Outgoing::Asked { subject: skill, request, send_state } = outgoing {
            let (subject, trace) = (self.transport.caller(outgoing)?, trace.to_vec());
            let buffered = outgoing.request().and_then(|r| r.context.buffered.clone());
            let meta = RequestMeta { subject, trace, buffered };
            let send_state = send_state.cloned().unwrap_or_default();
            Box::pin(self.ask((skill, request), meta, send_state)).await?
        } else {
            self.probe_version().await?;
            NO_TOOLS.to_owned()
        };
        // The writer produces JSON.
        let raw =
            RawValue::from_string(result).map_err(|_| ProtocolViolation::Shape("SendMessage"))?;
        Ok((Reply::Result(raw), Era::Modern))
    }

    async fn ask(
        self: &Arc<Self>,
        (skill, request): (&str, &Request<'_>),
        meta: RequestMeta,
        send_state: SendState,
    ) -> Result<String, Error> {
        let (takes_text, gives_text) = match request.method {
            Method::SendMessage { takes_text, gives_text } => (takes_text, gives_text),
            _ => (false, false),
        };
        let id = Uuid::new_v4().to_string();
        let call = SkillCall {
            id: &id,
            skill,
            arguments: request.arguments.map_or("{}", RawValue::get),
            as_text: takes_text,
        };
        let text = if gives_text { Text::AsItIs } else { Text::MayBeJson };
        match self.send(&call, &meta, &send_state).await? {
            DeliveryResult::Refused(RpcError { code, message, data }) => {
                Err(Error::Rpc { code, message, data })
            }
            DeliveryResult::Message(message) => Ok(of_message(&message, text)),
            DeliveryResult::Task(mut pending) => of_task(pending.ended().await?, text)
                .map_err(|OpenTask { why, said }| Error::OpenTask { why, said }),
        }
    }

    /// Sends a message. It is sent again only if the agent rejected it unprocessed because the
    /// version it supports has changed.
    async fn send(
        self: &Arc<Self>,
        call: &SkillCall<'_>,
        meta: &RequestMeta,
        send_state: &SendState,
    ) -> Result<DeliveryResult, Error> {
        let before = self.supported_version().await?;
        let answer =
            self.deliver((before, Call::send_message(before, call)), meta, send_state).await?;
        if !matches!(&answer, DeliveryResult::Refused(error) if version_probe::is_version_error(error))
        {
            return Ok(answer);
        }
        send_state.reset();
        self.version.store(None);
        let now = self.supported_version().await?;
        if now == before {
            return Ok(answer);
        }
        self.deliver((now, Call::send_message(now, call)), meta, send_state).await
    }

    async fn post(
        &self,
        (version, call): (Version, Call),
        meta: &RequestMeta,
    ) -> Result<Reply, Error> {
        let (id, request) = self.written(version, &call, &meta.trace);
        self.exchange((id, request), meta).await
    }

    async fn exchange(
        &self,
        (id, request): (u64, http::Request<Body>),
        meta: &RequestMeta,
    ) -> Result<Reply, Error> {
        let response = self.transport.send(request, &meta.subject).await?;
        let limit_bytes = self.transport.client.limits().response_bytes;
        let buffered = meta.buffered.as_deref();
        read_one(response, Expected { id, limit_bytes, buffered }).await
    }

    fn written(
        &self,
        version: Version,
        Call { method, params }: &Call,
        trace: &[(HeaderName, HeaderValue)],
    ) -> (u64, http::Request<Body>) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let mut headers: HeaderMap = self.transport.address.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(VERSION_HEADER, HeaderValue::from_static(version.as_str()));
        headers.extend(trace.iter().cloned());
        (id, self.transport.address.post(headers, body.into()))
    }
}
