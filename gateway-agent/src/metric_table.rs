//! The metrics of the gateway. [`METRICS`] has the name, type, labels and help text of each one.
//!
//! Label values are fixed, or names of targets and of the catalog, limited in number.

use metrics::{describe_counter, describe_gauge, describe_histogram};

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name, with its unit, and `_total` for counters.
    pub name: &'static str,
    /// Type.
    pub kind: MetricKind,
    /// Labels with their values.
    pub labels: &'static [MetricLabel],
    /// Help text.
    pub help: &'static str,
}

/// A label of a metric.
#[derive(Debug, Clone, Copy)]
pub struct MetricLabel {
    /// Name.
    pub name: &'static str,
    /// Its values, or their definition.
    pub values: &'static str,
}

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that only increases.
    Counter,
    /// A value that increases and decreases.
    Gauge,
    /// A distribution of values.
    Histogram,
}

impl MetricKind {
    /// Name of the type in Prometheus.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

const fn counter(name: &'static str, labels: &'static [MetricLabel], help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Counter, labels, help }
}

const fn gauge(name: &'static str, labels: &'static [MetricLabel], help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Gauge, labels, help }
}

const fn histogram(
    name: &'static str,
    labels: &'static [MetricLabel],
    help: &'static str,
) -> Metric {
    Metric { name, kind: MetricKind::Histogram, labels, help }
}

const fn label(name: &'static str, values: &'static str) -> MetricLabel {
    MetricLabel { name, values }
}

const ERA: MetricLabel = label("era", "modern, legacy");
const OUTCOME: MetricLabel = label("outcome", "outcome of the audit");
const SERVER: MetricLabel = label("server", "registered server or agent, or other");
const TARGET: MetricLabel = label("server", "configured target");
const TOOL: MetricLabel = label("tool", "registered tool, or other");

/// All metrics of the gateway.
pub const METRICS: &[Metric] = &[
    gauge("gateway_buffered_bytes", &[], "Memory reserved for requests and results"),
    counter("gateway_cache_write_failures_total", &[], "Failed writes of the cache or the pins"),
    counter("gateway_calls_by_tool_total", &[TOOL, OUTCOME], "Tool calls by registered tool"),
    gauge("gateway_catalog_age_seconds", &[], "Time since the registry last confirmed the catalog"),
    gauge("gateway_catalog_entities", &[], "Entities in the served catalog"),
    gauge("gateway_catalog_persisted_revision", &[], "Revision of the cache file"),
    gauge("gateway_catalog_revision", &[], "Revision of the served catalog"),
    counter(
        "gateway_config_reloads_total",
        &[label("outcome", "applied, rejected")],
        "Reloads of the configuration",
    ),
    counter(
        "gateway_connections_rejected_total",
        &[],
        "Connections closed at the connection limit of their address",
    ),
    counter(
        "gateway_contract_changes_total",
        &[label("state", "pending, missing, unchanged, drifted")],
        "Changes of contract states by new state",
    ),
    gauge(
        "gateway_contract_drift",
        &[
            label("part", "part of the definition, such as inputSchema"),
            label(
                "class",
                "cosmetic, compatible, changed, unknown, undecided, suspicious, breaking",
            ),
        ],
        "Tools with a changed definition",
    ),
    gauge("gateway_contract_quarantined_tools", &[], "Quarantined tools"),
    gauge(
        "gateway_contract_tools",
        &[label("state", "pending, missing, unchanged, drifted")],
        "Tools by the state of their contract",
    ),
    gauge("gateway_event_streams", &[], "Open event streams to clients"),
    counter(
        "gateway_policy_findings_total",
        &[label("finding", "finding of the audit")],
        "Calls that the policy allowed with a warning",
    ),
    counter("gateway_request_bytes_total", &[TOOL], "Size of tool call requests"),
    counter(
        "gateway_requests_rejected_total",
        &[label("reason", "reason of the rejection")],
        "Requests rejected before routing",
    ),
    counter("gateway_response_bytes_total", &[TOOL], "Size of tool call responses"),
    gauge(
        "gateway_routing_findings",
        &[label("code", "tool-name-shared, previous-target, no-target")],
        "Findings about tool names and targets",
    ),
    counter("gateway_sagas_total", &[label("outcome", "end of the saga")], "Completed sagas"),
    counter(
        "gateway_schema_violations_total",
        &[label("schema", "input, output"), label("result", "violated, unusable-schema")],
        "Arguments and results that violate their schema",
    ),
    gauge("gateway_sessions", &[], "Open sessions of clients before 2026-07-28"),
    gauge(
        "gateway_source_state",
        &[label("state", "connecting, live, down, rejected")],
        "1 for the current state of the catalog's source",
    ),
    counter(
        "gateway_stale_calls_total",
        &[label("level", "read-only, reject"), label("outcome", "served, rejected")],
        "Calls while the catalog was older than registry.maxStaleness",
    ),
    gauge(
        "gateway_staleness_level",
        &[label("level", "serve, read-only, reject")],
        "1 for the current staleness level",
    ),
    counter("gateway_sync_nacks_total", &[], "Registry messages that were rejected"),
    counter("gateway_sync_reconnects_total", &[], "Attempts to reopen the registry stream"),
    gauge(
        "gateway_target_circuit_open",
        &[TARGET],
        "1 while the circuit breaker of a target is open",
    ),
    gauge(
        "gateway_target_requests",
        &[TARGET, label("state", "running, queued")],
        "Requests of a target",
    ),
    gauge(
        "gateway_target_state",
        &[TARGET, label("state", "connecting, idle, up, down, stopped")],
        "1 for the current state of a target",
    ),
    counter(
        "gateway_tls_client_certificates_rejected_total",
        &[],
        "Connections rejected for the client certificate",
    ),
    counter(
        "gateway_tls_reloads_total",
        &[label("outcome", "outcome of the reload")],
        "Reloads of TLS files",
    ),
    counter(
        "gateway_token_requests_total",
        &[label("outcome", "outcome of the request")],
        "Requests for access tokens of upstreams",
    ),
    histogram(
        "gateway_tool_call_duration_seconds",
        &[OUTCOME],
        "Time from request to response of a tool call",
    ),
    counter("gateway_tool_calls_total", &[ERA, OUTCOME], "Tool calls"),
    counter("gateway_tool_lists_total", &[ERA], "Pages of tools/list"),
    counter(
        "gateway_trace_spans_dropped_total",
        &[label("reason", "queue-full, collector")],
        "Spans that were not exported",
    ),
    counter("gateway_trace_spans_exported_total", &[], "Spans that the collector accepted"),
    histogram("gateway_upstream_call_duration_seconds", &[SERVER], "Response time of upstreams"),
    counter("gateway_upstream_calls_total", &[SERVER, OUTCOME], "Upstream calls"),
];

/// Registers the help texts.
pub(crate) fn describe() {
    for Metric { name, kind, help, .. } in METRICS {
        match kind {
            MetricKind::Counter => describe_counter!(*name, *help),
            MetricKind::Gauge => describe_gauge!(*name, *help),
            MetricKind::Histogram => describe_histogram!(*name, *help),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    fn names_in(directory: &Path, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                names_in(&path, names);
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && !path.ends_with("metric_table.rs")
            {
                let text = fs::read_to_string(&path).unwrap();
                let found = text.split('"').filter(|part| {
                    let name = part.strip_prefix("gateway_").unwrap_or_default();
                    !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
                });
                names.extend(found.map(str::to_owned));
            }
        }
    }

    #[test]
    fn every_metric_is_listed_and_used() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut used = BTreeSet::new();
        for sources in ["gateway-agent", "crates/gateway-upstream", "crates/gateway-compose"] {
            names_in(&crates.join(sources).join("src"), &mut used);
        }
        let listed: BTreeSet<_> = METRICS.iter().map(|metric| metric.name.to_owned()).collect();
        assert_eq!(used, listed);
        assert_eq!(listed.len(), METRICS.len(), "each name is listed once");
    }

    #[test]
    fn metric_names_follow_prometheus_conventions() {
        for Metric { name, kind, help, .. } in METRICS {
            assert_eq!(*kind == MetricKind::Counter, name.ends_with("_total"), "{name}");
            assert!(*kind != MetricKind::Histogram || name.ends_with("_seconds"), "{name}");
            assert!(!help.is_empty() && !help.ends_with('.'), "{name}");
        }
    }
}
