//! Data agents: agents that registered themselves. The gateway calls them with `agent.execute` on the
//! connection that they opened or at their endpoint, or over MCP.
//!
//! A target of a data agent exists as long as the agent is registered, also without a connection. Its
//! list of tools has the functions of the registration.

mod connection;
mod endpoint;
mod link;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use foldhash::HashMap;
use gateway_protocol::naming::Prefix;
use registry_core::{Key, Kind, Name};
use serde_json::value::RawValue;
use tokio::time::Instant;

pub use self::connection::{AgentConnection, QueuedMessage};
pub(super) use self::link::DataAgentLink;
use crate::{Addresses, TargetConfig, TargetId, TransportConfig};

/// Missed heartbeats after which an agent is unavailable.
const MISSED: u32 = 2;

/// The registration of a data agent at this gateway.
#[derive(Debug)]
pub struct AgentDescription {
    /// The registered server. Its name is the id of the agent.
    pub server: Key,
    /// The functions as a page of `tools/list`.
    pub functions: Box<RawValue>,
    /// Maximum duration of a call. `None`: that of all calls.
    pub call_timeout: Option<Duration>,
    /// The interval of heartbeats.
    pub heartbeat_interval: Duration,
}

/// How the gateway calls a registered data agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataAgentTransport {
    /// `agent.execute` on the connection that the agent opened.
    Connection,
    /// MCP at this URL.
    Mcp(String),
    /// `agent.execute` at an endpoint.
    Endpoint(Arc<AgentEndpoint>),
}

/// The registered data agents. `None`: the gateway may not call the agent.
pub type RegisteredAgents = BTreeMap<Name, Option<DataAgentTransport>>;

/// The endpoint of a data agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentEndpoint {
    /// The URL.
    pub url: String,
    /// The functions as a page of `tools/list`.
    pub functions: String,
    /// Maximum duration of a call. `None`: that of all calls.
    pub call_timeout: Option<Duration>,
}

/// A data agent that registered at this gateway.
#[derive(Debug)]
pub struct AgentSession {
    description: AgentDescription,
    /// `None`: the agent is called at its endpoint.
    connection: Option<Arc<AgentConnection>>,
    health: Mutex<AgentHealth>,
}

/// The last heartbeat of an agent. The registration counts as one.
#[derive(Debug)]
struct AgentHealth {
    heard: Instant,
    /// The reported status if the agent accepts no calls.
    refusing: Option<Box<str>>,
}

impl AgentSession {
    /// Creates the session of an agent that has just registered on a connection.
    pub fn new(description: AgentDescription, connection: &Arc<AgentConnection>) -> Arc<Self> {
        Self::with(description, Some(Arc::clone(connection)))
    }

    /// Creates the session of an agent that has just registered an endpoint.
    pub fn at_endpoint(description: AgentDescription) -> Arc<Self> {
        Self::with(description, None)
    }

    fn with(description: AgentDescription, connection: Option<Arc<AgentConnection>>) -> Arc<Self> {
        let health = AgentHealth { heard: Instant::now(), refusing: None };
        Arc::new(Self { description, connection, health: Mutex::new(health) })
    }

    /// The name of the agent.
    pub fn name(&self) -> &Name {
        &self.description.server.name
    }

    /// The registered server.
    pub fn server(&self) -> &Key {
        &self.description.server
    }

    /// Records a heartbeat. `refusing`: the status of an agent that accepts no calls. Returns whether
    /// the agent became available or unavailable.
    pub fn beat(&self, refusing: Option<&str>) -> bool {
        let mut health = self.health();
        let was_available = self.problem(&health).is_none();
        *health = AgentHealth { heard: Instant::now(), refusing: refusing.map(Into::into) };
        was_available != refusing.is_none()
    }

    /// The reason why the agent is unavailable.
    fn unavailable(&self) -> Option<String> {
        self.problem(&self.health())
    }

    fn problem(&self, health: &AgentHealth) -> Option<String> {
        if self.connection.as_ref().is_some_and(|connection| connection.is_closed()) {
            return Some("the agent disconnected".to_owned());
        }
        if let Some(status) = &health.refusing {
            return Some(format!("the agent reports the status `{status}`"));
        }
        let limit = self.description.heartbeat_interval.saturating_mul(MISSED);
        (health.heard.elapsed() > limit).then(|| {
            let interval = self.description.heartbeat_interval;
            format!("the agent missed {MISSED} heartbeats, which are due every {interval:?}")
        })
    }

    fn health(&self) -> MutexGuard<'_, AgentHealth> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The data agents that registered at this gateway.
#[derive(Debug, Default)]
pub(super) struct DataAgents(Mutex<HashMap<Name, Arc<AgentSession>>>);

impl DataAgents {
    /// The session of an agent.
    pub(super) fn find(&self, name: &Name) -> Option<Arc<AgentSession>> {
        self.lock().get(name).cloned()
    }

    /// Adds a session. It replaces a former one of the agent.
    pub(super) fn attach(&self, session: &Arc<AgentSession>) {
        self.lock().insert(session.name().clone(), Arc::clone(session));
    }

    /// Adds a session of an agent that has none. Returns whether it was added.
    pub(super) fn restore(&self, session: &Arc<AgentSession>) -> bool {
        let mut sessions = self.lock();
        let is_absent = !sessions.contains_key(session.name());
        if is_absent {
            sessions.insert(session.name().clone(), Arc::clone(session));
        }
        is_absent
    }

    /// Removes a session, unless another one has replaced it. Returns whether it was removed.
    pub(super) fn detach(&self, session: &Arc<AgentSession>) -> bool {
        let mut sessions = self.lock();
        let is_same = sessions.get(session.name()).is_some_and(|it| Arc::ptr_eq(it, session));
        if is_same {
            sessions.remove(session.name());
        }
        is_same
    }

    /// Removes the sessions of agents that are no longer called at an endpoint. Those of connections end
    /// with them.
    pub(super) fn keep_registered(&self, agents: &RegisteredAgents) {
        let has_endpoint =
            |name: &Name| matches!(agents.get(name), Some(Some(DataAgentTransport::Endpoint(_))));
        self.lock().retain(|name, session| session.connection.is_some() || has_endpoint(name));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Arc<AgentSession>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The target of all versions of a data agent.
pub(super) fn target_id(name: &Name) -> TargetId {
    TargetId { kind: Kind::Server, name: name.clone(), version: None }
}

/// The targets of the data agents, and the configured ones of other names.
///
/// The calls of a data agent never use a configured target: its credentials are not for functions that
/// the agent has chosen.
pub(super) fn with_agents(
    targets: &[TargetConfig],
    agents: &RegisteredAgents,
) -> Vec<TargetConfig> {
    let is_agent = |target: &&TargetConfig| agents.contains_key(&target.server.name);
    for target in targets.iter().filter(is_agent) {
        tracing::warn!(
            target.server = %target.server,
            "the configured target gets no calls: a data agent has its name; rename the target, or \
             retire the registration of the agent"
        );
    }
    let others = targets.iter().filter(|target| !is_agent(target));
    let called = agents.iter().filter_map(|(name, transport)| Some((name, transport.as_ref()?)));
    let own = called.map(|(name, transport)| TargetConfig {
        server: target_id(name),
        prefix: Prefix::of_server(name.as_str()),
        exposes: None,
        tenant: None,
        transport: match transport {
            DataAgentTransport::Connection => TransportConfig::DataAgent(None),
            DataAgentTransport::Endpoint(endpoint) => {
                TransportConfig::DataAgent(Some(Arc::clone(endpoint)))
            }
            DataAgentTransport::Mcp(url) => http(url),
        },
        timeout: None,
        auto_start: true,
    });
    others.cloned().chain(own).collect()
}

/// The transport of an endpoint.
fn http(url: &str) -> TransportConfig {
    TransportConfig::Http {
        url: url.to_owned(),
        headers: BTreeMap::new(),
        auth: None,
        tls: None,
        addresses: Addresses::Usual,
        is_grpc: false,
    }
}
