//! Names, help texts and labels of the metrics. Every label has a fixed set of values, or names of
//! the catalog up to a number.

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

/// Registered tools with series of their own.
static TOOLS: LazyLock<Named<ToolMeters>> = LazyLock::new(|| Named::new(500, ToolMeters::new));
/// Registered servers with series of their own.
static SERVERS: LazyLock<Named<ServerMeters>> =
    LazyLock::new(|| Named::new(100, ServerMeters::new));
/// Of all calls, by era.
static ALL: LazyLock<[[OnceLock<CallMeters>; Outcome::COUNT]; 2]> = LazyLock::new(Default::default);

/// Handles are found once: looking one up by its labels costs more than counting.
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

/// Tells the recorder what the metrics mean.
pub fn describe_metrics() {
    describe_counter!(CALLS, "Tool calls by outcome and protocol era.");
    describe_histogram!(CALL_SECONDS, Unit::Seconds, "Time from request to answer of a tool call.");
    describe_counter!(FINDINGS, "Calls that the policy let through with a warning.");
    describe_counter!(VIOLATIONS, "Arguments and results that did not pass their schema.");
    describe_counter!(STALE, "Tool calls while the catalog was older than registry.maxStaleness.");
    describe_counter!(LISTS, "Pages of tools/list by protocol era.");
    describe_counter!(REJECTIONS, "Requests that were refused before they were understood.");
    describe_counter!(BY_TOOL, "Tool calls by registered tool and outcome.");
    describe_counter!(REQUEST_BYTES, Unit::Bytes, "Requests of tool calls by registered tool.");
    describe_counter!(RESPONSE_BYTES, Unit::Bytes, "Answers of tool calls by registered tool.");
    describe_counter!(UPSTREAM_CALLS, "Calls that went to an upstream by server and outcome.");
    describe_histogram!(UPSTREAM_SECONDS, Unit::Seconds, "Time that an upstream took to answer.");
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

/// A tool that is not registered has no series of its own.
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
    let outcome = if is_refused { "refused" } else { "served" };
    counter!(STALE, "verdict" => verdict, "outcome" => outcome).increment(1);
}

/// Counts one page of a list.
pub fn count_list(of: Era) {
    counter!(LISTS, "era" => of.as_str()).increment(1);
}

/// Counts a request that was refused before it was understood.
pub fn count_rejection(reason: &'static str) {
    counter!(REJECTIONS, "reason" => reason).increment(1);
}

/// What is counted while it is there.
#[derive(Debug, Clone, Copy)]
pub enum Gauge {
    /// Sessions of legacy clients.
    Sessions,
    /// Event streams.
    Streams,
}

impl Gauge {
    fn name(self) -> &'static str {
        match self {
            Self::Sessions => "gateway_sessions",
            Self::Streams => "gateway_streams",
        }
    }

    /// Counts one more until what is returned is dropped.
    pub fn hold(self) -> Held {
        gauge!(self.name()).increment(1.0);
        Held(self)
    }
}

/// One that is counted.
#[derive(Debug)]
pub struct Held(Gauge);

impl Drop for Held {
    fn drop(&mut self) {
        gauge!(self.0.name()).decrement(1.0);
    }
}
