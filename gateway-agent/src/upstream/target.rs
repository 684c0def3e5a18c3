//! One target: its link, what it lists, how it is, and the task that keeps those true.
//!
//! Deliberately absent: transports; a link hides them.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use http::{HeaderName, HeaderValue};
use registry_core::Key;
use serde_json::value::RawValue;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use registry_follow::{Backoff, jittered};

use super::{
    Timing, ToolCall,
    definitions::{Definitions, Tools},
    error::{Breach, Error, Phase},
    http::Client,
    link::Link,
    message::{Era, Outgoing},
    reply::ToolResult,
};
use crate::config::{LimitsConfig, TargetConfig};

/// Most pages of one list.
const MAX_PAGES: usize = 1000;

/// How many times the limits of one page, in bytes and in time, all pages together may have.
const WHOLE_LIST: u32 = 4;

/// How one target is.
#[derive(Debug, Clone)]
pub struct TargetHealth {
    /// The registered server.
    pub server: Key,
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
        /// What it speaks.
        era: Era,
    },
    /// It does not.
    Down {
        /// Since when.
        since: Instant,
        /// Why, in the operator's words.
        error: String,
    },
}

/// One upstream.
#[derive(Debug)]
pub(super) struct Target {
    server: Key,
    link: Link,
    limits: LimitsConfig,
    timing: Timing,
    tools: ArcSwap<Tools>,
    publish: Arc<watch::Sender<Arc<Definitions>>>,
    state: Mutex<TargetState>,
    refresh: Arc<Notify>,
}

/// What a target is started from.
pub(super) struct Start<'a> {
    pub(super) config: &'a TargetConfig,
    pub(super) limits: LimitsConfig,
    pub(super) timing: Timing,
    pub(super) stop: &'a CancellationToken,
    pub(super) publish: &'a Arc<watch::Sender<Arc<Definitions>>>,
}

impl Start<'_> {
    /// Starts a target and the tasks behind it.
    pub(super) fn start(self, client: &Client, tasks: &TaskTracker) -> Arc<Target> {
        let refresh = Arc::new(Notify::new());
        let target = Arc::new(Target {
            server: self.config.server.clone(),
            link: Link::start(&self, client, tasks, &refresh),
            limits: self.limits,
            timing: self.timing,
            tools: ArcSwap::default(),
            publish: Arc::clone(self.publish),
            state: Mutex::new(TargetState::Connecting),
            refresh,
        });
        tasks.spawn(Arc::clone(&target).keep_listed(self.stop.clone()));
        target
    }
}

impl Target {
    /// Calls a tool and waits for its result, as long as the limits say.
    pub(super) async fn call(&self, tool: &str, call: ToolCall<'_>) -> Result<ToolResult, Error> {
        let limit_ms = self.limits.call_timeout_ms;
        let outcome = timeout(Duration::from_millis(limit_ms), self.attempt(tool, call)).await;
        let outcome =
            outcome.unwrap_or(Err(Error::Timeout { phase: Phase::Call, after_ms: limit_ms }));
        if outcome.as_ref().is_err_and(Error::is_about_reach) && self.is_up() {
            self.refresh.notify_one();
        }
        outcome
    }

    async fn attempt(&self, tool: &str, call: ToolCall<'_>) -> Result<ToolResult, Error> {
        let arguments = call.arguments.map_or("{}", RawValue::get);
        let outgoing = Outgoing::Call { tool, arguments, trace: call.trace };
        let mut reply = self.link.request(&outgoing, &self.mirrored(tool, call)).await?;
        if reply.is_header_mismatch() {
            self.list().await?;
            reply = self.link.request(&outgoing, &self.mirrored(tool, call)).await?;
        }
        ToolResult::read(reply.into_result()?)
    }

    /// The headers that repeat arguments; for most tools there are none.
    fn mirrored(&self, tool: &str, call: ToolCall<'_>) -> Vec<(HeaderName, HeaderValue)> {
        let Some(arguments) = call.arguments else { return Vec::new() };
        let tools = self.tools.load();
        tools.mirrors(tool).iter().filter_map(|mirror| mirror.header(arguments)).collect()
    }

    /// Lists the tools again and again: after a while, when told to, and with patience when it
    /// fails.
    async fn keep_listed(self: Arc<Self>, stop: CancellationToken) {
        let mut backoff = Backoff::new(self.timing.retry_first, self.timing.retry_longest);
        let work = async {
            loop {
                let listed = self.list().await;
                let wait = if listed.is_ok() {
                    backoff.reset();
                    jittered(self.timing.relist)
                } else {
                    backoff.wait()
                };
                self.note(listed);
                // A flood of reasons to refresh must not become a flood of lists.
                tokio::time::sleep(self.timing.retry_first.min(wait)).await;
                let _ = timeout(wait, self.refresh.notified()).await;
            }
        };
        stop.run_until_cancelled(work).await;
        self.link.close().await;
    }

    /// Fetches the whole list, and publishes it.
    async fn list(&self) -> Result<(), Error> {
        let after_ms = self.limits.list_timeout_ms.saturating_mul(WHOLE_LIST.into());
        let tools = timeout(Duration::from_millis(after_ms), self.fetch()).await;
        let tools = tools.unwrap_or(Err(Error::Timeout { phase: Phase::List, after_ms }))?;
        self.publish(&Arc::new(tools));
        Ok(())
    }

    /// All pages, one after another.
    async fn fetch(&self) -> Result<Tools, Error> {
        let limit_bytes = self.limits.response_bytes.saturating_mul(WHOLE_LIST as usize);
        let (mut tools, mut cursor, mut seen_bytes) = (Tools::default(), None, 0);
        for _ in 0..MAX_PAGES {
            let page = self.list_page(cursor.as_deref()).await?;
            seen_bytes += page.get().len();
            if seen_bytes > limit_bytes {
                return Err(Error::TooLarge { limit_bytes });
            }
            cursor = tools.add_page(&page)?;
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(Breach::EndlessList.into())
    }

    /// One page; listing is harmless, so a lost connection is tried once more.
    async fn list_page(&self, cursor: Option<&str>) -> Result<Box<RawValue>, Error> {
        let outgoing = Outgoing::List { cursor };
        let attempts = async {
            match self.link.request(&outgoing, &[]).await {
                Err(error) if error.is_lost() => self.link.request(&outgoing, &[]).await,
                outcome => outcome,
            }
        };
        let limit_ms = self.limits.list_timeout_ms;
        match timeout(Duration::from_millis(limit_ms), attempts).await {
            Ok(reply) => reply?.into_result(),
            Err(_) => Err(Error::Timeout { phase: Phase::List, after_ms: limit_ms }),
        }
    }

    fn publish(&self, tools: &Arc<Tools>) {
        self.tools.store(Arc::clone(tools));
        let replace = |all: &mut Arc<Definitions>| {
            Arc::make_mut(all).replace(&self.server, Arc::clone(tools))
        };
        if self.publish.send_if_modified(replace) {
            tools.warn(&self.server);
        }
    }

    /// Keeps the state, and logs when it changes.
    fn note(&self, listed: Result<(), Error>) {
        let era = self.link.era();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match listed {
            Ok(()) => {
                let era = era.unwrap_or(Era::Legacy);
                if !matches!(*state, TargetState::Up { era: known } if known == era) {
                    tracing::info!(target.server = %self.server, target.era = ?era, "upstream is up");
                }
                *state = TargetState::Up { era };
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

    fn is_up(&self) -> bool {
        matches!(self.health().state, TargetState::Up { .. })
    }

    /// How it is.
    pub(super) fn health(&self) -> TargetHealth {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        TargetHealth { server: self.server.clone(), state }
    }
}
