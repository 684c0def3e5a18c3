//! Who called whom: every call gets a span of the gateway's own in its caller's trace, and so does
//! what it asks of an upstream. Recent traces are kept for the admin address, sampled ones are sent
//! to a collector; where neither is configured, only the ids are made.
//!
//! Spans contain no arguments, results or error messages. Sampling by outcome is not supported.

mod export;
mod otlp;
mod ring;
pub mod settings;

use std::{
    hash::{BuildHasher as _, RandomState},
    num::{NonZeroU64, NonZeroU128},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use gateway_protocol::trace_context::{self, Parent, SpanId, TraceContext, TraceId};

use self::settings::TracingConfig;
use self::{
    export::Export,
    ring::{Ring, Trace},
};
use crate::clock;

/// Which side of a request a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What the gateway was asked.
    Server,
    /// What the gateway asked.
    Client,
}

/// A span that has ended.
#[derive(Debug)]
pub struct Record {
    pub(crate) context: Parent,
    pub(crate) parent: Option<SpanId>,
    pub(crate) side: Side,
    /// The method and what it is about.
    pub(crate) name: Box<str>,
    pub(crate) agent: Option<Box<str>>,
    pub(crate) server: Option<Box<str>>,
    pub(crate) start_us: u64,
    pub(crate) duration_us: u64,
    pub(crate) outcome: &'static str,
    pub(crate) is_failure: bool,
    pub(crate) revision: u64,
}

/// What is told of a span when it ends.
#[derive(Debug)]
pub struct Ending<'a> {
    /// The method.
    pub method: &'static str,
    /// What it was about: a tool.
    pub target: &'a str,
    /// The registered agent that called.
    pub agent: Option<String>,
    /// The registered server behind it.
    pub server: Option<String>,
    /// How it ended, in the audit's words.
    pub outcome: &'static str,
    /// Whether that is a failure.
    pub is_failure: bool,
    /// The revision of the catalog that decided.
    pub revision: u64,
}

/// Makes spans and keeps what became of them.
#[derive(Debug)]
pub struct Tracer {
    /// Keys from the system's randomness: nobody can tell the next id.
    keys: RandomState,
    count: AtomicU64,
    /// The same moment by both clocks.
    began: (Instant, SystemTime),
    ring: Option<Ring>,
    export: Option<Export>,
}

impl Tracer {
    /// Starts tracing. An OTLP collector needs a Tokio runtime.
    ///
    /// `gateway` is the name of the gateway in exported spans.
    pub fn start(config: &TracingConfig, gateway: &str) -> Arc<Self> {
        Arc::new(Self {
            keys: RandomState::new(),
            count: AtomicU64::new(0),
            began: (Instant::now(), clock::now()),
            ring: config.recent.map(Ring::new),
            export: config.otlp.as_ref().map(|otlp| Export::start(otlp, gateway)),
        })
    }

    /// Returns the newest traces first.
    pub(crate) fn newest(&self, limit: usize) -> Vec<(TraceId, Trace)> {
        self.ring.as_ref().map(|ring| ring.newest(limit)).unwrap_or_default()
    }

    /// Returns a trace if it is kept.
    pub(crate) fn find(&self, id: TraceId) -> Option<Trace> {
        self.ring.as_ref()?.find(id)
    }

    /// Sends what is left, for a short while.
    pub async fn shutdown(&self) {
        if let Some(export) = &self.export {
            export.shutdown().await;
        }
    }

    /// A span for a request that says whose trace it belongs to. What is not valid is ignored: then
    /// the trace is a new one.
    pub fn begin(self: &Arc<Self>, caller: &TraceContext) -> Span {
        let parent = caller.parent.as_deref().and_then(Parent::parse);
        let span = self.new_span();
        let context = match parent {
            Some(parent) => parent.with_span(span),
            None => self.new_trace(span),
        };
        let (started, parent) = (Instant::now(), parent.map(|parent| parent.span));
        Span { tracer: Arc::clone(self), context, parent, started, onward: None }
    }

    fn new_trace(&self, span: SpanId) -> Parent {
        let (high, low) = (self.new_id(), self.new_id());
        let trace = NonZeroU128::from(low) | u128::from(high.get()) << 64;
        let is_sampled = self.export.as_ref().is_some_and(|export| export.samples(low.get()));
        Parent::new(trace.into(), span, is_sampled)
    }

    fn new_span(&self) -> SpanId {
        self.new_id().into()
    }

    fn new_id(&self) -> NonZeroU64 {
        loop {
            let id = self.keys.hash_one(self.count.fetch_add(1, Ordering::Relaxed));
            if let Some(id) = NonZeroU64::new(id) {
                return id;
            }
        }
    }

    fn wants(&self, context: Parent) -> bool {
        self.ring.is_some() || self.export.is_some() && context.is_sampled()
    }

    fn keep(&self, record: Record) {
        let record = Arc::new(record);
        if let Some(export) = self.export.as_ref().filter(|_| record.context.is_sampled()) {
            export.offer(Arc::clone(&record));
        }
        if let Some(ring) = &self.ring {
            ring.push(record);
        }
    }

    fn unix_us(&self, at: Instant) -> u64 {
        let (began, began_at) = self.began;
        let since = began_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        whole_us(since + at.saturating_duration_since(began))
    }
}

fn whole_us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A request that is under way.
#[derive(Debug)]
pub struct Span {
    tracer: Arc<Tracer>,
    context: Parent,
    parent: Option<SpanId>,
    started: Instant,
    onward: Option<Onward>,
}

/// What it asks of an upstream.
#[derive(Debug)]
struct Onward {
    id: SpanId,
    started: Instant,
    took: Option<Duration>,
}

impl Span {
    /// The trace and the span within it.
    pub fn context(&self) -> Parent {
        self.context
    }

    /// What belongs to it within the gateway: it is their parent.
    pub fn inward(&self, caller: &TraceContext) -> TraceContext {
        self.passed_on(self.context, caller)
    }

    /// Begins the part that an upstream has in it, and says what the upstream is told: our span
    /// as parent, and what else the caller's context has, within bounds.
    pub fn onward(&mut self, caller: &TraceContext) -> TraceContext {
        let id = self.tracer.new_span();
        self.onward = Some(Onward { id, started: Instant::now(), took: None });
        self.passed_on(self.context.with_span(id), caller)
    }

    fn passed_on(&self, parent: Parent, caller: &TraceContext) -> TraceContext {
        // The state belongs to the parent that it came with.
        let state = self.parent.and(caller.state.as_deref()).and_then(trace_context::bounded_state);
        let baggage = caller.baggage.as_deref().and_then(trace_context::bounded_baggage);
        TraceContext {
            parent: Some(parent.to_string().into()),
            state: state.map(Into::into),
            baggage: baggage.map(Into::into),
        }
    }

    /// The upstream has answered, or failed.
    pub fn returned(&mut self) {
        if let Some(onward) = &mut self.onward {
            onward.took.get_or_insert_with(|| onward.started.elapsed());
        }
    }

    /// How long the upstream took, if it was asked.
    pub fn upstream_took(&self) -> Option<Duration> {
        self.onward.as_ref().map(|onward| onward.took.unwrap_or_else(|| onward.started.elapsed()))
    }

    /// Ends it, and with it what is still asked of an upstream. Nothing is told where nobody keeps
    /// it.
    pub fn end<'a>(&self, tell: impl FnOnce() -> Ending<'a>) {
        if !self.tracer.wants(self.context) {
            return;
        }
        let ending = tell();
        if let (Some(onward), Some(took)) = (&self.onward, self.upstream_took()) {
            let context = self.context.with_span(onward.id);
            let parent = Some(self.context.span);
            let record = Record {
                side: Side::Client,
                ..self.record((context, parent), (onward.started, took), &ending)
            };
            self.tracer.keep(record);
        }
        let times = (self.started, self.started.elapsed());
        self.tracer.keep(self.record((self.context, self.parent), times, &ending));
    }

    fn record(
        &self,
        (context, parent): (Parent, Option<SpanId>),
        (started, took): (Instant, Duration),
        ending: &Ending<'_>,
    ) -> Record {
        Record {
            context,
            parent,
            side: Side::Server,
            name: format!("{} {}", ending.method, ending.target).into(),
            agent: ending.agent.as_deref().map(Box::from),
            server: ending.server.as_deref().map(Box::from),
            start_us: self.tracer.unix_us(started),
            duration_us: whole_us(took),
            outcome: ending.outcome,
            is_failure: ending.is_failure,
            revision: ending.revision,
        }
    }
}
