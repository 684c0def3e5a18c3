//! The metrics of the gateway. [`METRICS`] has the name, type, labels and help text of each one.
//!
//! Label values are fixed, or names of targets and of the catalog, limited in number.

use metric_table::{Metric, MetricLabel, label};
use metrics::counter;

const BUDGET: MetricLabel = label("budget", "budget of the policy; 200 budgets have series");
const ERA: MetricLabel = label("era", "modern, legacy");
const OUTCOME: MetricLabel = label("outcome", "outcome of the audit");
const POLICY: MetricLabel = label("policy", "registered policy");
const SERVER: MetricLabel = label("server", "registered server or agent, or other");
const TARGET: MetricLabel = label("server", "configured target");
const TOOL: MetricLabel = label("tool", "registered tool, or other");

/// All metrics of the gateway.
pub const METRICS: &[Metric] = &[
    Metric::counter(
        "gateway_agent_late_answers_total",
        "Answers of data agents that no call waited for",
    ),
    Metric::counter("gateway_approval_steps_total", "New states of approvals without a registry")
        .labels(&[label(
            "state",
            "pending, approved, consumed, succeeded, failed, unknown, denied, expired, cancelled, superseded",
        )]),
    Metric::gauge("gateway_budget_granted", "Rights of this gateway in budgets, spent or not")
        .labels(&[POLICY, BUDGET]),
    Metric::gauge("gateway_budget_in_doubt", "Unspent rights of unreachable gateways in budgets")
        .labels(&[POLICY, BUDGET]),
    Metric::gauge("gateway_budget_overshoot", "Spending of this gateway beyond its rights")
        .labels(&[POLICY, BUDGET]),
    Metric::counter("gateway_budget_refusals_total", "Charges that a budget did not cover"),
    Metric::gauge("gateway_budget_reserved", "Prices of calls of this gateway in flight")
        .labels(&[POLICY, BUDGET]),
    Metric::gauge("gateway_budget_spent", "Spending of this gateway in open windows")
        .labels(&[POLICY, BUDGET]),
    Metric::gauge("gateway_buffered_bytes", "Memory reserved for requests and results"),
    Metric::counter("gateway_cache_write_failures_total", "Failed writes of the cache or the pins"),
    Metric::histogram("gateway_call_duration_by_tool_seconds", "Duration of calls by tool")
        .labels(&[TOOL]),
    Metric::counter("gateway_calls_by_tool_total", "Tool calls by registered tool")
        .labels(&[TOOL, OUTCOME]),
    Metric::gauge(
        "gateway_catalog_age_seconds",
        "Time since the registry last confirmed the catalog",
    ),
    Metric::gauge("gateway_catalog_entities", "Entities in the served catalog"),
    Metric::gauge("gateway_catalog_persisted_revision", "Revision of the cache file"),
    Metric::gauge("gateway_catalog_revision", "Revision of the served catalog"),
    Metric::counter("gateway_config_reloads_total", "Reloads of the configuration")
        .labels(&[label("outcome", "applied, rejected")]),
    Metric::counter(
        "gateway_connections_rejected_total",
        "Connections closed at the connection limit of their address",
    ),
    Metric::counter("gateway_contract_changes_total", "Changes of contract states by new state")
        .labels(&[label("state", "pending, missing, unchanged, drifted")]),
    Metric::gauge("gateway_contract_drift", "Tools and agents with a changed definition").labels(&[
        label("part", "part of the definition, such as inputSchema"),
        label("class", "cosmetic, compatible, changed, unknown, undecided, suspicious, breaking"),
    ]),
    Metric::gauge("gateway_contract_quarantined_tools", "Quarantined tools and agents"),
    Metric::gauge("gateway_contract_tools", "Tools and agents by the state of their contract")
        .labels(&[label("state", "pending, missing, unchanged, drifted")]),
    Metric::gauge("gateway_event_streams", "Open event streams to clients"),
    Metric::counter(
        "gateway_inspection_findings_total",
        "Credentials and personal data in arguments and results",
    )
    .labels(&[
        label("direction", "arguments, results"),
        label("class", "credential, financial, governmentId, contact, network, binary"),
        label("action", "log, tokenize, redact, block"),
        label("mode", "enforce, audit"),
    ]),
    Metric::gauge(
        "gateway_ledger_age_seconds",
        "Time since the ledger of budgets answered this gateway",
    ),
    Metric::counter(
        "gateway_policy_findings_total",
        "Calls that the policy allowed with a warning",
    )
    .labels(&[label("finding", "finding of the audit")]),
    Metric::counter("gateway_policy_verdicts_total", "Verdicts of policies about calls").labels(&[
        label("verdict", "allow, deny, audit"),
        label(
            "reason",
            "UNAUTHORIZED, POLICY_ERROR, RATE_LIMITED, STALE_POLICY, BUDGET_EXCEEDED, PII_DETECTED, APPROVAL_REQUIRED, APPROVAL_UNAVAILABLE, APPROVAL_DENIED; empty: none",
        ),
    ]),
    Metric::counter(
        "gateway_push_configs_revoked_total",
        "Push notification configurations removed because their caller's credential was revoked",
    ),
    Metric::counter(
        "gateway_push_notifications_received_total",
        "Push notifications from A2A agents",
    )
    .labels(&[label("outcome", "accepted, rejected")]),
    Metric::counter("gateway_push_notifications_total", "Push notifications to A2A clients")
        .labels(&[label("outcome", "delivered, dropped")]),
    Metric::gauge("gateway_push_notifications_waiting", "Undelivered push notifications"),
    Metric::counter("gateway_request_bytes_total", "Size of tool call requests").labels(&[TOOL]),
    Metric::counter("gateway_requests_rejected_total", "Requests rejected before routing")
        .labels(&[label("reason", "reason of the rejection")]),
    Metric::counter("gateway_response_bytes_total", "Size of tool call responses").labels(&[TOOL]),
    Metric::gauge(
        "gateway_routing_findings",
        "Findings about tool names, targets, the scope, approvals and API keys",
    )
    .labels(&[label(
        "code",
        "tool-name-shared, previous-target, no-target, target-unused, scope-root-unmatched, \
         approval-undecidable, agent-unregistered",
    )]),
    Metric::counter("gateway_sagas_total", "Completed sagas")
        .labels(&[label("status", "completed, compensated, compensation_failed")]),
    Metric::counter(
        "gateway_schema_violations_total",
        "Arguments and results that violate their schema",
    )
    .labels(&[label("schema", "input, output"), label("result", "violated, unusable-schema")]),
    Metric::gauge("gateway_sessions", "Open sessions of clients before 2026-07-28"),
    Metric::gauge("gateway_source_state", "1 for the current state of the catalog's source")
        .labels(&[label("state", "connecting, live, down, rejected")]),
    Metric::counter(
        "gateway_stale_calls_total",
        "Calls while the catalog was older than registry.maxStaleness",
    )
    .labels(&[label("level", "read-only, reject"), label("outcome", "served, rejected")]),
    Metric::gauge("gateway_staleness_level", "1 for the current staleness level")
        .labels(&[label("level", "serve, read-only, reject")]),
    Metric::counter("gateway_sync_nacks_total", "Registry messages that were rejected"),
    Metric::counter("gateway_sync_reconnects_total", "Attempts to reopen the registry stream"),
    Metric::gauge("gateway_target_circuit_open", "1 while the circuit breaker of a target is open")
        .labels(&[TARGET]),
    Metric::gauge("gateway_target_requests", "Requests of a target")
        .labels(&[TARGET, label("state", "running, queued")]),
    Metric::gauge("gateway_target_state", "1 for the current state of a target")
        .labels(&[TARGET, label("state", "connecting, idle, up, down, stopped")]),
    Metric::counter(
        "gateway_tls_client_certificates_rejected_total",
        "Connections rejected for the client certificate",
    ),
    Metric::counter("gateway_tls_reloads_total", "Reloads of TLS files")
        .labels(&[label("outcome", "applied, rejected")]),
    Metric::counter("gateway_token_requests_total", "Requests for access tokens of upstreams")
        .labels(&[TARGET, label("outcome", "issued, rejected, failed")]),
    Metric::histogram(
        "gateway_tool_call_duration_seconds",
        "Time from request to response of a tool call",
    )
    .labels(&[OUTCOME]),
    Metric::counter("gateway_tool_calls_total", "Tool calls").labels(&[ERA, OUTCOME]),
    Metric::counter("gateway_tool_lists_total", "Pages of tools/list").labels(&[ERA]),
    Metric::counter(
        "gateway_trace_calls_lost_total",
        "Finished calls of execution graphs that the registry did not receive",
    ),
    Metric::counter("gateway_trace_spans_dropped_total", "Spans that were not exported")
        .labels(&[label("reason", "queue-full, collector")]),
    Metric::counter("gateway_trace_spans_exported_total", "Spans that the collector accepted"),
    Metric::histogram("gateway_upstream_call_duration_seconds", "Response time of upstreams")
        .labels(&[SERVER]),
    Metric::counter("gateway_upstream_calls_total", "Upstream calls").labels(&[SERVER, OUTCOME]),
    Metric::counter(
        "gateway_usage_calls_lost_total",
        "Calls whose usage the registry rejected, or did not receive before the gateway stopped",
    ),
    Metric::counter(
        "gateway_usage_calls_other_total",
        "Calls whose usage is reported as (other), because too many rows wait for the registry",
    ),
];

/// Registers the help texts, and starts the counters that operators alert on at 0: the step from no
/// series to 1 is no increase. Requests for tokens start with their targets.
pub(crate) fn describe() {
    METRICS.iter().for_each(Metric::describe);
    for name in [
        "gateway_cache_write_failures_total",
        "gateway_usage_calls_lost_total",
        "gateway_usage_calls_other_total",
    ] {
        counter!(name).increment(0);
    }
    counter!("gateway_tls_reloads_total", "outcome" => "rejected").increment(0);
    counter!("gateway_sagas_total", "status" => "compensation_failed").increment(0);
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use metric_table::MetricKind;

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
