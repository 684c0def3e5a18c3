//! Names, help texts and labels of metrics. Label values are fixed, or catalog names limited in
//! number.

use std::{
    sync::{LazyLock, OnceLock},
    time::Duration,
};

use gateway_policy::Outcome;
use gateway_protocol::mcp::Era;
use metrics::{
    Counter, Histogram, SharedString, Unit, counter, describe_counter, describe_gauge,
    describe_histogram, gauge, histogram,
};

use super::label::Named;

const CALLS: &str = "gateway_tool_calls_total";
const CALL_SECONDS: &str = "gateway_tool_call_duration_seconds";
const FINDINGS: &str = "gateway_policy_findings_total";
const VIOLATIONS: &str = "gateway_schema_violations_total";
const STALE: &str = "gateway_stale_calls_total";
const LISTS: &str = "gateway_tool_lists_total";
const REJECTIONS: &str = "gateway_rejected_requests_total";
const BY_TOOL: &str = "gateway_calls_by_tool_total";
const REQUEST_BYTES: &str = "gateway_request_bytes_total";
const RESPONSE_BYTES: &str = "gateway_response_bytes_total";
const UPSTREAM_CALLS: &str = "gateway_upstream_calls_total";
const UPSTREAM_SECONDS: &str = "gateway_upstream_call_duration_seconds";

/// Metrics of registered tools.
static TOOLS: LazyLock<Named<ToolMeters>> = LazyLock::new(|| Named::new(500, ToolMeters::new));
/// Metrics of registered servers.
static SERVERS: LazyLock<Named<ServerMeters>> =
    LazyLock::new(|| Named::new(100, ServerMeters::new));
/// Metrics of all calls by era and outcome.
static ALL: LazyLock<[[OnceLock<CallMeters>; Outcome::COUNT]; 2]> = LazyLock::new(Default::default);

/// Cached handles: a lookup by labels costs more than counting.
struct CallMeters {
    calls: Counter,
    seconds: Histogram,
}

struct ToolMeters {
    label: SharedString,
    request_bytes: Counter,
    response_bytes: Counter,
    calls: [OnceLock<Counter>; Outcome::COUNT],
}

struct ServerMeters {
    label: SharedString,
    seconds: Histogram,
    calls: [OnceLock<Counter>; Outcome::COUNT],
}

impl ToolMeters {
    fn new(tool: SharedString) -> Self {
        Self {
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

/// Registers the help texts.
pub fn describe_metrics() {
    describe_counter!(CALLS, "Tool calls by outcome and protocol era.");
    describe_histogram!(CALL_SECONDS, Unit::Seconds, "Time from request to response of a tool call.");
    describe_counter!(FINDINGS, "Calls that the policy allowed with a warning.");
    describe_counter!(VIOLATIONS, "Arguments and results that violate their schema.");
    describe_counter!(STALE, "Tool calls while the catalog was older than registry.maxStaleness.");
    describe_counter!(LISTS, "Pages of tools/list by protocol era.");
    describe_counter!(REJECTIONS, "Requests rejected before routing, by reason.");
    describe_counter!(BY_TOOL, "Tool calls by registered tool and outcome.");
    describe_counter!(REQUEST_BYTES, Unit::Bytes, "Size of tool call requests by registered tool.");
    describe_counter!(RESPONSE_BYTES, Unit::Bytes, "Size of tool call responses by registered tool.");
    describe_counter!(UPSTREAM_CALLS, "Upstream calls by server and outcome.");
    describe_histogram!(UPSTREAM_SECONDS, Unit::Seconds, "Response time of upstreams.");
    describe_gauge!(Gauge::Sessions.name(), "Open sessions of clients before 2026-07-28.");
    describe_gauge!(Gauge::Streams.name(), "Open event streams to clients.");
}

pub(super) fn count_call(of: Era, ended: Outcome, seconds: f64) {
    let meters = ALL[usize::from(of == Era::Legacy)][ended as usize].get_or_init(|| CallMeters {
        calls: counter!(CALLS, "era" => of.as_str(), "outcome" => ended.as_str()),
        seconds: histogram!(CALL_SECONDS, "outcome" => ended.as_str()),
    });
    meters.calls.increment(1);
    meters.seconds.record(seconds);
}

/// Tools that are not registered share one series.
pub(super) fn count_tool(tool: Option<&str>, ended: Outcome, bytes: [usize; 2]) {
    let meters = TOOLS.of(tool);
    meters.request_bytes.increment(bytes[0] as u64);
    meters.response_bytes.increment(bytes[1] as u64);
    let new = || counter!(BY_TOOL, "tool" => meters.label.clone(), "outcome" => ended.as_str());
    meters.calls[ended as usize].get_or_init(new).increment(1);
}

pub(super) fn count_upstream(server: &str, ended: Outcome, took: Duration) {
    let meters = SERVERS.of(Some(server));
    meters.seconds.record(took.as_secs_f64());
    let label = || meters.label.clone();
    let new = || counter!(UPSTREAM_CALLS, "server" => label(), "outcome" => ended.as_str());
    meters.calls[ended as usize].get_or_init(new).increment(1);
}

pub(super) fn count_finding(finding: &'static str) {
    counter!(FINDINGS, "finding" => finding).increment(1);
}

pub(super) fn count_violation(which: &'static str, check: &'static str) {
    counter!(VIOLATIONS, "schema" => which, "result" => check).increment(1);
}

pub(super) fn count_stale(verdict: &'static str, is_refused: bool) {
    let outcome = if is_refused { "rejected" } else { "served" };
    counter!(STALE, "verdict" => verdict, "outcome" => outcome).increment(1);
}

/// Counts a page of a list.
pub fn count_list(of: Era) {
    counter!(LISTS, "era" => of.as_str()).increment(1);
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
            Self::Streams => "gateway_streams",
        }
    }

    /// Counts an object until the result is dropped.
    pub fn hold(self) -> Held {
        gauge!(self.name()).increment(1.0);
        Held(self)
    }
}

/// A counted object.
#[derive(Debug)]
pub struct Held(Gauge);

impl Drop for Held {
    fn drop(&mut self) {
        gauge!(self.0.name()).decrement(1.0);
    }
}
