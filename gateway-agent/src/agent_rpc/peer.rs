//! The agents of one WebSocket.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gateway_upstream::{AgentConnection, AgentDescription, AgentSession, Upstreams};
use registry_core::Name;

use crate::fixed_window::FixedWindow;

/// Maximum agents of one connection.
const AGENTS: usize = 16;
/// Maximum heartbeats and registrations of a connection in [`PERIOD`].
const MESSAGES: u32 = 10;
const PERIOD: Duration = Duration::from_secs(1);

/// The other side of a WebSocket.
#[derive(Debug)]
pub(super) struct Peer {
    connection: Arc<AgentConnection>,
    sessions: Mutex<BTreeMap<Name, Arc<AgentSession>>>,
    messages: Mutex<FixedWindow>,
}

/// The connection has [`AGENTS`] agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection has {AGENTS} agents; open another one")]
pub(super) struct TooManyAgents;

impl Peer {
    pub(super) fn new(connection: Arc<AgentConnection>) -> Self {
        Self { connection, sessions: Mutex::default(), messages: Mutex::new(FixedWindow::new()) }
    }

    pub(super) fn connection(&self) -> &Arc<AgentConnection> {
        &self.connection
    }

    /// Whether an agent can be added.
    pub(super) fn check_room(&self, agent: &Name) -> Result<(), TooManyAgents> {
        let sessions = self.sessions();
        let has_room = sessions.contains_key(agent) || sessions.len() < AGENTS;
        if has_room { Ok(()) } else { Err(TooManyAgents) }
    }

    /// Receives the calls of an agent.
    pub(super) fn attach(&self, upstreams: &Upstreams, description: AgentDescription) {
        let session = AgentSession::new(description, &self.connection);
        self.sessions().insert(session.name().clone(), Arc::clone(&session));
        upstreams.attach_agent(&session);
    }

    /// The session of an agent.
    pub(super) fn session(&self, agent: &Name) -> Option<Arc<AgentSession>> {
        self.sessions().get(agent).cloned()
    }

    /// Counts a message. Returns whether the peer sends too many.
    pub(super) fn is_flooding(&self) -> bool {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.exceeds(MESSAGES, PERIOD)
    }

    /// Ends the calls of all agents.
    pub(super) fn close(&self, upstreams: &Upstreams) {
        self.connection.close();
        for session in std::mem::take(&mut *self.sessions()).into_values() {
            upstreams.detach_agent(&session);
        }
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<Name, Arc<AgentSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
