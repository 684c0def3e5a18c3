//! The writer's loop: receive batches, form a group, append, publish, return results.

use std::{
    collections::{HashSet, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use registry_core::{
    Catalog, ChainHash, Document, Key, Kind, SealedCommit, Timestamp, rules::Proposed,
};
use retry_backoff::{full_jitter, jittered_by};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{mpsc, watch},
    task::{block_in_place, spawn_blocking},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{
    Database, Error, Parts, RegistrarConfig, audit_events,
    group::{Budget, Group, Member, Verdict},
    log::{AppendOutcome, Log, Position, Source},
    waiting::{Waiting, bytes},
};
use crate::{
    clock::Clock,
    feed::Hub,
    metrics,
    store::{self, HeadLock},
};

/// Maximum bytes of documents in one transaction.
const GROUP_BYTES: usize = 32 << 20;
/// Interval between attempts to reach a lost database.
const DATABASE_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Changes of one group above which the content digest is computed on another thread, and earlier commits are indexed at
/// the same time.
const MANY_CHANGES: usize = 64;
/// Bytes of documents above which their parsed form is freed on another thread.
const MANY_BYTES: usize = 256 << 10;
/// Maximum bytes of the registrations that are validated without another thread for the other tasks.
const SHORT_VALIDATION_BYTES: usize = 8 << 10;
/// Conflicts of one group before the writer locks the head row.
const CONFLICTS_BEFORE_LOCK: u32 = 3;
/// Maximum delay before the next attempt after a conflict. It does not grow, because the server with the
/// longer delay would lose again.
const CONFLICT_BACKOFF: Duration = Duration::from_millis(2);

pub(super) struct Writer {
    pub(super) log: Log,
    pub(super) hub: Arc<Hub>,
    pub(super) database: watch::Sender<Database>,
    pub(super) last_commit_at: Timestamp,
    /// Time of the last check that the log contains the served head.
    pub(super) verified_at: Instant,
    /// Own commits with an unknown outcome.
    pub(super) unknown_outcomes: HashSet<ChainHash>,
    clock: Arc<dyn Clock>,
    config: RegistrarConfig,
}

/// Result of one attempt to commit a group.
enum Attempt {
    Done,
    Retry,
}

impl Writer {
    pub(super) async fn new(
        Parts { store, hub, clock, config }: Parts,
        database: watch::Sender<Database>,
    ) -> Result<Self, store::Error> {
        let (timeout, outcome_timeout) = (config.database_timeout, config.write_outcome_timeout);
        let log = Log { store, timeout, outcome_timeout };
        let head = hub.catalog().revision();
        let last = log.timed(log.store.commit(head)).await?;
        let last_commit_at = last.map_or(Timestamp::default(), |last| last.commit.committed_at);
        let (unknown_outcomes, verified_at) = (HashSet::new(), Instant::now());
        Ok(Self {
            log,
            hub,
            database,
            last_commit_at,
            verified_at,
            unknown_outcomes,
            clock,
            config,
        })
    }

    /// Runs until closed, then finishes the queued writes.
    pub(super) async fn run(
        mut self,
        mut queue: mpsc::Receiver<Waiting>,
        closing: CancellationToken,
    ) {
        let (mut waiting, mut received) = (VecDeque::new(), Vec::new());
        let hub = self.hub.clone();
        loop {
            if waiting.is_empty() {
                tokio::select! {
                    biased;
                    count = queue.recv_many(&mut received, self.config.write_group) => {
                        if count == 0 { return }
                    }
                    () = closing.cancelled(), if !queue.is_closed() => queue.close(),
                    () = hub.refresh_requested() => self.catch_up().await,
                    () = sleep(self.pause()) => self.catch_up().await,
                }
            }
            while waiting.len() + received.len() < self.config.write_group
                && let Ok(next) = queue.try_recv()
            {
                received.push(next);
            }
            waiting.extend(received.drain(..));
            if !waiting.is_empty() {
                self.commit(&mut waiting).await;
            }
        }
    }

    /// Time of a new commit, never before the previous one.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now().max(self.last_commit_at)
    }

    /// Interval between checks for commits of other servers.
    pub(super) fn poll_interval(&self) -> Duration {
        self.config.poll_interval
    }

    fn pause(&self) -> Duration {
        let is_lost = self.database.borrow().write_failure().is_some();
        jittered_by(if is_lost { DATABASE_RETRY_INTERVAL } else { self.poll_interval() }, 0.1)
    }

    /// Commits a group from the front of the queue, with retries after conflicts.
    async fn commit(&mut self, queue: &mut VecDeque<Waiting>) {
        let attempts = self.config.write_attempts.max(1);
        for attempt in 0..attempts {
            if attempt > 0 {
                sleep(full_jitter(CONFLICT_BACKOFF)).await;
            }
            let lock = self.lock_after_conflicts(attempt).await;
            if let Attempt::Done = self.attempt(queue, lock).await {
                return;
            }
            let lost = self.database.borrow().write_failure().cloned();
            if let Some(error) = lost {
                return queue.drain(..).for_each(|w| w.fail(Error::Database(error.clone())));
            }
        }
        let group = queue.len().min(self.config.write_group);
        queue.drain(..group).for_each(|waiting| waiting.fail(Error::Contended { attempts }));
    }

    /// Locks the head row after several conflicts, because a slow server would lose every race.
    async fn lock_after_conflicts(&mut self, conflicts: u32) -> Option<HeadLock> {
        if conflicts < CONFLICTS_BEFORE_LOCK {
            return None;
        }
        let lock = Box::pin(self.log.timed(self.log.store.lock_head())).await.ok()??;
        self.catch_up().await;
        Some(lock)
    }

    async fn attempt(&mut self, queue: &mut VecDeque<Waiting>, lock: Option<HeadLock>) -> Attempt {
        let stored = self.hub.catalog();
        let Some(group) = self.form(&stored, queue) else { return Attempt::Done };
        let Group { base, catalog, commits, events, members, parsed } = group;
        if commits.is_empty() {
            return self.answer_confirmed(queue, base, members).await;
        }
        let began = Instant::now();
        let changes: usize = commits.iter().map(|commit| commit.commit().changes.len()).sum();
        let appending = self.log.append(Source::Local(&events), lock, base.0, &commits);
        // The signature of the state needs the digest of its content. Freeing parsed documents and indexing earlier
        // commits would otherwise delay the validation of the next large batch.
        let meanwhile = async {
            let catalog = with_content_digest(catalog, stored, parsed, changes).await;
            if changes > MANY_CHANGES {
                self.hub.end_index_delay();
            }
            catalog
        };
        let (outcome, catalog) = tokio::join!(biased; appending, meanwhile);
        metrics::appended(began.elapsed(), outcome.label(), commits.len());
        match outcome {
            AppendOutcome::Stored => {
                self.unknown_outcomes.clear();
                self.set_database(Database::Writable);
                let committing = |m: &&Member| matches!(m.verdict, Verdict::Commits(..));
                for (sealed, member) in commits.iter().zip(members.iter().filter(committing)) {
                    audit_events::committed(sealed, &member.waiting.submission.address);
                }
                self.publish(catalog, commits);
                self.answer_each(members).await;
                Attempt::Done
            }
            AppendOutcome::Conflict => {
                put_back(queue, members);
                self.catch_up().await;
                Attempt::Retry
            }
            AppendOutcome::RequestIdTaken(request) => {
                let is_repeated = |m: &Member| m.waiting.request().as_ref() == Some(&request);
                let (repeated, others) = members.into_iter().partition(is_repeated);
                put_back(queue, others);
                self.catch_up().await;
                let expired = self.answer_repeats(repeated).await;
                put_back(queue, expired);
                // The other members had no conflict, so this is not an attempt of theirs.
                Attempt::Done
            }
            AppendOutcome::Failed(error, cause) => {
                if let Error::OutcomeUnknown = error {
                    self.unknown_outcomes.extend(commits.iter().map(SealedCommit::chain));
                }
                self.note_failure(cause.clone());
                let (settled, pending): (Vec<_>, Vec<_>) =
                    members.into_iter().partition(Member::is_settled);
                for member in pending {
                    member.waiting.fail(error.clone());
                }
                if let store::Error::Unavailable { .. } = cause {
                    // The head cannot be confirmed either. A settled member has written nothing.
                    fail(settled, &cause);
                    return Attempt::Done;
                }
                self.answer_confirmed(queue, base, settled).await
            }
        }
    }

    /// Returns results to members without a commit if the log still ends at the base of their group.
    /// Otherwise their verdicts may be stale, and they are decided again.
    async fn answer_confirmed(
        &mut self,
        queue: &mut VecDeque<Waiting>,
        base: Position,
        members: Vec<Member>,
    ) -> Attempt {
        if members.is_empty() {
            return Attempt::Done;
        }
        match self.log.ends_at(base).await {
            Ok(true) => {
                self.answer_each(members).await;
                Attempt::Done
            }
            Ok(false) => {
                put_back(queue, members);
                self.catch_up().await;
                Attempt::Retry
            }
            Err(error) => {
                self.set_database(Database::ReadOnly(error.clone()));
                fail(members, &error);
                Attempt::Done
            }
        }
    }

    /// Forms a group on this thread, because waking another one and waiting for it takes longer than the validation
    /// of a single registration. Another thread continues the other tasks during a long validation.
    fn form(&self, stored: &Catalog, queue: &mut VecDeque<Waiting>) -> Option<Group> {
        let now = self.now();
        let budget = Budget { commits: self.config.write_group, bytes: GROUP_BYTES };
        let mut waiting = std::mem::take(queue);
        let is_short = is_short(stored, &waiting);
        let forming = || {
            let group = Group::form(stored, &mut waiting, budget, now);
            (group, waiting)
        };
        let validating = || catch_unwind(AssertUnwindSafe(forming));
        let formed = if is_short { validating() } else { in_place(validating) };
        let Ok((group, rest)) = formed else {
            // The hook of panics has logged the message.
            tracing::error!("panic while forming a group of writes; none was stored");
            return None;
        };
        *queue = rest;
        Some(group)
    }
}

/// Whether the queue has only registrations whose validation is short: few bytes, no references, new names and no
/// regular expressions. Referenced documents and compared versions can have any size, and policies
/// and other changes can affect any number of entities.
fn is_short(stored: &Catalog, queue: &VecDeque<Waiting>) -> bool {
    let submissions = || queue.iter().map(|waiting| &waiting.submission);
    let size: usize = submissions().map(bytes).sum();
    let mut names = HashSet::new();
    size <= SHORT_VALIDATION_BYTES
        && submissions().all(|submission| submission.settings.is_empty())
        && submissions().flat_map(|submission| &submission.batch).all(|change| {
            let Proposed::Register(document) = change else { return false };
            let Key { kind, name, .. } = document.key();
            *kind != Kind::Policy
                && document.edges().is_empty()
                && names.insert((kind, name))
                && stored.versions(*kind, name).next().is_none()
                && !document.may_have_pattern()
        })
}

/// Runs CPU-bound work on this thread. A runtime with a single thread has no other for its tasks meanwhile.
fn in_place<T>(work: impl FnOnce() -> T) -> T {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        work()
    } else {
        block_in_place(work)
    }
}

/// Computes the content digest of a catalog from that of the stored one, and frees the parsed documents. A panic must
/// not end the writer, because an append is in flight.
async fn with_content_digest(
    catalog: Catalog,
    stored: Arc<Catalog>,
    parsed: Vec<Arc<Document>>,
    changes: usize,
) -> Catalog {
    let without_content = catalog.without_content();
    let bytes: usize = parsed.iter().map(|document| document.bytes().len()).sum();
    let is_long = changes > MANY_CHANGES || bytes > MANY_BYTES;
    let work = move || {
        let catalog = catalog.with_content_since(&stored);
        catalog.content_digest();
        drop(parsed);
        catalog
    };
    let computed = unless_panic(is_long, work).await;
    computed.unwrap_or_else(|| {
        // The hook of panics has logged the message.
        tracing::error!("panic while computing a content digest; its first use computes it again");
        without_content
    })
}

/// Runs work on this thread, or on another one if it is long. `None`: the work panicked.
async fn unless_panic<T: Send + 'static>(
    is_long: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if is_long {
        spawn_blocking(work).await.ok()
    } else {
        catch_unwind(AssertUnwindSafe(work)).ok()
    }
}

/// Fails members because of a database failure.
fn fail(members: Vec<Member>, error: &store::Error) {
    for member in members {
        member.waiting.fail(Error::Database(error.clone()));
    }
}

/// Returns members to the front of the queue, in order.
fn put_back(queue: &mut VecDeque<Waiting>, members: Vec<Member>) {
    for member in members.into_iter().rev() {
        queue.push_front(member.waiting);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;
    use registry_core::RegistryId;
    use serde_json::{Value, json};

    use super::{super::group::testing::registration, *};
    use crate::{
        clock::SystemClock,
        feed::testing::hub_of,
        flags::testing::defaults,
        store::{DatabaseUrl, Store},
    };

    fn schema(name: &str, version: &str, schema: &Value) -> Arc<Document> {
        let value = json!({ "name": name, "version": version, "schema": schema });
        Arc::new(Document::parse(Kind::Schema, &value).unwrap())
    }

    #[test]
    fn validation_is_short_without_references_versions_and_patterns() {
        let waiting = |document: &Arc<Document>| registration(document.clone(), "");
        let plain = schema("A", "1.0.0", &json!({ "type": "string" }));
        let mut stored = Catalog::empty(RegistryId::new("r"));
        let is_short_of = |stored: &Catalog, documents: &[&Arc<Document>]| {
            is_short(stored, &documents.iter().map(|&document| waiting(document)).collect())
        };
        let other = schema("B", "1.0.0", &json!({ "title": "a pattern" }));
        assert!(is_short_of(&stored, &[&plain, &other]));
        let next = schema("A", "1.1.0", &json!({}));
        assert!(!is_short_of(&stored, &[&plain, &next]), "versions are compared");
        for long in [
            json!({ "$ref": "#B:1.0.0" }),
            json!({ "pattern": "a" }),
            json!({ "properties": { "a": { "patternProperties": { "b": {} } } } }),
            json!({ "description": "x".repeat(SHORT_VALIDATION_BYTES) }),
        ] {
            assert!(!is_short_of(&stored, &[&schema("C", "1.0.0", &long)]), "{long}");
        }
        let budget = Budget { commits: 1, bytes: usize::MAX };
        let mut queue = VecDeque::from([waiting(&plain)]);
        stored = Group::form(&stored, &mut queue, budget, Timestamp::default()).catalog;
        assert!(is_short_of(&stored, &[&other]) && !is_short_of(&stored, &[&next]));
    }

    #[tokio::test]
    async fn large_commit_ends_delay_of_index() {
        let directory = tempfile::tempdir().unwrap();
        let url = DatabaseUrl::sqlite(directory.path().join("registry.db"));
        let store = Store::open(&url).await.unwrap();
        let hub = Arc::new(hub_of(store.load().await.unwrap()));
        let (clock, config) = (Arc::new(SystemClock), defaults());
        let parts = Parts { store, hub: hub.clone(), clock, config };
        let (database, _) = watch::channel(Database::Writable);
        let mut writer = Writer::new(parts, database).await.unwrap();
        let delay_end = hub.index_delay_end();
        for (revision, changes) in [(1, MANY_CHANGES), (2, MANY_CHANGES + 1)] {
            let document = |number: usize| {
                schema(&format!("S{number}"), &format!("{revision}.0.0"), &json!({}))
            };
            let mut waiting = registration(document(0), "");
            waiting.submission.batch.extend((1..changes).map(|n| Proposed::Register(document(n))));
            let mut ended = pin!(delay_end.notified());
            ended.as_mut().enable();
            writer.commit(&mut VecDeque::from([waiting])).await;
            assert_eq!(hub.catalog().revision().0, revision);
            assert_eq!(ended.now_or_never().is_some(), changes > MANY_CHANGES, "{changes}");
        }
    }

    #[tokio::test]
    async fn panic_in_digest_is_caught() {
        for is_long in [false, true] {
            let defect = || -> u64 { panic!("a defect") };
            assert_eq!(unless_panic(is_long, defect).await, None);
            assert_eq!(unless_panic(is_long, || 1_u64).await, Some(1));
        }
    }
}
