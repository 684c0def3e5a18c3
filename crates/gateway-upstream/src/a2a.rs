//! Agents over A2A, in both versions and all bindings.
//!
//! The operations of callers are forwarded. A step of a composition sends its input as one message to
//! a skill, and its result is the reply or the result of the task. Upstream addresses come from the
//! configuration, never from agent cards.

mod check;
mod exchange;
mod grpc;
mod mcp_task;
mod pending;
mod probe;
mod send;
mod step;
mod stream;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Instant,
};

use a2a::{Binding, Dialect, Version, extensions::Extensions};
use arc_swap::ArcSwapOption;
use gateway_policy::BufferReservation;
use http::{HeaderName, HeaderValue};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub(super) use self::stream::EventSink;
use super::{
    events::EventPublisher,
    http::{Client, InvalidAddress, Subject, Transport},
    routing::TargetId,
    single_flight::SingleFlight,
};
use crate::TransportConfig;

/// Maximum abandoned messages of steps whose response is still read, to learn the task id and cancel
/// it.
const MAX_ABANDONED: usize = 64;

/// The link to one agent.
#[derive(Debug)]
pub(super) struct AgentLink {
    transport: Arc<Transport>,
    is_grpc: bool,
    /// The version and binding of the agent, if they are known.
    dialect: ArcSwapOption<Dialect>,
    probes: SingleFlight,
    next_id: AtomicU64,
    read_abandoned: Semaphore,
    stop: CancellationToken,
}

/// The caller and the headers of a request.
#[derive(Debug, Clone, Default)]
struct RequestMeta {
    subject: Subject,
    trace: Vec<(HeaderName, HeaderValue)>,
    extensions: Extensions,
    buffered: Option<Arc<BufferReservation>>,
    /// The end of the caller's time, which agents learn over gRPC.
    deadline: Option<Instant>,
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
            is_grpc: matches!(transport, TransportConfig::Http { is_grpc: true, .. }),
            dialect: ArcSwapOption::empty(),
            probes: SingleFlight::default(),
            next_id: AtomicU64::new(1),
            read_abandoned: Semaphore::new(MAX_ABANDONED),
            stop,
        })
    }

    /// The version and binding of the agent for operators, if they are known.
    pub(super) fn speaks(&self) -> Option<&'static str> {
        let dialect = *self.dialect.load().as_deref()?;
        Some(match (dialect.version, dialect.binding) {
            (Version::V1, Binding::HttpJson) => "a2a-1.0-http-json",
            (Version::V1, Binding::Grpc) => "a2a-1.0-grpc",
            (Version::V1, Binding::JsonRpc) => "a2a-1.0",
            (Version::V03, Binding::HttpJson) => "a2a-0.3-http-json",
            (Version::V03, _) => "a2a-0.3",
        })
    }
}
