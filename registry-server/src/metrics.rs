//! What the server counts, for Prometheus. Each metric's help text stands beside its name.
//!
//! Labels have few values: outcomes, codes, reasons, methods; never names, ids or addresses.

use std::{
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use metrics::{
    Gauge, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use registry_core::{Action, Catalog, Diagnostic, Kind, Revision, SealedCommit};

const APPLIES: &str = "registry_applies_total";
const REFUSALS: &str = "registry_refusals_total";
const REPEATS: &str = "registry_repeated_requests_total";
const APPENDS: &str = "registry_append_seconds";
const GROUPS: &str = "registry_append_commits";
const COMMITS: &str = "registry_commits_total";
const CHANGES: &str = "registry_changes_total";
const REVISION: &str = "registry_revision";
const ENTITIES: &str = "registry_entities";
const CROWDED: &str = "registry_rejected_connections_total";
const WRITABLE: &str = "registry_database_writable";
const LISTENER_LOSSES: &str = "registry_listener_losses_total";
const STREAMS: &str = "registry_streams";
const SCOPES: &str = "registry_scopes";
const OLDEST: &str = "registry_oldest_delta_revision";
const LAG: &str = "registry_stream_lag_revisions_max";
const LAG_SECONDS: &str = "registry_stream_lag_seconds_max";
const REFUSING: &str = "registry_streams_refusing";
const UPSTREAM: &str = "registry_relay_following";
const WAITING: &str = "registry_streams_waiting";
const ADMITTED: &str = "registry_streams_admitted";
const STREAM_ENDS: &str = "registry_stream_ends_total";
const SNAPSHOTS: &str = "registry_snapshots_total";
const ENCODED: &str = "registry_sync_messages_encoded_total";
const NACKS: &str = "registry_nacks_total";
const REQUESTS: &str = "registry_request_seconds";
const INDEXED: &str = "registry_search_index_seconds";
const INDEX_SIZE: &str = "registry_search_index_entries";
const INDEX_REVISION: &str = "registry_search_index_revision";
const INDEX_FAILURES: &str = "registry_search_index_failures_total";
const TLS: &str = "registry_tls_changes_total";
const CERTIFICATES: &str = "registry_tls_refused_certificates_total";
const ERRORS: &str = "registry_errors_total";

/// How often samples are folded into histograms.
const UPKEEP: Duration = Duration::from_secs(5);

/// The recorder of this process, installed on first use.
pub fn recorder() -> &'static PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let seconds =
            [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
        let commits = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
        let builder = PrometheusBuilder::new();
        // Neither list is empty, which is all that is asked of buckets.
        let builder = builder.set_buckets(&seconds).expect("there are buckets");
        let groups = Matcher::Full(GROUPS.to_owned());
        let builder = builder.set_buckets_for_metric(groups, &commits).expect("there are buckets");
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        // Somebody who embeds the server may have a recorder already; then that one counts.
        let _ = metrics::set_global_recorder(recorder);
        describe();
        keep_up(handle.clone());
        handle
    })
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

fn describe() {
    describe_counter!(APPLIES, "Batches, by what became of them");
    describe_counter!(REFUSALS, "Findings of refused batches, by code");
    describe_counter!(REPEATS, "Retries that were answered with what the first request did");
    describe_histogram!(APPENDS, "Time to append a group to the log, by outcome");
    describe_histogram!(GROUPS, "Commits that shared one transaction");
    describe_counter!(COMMITS, "Commits published by this server, whoever made them");
    describe_counter!(CHANGES, "Changes of those commits");
    describe_gauge!(REVISION, "The revision that this server serves");
    describe_gauge!(ENTITIES, "Entities in the catalog, by kind");
    describe_histogram!(INDEXED, "Time to bring the search index to the catalog's revision");
    describe_gauge!(INDEX_SIZE, "Entries of the search index: terms and their places");
    describe_gauge!(INDEX_REVISION, "The revision that searches are answered from");
    describe_counter!(INDEX_FAILURES, "Updates and builds of the search index that failed");
    describe_gauge!(WRITABLE, "1 while the database takes writes, else 0");
    describe_counter!(LISTENER_LOSSES, "Lost connections that listened for other servers' commits");
    describe_gauge!(STREAMS, "Followers connected to this server");
    describe_gauge!(LAG, "Revisions that the slowest follower has yet to apply");
    describe_gauge!(SCOPES, "Different scopes that are kept up to date for followers");
    describe_gauge!(OLDEST, "Followers can have commits from this revision on; before, a snapshot");
    describe_gauge!(LAG_SECONDS, "For how long the slowest follower has been behind");
    describe_gauge!(REFUSING, "Followers that refuse the next revision");
    describe_gauge!(UPSTREAM, "In a relay: 1 while the registry is followed, else 0");
    describe_gauge!(WAITING, "Followers that wait for their turn, by what it is at");
    describe_gauge!(ADMITTED, "Followers whose turn it is, by what it is at");
    describe_counter!(STREAM_ENDS, "Ended streams, by reason");
    describe_counter!(
        SNAPSHOTS,
        "Snapshots sent, by reason: what the follower lacks is compacted, or another"
    );
    describe_counter!(ENCODED, "Messages of Sync that were encoded, by kind; streams share them");
    describe_counter!(NACKS, "Revisions that followers refused");
    describe_histogram!(REQUESTS, "Time to answer a request, by method; of streams, to begin");
    describe_counter!(TLS, "Changes of the files of TLS that were seen, by what became of them");
    describe_counter!(CERTIFICATES, "Connections refused for the certificate of the client");
    describe_counter!(
        CROWDED,
        "Connections closed because their address had as many as one address may have"
    );
    describe_counter!(ERRORS, "Failed requests, by reason");
}

/// A connection was closed because its address has too many.
pub(crate) fn connection_rejected() {
    counter!(CROWDED).increment(1);
}

/// A batch was answered.
pub(crate) fn applied(outcome: &'static str) {
    counter!(APPLIES, "outcome" => outcome).increment(1);
}

/// A batch was refused for these findings.
pub(crate) fn refused(found: &[Diagnostic]) {
    for diagnostic in found.iter().filter(|diagnostic| diagnostic.is_error()) {
        counter!(REFUSALS, "code" => diagnostic.code.as_str()).increment(1);
    }
}

/// A retry was recognized.
pub(crate) fn repeated() {
    counter!(REPEATS).increment(1);
}

/// A group was appended, or not.
pub(crate) fn appended(took: Duration, outcome: &'static str, commits: usize) {
    histogram!(APPENDS, "outcome" => outcome).record(took);
    histogram!(GROUPS).record(as_f64(commits as u64));
}

/// Commits became visible.
pub(crate) fn published(catalog: &Catalog, commits: &[SealedCommit]) {
    counter!(COMMITS).increment(commits.len() as u64);
    let changes: usize = commits.iter().map(|commit| commit.commit().changes.len()).sum();
    counter!(CHANGES).increment(changes as u64);
    gauge!(REVISION).set(as_f64(catalog.revision().0));
    follow(catalog, commits);
}

/// The search index reached this revision. `terms` and `places` are its size.
pub(crate) fn indexed(revision: Revision, took: Duration, (terms, places): (usize, usize)) {
    histogram!(INDEXED).record(took);
    gauge!(INDEX_REVISION).set(as_f64(revision.0));
    gauge!(INDEX_SIZE, "of" => "terms").set(as_f64(terms as u64));
    gauge!(INDEX_SIZE, "of" => "places").set(as_f64(places as u64));
}

/// The search index could not be brought to the catalog's revision.
pub(crate) fn index_failed() {
    counter!(INDEX_FAILURES).increment(1);
}

/// The database takes writes, or does not.
pub(crate) fn database(is_writable: bool) {
    gauge!(WRITABLE).set(f64::from(u8::from(is_writable)));
}

/// The connection that listens for other servers' commits was lost.
pub(crate) fn listener_lost(how: &'static str) {
    counter!(LISTENER_LOSSES, "how" => how).increment(1);
}

/// The state of this server's followers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Followers {
    /// The number of followers.
    pub connected: usize,
    /// The number of followers that reject the next revision.
    pub refusing: usize,
    /// Revisions that the slowest follower has yet to apply.
    pub lag: u64,
    /// Milliseconds since the slowest follower fell behind. It is a lower bound if the commit after
    /// its revision is no longer in memory.
    pub lag_millis: u64,
}

/// Values that are computed for a scrape.
pub(crate) fn observe(revision: Revision, followers: Followers) {
    gauge!(REVISION).set(as_f64(revision.0));
    let Followers { connected, refusing, lag, lag_millis } = followers;
    gauge!(STREAMS).set(as_f64(connected as u64));
    gauge!(REFUSING).set(as_f64(refusing as u64));
    gauge!(LAG).set(as_f64(lag));
    gauge!(LAG_SECONDS).set(Duration::from_millis(lag_millis).as_secs_f64());
}

/// Entities of each kind, in the order of [`Kind::ALL`].
#[derive(Debug, Default)]
struct Counts([usize; Kind::ALL.len()]);

impl Counts {
    /// Adds what these commits registered. All entities are counted only where that does not give the
    /// catalog, as after a relay has skipped commits.
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

    fn show(&self) {
        for (kind, count) in Kind::ALL.iter().zip(self.0) {
            gauge!(ENTITIES, "kind" => kind.as_str()).set(as_f64(count as u64));
        }
    }
}

static COUNTS: Mutex<Counts> = Mutex::new(Counts([0; Kind::ALL.len()]));

/// A catalog was read.
pub(crate) fn count(catalog: &Catalog) {
    follow(catalog, &[]);
}

fn follow(catalog: &Catalog, commits: &[SealedCommit]) {
    let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    counts.follow(catalog, commits);
    counts.show();
}

/// Scopes that are kept up to date, and the oldest commit that followers can have.
pub(crate) fn feed(scopes: usize, oldest: Revision) {
    gauge!(SCOPES).set(as_f64(scopes as u64));
    gauge!(OLDEST).set(as_f64(oldest.0));
}

/// A relay follows its registry, or does not.
pub(crate) fn upstream(is_followed: bool) {
    gauge!(UPSTREAM).set(f64::from(u8::from(is_followed)));
}

/// Whether a follower's turn has come.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stage {
    /// Others come first.
    Waiting,
    /// It has.
    Admitted,
}

/// How many followers wait for, or have, their turn at some work.
pub(crate) fn turns(stage: Stage, work: &'static str) -> Gauge {
    match stage {
        Stage::Waiting => gauge!(WAITING, "at" => work),
        Stage::Admitted => gauge!(ADMITTED, "at" => work),
    }
}

/// A stream ended.
pub(crate) fn stream_ended(reason: &'static str) {
    counter!(STREAM_ENDS, "reason" => reason).increment(1);
}

/// A snapshot was begun.
pub(crate) fn snapshot(reason: &'static str) {
    counter!(SNAPSHOTS, "reason" => reason).increment(1);
}

/// A message of Sync was encoded.
pub(crate) fn encoded(kind: &'static str) {
    counter!(ENCODED, "kind" => kind).increment(1);
}

/// A follower refused a revision.
pub(crate) fn nack() {
    counter!(NACKS).increment(1);
}

/// The files of TLS have changed, and were taken or refused.
pub(crate) fn tls_changed(outcome: &'static str) {
    counter!(TLS, "outcome" => outcome).increment(1);
}

/// A client's certificate was refused.
pub(crate) fn certificate_refused() {
    counter!(CERTIFICATES).increment(1);
}

/// A request was answered.
pub(crate) fn requested(method: &'static str, took: Duration) {
    histogram!(REQUESTS, "method" => method).record(took);
}

/// A request failed.
pub(crate) fn failed(reason: &'static str) {
    counter!(ERRORS, "reason" => reason).increment(1);
}

#[expect(clippy::cast_precision_loss, reason = "a count past 2^53 may lose its last digits")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
            let action = Action::Register { digest: document.digest(), owner: None };
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
        assert_eq!(skipped.0[schema], 3, "the commits before are counted too");
    }
}
