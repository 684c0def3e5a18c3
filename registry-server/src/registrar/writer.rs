//! The writer's loop: wait, form a group, append it, publish it, answer.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use registry_core::{ChainHash, SealedCommit, Timestamp};
use retry_backoff::{full_jitter, jittered_by};
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{
    Database, Error, Parts, RegistrarConfig,
    group::{Budget, Group, Member},
    log::{Appended, Log, Position, Source},
    waiting::Waiting,
};
use crate::{
    clock::Clock,
    feed::Hub,
    metrics,
    store::{self, Hold},
};

/// Most bytes of documents in one transaction.
const GROUP_BYTES: usize = 32 << 20;
/// How often a lost database is tried.
const RETRY: Duration = Duration::from_secs(1);
/// So many lost races are chance.
const LOSSES: u32 = 3;
/// Longest wait before the next attempt after another server came first. It does not grow: who
/// waits longer than the other loses again.
const BACKOFF: Duration = Duration::from_millis(2);

pub(super) struct Writer {
    pub(super) log: Log,
    pub(super) hub: Arc<Hub>,
    pub(super) database: watch::Sender<Database>,
    pub(super) last_commit_at: Timestamp,
    /// When the log was last seen to end no earlier than what is served.
    pub(super) proved_at: Instant,
    /// Own commits of which nobody knows whether they were stored.
    pub(super) unsure: HashSet<ChainHash>,
    clock: Arc<dyn Clock>,
    config: RegistrarConfig,
}

/// Whether a group is through.
enum Progress {
    Done,
    Again,
}

impl Writer {
    pub(super) async fn new(
        Parts { store, hub, clock, config }: Parts,
        database: watch::Sender<Database>,
    ) -> Result<Self, store::Error> {
        let (timeout, patience) = (config.database_timeout, config.lost_write_patience);
        let log = Log { store, timeout, patience };
        let head = hub.catalog().revision();
        let last = log.timed(log.store.commit(head)).await?;
        let last_commit_at = last.map_or(Timestamp::default(), |last| last.commit.committed_at);
        let (unsure, proved_at) = (HashSet::new(), Instant::now());
        Ok(Self { log, hub, database, last_commit_at, proved_at, unsure, clock, config })
    }

    /// Runs until it is closed and everything that waited is answered.
    pub(super) async fn run(
        mut self,
        mut queue: mpsc::Receiver<Waiting>,
        closing: CancellationToken,
    ) {
        let (mut waiting, mut taken) = (VecDeque::new(), Vec::new());
        let hub = self.hub.clone();
        loop {
            if waiting.is_empty() {
                tokio::select! {
                    biased;
                    count = queue.recv_many(&mut taken, self.config.write_group) => {
                        if count == 0 { return }
                    }
                    () = closing.cancelled(), if !queue.is_closed() => queue.close(),
                    () = hub.refresh_requested() => self.catch_up().await,
                    () = sleep(self.pause()) => self.catch_up().await,
                }
            }
            while waiting.len() + taken.len() < self.config.write_group
                && let Ok(next) = queue.try_recv()
            {
                taken.push(next);
            }
            waiting.extend(taken.drain(..));
            if !waiting.is_empty() {
                self.settle(&mut waiting).await;
            }
        }
    }

    /// The time that a commit of now gets.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now().max(self.last_commit_at)
    }

    /// How often other servers' commits are looked for.
    pub(super) fn poll_interval(&self) -> Duration {
        self.config.poll_interval
    }

    fn pause(&self) -> Duration {
        let is_lost = self.database.borrow().refusal().is_some();
        jittered_by(if is_lost { RETRY } else { self.poll_interval() }, 0.1)
    }

    /// Decides and stores a group from the front of the queue, again while others come first.
    async fn settle(&mut self, queue: &mut VecDeque<Waiting>) {
        let attempts = self.config.write_attempts.max(1);
        for attempt in 0..attempts {
            if attempt > 0 {
                sleep(full_jitter(BACKOFF)).await;
            }
            let hold = self.hold_if_losing(attempt).await;
            if let Progress::Done = self.attempt(queue, hold).await {
                return;
            }
            let lost = self.database.borrow().refusal().cloned();
            if let Some(error) = lost {
                return queue.drain(..).for_each(|w| w.fail(Error::Database(error.clone())));
            }
        }
        let group = queue.len().min(self.config.write_group);
        queue.drain(..group).for_each(|waiting| waiting.fail(Error::Contended { attempts }));
    }

    /// Whoever is slower loses every race; after some it takes its turn, and others wait.
    async fn hold_if_losing(&mut self, losses: u32) -> Option<Hold> {
        if losses < LOSSES {
            return None;
        }
        let hold = Box::pin(self.log.timed(self.log.store.hold())).await.ok()??;
        self.catch_up().await;
        Some(hold)
    }

    async fn attempt(&mut self, queue: &mut VecDeque<Waiting>, hold: Option<Hold>) -> Progress {
        let Some(group) = self.form(queue).await else { return Progress::Done };
        if group.commits.is_empty() {
            return self.answer_confirmed(queue, group.base, group.members).await;
        }
        let began = Instant::now();
        let outcome =
            self.log.append(Source::Here(&group.events), hold, group.base.0, &group.commits).await;
        metrics::appended(began.elapsed(), outcome.label(), group.commits.len());
        match outcome {
            Appended::Stored => {
                self.unsure.clear();
                self.set_database(Database::Writable);
                self.publish(group.catalog, group.commits);
                self.answer_each(group.members).await;
                Progress::Done
            }
            Appended::Behind => {
                put_back(queue, group.members);
                self.catch_up().await;
                Progress::Again
            }
            Appended::RequestIdTaken(request) => {
                let is_taken = |m: &Member| m.waiting.request().as_ref() == Some(&request);
                let (taken, others) = group.members.into_iter().partition(is_taken);
                put_back(queue, others);
                self.catch_up().await;
                let expired = self.answer_repeats(taken).await;
                put_back(queue, expired);
                // Nobody came first for the others, so that is no attempt of theirs.
                Progress::Done
            }
            Appended::Failed(error, cause) => {
                if let Error::OutcomeUnknown = error {
                    self.unsure.extend(group.commits.iter().map(SealedCommit::chain));
                }
                self.note_failure(cause.clone());
                let (settled, pending): (Vec<_>, Vec<_>) =
                    group.members.into_iter().partition(Member::is_settled);
                for member in pending {
                    member.waiting.fail(error.clone());
                }
                if let store::Error::Unavailable { .. } = cause {
                    // The head cannot be confirmed either. A settled member writes nothing.
                    fail(settled, &cause);
                    return Progress::Done;
                }
                self.answer_confirmed(queue, group.base, settled).await
            }
        }
    }

    /// Answers members that commit nothing, if the log still ends where their group was formed.
    /// Otherwise their verdicts may be stale, and they are decided again.
    async fn answer_confirmed(
        &mut self,
        queue: &mut VecDeque<Waiting>,
        base: Position,
        members: Vec<Member>,
    ) -> Progress {
        if members.is_empty() {
            return Progress::Done;
        }
        match self.log.ends_at(base).await {
            Ok(true) => {
                self.answer_each(members).await;
                Progress::Done
            }
            Ok(false) => {
                put_back(queue, members);
                self.catch_up().await;
                Progress::Again
            }
            Err(error) => {
                self.set_database(Database::ReadOnly(error.clone()));
                fail(members, &error);
                Progress::Done
            }
        }
    }

    /// Forms a group beside the runtime, because validation may take a while.
    async fn form(&self, queue: &mut VecDeque<Waiting>) -> Option<Group> {
        let catalog = self.hub.catalog();
        let now = self.now();
        let budget = Budget { commits: self.config.write_group, bytes: GROUP_BYTES };
        let mut waiting = std::mem::take(queue);
        let forming = tokio::task::spawn_blocking(move || {
            let group = Group::form(&catalog, &mut waiting, budget, now);
            (group, waiting)
        });
        match forming.await {
            Ok((group, rest)) => {
                *queue = rest;
                Some(group)
            }
            Err(panic) => {
                tracing::error!(error = %panic, "deciding a group of writes failed; nothing of it was stored");
                None
            }
        }
    }
}

/// Answers members that wrote nothing because of the database.
fn fail(members: Vec<Member>, error: &store::Error) {
    for member in members {
        member.waiting.fail(Error::Database(error.clone()));
    }
}

/// Puts members back to the front of the queue, in their order.
fn put_back(queue: &mut VecDeque<Waiting>, members: Vec<Member>) {
    for member in members.into_iter().rev() {
        queue.push_front(member.waiting);
    }
}
