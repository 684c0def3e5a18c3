//! The metrics of calls. Label values are fixed, or catalog names limited in number.

use std::{
    sync::{LazyLock, OnceLock},
    time::Duration,
};

use gateway_policy::CallOutcome;
use gateway_protocol::mcp::Era;
use metrics::{Counter, Histogram, SharedString, counter, gauge, histogram};

use super::label::LimitedLabels;

const CALLS: &str = "gateway_tool_calls_total";
const CALL_SECONDS: &str = "gateway_tool_call_duration_seconds";
const FINDINGS: &str = "gateway_policy_findings_total";
const POLICIES: &str = "gateway_policy_verdicts_total";
const VIOLATIONS: &str = "gateway_schema_violations_total";
const STALE: &str = "gateway_stale_calls_total";
const LISTS: &str = "gateway_tool_lists_total";
const REJECTIONS: &str = "gateway_requests_rejected_total";
const BY_TOOL: &str = "gateway_calls_by_tool_total";
const SECONDS_BY_TOOL: &str = "gateway_call_duration_by_tool_seconds";
const REQUEST_BYTES: &str = "gateway_request_bytes_total";
const RESPONSE_BYTES: &str = "gateway_response_bytes_total";
const UPSTREAM_CALLS: &str = "gateway_upstream_calls_total";
const UPSTREAM_SECONDS: &str = "gateway_upstream_call_duration_seconds";

/// Metrics of registered tools.
static TOOLS: LazyLock<LimitedLabels<ToolMeters>> =
    LazyLock::new(|| LimitedLabels::new(500, ToolMeters::new));
/// Metrics of registered servers.
static SERVERS: LazyLock<LimitedLabels<ServerMeters>> =
    LazyLock::new(|| LimitedLabels::new(100, ServerMeters::new));
/// Metrics of all calls by era and outcome.
static ALL: LazyLock<[[OnceLock<CallMeters>; CallOutcome::COUNT]; 2]> =
    LazyLock::new(Default::default);
/// Calls without a violation.
static ALLOWED: LazyLock<Counter> = LazyLock::new(|| policy_counter("allow", ""));

/// Cached handles: a lookup by labels costs more than counting.
struct CallMeters {
    calls: Counter,
    seconds: Histogram,
}

struct ToolMeters {
    label: SharedString,
    seconds: Histogram,
    request_bytes: Counter,
    response_bytes: Counter,
    calls: [OnceLock<Counter>; CallOutcome::COUNT],
}

struct ServerMeters {
    label: SharedString,
    seconds: Histogram,
    calls: [OnceLock<Counter>; CallOutcome::COUNT],
}

impl ToolMeters {
    fn new(tool: SharedString) -> Self {
        Self {
            seconds: histogram!(SECONDS_BY_TOOL, "tool" => tool.clone()),
            request_bytes: counter!(REQUEST_BYTES, "tool" => tool.clone()),
            response_bytes: counter!(RESPONSE_BYTES, "tool" => tool.clone()),
            label: tool,
            calls: Default::default(),
        }
    }
}

impl ServerMeters {
    fn new(server: SharedString) -> Self {
        let seconds = histogram!(UPSTREAM_SECONDS, "server" => server.clone());
        Self { seconds, label: server, calls: Default::default() }
    }
}

pub(super) fn count_call(era: Era, outcome: CallOutcome, seconds: f64) {
    let meters =
        ALL[usize::from(era == Era::Legacy)][outcome as usize].get_or_init(|| CallMeters {
            calls: counter!(CALLS, "era" => era.as_str(), "outcome" => outcome.as_str()),
            seconds: histogram!(CALL_SECONDS, "outcome" => outcome.as_str()),
        });
    meters.calls.increment(1);
    meters.seconds.record(seconds);
}

/// Tools that are not registered share one series.
pub(super) fn count_tool(
    tool: Option<&str>,
    outcome: CallOutcome,
    (seconds, bytes): (f64, [usize; 2]),
) {
    TOOLS.with(tool, |meters| {
        meters.seconds.record(seconds);
        meters.request_bytes.increment(bytes[0] as u64);
        meters.response_bytes.increment(bytes[1] as u64);
        let label = || meters.label.clone();
        let new = || counter!(BY_TOOL, "tool" => label(), "outcome" => outcome.as_str());
        meters.calls[outcome as usize].get_or_init(new).increment(1);
    });
}

pub(super) fn count_upstream(server: &str, outcome: CallOutcome, took: Duration) {
    SERVERS.with(Some(server), |meters| {
        meters.seconds.record(took.as_secs_f64());
        let label = || meters.label.clone();
        let new = || counter!(UPSTREAM_CALLS, "server" => label(), "outcome" => outcome.as_str());
        meters.calls[outcome as usize].get_or_init(new).increment(1);
    });
}

pub(super) fn count_finding(finding: &'static str) {
    counter!(FINDINGS, "finding" => finding).increment(1);
}

/// Counts the verdict of a policy. The labels are fixed words.
pub(super) fn count_policy(verdict: &'static str, reason: &'static str) {
    match (verdict, reason) {
        ("allow", "") => ALLOWED.increment(1),
        _ => policy_counter(verdict, reason).increment(1),
    }
}

fn policy_counter(verdict: &'static str, reason: &'static str) -> Counter {
    counter!(POLICIES, "verdict" => verdict, "reason" => reason)
}

pub(super) fn count_violation(which: &'static str, check: &'static str) {
    counter!(VIOLATIONS, "schema" => which, "result" => check).increment(1);
}

pub(super) fn count_stale(level: &'static str, is_refused: bool) {
    let outcome = if is_refused { "rejected" } else { "served" };
    counter!(STALE, "level" => level, "outcome" => outcome).increment(1);
}

/// Counts a page of a list.
pub fn count_list(era: Era) {
    counter!(LISTS, "era" => era.as_str()).increment(1);
}

/// Counts a request that was rejected before routing.
pub fn count_rejection(reason: &'static str) {
    counter!(REJECTIONS, "reason" => reason).increment(1);
}

/// A gauge of existing objects.
#[derive(Debug, Clone, Copy)]
pub enum Gauge {
    /// Sessions of clients before 2026-07-28.
    Sessions,
    /// Open event streams.
    Streams,
}

impl Gauge {
    fn name(self) -> &'static str {
        match self {
            Self::Sessions => "gateway_sessions",
            Self::Streams => "gateway_event_streams",
        }
    }

    /// Counts an object until the result is dropped.
    pub fn increment(self) -> GaugeGuard {
        gauge!(self.name()).increment(1.0);
        GaugeGuard(self)
    }
}

/// A counted object.
#[derive(Debug)]
pub struct GaugeGuard(Gauge);

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        gauge!(self.0.name()).decrement(1.0);
    }
}
