//! One target: its link, what it lists, how it is, and the task that keeps those true.

mod lists;
mod send;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use gateway_policy::{QuotaKind, Quotas};
use gateway_protocol::{mcp::Era, naming::Prefix};
use tokio::{sync::watch, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    announce::Announcer,
    breaker::Breaker,
    definitions::{Definitions, Tools},
    error::Error,
    gate::{Gate, Load},
    http::Client,
    link::Link,
    routing::TargetId,
    start::Start,
    subscriptions::Subscriptions,
    timing::Timing,
};
use crate::UpstreamLimits;

/// The longest that a request may take, whatever it asks.
const LONGEST: Duration = Duration::from_mins(10);

/// How one target is.
#[derive(Debug, Clone)]
pub struct TargetHealth {
    /// The registered server.
    pub server: TargetId,
    /// Under which names callers know what it has besides tools.
    pub prefix: String,
    /// Whether requests are refused for a while, because so many have failed.
    pub is_spared: bool,
    /// How busy it is.
    pub load: Load,
    /// Its state.
    pub state: TargetState,
}

/// The states of a target, as its last list or call showed.
#[derive(Debug, Clone)]
pub enum TargetState {
    /// It was not heard of yet.
    Connecting,
    /// It answers.
    Up {
        /// What it speaks: an era of MCP, or a version of A2A.
        speaks: &'static str,
    },
    /// It does not.
    Down {
        /// Since when.
        since: Instant,
        /// Why, in the operator's words.
        error: String,
    },
    /// It is connected at its first call.
    Idle,
    /// An operator has stopped it.
    Stopped,
}

impl TargetState {
    /// The names of all states.
    pub const NAMES: [&str; 5] = ["connecting", "up", "down", "idle", "stopped"];

    /// In one word.
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
}

/// One upstream.
#[derive(Debug)]
pub(super) struct Target {
    server: TargetId,
    prefix: Prefix,
    /// Cancelled when it is to list and listen no more, while requests still run.
    retired: CancellationToken,
    /// Cancelled at the end.
    stop: CancellationToken,
    link: Link,
    subscriptions: Arc<Subscriptions>,
    announcer: Arc<Announcer>,
    gate: Gate,
    breaker: Arc<Breaker>,
    /// Of the places behind the gate, for those who wait for answers.
    shares: Arc<Quotas>,
    limits: UpstreamLimits,
    timing: Timing,
    tools: ArcSwap<Tools>,
    publish: Arc<watch::Sender<Arc<Definitions>>>,
    state: Mutex<TargetState>,
}

impl Target {
    /// Starts a target and the tasks behind it.
    pub(super) fn start(start: &Start<'_>, client: &Client, tasks: &TaskTracker) -> Arc<Self> {
        let server = start.config.server.clone();
        let announcer = Arc::new(Announcer::new(
            server.clone(),
            start.board.clone(),
            Arc::clone(start.subscriptions),
        ));
        let stop = start.stop.child_token();
        let target = Arc::new(Self {
            server,
            prefix: start.config.prefix.clone(),
            retired: stop.child_token(),
            link: Link::start(&Start { stop: &stop, ..*start }, client, tasks, &announcer),
            stop,
            subscriptions: Arc::clone(start.subscriptions),
            announcer,
            gate: Gate::new(start.limits),
            breaker: Arc::default(),
            shares: Quotas::new(QuotaKind::Answers, start.limits.requests),
            limits: start.limits,
            timing: start.timing,
            tools: ArcSwap::default(),
            publish: Arc::clone(start.publish),
            state: Mutex::new(TargetState::Connecting),
        });
        tasks.spawn(Arc::clone(&target).keep());
        target
    }

    /// Which of its resources are watched.
    pub(super) fn subscriptions(&self) -> &Arc<Subscriptions> {
        &self.subscriptions
    }

    /// Passes on what a caller says in its session.
    pub(super) fn tell_session(&self, id: &str, method: &str) {
        self.link.tell_session(id, method);
    }

    /// A caller's session has ended.
    pub(super) fn end_session(&self, id: &str) {
        self.link.end_session(id);
    }

    /// Lists and listens until it is retired, and says good-bye at the end.
    async fn keep(self: Arc<Self>) {
        let both =
            async { tokio::join!(self.keep_listed(), self.link.listen(&self.subscriptions)) };
        self.retired.run_until_cancelled(Box::pin(both)).await;
        self.stop.cancelled().await;
        self.link.close().await;
    }

    /// Lets what has begun come to its end, and then ends.
    pub(super) async fn retire(&self) {
        self.retired.cancel();
        let emptied = timeout(LONGEST, self.gate.emptied());
        let _ = self.stop.run_until_cancelled(emptied).await;
        self.stop.cancel();
        tracing::info!(target.server = %self.server, "upstream was let go");
    }

    /// Whether it cannot work as it was configured: a file that it needs was not there.
    pub(super) fn is_broken(&self) -> bool {
        matches!(self.link, Link::Broken(..))
    }

    /// Asks for a fresh look.
    pub(super) fn check(&self) {
        self.announcer.refresh();
    }

    /// Keeps the state, and logs when it changes.
    fn note(&self, listed: Result<(), Error>) {
        let speaks = self.link.speaks();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match listed {
            Ok(()) => {
                // That it lists well says nothing of calls, unless it did not even do that.
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
                let since = if let TargetState::Down { since, .. } = &*state {
                    *since
                } else {
                    tracing::warn!(target.server = %self.server, %error, "upstream is down");
                    Instant::now()
                };
                *state = TargetState::Down { since, error: error.to_string() };
            }
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.health().state, TargetState::Up { .. })
    }

    /// How it is.
    pub(super) fn health(&self) -> TargetHealth {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (prefix, is_spared) = (self.prefix.as_str().to_owned(), self.breaker.is_open());
        let load = self.gate.load();
        TargetHealth { server: self.server.clone(), prefix, is_spared, load, state }
    }
}
