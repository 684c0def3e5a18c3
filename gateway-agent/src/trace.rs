//! Tracing: every call has a span in its caller's trace, and a child span for its upstream request.
//! Recent traces are kept for the admin listener, and sampled ones are exported to a collector.
//! Without either, only ids are created.
//!
//! Spans contain no arguments, results or error messages. Sampling by outcome is not supported.

mod export;
mod otlp;
mod ring;
pub mod settings;

use std::{
    borrow::Cow,
    hash::{BuildHasher as _, RandomState},
    num::{NonZeroU64, NonZeroU128},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use gateway_protocol::trace_context::{self, Parent, SpanId, TraceContext, TraceId};

use self::{
    export::Export,
    ring::{Ring, Trace},
    settings::{OtlpConfig, RecentTraces},
};
use crate::clock;

/// The span kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A received request.
    Server,
    /// A sent request.
    Client,
}

/// A completed span.
#[derive(Debug)]
pub struct SpanRecord {
    pub(crate) context: Parent,
    pub(crate) parent: Option<SpanId>,
    pub(crate) kind: SpanKind,
    /// The method and its target.
    pub(crate) name: Box<str>,
    pub(crate) agent: Option<Box<str>>,
    pub(crate) server: Option<Box<str>>,
    /// The caller's own id of the trace.
    pub(crate) client_trace: Option<Box<str>>,
    /// The id of the caller's task.
    pub(crate) task_id: Option<Box<str>>,
    pub(crate) start_us: u64,
    pub(crate) duration_us: u64,
    pub(crate) outcome: &'static str,
    pub(crate) is_failure: bool,
    pub(crate) revision: u64,
}

/// The facts of a completed span.
#[derive(Debug)]
pub struct SpanSummary<'a> {
    /// The called method.
    pub method: &'static str,
    /// The tool, prompt, resource or task.
    pub target: &'a str,
    /// The registered agent of the caller.
    pub agent: Option<String>,
    /// The registered server.
    pub server: Option<String>,
    /// The caller's own id of the trace.
    pub client_trace: Option<Cow<'a, str>>,
    /// The id of the caller's task.
    pub task_id: Option<Cow<'a, str>>,
    /// The outcome, as in the audit.
    pub outcome: &'static str,
    /// Whether the outcome is a failure.
    pub is_failure: bool,
    /// The catalog revision that authorized the call.
    pub revision: u64,
}

/// Creates spans, and stores completed ones.
#[derive(Debug)]
pub struct Tracer {
    /// Keys with system randomness, so that ids are unpredictable.
    keys: RandomState,
    count: AtomicU64,
    /// The same instant on both clocks.
    began: (Instant, SystemTime),
    ring: Option<Ring>,
    export: Option<Export>,
}

impl Tracer {
    /// Starts tracing. An OTLP collector needs a Tokio runtime.
    ///
    /// Without `recent`, no traces are kept. `gateway` is the name of the gateway in exported spans.
    pub fn start(
        recent: Option<RecentTraces>,
        otlp: Option<&OtlpConfig>,
        gateway: &str,
    ) -> Arc<Self> {
        Arc::new(Self {
            keys: RandomState::new(),
            count: AtomicU64::new(0),
            began: (Instant::now(), clock::now()),
            ring: recent.map(Ring::new),
            export: otlp.map(|otlp| Export::start(otlp, gateway)),
        })
    }

    /// Returns the newest traces first.
    pub(crate) fn newest(&self, limit: usize) -> Vec<(TraceId, Trace)> {
        self.ring.as_ref().map(|ring| ring.newest(limit)).unwrap_or_default()
    }

    pub(crate) fn find(&self, id: TraceId) -> Option<Trace> {
        self.ring.as_ref()?.find(id)
    }

    /// Exports remaining spans, within a time limit.
    pub async fn shutdown(&self) {
        if let Some(export) = &self.export {
            export.shutdown().await;
        }
    }

    /// Starts the span of a request.
    pub fn begin(self: &Arc<Self>, caller: &TraceContext) -> Span {
        self.begin_in(None, caller)
    }

    /// Starts the span of a request. Without a parent it belongs to `trace`, else to a new trace.
    pub fn begin_in(self: &Arc<Self>, trace: Option<TraceId>, caller: &TraceContext) -> Span {
        let parent = caller.parent;
        let number = self.next_number();
        let span = self.id(number, 0).into();
        let context = match (parent, trace) {
            (Some(parent), _) => parent.with_span(span),
            (None, trace) => {
                let trace = trace.unwrap_or_else(|| self.trace_id(number));
                Parent::new(trace, span, self.samples(trace))
            }
        };
        let (started, parent) = (Instant::now(), parent.map(|parent| parent.span));
        Span { tracer: Arc::clone(self), context, parent, started, onward: None }
    }

    /// Whether a trace that starts here is exported. The lower half of its id decides.
    fn samples(&self, trace: TraceId) -> bool {
        let low = (trace.as_u128() & 0xffff_ffff_ffff_ffff) as u64;
        self.export.as_ref().is_some_and(|export| export.samples(low))
    }

    /// The number of a span. All workers share the count, so that a span takes one number for all its
    /// ids.
    fn next_number(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }

    /// The id of a span, or a half of the id of the trace that it starts.
    fn id(&self, number: u64, part: u8) -> NonZeroU64 {
        NonZeroU64::new(self.keys.hash_one((number, part))).unwrap_or(NonZeroU64::MIN)
    }

    fn trace_id(&self, number: u64) -> TraceId {
        let (high, low) = (self.id(number, 1), self.id(number, 2));
        TraceId::from(NonZeroU128::from(low) | u128::from(high.get()) << 64)
    }

    fn wants(&self, context: Parent) -> bool {
        self.ring.is_some() || self.export.is_some() && context.is_sampled()
    }

    fn keep(&self, record: SpanRecord) {
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

/// A running request.
#[derive(Debug)]
pub struct Span {
    tracer: Arc<Tracer>,
    context: Parent,
    parent: Option<SpanId>,
    started: Instant,
    onward: Option<UpstreamSpan>,
}

/// The upstream request of a span.
#[derive(Debug)]
struct UpstreamSpan {
    id: SpanId,
    started: Instant,
    took: Option<Duration>,
}

impl Span {
    /// The time since the start.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// The context for child spans.
    pub fn context(&self) -> Parent {
        self.context
    }

    /// The trace context for the inner calls of this span.
    pub fn inward(&self, caller: &TraceContext) -> TraceContext {
        self.passed_on(self.context, caller)
    }

    /// Starts the child span of an upstream request. Returns the trace context for the upstream:
    /// the child span as parent, and the caller's state and baggage within limits.
    pub fn onward(&mut self, caller: &TraceContext) -> TraceContext {
        let id = self.tracer.id(self.tracer.next_number(), 0).into();
        self.onward = Some(UpstreamSpan { id, started: Instant::now(), took: None });
        self.passed_on(self.context.with_span(id), caller)
    }

    fn passed_on(&self, parent: Parent, caller: &TraceContext) -> TraceContext {
        // The state belongs to the caller's parent.
        let state = self.parent.and(caller.state.as_deref()).and_then(trace_context::bounded_state);
        let baggage = caller.baggage.as_deref().and_then(trace_context::bounded_baggage);
        TraceContext {
            parent: Some(parent),
            state: state.map(Into::into),
            baggage: baggage.map(Into::into),
        }
    }

    /// Ends the child span.
    pub fn end_upstream(&mut self) {
        if let Some(onward) = &mut self.onward {
            onward.took.get_or_insert_with(|| onward.started.elapsed());
        }
    }

    /// The duration of the upstream request, if there was one.
    pub fn upstream_took(&self) -> Option<Duration> {
        self.onward.as_ref().map(|onward| onward.took.unwrap_or_else(|| onward.started.elapsed()))
    }

    /// Ends the span and its child. `summarize` is called only if the span is stored.
    pub fn end<'a>(&self, summarize: impl FnOnce() -> SpanSummary<'a>) {
        if !self.tracer.wants(self.context) {
            return;
        }
        let summary = summarize();
        if let (Some(onward), Some(took)) = (&self.onward, self.upstream_took()) {
            let context = self.context.with_span(onward.id);
            let parent = Some(self.context.span);
            let record = SpanRecord {
                kind: SpanKind::Client,
                ..self.record((context, parent), (onward.started, took), &summary)
            };
            self.tracer.keep(record);
        }
        let times = (self.started, self.age());
        self.tracer.keep(self.record((self.context, self.parent), times, &summary));
    }

    fn record(
        &self,
        (context, parent): (Parent, Option<SpanId>),
        (started, took): (Instant, Duration),
        summary: &SpanSummary<'_>,
    ) -> SpanRecord {
        SpanRecord {
            context,
            parent,
            kind: SpanKind::Server,
            name: format!("{} {}", summary.method, summary.target).into(),
            agent: summary.agent.as_deref().map(Box::from),
            server: summary.server.as_deref().map(Box::from),
            client_trace: summary.client_trace.as_deref().map(Box::from),
            task_id: summary.task_id.as_deref().map(Box::from),
            start_us: self.tracer.unix_us(started),
            duration_us: whole_us(took),
            outcome: summary.outcome,
            is_failure: summary.is_failure,
            revision: summary.revision,
        }
    }
}
