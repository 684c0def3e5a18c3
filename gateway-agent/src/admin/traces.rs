//! `GET /admin/traces` and `GET /admin/traces/{trace_id}`: recent traces.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::get,
};
use gateway_protocol::trace_context::{SpanId, TraceId};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error_response;
use crate::trace::{SpanKind, SpanRecord, Tracer};

/// Default number of listed traces.
const LISTED: usize = 100;
/// Maximum number of listed traces.
const MAX_LISTED: usize = 1000;

pub(crate) fn router(tracer: Arc<Tracer>) -> Router {
    Router::new()
        .route("/admin/traces", get(list))
        .route("/admin/traces/{trace_id}", get(show))
        .with_state(tracer)
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SpanView<'a> {
    span_id: SpanId,
    /// `null` for the first span of a trace. Otherwise possibly a span of another program.
    parent_span_id: Option<SpanId>,
    kind: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_trace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a str>,
    start_unix_us: u64,
    duration_us: u64,
    outcome: &'static str,
    revision: u64,
}

impl<'a> SpanView<'a> {
    fn new(record: &'a SpanRecord) -> Self {
        Self {
            span_id: record.context.span,
            parent_span_id: record.parent,
            kind: match record.kind {
                SpanKind::Server => "server",
                SpanKind::Client => "client",
            },
            name: &record.name,
            agent: record.agent.as_deref(),
            server: record.server.as_deref(),
            client_trace: record.client_trace.as_deref(),
            task_id: record.task_id.as_deref(),
            start_unix_us: record.start_us,
            duration_us: record.duration_us,
            outcome: record.outcome,
            revision: record.revision,
        }
    }
}

#[derive(Debug, Deserialize)]
struct ListQuery {
    limit: Option<usize>,
}

async fn list(State(tracer): State<Arc<Tracer>>, Query(query): Query<ListQuery>) -> Response {
    let most = query.limit.unwrap_or(LISTED).min(MAX_LISTED);
    let newest = tracer.newest(most);
    let listed: Vec<_> = newest
        .iter()
        .map(|(id, trace)| {
            // The root span ends last.
            let last = trace.spans.last().map(|record| SpanView::new(record));
            json!({ "traceId": id, "spans": trace.spans.len(), "last": last })
        })
        .collect();
    Json(json!({ "traces": listed })).into_response()
}

async fn show(State(tracer): State<Arc<Tracer>>, Path(id): Path<String>) -> Response {
    let id = match id.parse::<TraceId>() {
        Ok(id) => id,
        Err(e) => return error_response(StatusCode::BAD_REQUEST, &e.to_string()),
    };
    let Some(trace) = tracer.find(id) else {
        return error_response(StatusCode::NOT_FOUND, "trace not found among the recent traces");
    };
    let mut spans: Vec<_> = trace.spans.iter().map(|record| SpanView::new(record)).collect();
    spans.sort_by_key(|span| span.start_unix_us);
    let dropped = trace.dropped;
    Json(json!({ "traceId": id, "spans": spans, "droppedSpans": dropped })).into_response()
}
