//! Spans in the JSON of OTLP/HTTP 1.x (`ExportTraceServiceRequest`).

use std::sync::Arc;

use serde_json::{Value, json};

use super::{SpanKind, SpanRecord};

const ERROR: u8 = 2;

pub(super) fn request(gateway: &str, records: &[Arc<SpanRecord>]) -> Value {
    let spans: Vec<_> = records.iter().map(|record| span(record)).collect();
    let version = env!("CARGO_PKG_VERSION");
    let resource = [
        text("service.name", "gateway-agent"),
        text("service.version", version),
        text("service.instance.id", gateway),
    ];
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{ "scope": { "name": "gateway-agent", "version": version }, "spans": spans }],
    }] })
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn span(record: &SpanRecord) -> Value {
    let start_us = u128::from(record.start_us);
    let end_us = start_us + u128::from(record.duration_us);
    let mut attributes = vec![
        text("gateway.outcome", record.outcome),
        json!({ "key": "gateway.revision", "value": { "intValue": record.revision.to_string() } }),
    ];
    attributes.extend(record.agent.as_deref().map(|agent| text("gateway.agent", agent)));
    attributes.extend(record.server.as_deref().map(|server| text("gateway.server", server)));
    let client_trace = record.client_trace.as_deref();
    attributes.extend(client_trace.map(|trace| text("gateway.client_trace", trace)));
    attributes.extend(record.task_id.as_deref().map(|task| text("gateway.task_id", task)));
    let mut span = json!({
        "traceId": record.context.trace,
        "spanId": record.context.span,
        "name": record.name,
        "kind": match record.kind { SpanKind::Server => 2, SpanKind::Client => 3 },
        "startTimeUnixNano": (start_us * 1000).to_string(),
        "endTimeUnixNano": (end_us * 1000).to_string(),
        "attributes": attributes,
        "status": if record.is_failure { json!({ "code": ERROR }) } else { json!({}) },
    });
    if let Some(parent) = record.parent {
        span["parentSpanId"] = json!(parent);
    }
    span
}
