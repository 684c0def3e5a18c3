//! `/livez`, `/readyz` and `/metrics`.
//!
//! Everyone who reaches the callers' address may read these pages. They show states, numbers and the
//! names of targets. Only those of the admin address show names of tools. Reasons are in the log.
//! A gateway is ready when it has a catalog that is not too old for every call; the targets do not
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
use gateway_policy::Buffers;
use gateway_upstream::{TargetId, TargetState, Upstreams};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use registry_core::Catalog;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::Cache,
    feed::{SourceState, Status},
    freshness::{Verdict, Watchman},
    identity::is_usable,
};

/// Bounds of the histograms, in seconds.
const BUCKETS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// How often samples are folded into histograms.
const UPKEEP: Duration = Duration::from_secs(5);

/// What the endpoints look at.
#[derive(Debug, Clone)]
pub struct Health {
    /// The current catalog.
    pub cache: Cache,
    /// Who judges its age.
    pub watchman: Watchman,
    /// How its source is doing.
    pub status: Status,
    /// The targets.
    pub upstreams: Arc<Upstreams>,
    /// The memory for requests and results.
    pub(crate) buffers: Arc<Buffers>,
    /// What was counted.
    pub metrics: PrometheusHandle,
    /// Cancelled when the gateway begins to stop.
    pub draining: CancellationToken,
}

/// Starts counting; a process has one set of metrics, however many gateways run in it.
pub fn install_metrics() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    let install = || {
        // The list is not empty, which is all that is asked of buckets.
        let builder = PrometheusBuilder::new().set_buckets(&BUCKETS).expect("there are buckets");
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        // It fails where another program has installed its own; then ours stays empty.
        let _ = metrics::set_global_recorder(recorder);
        describe_metrics();
        keep_up(handle.clone());
        handle
    };
    HANDLE.get_or_init(install).clone()
}

/// Folds what was measured into the histograms for as long as the process lives: until then every
/// single sample is kept, and nobody may ever scrape.
fn keep_up(handle: PrometheusHandle) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(UPKEEP);
            handle.run_upkeep();
        }
    });
}

fn describe_metrics() {
    use metrics::{describe_counter, describe_gauge};
    describe_gauge!("gateway_buffered_bytes", "Memory reserved for requests and results");
    describe_gauge!("gateway_catalog_revision", "Revision of the catalog that is served");
    describe_gauge!("gateway_catalog_persisted_revision", "Revision of the copy on disk");
    describe_gauge!("gateway_catalog_entities", "Entities in the catalog that is served");
    describe_gauge!(
        "gateway_catalog_age_seconds",
        "Seconds since the catalog was known to be the registry's latest"
    );
    describe_gauge!("gateway_staleness", "1 for what the catalog's age still allows");
    describe_gauge!("gateway_source_state", "1 for the state in which the source is");
    describe_gauge!("gateway_target_state", "1 for the state in which a target is");
    describe_gauge!("gateway_target_spared", "Whether calls of a target are refused for a while");
    describe_gauge!("gateway_target_requests", "Requests that a target works on, or that wait");
    describe_counter!("gateway_sync_reconnects_total", "Attempts to open a stream after the first");
    describe_counter!("gateway_sync_nacks_total", "Messages of the registry that were refused");
    describe_counter!("gateway_cache_write_failures_total", "Writes of the cache that failed");
    describe_counter!(
        "gateway_rejected_connections_total",
        "Connections closed because their address had as many as one address may have"
    );
    describe_counter!("gateway_tls_changes_total", "Changes of files of TLS, by outcome");
    describe_counter!(
        "gateway_tls_refused_certificates_total",
        "Connections refused for the certificate of the caller"
    );
}

/// A connection was closed because its address has too many.
pub(crate) fn connection_rejected() {
    metrics::counter!("gateway_rejected_connections_total").increment(1);
}

/// The routes of the callers' address.
pub fn router(health: Health) -> Router {
    probes().route("/metrics", get(public_metrics)).with_state(health)
}

/// The routes of the admin address.
pub(crate) fn admin_router(health: Health) -> Router {
    probes().route("/metrics", get(metrics)).with_state(health)
}

fn probes() -> Router<Health> {
    Router::new().route("/livez", get(async || "ok\n")).route("/readyz", get(readyz))
}

/// The answer of `/readyz`.
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
    /// Higher registered versions without a target of their own, which use this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    used_for: Vec<String>,
}

async fn readyz(State(health): State<Health>) -> (StatusCode, Json<Readiness>) {
    let catalog = health.cache.current();
    let freshness = health.watchman.look();
    let reason = match (health.cache.has_catalog(), freshness.verdict) {
        _ if health.draining.is_cancelled() => Some("draining"),
        (false, _) => Some("no catalog yet"),
        (true, Verdict::Refuse) => Some("the catalog is older than registry.maxStaleness allows"),
        (true, Verdict::Serve | Verdict::ReadOnly) => None,
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
        staleness: freshness.verdict.as_str(),
        source: health.status.report().state.as_str(),
        targets: targets(&health.upstreams, &catalog),
    };
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(readiness))
}

fn targets(upstreams: &Upstreams, catalog: &Catalog) -> Vec<TargetReadiness> {
    let used_for = |target: &TargetId| {
        let usable = catalog.versions(target.kind, &target.name).filter(|(_, it)| is_usable(it));
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

/// The metrics without the series that have the name of a tool as a label.
fn without_tools(metrics: &str) -> String {
    let mut public = String::with_capacity(metrics.len());
    // A quotation mark inside of a value is escaped, so this is not the text of another label.
    let has_no_tool = |family: &&str| !family.contains("{tool=\"") && !family.contains(",tool=\"");
    for family in metrics.split_inclusive("\n\n").filter(has_no_tool) {
        public.push_str(family);
    }
    public
}

/// What is a state rather than an event is read when somebody asks.
#[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
fn set_gauges(health: &Health) {
    let catalog = health.cache.current();
    let persisted = health.cache.persisted().borrow().0;
    metrics::gauge!("gateway_buffered_bytes").set(health.buffers.all() as f64);
    metrics::gauge!("gateway_catalog_revision").set(catalog.revision().0 as f64);
    metrics::gauge!("gateway_catalog_persisted_revision").set(persisted as f64);
    metrics::gauge!("gateway_catalog_entities").set(catalog.len() as f64);
    if let Some(age) = health.cache.age() {
        metrics::gauge!("gateway_catalog_age_seconds").set(age.as_secs_f64());
    }
    let verdict = health.watchman.look().verdict;
    for each in Verdict::ALL {
        let value = if each == verdict { 1.0 } else { 0.0 };
        metrics::gauge!("gateway_staleness", "verdict" => each.as_str()).set(value);
    }
    set_target_gauges(&health.upstreams);
    let present = health.status.report().state;
    for state in SourceState::ALL {
        let value = if state == present { 1.0 } else { 0.0 };
        metrics::gauge!("gateway_source_state", "state" => state.as_str()).set(value);
    }
}

/// The targets are as many as the configuration has.
fn set_target_gauges(upstreams: &Upstreams) {
    static SHOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let targets = upstreams.health();
    let present: BTreeSet<_> = targets.iter().map(|target| target.server.to_string()).collect();
    // A series cannot be taken back.
    for server in shown.difference(&present) {
        set_gauges_of(server, ("none", false, [0, 0]));
    }
    shown.extend(present);
    for target in targets {
        let load = [target.load.running, target.load.waiting];
        set_gauges_of(&target.server.to_string(), (target.state.as_str(), target.is_spared, load));
    }
}

/// The gauges of one target; a state that is none is that of a target that is gone.
#[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
fn set_gauges_of(server: &str, (present, is_spared, load): (&str, bool, [usize; 2])) {
    let server = || server.to_owned();
    for state in TargetState::NAMES {
        let value = f64::from(u8::from(state == present));
        metrics::gauge!("gateway_target_state", "server" => server(), "state" => state).set(value);
    }
    let spared = f64::from(u8::from(is_spared));
    metrics::gauge!("gateway_target_spared", "server" => server()).set(spared);
    for (what, count) in ["running", "waiting"].into_iter().zip(load) {
        metrics::gauge!("gateway_target_requests", "server" => server(), "what" => what)
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
