//! Agents over A2A, in both versions and all bindings.
//!
//! The operations of callers are forwarded. A step of a composition sends its input as one message to
//! a skill, and its result is the reply or the result of the task. Upstream addresses come from the
//! configuration, never from agent cards.

mod assembly;
mod card;
mod check;
mod exchange;
mod grpc;
mod mcp_task;
mod pending;
mod probe;
mod question;
mod send;
mod step;
mod stream;

use std::sync::{Arc, OnceLock, atomic::AtomicU64};

use a2a::{
    Binding, Dialect, Version,
    extensions::Extensions,
    hidden::{Hidden, REPLACEMENT},
};
use arc_swap::ArcSwapOption;
use gateway_policy::BufferReservation;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;

pub(super) use self::stream::EventSink;
use self::{card::ServedCard, probe::ProbeInterval};
use super::{
    events::EventPublisher,
    http::{Client, InvalidAddress, Subject, Transport},
    routing::TargetId,
    single_flight::SingleFlight,
};
use crate::{TargetConfig, TransportConfig};

/// Maximum abandoned messages of steps whose response is still read, to cancel the task. Messages of
/// callers keep their places in the queue of the agent, which has a limit per caller.
const MAX_ABANDONED: usize = 64;

/// The link to one agent.
#[derive(Debug)]
pub(super) struct AgentLink {
    transport: Arc<Transport>,
    /// The tenant of the agent's interface, in each request of 1.0.
    tenant: Option<Box<str>>,
    /// The agent's address, which results of its skills as tools do not contain.
    hidden: Hidden,
    /// Whether the dialect is configured as gRPC, so that it never changes.
    is_grpc: bool,
    /// The version and binding of the agent, if they are known.
    dialect: ArcSwapOption<Dialect>,
    /// The card at the last fetch. `None`: the agent has none.
    card: ArcSwapOption<ServedCard>,
    probes: SingleFlight,
    interval: ProbeInterval,
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
    /// Receives the extensions that the agent activates.
    activated: Option<Arc<OnceLock<Extensions>>>,
    buffered: Option<Arc<BufferReservation>>,
    /// The end of the caller's time, which agents learn over gRPC.
    deadline: Option<Instant>,
}

impl RequestMeta {
    /// Reads the extensions that a response activates.
    fn observe(&self, headers: &HeaderMap) {
        let Some(receiver) = &self.activated else { return };
        let activated = Extensions::of_headers(headers);
        if activated.iter().next().is_some() {
            // A later request of the operation changes nothing.
            let _ = receiver.set(activated);
        }
    }
}

impl AgentLink {
    /// Creates a link without connecting. Once it is stopped, it does not wait long for responses.
    /// Must be called inside a Tokio runtime.
    pub(super) fn new(
        (publisher, agent): (Arc<EventPublisher>, TargetId),
        config: &TargetConfig,
        shared: &Client,
        stop: CancellationToken,
    ) -> Result<Self, InvalidAddress> {
        let (addresses, is_grpc) = match &config.transport {
            TransportConfig::Http { url, is_grpc, .. } => (vec![url.clone()], *is_grpc),
            TransportConfig::Stdio { .. } | TransportConfig::DataAgent(_) => (Vec::new(), false),
        };
        Ok(Self {
            transport: Arc::new(Transport::new(agent, publisher, &config.transport, shared)?),
            tenant: config.tenant.clone(),
            hidden: Hidden::new(&addresses, REPLACEMENT),
            is_grpc,
            dialect: ArcSwapOption::from_pointee(is_grpc.then(Dialect::grpc)),
            card: ArcSwapOption::empty(),
            probes: SingleFlight::default(),
            interval: ProbeInterval::default(),
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
