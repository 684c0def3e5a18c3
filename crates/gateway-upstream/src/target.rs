//! One target: its link, its definitions, its state, and the task that updates them.

mod agent;
mod lists;
mod send;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use gateway_policy::{QuotaKind, Quotas};
use gateway_protocol::{mcp::Era, naming::Prefix};
use tokio::{
    sync::{Mutex as AsyncMutex, watch},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    breaker::Breaker,
    concurrency::{ConcurrencyLimit, Load},
    definitions::{Definitions, Tools},
    error::{Error, Phase},
    events::EventPublisher,
    http::Client,
    link::Link,
    routing::TargetId,
    start::Start,
    subscriptions::Subscriptions,
    timing::Timing,
};
use crate::{TransportConfig, UpstreamLimits};

/// Maximum time of a request, including questions.
const MAX_REQUEST_TIME: Duration = Duration::from_mins(10);
/// Places of the reserve for requests about tasks of agents.
const TASK_PLACES: usize = 16;

/// The health of one target.
#[derive(Debug, Clone)]
pub struct TargetHealth {
    /// The registered server.
    pub server: TargetId,
    /// The prefix of its prompts and resources.
    pub prefix: String,
    /// Whether the circuit breaker is open.
    pub is_circuit_open: bool,
    /// The load.
    pub load: Load,
    /// Its state.
    pub state: TargetState,
}

/// The state of a target after its last list or call.
#[derive(Debug, Clone)]
pub enum TargetState {
    /// The first connection is in progress.
    Connecting,
    /// The target is up.
    Up {
        /// The era of MCP or the version of A2A.
        speaks: &'static str,
    },
    /// The target is down.
    Down {
        /// The time of the first failure.
        since: Instant,
        /// The error for operators.
        error: String,
        /// Whether the target was up since its start.
        was_up: bool,
    },
    /// The target connects at its first call.
    Idle,
    /// An operator stopped the target.
    Stopped,
}

impl TargetState {
    /// The names of all states.
    pub const NAMES: [&str; 5] = ["connecting", "up", "down", "idle", "stopped"];

    /// The name.
    pub fn as_str(&self) -> &'static str {
        let [connecting, up, down, idle, stopped] = Self::NAMES;
        match self {
            Self::Connecting => connecting,
            Self::Up { .. } => up,
            Self::Down { .. } => down,
            Self::Idle => idle,
            Self::Stopped => stopped,
        }
    }

    /// The lifecycle for callers: `initialized` until the target was up, `running` or `stopped`.
    pub fn lifecycle(&self) -> &'static str {
        match self {
            Self::Idle | Self::Connecting | Self::Down { was_up: false, .. } => "initialized",
            Self::Up { .. } | Self::Down { was_up: true, .. } => "running",
            Self::Stopped => "stopped",
        }
    }

    /// The state after a failure.
    fn failed(&self, error: &Error) -> Self {
        let (since, was_up) = match self {
            Self::Down { since, was_up, .. } => (*since, *was_up),
            before => (Instant::now(), matches!(before, Self::Up { .. })),
        };
        Self::Down { since, error: error.to_string(), was_up }
    }
}

/// One upstream.
#[derive(Debug)]
pub(super) struct Target {
    server: TargetId,
    prefix: Prefix,
    transport: Arc<TransportConfig>,
    /// Cancelled to stop listing and listening. Running requests continue.
    retired: CancellationToken,
    /// Cancelled to stop everything.
    stop: CancellationToken,
    link: Link,
    subscriptions: Arc<Subscriptions>,
    publisher: Arc<EventPublisher>,
    gate: ConcurrencyLimit,
    /// The reserve for requests about tasks, which open streams must not prevent.
    task_gate: ConcurrencyLimit,
    breaker: Arc<Breaker>,
    /// Limits the running requests that wait for answers of their callers.
    quotas: Arc<Quotas>,
    limits: UpstreamLimits,
    timing: Timing,
    tools: ArcSwap<Tools>,
    publish: Arc<watch::Sender<Arc<Definitions>>>,
    state: Mutex<TargetState>,
    /// Held while the lists are fetched, until the state is updated.
    listing: AsyncMutex<()>,
    /// Whether the target is down because it was not reached. Every call reads it, so it has no lock.
    is_unreachable: AtomicBool,
}

impl Target {
    /// Starts a target and its background tasks.
    pub(super) fn start(start: &Start<'_>, client: &Client, tasks: &TaskTracker) -> Arc<Self> {
        let server = start.config.server.clone();
        let publisher = Arc::new(EventPublisher::new(
            server.clone(),
            start.event_bus.clone(),
            Arc::clone(start.subscriptions),
        ));
        let stop = start.stop.child_token();
        let target = Arc::new(Self {
            server,
            prefix: start.config.prefix.clone(),
            transport: Arc::new(start.config.transport.clone()),
            retired: stop.child_token(),
            link: Link::start(&Start { stop: &stop, ..*start }, client, tasks, &publisher),
            stop,
            subscriptions: Arc::clone(start.subscriptions),
            publisher,
            gate: ConcurrencyLimit::new(start.limits),
            task_gate: ConcurrencyLimit::new(UpstreamLimits {
                requests: TASK_PLACES,
                ..start.limits
            }),
            breaker: Arc::default(),
            quotas: Quotas::new(QuotaKind::Answers, start.limits.requests),
            limits: start.limits,
            timing: start.timing,
            tools: ArcSwap::default(),
            publish: Arc::clone(start.publish),
            state: Mutex::new(TargetState::Connecting),
            listing: AsyncMutex::default(),
            is_unreachable: AtomicBool::new(false),
        });
        tasks.spawn(Arc::clone(&target).keep());
        target
    }

    /// The watched resources.
    pub(super) fn subscriptions(&self) -> &Arc<Subscriptions> {
        &self.subscriptions
    }

    /// Forwards a notification of a caller's session.
    pub(super) fn notify_session(&self, id: &str, method: &str) {
        self.link.notify_session(id, method);
    }

    /// Ends the upstream session of a caller's session.
    pub(super) fn end_session(&self, id: &str) {
        self.link.end_session(id);
    }

    /// Lists and listens until the target is retired, and closes the link at the end.
    async fn keep(self: Arc<Self>) {
        let both =
            async { tokio::join!(self.keep_listed(), self.link.listen(&self.subscriptions)) };
        self.retired.run_until_cancelled(Box::pin(both)).await;
        self.stop.cancelled().await;
        self.link.close().await;
    }

    /// Stops listing at once. The returned future waits for running requests and stops the target.
    pub(super) fn retire(self: Arc<Self>) -> impl Future<Output = ()> + Send {
        self.retired.cancel();
        async move {
            let gates = async { tokio::join!(self.gate.emptied(), self.task_gate.emptied()) };
            let emptied = timeout(MAX_REQUEST_TIME, gates);
            let _ = self.stop.run_until_cancelled(emptied).await;
            self.stop.cancel();
            tracing::info!(target.server = %self.server, "upstream was removed");
        }
    }

    /// Whether the configuration is unusable, for instance because a file is missing.
    pub(super) fn is_broken(&self) -> bool {
        matches!(self.link, Link::Broken(..))
    }

    /// Requests a check.
    pub(super) fn check(&self) {
        self.publisher.refresh();
    }

    /// Probes the upstream within this time, and returns the health after the probe. The lists of a
    /// target that is not up are fetched, also during its retry delay.
    pub(super) async fn probe(&self, within: Duration) -> TargetHealth {
        let probed = if self.is_up() {
            self.link.check(within).await
        } else {
            let after_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
            let late = Error::Timeout { phase: Phase::HealthCheck, after_ms };
            timeout(within, Box::pin(self.list_if_not_up())).await.map_err(|_| late)
        };
        match probed {
            Ok(()) => self.health(),
            // The gateway's own checks have more time, and decide whether a slow target is down.
            Err(late @ Error::Timeout { phase: Phase::HealthCheck, .. }) => {
                self.check();
                let mut health = self.health();
                health.state = health.state.failed(&late);
                health
            }
            Err(error) => {
                self.note(Err(error));
                self.check();
                self.health()
            }
        }
    }

    /// Updates the state, logs changes, and publishes whether the target is down.
    fn note(&self, listed: Result<(), Error>) {
        let is_available = listed.is_ok();
        self.change_state(listed);
        // Checked under the lock: a reconfiguration first retires the target, then drops its state.
        self.publish.send_if_modified(|all| {
            !self.retired.is_cancelled()
                && all.is_target_available(&self.server) != is_available
                && Arc::make_mut(all).set_available(&self.server, is_available)
        });
    }

    fn change_state(&self, listed: Result<(), Error>) {
        let speaks = self.link.speaks();
        let is_unreachable = listed.as_ref().is_err_and(Error::is_about_reach);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_unreachable.store(is_unreachable, Ordering::Relaxed);
        match listed {
            Ok(()) => {
                // A successful list closes the breaker only if the target was down, because it does
                // not prove that calls succeed.
                if matches!(*state, TargetState::Down { .. }) {
                    self.breaker.close();
                }
                let speaks = speaks.unwrap_or(Era::Legacy.as_str());
                if !matches!(*state, TargetState::Up { speaks: known } if known == speaks) {
                    tracing::info!(target.server = %self.server, target.era = speaks, "upstream is up");
                }
                *state = TargetState::Up { speaks };
            }
            Err(error) => {
                if !matches!(*state, TargetState::Down { .. }) {
                    tracing::warn!(target.server = %self.server, %error, "upstream is down");
                }
                *state = state.failed(&error);
            }
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.health().state, TargetState::Up { .. })
    }

    /// The health of the target.
    pub(super) fn health(&self) -> TargetHealth {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (prefix, is_circuit_open) = (self.prefix.as_str().to_owned(), self.breaker.is_open());
        let load = self.gate.load();
        TargetHealth { server: self.server.clone(), prefix, is_circuit_open, load, state }
    }
}
