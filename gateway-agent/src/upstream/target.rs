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
use tokio::{sync::watch, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use registry_follow::{Backoff, jittered};

use super::{
    Timing,
    announce::{Announcer, Board},
    definitions::{Definitions, Tools},
    error::{Breach, Error, Phase},
    features::Features,
    http::Client,
    link::Link,
    message::{Catalogue, Era, Outgoing},
    naming::Prefix,
    reply::RawResult,
    request::{Method, Request},
    side::Side,
    subscriptions::Subscriptions,
};
use crate::{
    config::{LimitsConfig, TargetConfig},
    trace,
};

/// Most pages of one list.
const MAX_PAGES: usize = 1000;

/// How many times the limits of one page, in bytes and in time, all pages together may have.
const WHOLE_LIST: u32 = 4;

/// How long a caller may take to answer a question.
const ANSWER: Duration = Duration::from_mins(5);

/// The longest that a request may take, whatever it asks.
const LONGEST: Duration = Duration::from_mins(10);

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
    prefix: Prefix,
    link: Link,
    subscriptions: Arc<Subscriptions>,
    announcer: Arc<Announcer>,
    limits: LimitsConfig,
    timing: Timing,
    tools: ArcSwap<Tools>,
    publish: Arc<watch::Sender<Arc<Definitions>>>,
    state: Mutex<TargetState>,
}

/// What a target is started from.
pub(super) struct Start<'a> {
    pub(super) config: &'a TargetConfig,
    pub(super) limits: LimitsConfig,
    pub(super) timing: Timing,
    pub(super) stop: &'a CancellationToken,
    pub(super) publish: &'a Arc<watch::Sender<Arc<Definitions>>>,
    pub(super) board: &'a Board,
}

impl Start<'_> {
    /// Starts a target and the tasks behind it.
    pub(super) fn start(self, client: &Client, tasks: &TaskTracker) -> Arc<Target> {
        let server = self.config.server.clone();
        let announcer = Arc::new(Announcer::new(server.clone(), self.board.clone()));
        let target = Arc::new(Target {
            server,
            prefix: self.config.prefix.clone(),
            link: Link::start(&self, client, tasks, &announcer),
            subscriptions: Arc::default(),
            announcer,
            limits: self.limits,
            timing: self.timing,
            tools: ArcSwap::default(),
            publish: Arc::clone(self.publish),
            state: Mutex::new(TargetState::Connecting),
        });
        tasks.spawn(Arc::clone(&target).keep_listed(self.stop.clone()));
        tasks.spawn(Arc::clone(&target).keep_listening(self.stop.clone()));
        target
    }
}

impl Target {
    /// The prefix of what it has besides tools.
    pub(super) fn prefix(&self) -> &Prefix {
        &self.prefix
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

    /// Sends a caller's request and waits for its result, as long as the limits say.
    pub(super) async fn send(
        &self,
        subject: &str,
        request: Request<'_>,
    ) -> Result<RawResult, Error> {
        let mut attempt = std::pin::pin!(self.attempt(subject, request));
        let (started, mut limit) = (Instant::now(), self.patience(&request));
        let outcome = loop {
            let left = limit.saturating_sub(started.elapsed());
            match timeout(left, &mut attempt).await {
                Ok(outcome) => break outcome,
                Err(_) if self.patience(&request) > limit => limit = self.patience(&request),
                Err(_) => {
                    let after_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                    break Err(Error::Timeout { phase: Phase::Call, after_ms });
                }
            }
        };
        if outcome.as_ref().is_err_and(Error::is_about_reach) && self.is_up() {
            self.announcer.refresh();
        }
        outcome
    }

    /// How long a request may take: longer when its caller is asked something meanwhile.
    fn patience(&self, request: &Request<'_>) -> Duration {
        let limit = Duration::from_millis(self.limits.call_timeout_ms);
        let questions = request.side.map_or(0, Side::questions);
        limit.max(LONGEST.min(limit + ANSWER.saturating_mul(questions)))
    }

    async fn attempt(&self, subject: &str, request: Request<'_>) -> Result<RawResult, Error> {
        let outgoing = Outgoing::Asked { subject, request };
        let mirrored = self.mirrored(subject, &request);
        let (mut reply, mut era) = self.link.request(&outgoing, &mirrored).await?;
        if reply.is_header_mismatch() {
            self.list().await?;
            let mirrored = self.mirrored(subject, &request);
            (reply, era) = self.link.request(&outgoing, &mirrored).await?;
        }
        RawResult::read(reply.into_result()?, era, &request)
    }

    /// The headers of the trace, and those that repeat arguments; for most tools there are none.
    fn mirrored(&self, tool: &str, request: &Request<'_>) -> Vec<(HeaderName, HeaderValue)> {
        let context = trace::context::headers(request.trace);
        if request.method != Method::CallTool {
            return context.collect();
        }
        let Some(arguments) = request.arguments else { return context.collect() };
        let tools = self.tools.load();
        context.chain(tools.mirrors(tool).iter().filter_map(|m| m.header(arguments))).collect()
    }

    /// Follows what it says to everybody.
    async fn keep_listening(self: Arc<Self>, stop: CancellationToken) {
        stop.run_until_cancelled(self.link.listen(&self.subscriptions)).await;
    }

    /// Lists the tools again and again: after a while, when told to, and with patience when it
    /// fails.
    async fn keep_listed(self: Arc<Self>, stop: CancellationToken) {
        let mut backoff = Backoff::new(self.timing.retry_first, self.timing.retry_longest);
        let work = async {
            loop {
                let pending = self.announcer.pending();
                let listed = self.list().await;
                self.announcer.settle(pending, listed.is_ok());
                let wait = if listed.is_ok() {
                    backoff.reset();
                    jittered(self.timing.relist)
                } else {
                    backoff.wait()
                };
                self.note(listed);
                // A flood of reasons to refresh must not become a flood of lists.
                tokio::time::sleep(self.timing.retry_first.min(wait)).await;
                let _ = timeout(wait, self.announcer.refreshed()).await;
            }
        };
        stop.run_until_cancelled(work).await;
        self.link.close().await;
    }

    /// Fetches all lists, and publishes them.
    async fn list(&self) -> Result<(), Error> {
        let after_ms = self.limits.list_timeout_ms.saturating_mul(WHOLE_LIST.into());
        let lists = timeout(Duration::from_millis(after_ms), self.fetch()).await;
        let (tools, features) =
            lists.unwrap_or(Err(Error::Timeout { phase: Phase::List, after_ms }))?;
        self.publish(&Arc::new(tools), &Arc::new(features));
        Ok(())
    }

    async fn fetch(&self) -> Result<(Tools, Features), Error> {
        let mut tools = Tools::default();
        self.fetch_pages(Catalogue::Tools, |page| tools.add_page(page)).await?;
        let mut features = Features::of(self.link.about());
        for (what, capability) in [
            (Catalogue::Prompts, "prompts"),
            (Catalogue::Resources, "resources"),
            (Catalogue::Templates, "resources"),
        ] {
            if !features.can(capability) {
                continue;
            }
            let add = |page: &RawValue| features.add_page(what, page, &self.prefix);
            match self.fetch_pages(what, add).await {
                // Some have resources, but no templates; the tools must not suffer from it.
                Ok(()) | Err(Error::Rpc { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok((tools, features))
    }

    /// All pages of a list, one after another.
    async fn fetch_pages(
        &self,
        what: Catalogue,
        mut add: impl FnMut(&RawValue) -> Result<Option<String>, Error>,
    ) -> Result<(), Error> {
        let limit_bytes = self.limits.response_bytes.saturating_mul(WHOLE_LIST as usize);
        let (mut cursor, mut seen_bytes) = (None::<String>, 0);
        for _ in 0..MAX_PAGES {
            let page = self.list_page(what, cursor.as_deref()).await?;
            seen_bytes += page.get().len();
            if seen_bytes > limit_bytes {
                return Err(Error::TooLarge { limit_bytes });
            }
            cursor = add(&page)?;
            if cursor.is_none() {
                return Ok(());
            }
        }
        Err(Breach::EndlessList.into())
    }

    /// One page; listing is harmless, so a lost connection is tried once more.
    async fn list_page(
        &self,
        what: Catalogue,
        cursor: Option<&str>,
    ) -> Result<Box<RawValue>, Error> {
        let outgoing = Outgoing::List { what, cursor };
        let attempts = async {
            match self.link.request(&outgoing, &[]).await {
                Err(error) if error.is_lost() => self.link.request(&outgoing, &[]).await,
                outcome => outcome,
            }
        };
        let limit_ms = self.limits.list_timeout_ms;
        match timeout(Duration::from_millis(limit_ms), attempts).await {
            Ok(reply) => reply?.0.into_result(),
            Err(_) => Err(Error::Timeout { phase: Phase::List, after_ms: limit_ms }),
        }
    }

    fn publish(&self, tools: &Arc<Tools>, features: &Arc<Features>) {
        self.tools.store(Arc::clone(tools));
        let replace = |all: &mut Arc<Definitions>| {
            Arc::make_mut(all).replace(&self.server, Arc::clone(tools), Arc::clone(features))
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
