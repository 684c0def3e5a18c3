//! Metrics in Prometheus format. [`METRICS`] has the name, type, labels and help text of each one.
//!
//! Labels have few values: outcomes, codes, reasons and methods, never names, ids or addresses.

use std::{
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use metric_table::{Metric, label};
use metrics::Gauge;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use registry_core::{Action, Amount, Catalog, Diagnostic, Kind, Revision, SealedCommit};

/// Defines the metrics and lists them in [`METRICS`].
macro_rules! define_metrics {
    ($($name:ident = $metric:expr;)*) => {
        $(const $name: Metric = $metric;)*

        /// All metrics of the server.
        pub const METRICS: &[Metric] = &[$($name),*];
    };
}

define_metrics! {
    APPLY_REQUESTS = Metric::counter(
        "registry_apply_requests_total",
        "Apply requests by outcome, except dry runs",
    )
    .labels(&[label(
        "outcome",
        "committed, unchanged, rejected, base_revision, request_id_reused, queue_full, contended, \
         database, unknown, relay, draining, internal",
    )]);
    FINDINGS = Metric::counter(
        "registry_validation_findings_total",
        "Errors found in rejected batches",
    )
    .labels(&[label("code", "diagnostic code")]);
    REPLAYS = Metric::counter(
        "registry_idempotent_replays_total",
        "Retries that returned the result of an earlier request with the same request id",
    );
    APPEND_DURATION = Metric::histogram(
        "registry_append_duration_seconds",
        "Time to append a group of commits to the log",
    )
    .labels(&[label("outcome", "stored, conflict, request_id_taken, unknown, failed")]);
    APPEND_GROUP_SIZE = Metric::histogram(
        "registry_append_group_commits",
        "Commits in one database transaction",
    );
    COMMITS = Metric::counter(
        "registry_commits_total",
        "Commits published by this server, including commits of other servers",
    );
    CHANGES = Metric::counter("registry_changes_total", "Entity changes in the published commits");
    REVISION = Metric::gauge("registry_revision", "Revision that this server serves");
    ENTITIES = Metric::gauge(
        "registry_entities",
        "Entities in the catalog",
    )
    .labels(&[label("kind", "schema, server, tool, agent")]);
    CONNECTIONS_REJECTED = Metric::counter(
        "registry_connections_rejected_total",
        "Connections closed because of the limit of connections per address",
    );
    DATABASE_WRITABLE = Metric::gauge(
        "registry_database_writable",
        "1 if the database accepts writes, else 0",
    );
    LISTENER_LOSSES = Metric::counter(
        "registry_database_listener_losses_total",
        "Lost connections for database notifications of commits by other servers",
    )
    .labels(&[label("cause", "closed, silent")]);
    STREAMS = Metric::gauge("registry_streams", "Connected followers");
    SCOPES = Metric::gauge("registry_followed_scopes", "Distinct scopes with followers");
    OLDEST_RETAINED = Metric::gauge(
        "registry_oldest_retained_revision",
        "Oldest revision that followers can resume from without a snapshot",
    );
    LAG_REVISIONS = Metric::gauge(
        "registry_stream_max_lag_revisions",
        "Revisions that the slowest follower has not applied",
    );
    LAG_SECONDS = Metric::gauge(
        "registry_stream_max_lag_seconds",
        "Time since the slowest follower fell behind",
    );
    STREAMS_REJECTING = Metric::gauge(
        "registry_streams_rejecting",
        "Followers that rejected the next revision",
    );
    RELAY_CONNECTED = Metric::gauge(
        "registry_relay_connected",
        "1 if this relay follows its upstream registry, else 0",
    );
    STAGE_WAITING = Metric::gauge(
        "registry_stream_stage_waiting",
        "Followers that wait for a permit of a stage",
    )
    .labels(&[label("stage", "log, snapshot, scope")]);
    STAGE_ACTIVE = Metric::gauge(
        "registry_stream_stage_active",
        "Followers that hold a permit of a stage",
    )
    .labels(&[label("stage", "log, snapshot, scope")]);
    STREAMS_ENDED = Metric::counter(
        "registry_streams_ended_total",
        "Ended Sync streams",
    )
    .labels(&[label("reason", "reason of the end")]);
    SNAPSHOTS = Metric::counter(
        "registry_snapshots_sent_total",
        "Snapshots sent to followers",
    )
    .labels(&[label("reason", "compacted, other")]);
    MESSAGES_ENCODED = Metric::counter(
        "registry_sync_messages_encoded_total",
        "Encoded Sync messages; followers share them",
    )
    .labels(&[label("kind", "message type")]);
    NACKS = Metric::counter("registry_nacks_total", "Revisions rejected by followers");
    REQUEST_DURATION = Metric::histogram(
        "registry_request_duration_seconds",
        "Time to the response; for streams, time to the first response",
    )
    .labels(&[label("method", "gRPC method or HTTP path")]);
    INDEX_UPDATE_DURATION = Metric::histogram(
        "registry_search_index_update_duration_seconds",
        "Time to update the search index to the revision of the catalog",
    );
    INDEX_ENTRIES = Metric::gauge(
        "registry_search_index_entries",
        "Entries of the search index",
    )
    .labels(&[label("type", "terms, postings")]);
    INDEX_REVISION = Metric::gauge(
        "registry_search_index_revision",
        "Revision of the search index",
    );
    INDEX_FAILURES = Metric::counter(
        "registry_search_index_update_failures_total",
        "Failed updates of the search index",
    );
    TLS_RELOADS = Metric::counter(
        "registry_tls_reloads_total",
        "Reloads of TLS files",
    )
    .labels(&[label("outcome", "applied, rejected")]);
    CERTIFICATES_REJECTED = Metric::counter(
        "registry_tls_client_certificates_rejected_total",
        "TLS connections rejected because of the client certificate",
    );
    ERROR_RESPONSES = Metric::counter(
        "registry_error_responses_total",
        "Error responses of gRPC methods",
    )
    .labels(&[label("reason", "reason of the error")]);
    LEDGER_TRANSACTION_DURATION = Metric::histogram(
        "registry_ledger_transaction_duration_seconds",
        "Time to post waiting reports about budgets in one transaction",
    );
    LEDGER_REPORTS = Metric::counter(
        "registry_ledger_reports_total",
        "Reports about accounts of budgets",
    )
    .labels(&[label(
        "outcome",
        "accepted, exhausted, recalling, recovering, outside_window, closed, rejected, generation_rejected",
    )]);
    LEDGER_RECALLS = Metric::counter(
        "registry_ledger_recalled_accounts_total",
        "Accounts whose idle rights were recalled by this server",
    );
    LEDGER_GENERATIONS = Metric::counter(
        "registry_ledger_generations_total",
        "Generations of the ledger that this server started",
    );
    LEDGER_EXCESS = Metric::counter(
        "registry_ledger_excess_micros_total",
        "Amounts beyond the limits of budgets, in micro-units of the currency",
    )
    .labels(&[label("term", "overshoot, lost_grants, reclaimed, unexplained")]);
    USAGE_REJECTED = Metric::counter(
        "registry_usage_rejected_rows_total",
        "Invalid rows in reports of usage, which were not added",
    );
    BUDGET_ALERTS = Metric::counter(
        "registry_budget_alerts_total",
        "Alerts of budgets: reached thresholds, and deliveries by this server",
    )
    .labels(&[label("event", "crossed, delivered, retried, failed")]);
    APPROVAL_STEPS = Metric::counter(
        "registry_approval_steps_total",
        "Changes of the state of approval requests by this server",
    )
    .labels(&[label(
        "state",
        "pending, approved, consumed, succeeded, failed, unknown, denied, expired, cancelled, superseded, invalid",
    )]);
    APPROVAL_MESSAGES = Metric::counter(
        "registry_approval_messages_total",
        "Messages about approvals to the webhook",
    )
    .labels(&[label("event", "delivered, failed, dropped")]);
}

/// Interval between calls that move samples into histograms.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Recorder of this process, installed on first use.
pub fn recorder() -> &'static PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let seconds =
            [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
        let commits = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
        let builder = PrometheusBuilder::new();
        // Only an empty list of buckets is an error.
        let builder = builder.set_buckets(&seconds).expect("there are buckets");
        let groups = Matcher::Full(APPEND_GROUP_SIZE.name.to_owned());
        let builder = builder.set_buckets_for_metric(groups, &commits).expect("there are buckets");
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        // A program that embeds the server may have installed another recorder, which then stays.
        let _ = metrics::set_global_recorder(recorder);
        METRICS.iter().for_each(Metric::describe);
        start_alerts();
        run_upkeep(handle.clone());
        handle
    })
}

/// Starts the counters that operators alert on at 0: the step from no series to 1 is no increase.
fn start_alerts() {
    NACKS.count([]).increment(0);
    for (metric, value) in [
        (ERROR_RESPONSES, "FOLLOWER_AHEAD"),
        (ERROR_RESPONSES, "CHAIN_MISMATCH"),
        (BUDGET_ALERTS, "retried"),
        (BUDGET_ALERTS, "failed"),
        (TLS_RELOADS, "rejected"),
        (LISTENER_LOSSES, "closed"),
        (LISTENER_LOSSES, "silent"),
    ] {
        metric.count([value]).increment(0);
    }
}

/// Moves samples into histograms for the lifetime of the process. Otherwise the recorder would keep every
/// sample until the next scrape.
fn run_upkeep(handle: PrometheusHandle) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(UPKEEP_INTERVAL);
            handle.run_upkeep();
        }
    });
}

pub(crate) fn connection_rejected() {
    CONNECTIONS_REJECTED.count([]).increment(1);
}

/// Counts an apply request.
pub(crate) fn applied(outcome: &'static str) {
    APPLY_REQUESTS.count([outcome]).increment(1);
}

/// Counts the errors of a rejected batch.
pub(crate) fn rejected(found: &[Diagnostic]) {
    for diagnostic in found.iter().filter(|diagnostic| diagnostic.is_error()) {
        FINDINGS.count([diagnostic.code.as_str()]).increment(1);
    }
}

/// Counts a retry that returned an earlier result.
pub(crate) fn replayed() {
    REPLAYS.count([]).increment(1);
}

/// Records an attempt to append a group of commits.
pub(crate) fn appended(took: Duration, outcome: &'static str, commits: usize) {
    APPEND_DURATION.distribution([outcome]).record(took);
    APPEND_GROUP_SIZE.distribution([]).record(as_f64(commits as u64));
}

/// Records published commits.
pub(crate) fn published(catalog: &Catalog, commits: &[SealedCommit]) {
    COMMITS.count([]).increment(commits.len() as u64);
    let changes: usize = commits.iter().map(|commit| commit.commit().changes.len()).sum();
    CHANGES.count([]).increment(changes as u64);
    REVISION.level([]).set(as_f64(catalog.revision().0));
    follow(catalog, commits);
}

/// Records the search index of a revision with its numbers of terms and postings.
pub(crate) fn indexed(revision: Revision, took: Duration, (terms, postings): (usize, usize)) {
    INDEX_UPDATE_DURATION.distribution([]).record(took);
    INDEX_REVISION.level([]).set(as_f64(revision.0));
    INDEX_ENTRIES.level(["terms"]).set(as_f64(terms as u64));
    INDEX_ENTRIES.level(["postings"]).set(as_f64(postings as u64));
}

pub(crate) fn index_failed() {
    INDEX_FAILURES.count([]).increment(1);
}

pub(crate) fn database(is_writable: bool) {
    DATABASE_WRITABLE.level([]).set(f64::from(u8::from(is_writable)));
}

pub(crate) fn listener_lost(cause: &'static str) {
    LISTENER_LOSSES.count([cause]).increment(1);
}

/// State of this server's followers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Followers {
    /// Number of followers.
    pub connected: usize,
    /// Number of followers that rejected the next revision.
    pub rejecting: usize,
    /// Revisions that the slowest follower has not applied.
    pub lag: u64,
    /// Milliseconds since the slowest follower fell behind; a lower bound if the next commit of that follower
    /// is no longer in memory.
    pub lag_millis: u64,
}

/// Records values that are computed for a scrape.
pub(crate) fn observe(revision: Revision, followers: Followers) {
    REVISION.level([]).set(as_f64(revision.0));
    let Followers { connected, rejecting, lag, lag_millis } = followers;
    STREAMS.level([]).set(as_f64(connected as u64));
    STREAMS_REJECTING.level([]).set(as_f64(rejecting as u64));
    LAG_REVISIONS.level([]).set(as_f64(lag));
    LAG_SECONDS.level([]).set(Duration::from_millis(lag_millis).as_secs_f64());
}

/// Entities of each kind, in the order of [`Kind::ALL`].
#[derive(Debug, Default)]
struct Counts([usize; Kind::ALL.len()]);

impl Counts {
    /// Adds the registrations of these commits. Counts all entities again if the total differs from the
    /// catalog, for example after a relay has skipped commits.
    fn follow(&mut self, catalog: &Catalog, commits: &[SealedCommit]) {
        for change in commits.iter().flat_map(|commit| &commit.commit().changes) {
            let kind = Kind::ALL.iter().position(|kind| *kind == change.key.kind);
            if let Action::Register { .. } = change.action
                && let Some(count) = kind.and_then(|kind| self.0.get_mut(kind))
            {
                *count += 1;
            }
        }
        if self.0.iter().sum::<usize>() != catalog.len() {
            self.0 = Kind::ALL.map(|kind| catalog.of_kind(kind).count());
        }
    }

    fn publish(&self) {
        for (kind, count) in Kind::ALL.iter().zip(self.0) {
            ENTITIES.level([kind.as_str()]).set(as_f64(count as u64));
        }
    }
}

static COUNTS: Mutex<Counts> = Mutex::new(Counts([0; Kind::ALL.len()]));

/// Records the entities of a loaded catalog.
pub(crate) fn loaded(catalog: &Catalog) {
    follow(catalog, &[]);
}

fn follow(catalog: &Catalog, commits: &[SealedCommit]) {
    let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    counts.follow(catalog, commits);
    counts.publish();
}

/// Records the number of followed scopes and the oldest revision that followers can resume from.
pub(crate) fn feed(scopes: usize, oldest: Revision) {
    SCOPES.level([]).set(as_f64(scopes as u64));
    OLDEST_RETAINED.level([]).set(as_f64(oldest.0));
}

/// Records whether a relay follows its upstream registry.
pub(crate) fn upstream(is_connected: bool) {
    RELAY_CONNECTED.level([]).set(f64::from(u8::from(is_connected)));
}

/// Gauge of the followers that wait for a permit of a stage.
pub(crate) fn stage_waiting(stage: &'static str) -> Gauge {
    STAGE_WAITING.level([stage])
}

/// Gauge of the followers that hold a permit of a stage.
pub(crate) fn stage_active(stage: &'static str) -> Gauge {
    STAGE_ACTIVE.level([stage])
}

pub(crate) fn stream_ended(reason: &'static str) {
    STREAMS_ENDED.count([reason]).increment(1);
}

pub(crate) fn snapshot_sent(reason: &'static str) {
    SNAPSHOTS.count([reason]).increment(1);
}

/// Counts an encoded Sync message.
pub(crate) fn encoded(kind: &'static str) {
    MESSAGES_ENCODED.count([kind]).increment(1);
}

pub(crate) fn nack() {
    NACKS.count([]).increment(1);
}

/// Counts a change of TLS files.
pub(crate) fn tls_reloaded(outcome: &'static str) {
    TLS_RELOADS.count([outcome]).increment(1);
}

pub(crate) fn certificate_rejected() {
    CERTIFICATES_REJECTED.count([]).increment(1);
}

/// Records the duration of a request.
pub(crate) fn requested(method: &'static str, took: Duration) {
    REQUEST_DURATION.distribution([method]).record(took);
}

/// Counts an error response.
pub(crate) fn failed(reason: &'static str) {
    ERROR_RESPONSES.count([reason]).increment(1);
}

/// Records a transaction of the ledger.
pub(crate) fn ledger_posted(took: Duration) {
    LEDGER_TRANSACTION_DURATION.distribution([]).record(took);
}

/// Counts a report about an account.
pub(crate) fn ledger_report(outcome: &'static str) {
    LEDGER_REPORTS.count([outcome]).increment(1);
}

pub(crate) fn ledger_recalled(accounts: usize) {
    LEDGER_RECALLS.count([]).increment(u64::try_from(accounts).unwrap_or(u64::MAX));
}

pub(crate) fn ledger_generation_started() {
    LEDGER_GENERATIONS.count([]).increment(1);
}

/// Counts an amount beyond the limit of a budget. Negative amounts count as zero.
pub(crate) fn ledger_excess(term: &'static str, amount: Amount) {
    LEDGER_EXCESS.count([term]).increment(u64::try_from(amount.as_micros()).unwrap_or(0));
}

/// Counts rows of usage that were rejected.
pub(crate) fn usage_rejected(rows: usize) {
    USAGE_REJECTED.count([]).increment(u64::try_from(rows).unwrap_or(u64::MAX));
}

/// Counts alerts of budgets.
pub(crate) fn budget_alerts(event: &'static str, count: usize) {
    BUDGET_ALERTS.count([event]).increment(u64::try_from(count).unwrap_or(u64::MAX));
}

/// Counts a change of the state of an approval request.
pub(crate) fn approval_step(state: &'static str) {
    APPROVAL_STEPS.count([state]).increment(1);
}

/// Counts a message about an approval.
pub(crate) fn approval_message(event: &'static str) {
    APPROVAL_MESSAGES.count([event]).increment(1);
}

#[expect(clippy::cast_precision_loss, reason = "a count past 2^53 may lose its last digits")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use metric_table::MetricKind;
    use registry_core::{Change, Commit, Document, RegistryId};
    use serde_json::json;

    use super::*;

    #[test]
    fn entity_counts_follow_commits_and_skips() {
        let mut catalog = Catalog::empty(RegistryId::new("r"));
        let mut commits = Vec::new();
        for (kind, name) in [(Kind::Schema, "A"), (Kind::Schema, "B"), (Kind::Schema, "C")] {
            let value = json!({ "name": name, "version": "1.0.0", "schema": {} });
            let document = Arc::new(Document::parse(kind, &value).unwrap());
            let action = Action::register(document.digest());
            let changes = vec![Change { key: document.key().clone(), action }];
            let revision = catalog.revision().next();
            let commit = Commit { revision, changes, ..Commit::default() };
            let sealed = SealedCommit::seal(&catalog.chain(), commit, vec![document]).unwrap();
            catalog.apply(&sealed).unwrap();
            commits.push(sealed);
        }
        let schema = Kind::ALL.iter().position(|kind| *kind == Kind::Schema).unwrap();
        let mut followed = Counts::default();
        followed.follow(&catalog, &commits);
        assert_eq!(followed.0[schema], 3);
        let mut skipped = Counts::default();
        skipped.follow(&catalog, &commits[2..]);
        assert_eq!(skipped.0[schema], 3, "earlier commits are counted too");
    }

    #[test]
    fn metric_names_follow_prometheus_conventions() {
        let mut names = std::collections::BTreeSet::new();
        for Metric { name, kind, help, .. } in METRICS {
            assert!(name.starts_with("registry_") && names.insert(name), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == MetricKind::Counter, "{name}");
            assert!(!help.is_empty() && !help.ends_with('.'), "{name}: {help}");
        }
    }
}
