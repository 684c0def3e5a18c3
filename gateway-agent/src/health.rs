//! `/livez`, `/readyz` and `/metrics`.
//!
//! Everyone who can reach the callers' address can read these pages. They contain states, numbers
//! and target names. Only the admin listener's pages contain tool names. Reasons are logged.
//!
//! A gateway is ready if it has a catalog that is fresh enough for any call. Target states do not
//! count.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use gateway_policy::BufferPool;
use gateway_upstream::{TargetId, TargetState, Upstreams};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use registry_core::Catalog;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::Cache,
    feed::{SourceState, Status},
    freshness::{StalenessLevel, StalenessMonitor},
    metric_table,
};

/// Bucket bounds of histograms, in seconds.
const BUCKETS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// Interval of histogram maintenance.
const UPKEEP: Duration = Duration::from_secs(5);

/// The state behind the endpoints.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    /// The catalog.
    pub cache: Cache,
    /// Measures the age of the catalog.
    pub staleness: StalenessMonitor,
    /// The state of the catalog's source.
    pub status: Status,
    /// The targets.
    pub upstreams: Arc<Upstreams>,
    /// The memory quota of requests and results.
    pub(crate) buffers: Arc<BufferPool>,
    /// The recorder of `/metrics`.
    pub metrics: PrometheusHandle,
    /// Cancelled when shutdown starts.
    pub draining: CancellationToken,
}

/// Installs the metrics recorder. A process has one, even with several gateways.
pub(crate) fn install_metrics() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    let install = || {
        // Fails only for an empty list.
        let builder = PrometheusBuilder::new().set_buckets(&BUCKETS).expect("there are buckets");
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        // Fails if the process already has a recorder; the handle then stays empty.
        let _ = metrics::set_global_recorder(recorder);
        metric_table::describe();
        keep_up(handle.clone());
        handle
    };
    HANDLE.get_or_init(install).clone()
}

/// Moves samples into histogram buckets. Without it, samples accumulate in memory until the next
/// scrape.
fn keep_up(handle: PrometheusHandle) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(UPKEEP);
            handle.run_upkeep();
        }
    });
}

/// Counts a connection that was closed at the limit of its address.
pub(crate) fn connection_rejected() {
    metrics::counter!("gateway_connections_rejected_total").increment(1);
}

/// The routes of the callers' listener.
pub(crate) fn router(health: Health) -> Router {
    probes().route("/metrics", get(public_metrics)).with_state(health)
}

/// The routes of the admin listener.
pub(crate) fn admin_router(health: Health) -> Router {
    probes().route("/metrics", get(metrics)).with_state(health)
}

fn probes() -> Router<Health> {
    Router::new().route("/livez", get(async || "ok\n")).route("/readyz", get(readyz))
}

/// The response of `/readyz`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Readiness {
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    registry: String,
    revision: u64,
    persisted_revision: u64,
    entities: usize,
    age_seconds: Option<f64>,
    staleness: &'static str,
    source: &'static str,
    targets: Vec<TargetReadiness>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TargetReadiness {
    server: String,
    version: String,
    state: &'static str,
    /// Higher registered versions that use this target because they have none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    used_for: Vec<String>,
}

async fn readyz(State(health): State<Health>) -> (StatusCode, Json<Readiness>) {
    let catalog = health.cache.current();
    let freshness = health.staleness.check();
    let reason = match (health.cache.has_catalog(), freshness.level) {
        _ if health.draining.is_cancelled() => Some("draining"),
        (false, _) => Some("no catalog yet"),
        (true, StalenessLevel::Reject) => Some("the catalog is older than registry.maxStaleness"),
        (true, StalenessLevel::Serve | StalenessLevel::ReadOnly) => None,
    };
    let ready = reason.is_none();
    let readiness = Readiness {
        ready,
        reason,
        registry: catalog.registry().to_string(),
        revision: catalog.revision().0,
        persisted_revision: health.cache.persisted().borrow().0,
        entities: catalog.len(),
        age_seconds: freshness.age.map(|age| age.as_secs_f64()),
        staleness: freshness.level.as_str(),
        source: health.status.report().state.as_str(),
        targets: targets(&health.upstreams, &catalog),
    };
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(readiness))
}

fn targets(upstreams: &Upstreams, catalog: &Catalog) -> Vec<TargetReadiness> {
    let used_for = |target: &TargetId| {
        let usable = catalog.versions(target.kind, &target.name).filter(|(_, it)| it.is_usable());
        let uses = usable.filter(|(server, _)| {
            upstreams
                .route(server)
                .is_some_and(|route| route.is_fallback && route.target == *target)
        });
        uses.map(|(server, _)| server.version.to_string()).collect()
    };
    let readiness = |target: gateway_upstream::TargetHealth| TargetReadiness {
        server: target.server.name.to_string(),
        version: target.server.version_text(),
        state: target.state.as_str(),
        used_for: used_for(&target.server),
    };
    upstreams.health().into_iter().map(readiness).collect()
}

async fn metrics(State(health): State<Health>) -> impl IntoResponse {
    set_gauges(&health);
    page(health.metrics.render())
}

async fn public_metrics(State(health): State<Health>) -> impl IntoResponse {
    set_gauges(&health);
    page(without_tools(&health.metrics.render()))
}

fn page(text: String) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

/// Removes series with tool names as labels.
fn without_tools(metrics: &str) -> String {
    let mut public = String::with_capacity(metrics.len());
    // Quotation marks within label values are escaped, so this cannot match a value.
    let has_no_tool = |family: &&str| !family.contains("{tool=\"") && !family.contains(",tool=\"");
    for family in metrics.split_inclusive("\n\n").filter(has_no_tool) {
        public.push_str(family);
    }
    public
}

/// Updates gauges at scrape time.
#[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
fn set_gauges(health: &Health) {
    let catalog = health.cache.current();
    let persisted = health.cache.persisted().borrow().0;
    metrics::gauge!("gateway_buffered_bytes").set(health.buffers.total() as f64);
    metrics::gauge!("gateway_catalog_revision").set(catalog.revision().0 as f64);
    metrics::gauge!("gateway_catalog_persisted_revision").set(persisted as f64);
    metrics::gauge!("gateway_catalog_entities").set(catalog.len() as f64);
    if let Some(age) = health.cache.age() {
        metrics::gauge!("gateway_catalog_age_seconds").set(age.as_secs_f64());
    }
    let level = health.staleness.check().level;
    for each in StalenessLevel::ALL {
        let value = if each == level { 1.0 } else { 0.0 };
        metrics::gauge!("gateway_staleness_level", "level" => each.as_str()).set(value);
    }
    set_target_gauges(&health.upstreams);
    let present = health.status.report().state;
    for state in SourceState::ALL {
        let value = if state == present { 1.0 } else { 0.0 };
        metrics::gauge!("gateway_source_state", "state" => state.as_str()).set(value);
    }
}

/// The number of targets is limited by the configuration.
fn set_target_gauges(upstreams: &Upstreams) {
    static SHOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let targets = upstreams.health();
    let present: BTreeSet<_> = targets.iter().map(|target| target.server.to_string()).collect();
    // Series cannot be removed, so they are set to 0.
    for server in shown.difference(&present) {
        set_gauges_of(server, ("none", false, [0, 0]));
    }
    shown.extend(present);
    for target in targets {
        let load = [target.load.running, target.load.waiting];
        set_gauges_of(
            &target.server.to_string(),
            (target.state.as_str(), target.is_circuit_open, load),
        );
    }
}

/// Sets the gauges of one target. The state `none` matches no state.
#[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
fn set_gauges_of(server: &str, (present, is_circuit_open, load): (&str, bool, [usize; 2])) {
    let server = || server.to_owned();
    for state in TargetState::NAMES {
        let value = f64::from(u8::from(state == present));
        metrics::gauge!("gateway_target_state", "server" => server(), "state" => state).set(value);
    }
    let spared = f64::from(u8::from(is_circuit_open));
    metrics::gauge!("gateway_target_circuit_open", "server" => server()).set(spared);
    for (state, count) in ["running", "queued"].into_iter().zip(load) {
        metrics::gauge!("gateway_target_requests", "server" => server(), "state" => state)
            .set(count as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_metrics_omit_series_with_names_of_tools() {
        let page = "# TYPE a counter\na{tool=\"secret\",x=\"1\"} 1\na{tool=\"other\"} 2\n\n\
            # TYPE b counter\nb{x=\"1\",tool=\"secret\"} 1\n\n\
            # TYPE c counter\nc{server=\"{tool=\\\"x\"} 1\n\n";
        let public = without_tools(page);
        assert_eq!(public, "# TYPE c counter\nc{server=\"{tool=\\\"x\"} 1\n\n");
    }
}
