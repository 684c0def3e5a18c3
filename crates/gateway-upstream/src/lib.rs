//! The upstreams of the gateway: MCP servers over HTTP and stdio, A2A agents, and data agents.
//!
//! Each target is kept connected in the background. Requests of callers need a
//! [`Permit`](gateway_policy::Permit).

mod a2a;
mod breaker;
mod client_channel;
mod concurrency;
mod data_agent;
mod definitions;
mod error;
mod events;
mod features;
#[cfg(target_os = "linux")]
pub mod guard;
mod handshake;
mod http;
mod in_flight;
mod link;
mod message;
mod poll_on_wake;
mod reply;
mod request;
mod routing;
mod secret;
mod send_state;
mod settings;
mod single_flight;
mod start;
mod stdio;
mod subscriptions;
mod target;
mod target_set;
#[cfg(test)]
mod tests;
mod timing;
mod workers;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agent_rpc::orchestrator::Code;
use gateway_policy::{Permit, QuotaKey};
use gateway_protocol::{mcp::RawResult, naming::Prefix};
use registry_core::{Key, Kind, Name, entity::Exposure};
use serde_json::Value;
use tokio::{
    sync::{broadcast, watch},
    time::timeout,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

pub use self::{
    breaker::CircuitOpen,
    client_channel::{
        ClientAnswer, ClientChannel, ClientRequest, InterimMessage, InterimMessages, MessageFilter,
    },
    concurrency::{LimitReached, Load},
    data_agent::{
        AgentConnection, AgentDescription, AgentEndpoint, AgentSession, DataAgentTransport,
        QueuedMessage, RegisteredAgents,
    },
    definitions::{Definitions, Lists, Tools, interfaces_in},
    error::{
        CallNotStarted, ChildLimitReached, Error, MissingToken, Phase, ProtocolViolation,
        TokenError,
    },
    events::{UpstreamChange, UpstreamEvent},
    features::{FeatureEntries, Features, renamed},
    http::{BlockedAddress, Client, Connector},
    poll_on_wake::PollOnWake,
    request::{
        AgentEvent, AgentRequest, CalledSkill, Request, RequestContext, ResendApproval,
        StreamedEvent,
    },
    routing::{Route, Routing, TargetId},
    secret::{SecretError, SecretSource, redact_url},
    settings::{
        Addresses, AuthConfig, ChildLimits, ClientAuthentication, Grant, TargetConfig,
        TransportConfig, UpstreamLimits,
    },
    stdio::{Line, Lines, id_at_ends, on_one_line},
    subscriptions::Subscription,
    target::{TargetHealth, TargetState},
    workers::WorkerRuntimes,
};
use self::{target::Target, target_set::TargetSet, timing::Timing};

/// Time limit of a shutdown. All upstreams end at the same time.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// The prefix and the exposure of a target's prompts and resources.
#[derive(Debug, Clone)]
pub struct FeatureExposure {
    /// The prefix of its names.
    pub prefix: Prefix,
    /// The exposed features. `None`: as registered.
    pub exposes: Option<Vec<Exposure>>,
}

/// All configured targets.
#[derive(Debug)]
pub struct Upstreams {
    targets: TargetSet,
    tasks: TaskTracker,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
    /// Whether a shutdown has started. The token has a lock, which all requests would share.
    is_stopping: AtomicBool,
}

impl Upstreams {
    /// Starts connecting to all targets in the background. Must be called inside a Tokio runtime.
    pub fn start(targets: &[TargetConfig], limits: UpstreamLimits) -> Arc<Self> {
        Self::start_with(targets, limits, Timing::default())
    }

    fn start_with(targets: &[TargetConfig], limits: UpstreamLimits, timing: Timing) -> Arc<Self> {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let target_set = TargetSet::new(timing, tasks.clone(), stop.clone());
        target_set.configure(targets, limits);
        let stop_on_drop = stop.clone().drop_guard();
        let is_stopping = AtomicBool::new(false);
        Arc::new(Self {
            targets: target_set,
            tasks,
            stop,
            _stop_on_drop: stop_on_drop,
            is_stopping,
        })
    }

    /// Replaces the targets. Unchanged targets keep running; removed ones finish their requests.
    /// Must be called inside a Tokio runtime.
    pub fn configure(&self, targets: &[TargetConfig], limits: UpstreamLimits) {
        self.targets.configure(targets, limits);
    }

    /// Sends a caller's request. Dropping the future cancels the request at the upstream too.
    pub async fn send(&self, permit: Permit, request: Request<'_>) -> Result<RawResult, Error> {
        self.running_target(&permit)?.send(&permit, &request).await
    }

    /// Sends a caller's operation to an agent. Returns its result; null after the last event of a
    /// stream. Dropping the future ends the request, but not the task that it started.
    pub async fn send_to_agent(
        &self,
        permit: Permit,
        request: AgentRequest<'_>,
    ) -> Result<Value, Error> {
        self.running_target(&permit)?.send_to_agent(permit, request).await
    }

    /// The target of a request, unless the gateway is stopping.
    fn running_target(&self, permit: &Permit) -> Result<Arc<Target>, Error> {
        let target = self.target(permit.server())?;
        if self.is_stopping.load(Ordering::Relaxed) {
            let source = "the gateway is stopping".into();
            return Err(Error::Unavailable { target: permit.server().into(), source });
        }
        Ok(target)
    }

    fn target(&self, server: &Key) -> Result<Arc<Target>, Error> {
        self.targets.find(server)
    }

    /// Subscribes a caller to a resource until the returned guard is dropped. Updates are announced.
    pub fn subscribe(&self, permit: Permit, quota_key: &QuotaKey) -> Result<Subscription, Error> {
        let target = self.target(permit.server())?;
        Ok(target.subscriptions().watch(permit.into_subject(), quota_key)?)
    }

    /// Subscribes to the changes that upstreams announce.
    pub fn subscribe_events(&self) -> broadcast::Receiver<UpstreamEvent> {
        self.targets.event_bus.subscribe()
    }

    /// The prefix and the exposure of a server's prompts and resources, if it has a target.
    pub fn feature_exposure(&self, server: &Key) -> Option<FeatureExposure> {
        let config = self.targets.config(server)?;
        Some(FeatureExposure { prefix: config.prefix.clone(), exposes: config.exposes.clone() })
    }

    /// The URL of a server's or agent's target over HTTP.
    pub fn http_url(&self, server: &Key) -> Option<String> {
        match &self.targets.config(server)?.transport {
            TransportConfig::Http { url, .. } => Some(url.clone()),
            TransportConfig::Stdio { .. } | TransportConfig::DataAgent(_) => None,
        }
    }

    /// The kind of a configured target with this name, in any version.
    pub fn configured_kind(&self, name: &Name) -> Option<Kind> {
        self.targets.configured_kind(name)
    }

    /// Replaces the registered data agents. Each one that may be called has a target, also while it is
    /// not connected. Must be called inside a Tokio runtime.
    pub fn set_data_agents(&self, agents: RegisteredAgents) {
        self.targets.set_data_agents(agents);
    }

    /// Uses a connection for the calls of a data agent. It replaces a former one.
    pub fn attach_agent(&self, session: &Arc<AgentSession>) {
        self.targets.agents.attach(session);
        self.check(&data_agent::target_id(session.name()));
    }

    /// Uses a connection again for the calls of a data agent, unless the agent has another one.
    pub fn restore_agent(&self, session: &Arc<AgentSession>) {
        if self.targets.agents.restore(session) {
            self.check(&data_agent::target_id(session.name()));
        }
    }

    /// Ends the use of a connection, unless another one has replaced it.
    pub fn detach_agent(&self, session: &Arc<AgentSession>) {
        if self.targets.agents.detach(session) {
            self.check(&data_agent::target_id(session.name()));
        }
    }

    /// The connection of a data agent.
    pub fn data_agent(&self, name: &Name) -> Option<Arc<AgentSession>> {
        self.targets.agents.find(name)
    }

    /// Records a heartbeat. `refusing`: the status of an agent that accepts no calls.
    pub fn heartbeat(&self, session: &AgentSession, refusing: Option<&str>) {
        if session.beat(refusing) {
            self.check(&data_agent::target_id(session.name()));
        }
    }

    /// Forwards a notification of a caller's session to the upstream sessions that were opened for
    /// it.
    pub fn notify_session(&self, id: &str, method: &str) {
        for target in self.targets.running() {
            target.notify_session(id, method);
        }
    }

    /// Ends the upstream sessions that were opened for a caller's session.
    pub fn end_session(&self, id: &str) {
        for target in self.targets.running() {
            target.end_session(id);
        }
    }

    /// The definitions of all targets. The value changes only when a list did.
    pub fn definitions(&self) -> watch::Receiver<Arc<Definitions>> {
        self.targets.definitions()
    }

    /// The health of each target in the order of the keys.
    pub fn health(&self) -> Vec<TargetHealth> {
        self.targets.health()
    }

    /// The target of a registered server or agent version.
    pub fn route(&self, server: &Key) -> Option<Route> {
        self.targets.route(server)
    }

    /// Whether the target of a registered server is up. `None`: the server has no target, or none
    /// that was started.
    pub fn is_up(&self, server: &Key) -> Option<bool> {
        self.targets.is_up(server)
    }

    /// Requests a check of a target. `Some(false)`: the target is stopped. `None`: there is no such
    /// target.
    pub fn check(&self, target: &TargetId) -> Option<bool> {
        self.targets.check(target)
    }

    /// The health of a target after a probe within this time. A target that is not running is not
    /// probed. `None`: there is no such target.
    pub async fn probe(&self, target: &TargetId, within: Duration) -> Option<TargetHealth> {
        self.targets.probe(target, within).await
    }

    /// Stops a target until it is started again. Running requests finish. Returns whether the
    /// target exists.
    pub fn stop(&self, target: &TargetId) -> bool {
        self.targets.stop(target)
    }

    /// Starts a stopped target. Returns whether the target exists.
    pub fn resume(&self, target: &TargetId) -> bool {
        self.targets.start(target)
    }

    /// Leaves a target without `autoStart` unconnected until its first call.
    pub fn leave_idle(&self, target: &TargetId) {
        self.targets.leave_idle(target);
    }

    /// Stops all background tasks and child processes. New calls are rejected. Running calls over
    /// HTTP may finish; running calls to child processes fail.
    pub async fn shutdown(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.stop.cancel();
        self.tasks.close();
        if timeout(SHUTDOWN, self.tasks.wait()).await.is_err() {
            let unfinished = self.tasks.len();
            let code = Code::AgentShutdownFailed.as_str();
            tracing::warn!(unfinished, code, "upstreams did not end in time");
        }
    }
}
