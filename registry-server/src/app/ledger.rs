//! Budgets and fleet rates: reports of gateways, recalls of idle rights, alerts, and the tasks of operators. Usage of
//! tools. Execution graphs.
//!
//! Reports that arrive during a transaction wait in a queue, and share the next one. Rules come from the policies in
//! force.

mod admin;
mod alerts;
mod clock;
mod recall_streams;
mod recalls;
mod rules;
mod settings;
mod subjects;
mod traces;
mod upstream;
mod usage;
mod webhook;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    mem,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use aws_lc_rs::hmac;
use ledger::{
    AccountAnswer, AccountReport, AccountState, Answer, Epoch, GatewayAccount, ProcessOwner,
    Refusal, Rejection, Report, UNREACHABLE_AFTER,
};
use registry_core::{Amount, Key, Timestamp};
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use self::{
    admin::{
        Adjustment, Budget, BudgetAccount, BudgetDetail, BudgetList, BudgetSelector, BudgetsWanted,
        Error as AdminError, MAX_ACCOUNTS, Reclamation, Recovery,
    },
    recall_streams::{TooManyWatchers, Watcher},
    settings::LedgerConfig,
    subjects::UnknownSubject,
    traces::TraceWanted,
    upstream::UpstreamLedger,
    webhook::InvalidWebhook,
};
use self::{
    alerts::Alerts,
    clock::{LedgerClock, MAX_LAG, READING_INTERVAL},
    recalls::Recalls,
    rules::{Rules, RulesCache},
};
use crate::{
    app::concurrency::ConcurrencyLimit,
    clock::Clock,
    feed::Hub,
    metrics,
    store::{
        self, BookKey, BookPosting, BookReports, BookTerms, GenerationCause, LedgerAges,
        LedgerFailure, OpenWindow, PostContext, PostRequest, Posting, SeenState, Store,
    },
};

/// Maximum number of accounts in one transaction.
const BATCH: usize = 256;
/// Maximum number of generations that a transaction starts.
const ATTEMPTS: usize = 3;
/// The stored time of the last contact is at most this much older than the contact. A write for each report would
/// double their cost.
const CONTACT_PRECISION: Duration = Duration::from_secs(1);
/// A process without open accounts reports every 30 seconds only. It has stopped if it is silent for this time.
const IDLE_SILENCE: Duration = Duration::from_secs(40);
/// How long closed accounts and windows that are over are kept. Gateways repeat the reports of closed accounts for 24
/// hours.
const RETENTION: Duration = Duration::from_hours(25);
/// How long the end of a process is kept after its last report. A gateway that starts later with the same disk charges
/// its last process again.
const ENDED_RETENTION: Duration = Duration::from_hours(400 * 24);
/// How long windows of fleet rates that are over are kept.
const RATE_RETENTION: Duration = Duration::from_mins(1);
/// Interval between deletions. A window of a rate can be as short as a second.
const EXPIRY_INTERVAL: Duration = Duration::from_mins(1);
/// Delay before the listener for recalls reconnects.
const LISTENER_DELAY: Duration = Duration::from_secs(1);
/// Minimum time between warnings about reports of gateways.
const WARNING_INTERVAL: Duration = Duration::from_mins(1);
/// Maximum number of concurrent queries of usage, so that they leave connections of the database to other reads.
const USAGE_QUERIES: usize = 2;
/// The same for the calls of traces.
const TRACE_QUERIES: usize = 2;

/// A failed report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A report of a generation that the ledger cannot have had.
    #[error(
        "generation {0} is unknown to this registry; connect the gateway to its own registry, or restart it"
    )]
    UnknownGeneration(u64),
    /// A report in the name of another gateway that concerns several processes. The others would be charged again.
    #[error(
        "the process belongs to gateway {0}, and the report concerns other processes, too; send a report for each \
         process, as gateways of this version do"
    )]
    SeveralProcesses(String),
    /// The end of a process that still reports, from another gateway.
    #[error(
        "process {process} of gateway {gateway} still reports, and another gateway cannot end it; delete PATH.spend \
         if it is a copy, or repeat the report after the process has stopped"
    )]
    ProcessRunning {
        /// The owner of the process.
        gateway: String,
        /// The process.
        process: Epoch,
    },
    /// Too many streams of recalls.
    #[error(transparent)]
    TooManyWatchers(#[from] TooManyWatchers),
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The task of the transaction stopped, or the database lost transactions repeatedly.
    #[error("the transaction of the ledger did not complete; repeat the message")]
    Incomplete,
    /// The upstream registry of a relay did not answer.
    #[error("the relay cannot forward to its upstream registry {upstream}: {reason}")]
    Upstream {
        /// Addresses of the upstream registry.
        upstream: String,
        /// The reason.
        reason: String,
    },
    /// The upstream registry of a relay rejected the message.
    #[error("the upstream registry rejected the message: {0}")]
    Rejected(String),
}

impl Error {
    /// Whether the rows or reports of one budget can be the cause, and not the whole database.
    fn may_concern_one_budget(&self) -> bool {
        let Self::Store(error) = self else { return false };
        matches!(error, store::Error::StatementRejected { .. } | store::Error::Corrupt { .. })
    }
}

impl From<LedgerFailure> for Error {
    fn from(failure: LedgerFailure) -> Self {
        match failure {
            LedgerFailure::Lost => Self::Incomplete,
            LedgerFailure::UnknownGeneration(number) => Self::UnknownGeneration(number),
            LedgerFailure::Store(error) => Self::Store(error),
        }
    }
}

/// The ledger that the gateways of this server use.
#[derive(Clone)]
pub enum GatewayLedger {
    /// The ledger of this registry.
    Own(Arc<Ledger>),
    /// The ledger of the upstream registry, at a relay.
    Upstream(Arc<UpstreamLedger>),
}

impl GatewayLedger {
    /// Starts the tasks of the ledger, until the server drains.
    pub fn start(&self, draining: CancellationToken) {
        match self {
            Self::Own(ledger) => ledger.start(&draining),
            Self::Upstream(ledger) => ledger.start(draining),
        }
    }

    /// Merges a report of an authenticated gateway and grants what it requests.
    pub async fn report(&self, gateway: &Arc<str>, report: Report) -> Result<Answer, Error> {
        match self {
            Self::Own(ledger) => ledger.report(gateway, report).await,
            Self::Upstream(ledger) => ledger.report(gateway, &report).await,
        }
    }

    /// The recalls of idle rights. The channel closes when a relay loses its upstream.
    pub async fn watch_recalls(
        &self,
        watcher: &Watcher,
    ) -> Result<mpsc::Receiver<Vec<GatewayAccount>>, Error> {
        match self {
            Self::Own(ledger) => Ok(ledger.recalls.streams.watch(watcher)?),
            Self::Upstream(ledger) => ledger.watch_recalls(watcher).await,
        }
    }

    /// The error of a stream whose channel has closed.
    pub fn lost(&self) -> Error {
        match self {
            Self::Own(_) => Error::Incomplete,
            Self::Upstream(ledger) => ledger.lost(),
        }
    }
}

/// The ledger of the registry.
pub struct Ledger {
    store: Store,
    clock: LedgerClock,
    config: LedgerConfig,
    rules: RulesCache,
    /// The name of this server in notifications.
    server: String,
    /// The key of the proofs of generations and owners.
    proof_key: hmac::Key,
    seen: Mutex<SeenState>,
    contacts: Mutex<HashMap<ProcessKey, Contact>>,
    queue: Mutex<Queue>,
    recalls: Recalls,
    alerts: Alerts,
    usage_queries: ConcurrencyLimit,
    trace_queries: ConcurrencyLimit,
    /// The time of the last warning about reports.
    warned_at: Mutex<Option<Instant>>,
}

/// A process of a gateway.
type ProcessKey = (Arc<str>, Epoch);

/// The stored state of a process.
#[derive(Debug, Clone)]
struct Contact {
    at: Timestamp,
    /// The principal that reported. It differs from the owner after the credential has changed.
    sender: Arc<str>,
    /// The generation with reports of all accounts.
    completed: u64,
}

/// The reports about accounts that wait for a transaction.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Pending>,
    /// Whether a task empties the queue.
    is_posting: bool,
}

/// A report about one account that waits for its transaction.
struct Pending {
    book: BookKey,
    request: PostRequest,
    reply: oneshot::Sender<Reply>,
}

/// The result of a transaction for one account.
type Reply = Result<Posted, Error>;

/// The reports of a transaction by budget. Those about one budget keep their order.
type Batch = BTreeMap<BookKey, PendingOfBook>;

/// The waiting reports about one budget, with one reply for each.
#[derive(Default)]
struct PendingOfBook {
    requests: Vec<PostRequest>,
    replies: Vec<oneshot::Sender<Reply>>,
}

/// A currency other than that of the stored amounts.
#[derive(Debug, thiserror::Error)]
#[error(
    "--currency is {configured}, but the amounts in the database are in {stored} and are not converted; start all \
     servers of the database with --currency {stored}"
)]
pub struct OtherCurrency {
    configured: String,
    stored: String,
}

/// The ledger cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The webhook of alerts.
    #[error(transparent)]
    Webhook(#[from] InvalidWebhook),
    /// The currency.
    #[error(transparent)]
    Currency(#[from] OtherCurrency),
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// The result of a report about one account.
struct Posted {
    generation: u64,
    result: Result<AccountState, Rejection>,
}

impl Ledger {
    /// Opens the ledger. Starts a generation if the database was restored or failed over.
    pub async fn open(
        store: Store,
        hub: Arc<Hub>,
        clock: Arc<dyn Clock>,
        config: LedgerConfig,
    ) -> Result<Self, OpenError> {
        let alerts = Alerts::open(&config)?;
        let stored = store.ledger_currency(&config.currency).await?;
        if stored != config.currency {
            return Err(OtherCurrency { configured: config.currency, stored }.into());
        }
        let clock = LedgerClock::open(&store, clock).await?;
        let started = store.start_generation(GenerationCause::Check(None), clock.now()).await;
        let seen = started.map_err(|failure| match failure {
            LedgerFailure::Store(error) => error,
            other => store::Error::Corrupt {
                what: "the table ledger".to_owned(),
                detail: other.to_string(),
            },
        })?;
        let secret = store.ledger_secret().await?;
        let proof_key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
        Ok(Self {
            store,
            clock,
            config,
            rules: RulesCache::new(hub),
            server: Uuid::now_v7().to_string(),
            proof_key,
            seen: Mutex::new(seen),
            contacts: Mutex::default(),
            queue: Mutex::default(),
            recalls: Recalls::default(),
            alerts,
            usage_queries: ConcurrencyLimit::new(USAGE_QUERIES),
            trace_queries: ConcurrencyLimit::new(TRACE_QUERIES),
            warned_at: Mutex::default(),
        })
    }

    /// Starts the deletion of old rows, the readings of the clock, the listener for recalls of other servers and the
    /// delivery of alerts, until the server drains.
    fn start(self: &Arc<Self>, draining: &CancellationToken) {
        let stop = || draining.clone();
        tokio::spawn(stop().run_until_cancelled_owned(self.clone().expire()));
        tokio::spawn(stop().run_until_cancelled_owned(self.clone().follow_clock()));
        tokio::spawn(stop().run_until_cancelled_owned(self.clone().listen()));
        tokio::spawn(stop().run_until_cancelled_owned(self.clone().deliver_alerts()));
    }

    /// Merges a report of an authenticated gateway and grants what it requests.
    async fn report(self: &Arc<Self>, sender: &Arc<str>, report: Report) -> Result<Answer, Error> {
        let gateway = &self.owner(sender, &report)?;
        let now = self.clock.now();
        if report.generation > self.seen().generation {
            self.check_generation(gateway, &report)?;
            self.start_generation(GenerationCause::Reported(report.generation)).await?;
        }
        // The end of a process is reported by its successor.
        if !report.ended.contains(&report.process) {
            self.record_contact(gateway, report.process, sender, now).await?;
        } else if gateway != sender {
            self.check_end(gateway, report.process, sender, now).await?;
        }
        let posting = self.enqueue(gateway, &report, now);
        let mut oldest: Option<u64> = None;
        let mut accounts = Vec::with_capacity(report.accounts.len());
        for (account, posted) in report.accounts.iter().zip(posting) {
            let result = match posted {
                Err(rejection) => Err(rejection),
                Ok(reply) => {
                    let posted = reply.await.map_err(|_| Error::Incomplete)??;
                    // A gateway ignores answers of older generations, so that the oldest one is safe.
                    let generation = posted.generation;
                    oldest = Some(oldest.map_or(generation, |oldest| oldest.min(generation)));
                    posted.result
                }
            };
            accounts.push(account.answered(result));
        }
        self.note_rejections(gateway, &report, &accounts);
        // The gateway repeats a report with an invalid account.
        if AccountAnswer::all_processed(&accounts) {
            for ended in &report.ended {
                self.store.end_process(gateway, *ended, &report.accounts, now).await?;
            }
            for complete in &report.complete {
                self.complete(gateway, *complete, report.generation).await?;
            }
        }
        let generation = oldest.unwrap_or_else(|| self.seen().generation);
        let proof = hmac::sign(&self.proof_key, &generation.to_be_bytes());
        Ok(Answer {
            generation,
            generation_proof: proof.as_ref().to_vec(),
            owner: Some(self.certified_owner(gateway, report.process)),
            offline_for: self.config.budget_offline_for,
            accounts,
        })
    }

    /// The owner of the accounts of a report. A sender with another name, such as one with a new credential, proves
    /// that its disk has the process. Without a proof of this ledger, it has no accounts of the process.
    fn owner(&self, sender: &Arc<str>, report: &Report) -> Result<Arc<str>, Error> {
        let is_proven = |owner: &&ProcessOwner| {
            let statement = owner_statement(&owner.gateway, report.process);
            hmac::verify(&self.proof_key, &statement, &owner.proof).is_ok()
        };
        match report.owner.as_ref().filter(is_proven) {
            Some(owner) if *owner.gateway != **sender && !report.is_of_one_process() => {
                Err(Error::SeveralProcesses(owner.gateway.clone()))
            }
            Some(owner) => Ok(owner.gateway.as_str().into()),
            None => Ok(sender.clone()),
        }
    }

    /// Rejects the end of a process of another owner while the process reports: the sender has a copy of its file.
    async fn check_end(
        &self,
        owner: &Arc<str>,
        process: Epoch,
        sender: &Arc<str>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let contact = self.contact(&(owner.clone(), process));
        // A running process whose credential has changed reports its own end.
        let is_own = contact.is_some_and(|contact| contact.sender == *sender);
        if !is_own && let Some(last_contact) = self.store.last_contact(owner, process).await? {
            let is_idle = self.store.open_accounts(owner, process, now).await?.is_empty();
            let silence = if is_idle { IDLE_SILENCE } else { UNREACHABLE_AFTER };
            if now.since(last_contact) < silence {
                return Err(Error::ProcessRunning { gateway: owner.to_string(), process });
            }
        }
        tracing::info!(%owner, %sender, %process, "a gateway ends a process of another owner");
        Ok(())
    }

    /// The owner of a process with its proof.
    fn certified_owner(&self, gateway: &str, process: Epoch) -> ProcessOwner {
        let proof = hmac::sign(&self.proof_key, &owner_statement(gateway, process));
        ProcessOwner { gateway: gateway.to_owned(), proof: proof.as_ref().to_vec() }
    }

    /// Logs rejected spending.
    fn note_rejections(&self, gateway: &str, report: &Report, answers: &[AccountAnswer]) {
        for (reported, answered) in report.accounts.iter().zip(answers) {
            if let Err(reason) = &answered.result
                && reported.totals.settled > Amount::ZERO
                && self.may_warn()
            {
                let budget = &reported.budget;
                tracing::warn!(gateway, %budget, "the spending of a gateway was rejected: {reason}");
            }
        }
    }

    /// Logs spending that nothing explains.
    fn note_unexplained(&self, book: &BookKey, amount: Amount) {
        if amount > Amount::ZERO && self.may_warn() {
            let BookKey { budget, window } = book;
            tracing::warn!(
                %budget, %window, %amount,
                "gateways report spending that the limit does not explain: it is recorded as unexplained and \
                 does not count; `registryctl budget show` lists the accounts"
            );
        }
    }

    /// Whether a warning about reports may be logged now.
    fn may_warn(&self) -> bool {
        let mut warned_at = self.warned_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = warned_at.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL);
        if is_due {
            *warned_at = Some(Instant::now());
        }
        is_due
    }

    /// Rejects a newer generation that the gateway does not know from this ledger: it would suspend all grants.
    fn check_generation(&self, gateway: &str, report: &Report) -> Result<(), Error> {
        let Report { generation, generation_proof, .. } = report;
        let number = generation.to_be_bytes();
        if hmac::verify(&self.proof_key, &number, generation_proof).is_ok() {
            return Ok(());
        }
        metrics::ledger_report("generation_rejected");
        tracing::warn!(
            gateway,
            generation,
            "a gateway reports an unknown generation of the ledger"
        );
        Err(Error::UnknownGeneration(*generation))
    }

    /// The current time.
    pub(in crate::app) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Whether this version of a policy is in force.
    pub(in crate::app) fn is_in_force(&self, key: &Key) -> bool {
        self.rules.current().is_in_force(key)
    }

    /// The newest state of the ledger that this server has seen.
    pub(in crate::app) fn seen(&self) -> SeenState {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_seen(&self, new: SeenState) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = new.max(*seen);
    }

    /// Starts a generation if its cause requires one.
    pub(in crate::app) async fn start_generation(
        &self,
        cause: GenerationCause<'_>,
    ) -> Result<(), Error> {
        let before = self.seen().generation;
        let seen = self.store.start_generation(cause, self.clock.now()).await?;
        self.record_seen(seen);
        if seen.generation > before {
            metrics::ledger_generation_started();
            tracing::warn!(
                generation = seen.generation,
                "the ledger started a generation: budgets grant nothing until the gateways have reported"
            );
        }
        Ok(())
    }

    /// Stores the time of a contact, unless the stored one is recent.
    async fn record_contact(
        &self,
        owner: &Arc<str>,
        process: Epoch,
        sender: &Arc<str>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let key = (owner.clone(), process);
        let known = self.contact(&key);
        let same_sender = known.as_ref().filter(|known| known.sender == *sender);
        if same_sender.is_some_and(|known| now.since(known.at) < CONTACT_PRECISION) {
            return Ok(());
        }
        if same_sender.is_none() && owner != sender {
            tracing::info!(%owner, %sender, %process, "a gateway reports a process of another owner");
        }
        self.store.record_contact(owner, process, now).await?;
        let completed = known.map_or(0, |known| known.completed);
        self.set_contact(key, Contact { at: now, sender: sender.clone(), completed });
        Ok(())
    }

    async fn complete(
        &self,
        gateway: &Arc<str>,
        process: Epoch,
        generation: u64,
    ) -> Result<(), Error> {
        let key = (gateway.clone(), process);
        let known = self.contact(&key);
        let completed = known.as_ref().map_or(0, |known| known.completed);
        if completed >= generation {
            return Ok(());
        }
        let is_stored = self.store.complete_process(gateway, process, generation).await?;
        // Predecessors of the reporting process have no contact of their own.
        if let Some(known) = known.filter(|_| is_stored) {
            self.set_contact(key, Contact { completed: generation, ..known });
        }
        Ok(())
    }

    fn contact(&self, key: &ProcessKey) -> Option<Contact> {
        self.contacts.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn set_contact(&self, key: ProcessKey, contact: Contact) {
        self.contacts.lock().unwrap_or_else(PoisonError::into_inner).insert(key, contact);
    }

    fn forget_contacts(&self, before: Timestamp) {
        let mut contacts = self.contacts.lock().unwrap_or_else(PoisonError::into_inner);
        contacts.retain(|_, contact| contact.at >= before);
    }

    /// Adds the accounts of a report to the queue together, so that they share a transaction.
    fn enqueue(
        self: &Arc<Self>,
        gateway: &Arc<str>,
        report: &Report,
        now: Timestamp,
    ) -> Vec<Result<oneshot::Receiver<Reply>, Rejection>> {
        let rules = self.rules.current();
        let mut pending = Vec::with_capacity(report.accounts.len());
        let posting = report.accounts.iter().map(|account| -> Result<_, Rejection> {
            let book = book_of(account, &rules, now)?;
            let (gateway, process) = (gateway.clone(), report.process);
            let request = PostRequest { gateway, process, report: account.clone() };
            let (reply, answer) = oneshot::channel();
            pending.push(Pending { book, request, reply });
            Ok(answer)
        });
        let posting = posting.collect();
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.extend(pending);
        if !queue.waiting.is_empty() && !mem::replace(&mut queue.is_posting, true) {
            tokio::spawn(self.clone().post_queue());
        }
        posting
    }

    /// Posts waiting reports until the queue is empty.
    async fn post_queue(self: Arc<Self>) {
        while let Some(batch) = self.next_batch() {
            // A panic in the task fails the reports of this batch only, whose replies it drops.
            let _ = tokio::spawn(self.clone().post_batch(batch)).await;
        }
    }

    fn next_batch(&self) -> Option<Batch> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.waiting.is_empty() {
            queue.is_posting = false;
            return None;
        }
        let count = queue.waiting.len().min(BATCH);
        let mut batch = Batch::new();
        for Pending { book, request, reply } in queue.waiting.drain(..count) {
            let PendingOfBook { requests, replies } = batch.entry(book).or_default();
            requests.push(request);
            replies.push(reply);
        }
        Some(batch)
    }

    /// Posts a batch in one transaction. Invalid data of one budget must not fail the reports about the others: after
    /// such a failure, each budget has a transaction of its own.
    async fn post_batch(self: Arc<Self>, batch: Batch) {
        let mut batches = vec![batch];
        while let Some(batch) = batches.pop() {
            match self.post(&batch).await {
                Ok(posting) => self.reply(batch, posting),
                Err(error) if error.may_concern_one_budget() && batch.len() > 1 => {
                    batches.extend(batch.into_iter().map(|one| Batch::from([one])));
                }
                Err(error) => {
                    for reply in batch.into_values().flat_map(|pending| pending.replies) {
                        let _ = reply.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    fn reply(self: &Arc<Self>, batch: Batch, posting: Posting) {
        let Posting { seen, books } = posting;
        let mut recalled = Vec::new();
        for ((book, pending), posting) in batch.into_iter().zip(books) {
            let BookPosting { results, recalls, overshoot, claimed, unexplained, crossings } =
                posting;
            if !book.budget.is_rate() {
                metrics::ledger_excess("overshoot", overshoot);
                metrics::ledger_excess("lost_grants", claimed);
                metrics::ledger_excess("unexplained", unexplained);
                self.note_unexplained(&book, unexplained);
            }
            for (reply, result) in pending.replies.into_iter().zip(results) {
                metrics::ledger_report(outcome(&result));
                // The sender has disconnected if this fails, and repeats its report.
                let _ = reply.send(Ok(Posted { generation: seen.generation, result }));
            }
            self.note_crossings(&book, &crossings);
            recalled.push((book, recalls));
        }
        self.recall(recalled);
    }

    async fn post(&self, batch: &Batch) -> Result<Posting, Error> {
        let began = Instant::now();
        for _ in 0..ATTEMPTS {
            let now = self.clock.now();
            let context = PostContext {
                seen: self.seen(),
                offline_for: self.offline_for(),
                now,
                has_webhook: self.alerts.has_webhook(),
            };
            let rules = self.rules.current();
            let books = batch.iter().map(|(book, pending)| {
                let terms = terms(&rules, book, now);
                BookReports { book, terms, requests: &pending.requests }
            });
            let books: Vec<_> = books.collect();
            match self.store.post_reports(&books, context).await {
                Ok(posting) => {
                    self.record_seen(posting.seen);
                    metrics::ledger_posted(began.elapsed());
                    return Ok(posting);
                }
                Err(LedgerFailure::Lost) => {
                    self.start_generation(GenerationCause::Check(Some(context.seen))).await?;
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        Err(Error::Incomplete)
    }

    /// The time after which a silent gateway spends nothing, by the stored time of its contact.
    fn offline_for(&self) -> Duration {
        self.config.budget_offline_for.saturating_add(CONTACT_PRECISION + MAX_LAG)
    }

    /// Deletes old rows from time to time.
    async fn expire(self: Arc<Self>) {
        loop {
            let now = self.clock.now();
            let before = earlier(now, RETENTION);
            let ages = LedgerAges {
                before,
                rates_before: earlier(now, RATE_RETENTION),
                ended_before: earlier(now, ENDED_RETENTION),
            };
            if let Err(error) = self.store.expire_ledger(ages).await {
                tracing::warn!(%error, "cannot delete old accounts of the ledger, retrying");
            }
            self.forget_contacts(before);
            if let Err(error) = self.expire_usage(now).await {
                tracing::warn!(%error, "cannot delete old usage, retrying");
            }
            if let Err(error) = self.expire_trace_calls(now).await {
                tracing::warn!(%error, "cannot delete old calls of traces, retrying");
            }
            sleep(EXPIRY_INTERVAL).await;
        }
    }

    /// Reads the clock of the database from time to time. The last reading counts while it does not answer. Also starts
    /// a generation after a failover, before a call finds it.
    async fn follow_clock(self: Arc<Self>) {
        loop {
            sleep(READING_INTERVAL).await;
            if let Err(error) = self.clock.synchronize(&self.store).await {
                tracing::debug!(%error, "cannot read the clock of the database, retrying");
            }
            if self.store.is_shared() {
                let check = GenerationCause::Check(Some(self.seen()));
                if let Err(error) = self.start_generation(check).await {
                    tracing::debug!(%error, "cannot check the generation of the ledger, retrying");
                }
            }
        }
    }

    /// Forwards recalls of other servers to the gateways of this one. On SQLite there are none.
    async fn listen(self: Arc<Self>) {
        loop {
            match self.store.recall_listener().await {
                Ok(None) => return,
                Ok(Some(mut listener)) => {
                    while let Ok(notice) = listener.next().await {
                        if notice.server != self.server {
                            self.forward_recall(&notice.book).await;
                        }
                    }
                }
                Err(error) => tracing::debug!(%error, "cannot listen for recalls, retrying"),
            }
            sleep(LISTENER_DELAY).await;
        }
    }
}

/// The budget of a report about an account. Without a window it is in the current one.
fn book_of(account: &AccountReport, rules: &Rules, now: Timestamp) -> Result<BookKey, Rejection> {
    let window = if let Some(window) = &account.window {
        window.clone()
    } else {
        let rule = rules.find(&account.budget).ok_or(Rejection::UnknownBudget)?;
        rule.windows.window_at(now).map_err(|_| Rejection::UnknownWindow)?.id
    };
    Ok(BookKey { budget: account.budget.clone(), window })
}

/// The conditions of grants from a budget.
fn terms(rules: &Rules, book: &BookKey, now: Timestamp) -> BookTerms {
    let rule = rules.find(&book.budget);
    let open = rule.and_then(|rule| {
        let open = rule.windows.open_at(now).ok()?;
        let window = open.find(Some(&book.window))?;
        Some(OpenWindow { span: open.span(window, now), end: window.end })
    });
    // The rights of a rate have expired.
    let is_late = open.is_none() && !book.budget.is_rate();
    let ended = rule.filter(|_| is_late);
    let ended = ended.and_then(|rule| rule.windows.ended(&book.window, now)?.end);
    let alert_at = rule.map(|rule| rule.alert_at.clone()).unwrap_or_default();
    BookTerms {
        limit: rule.map(|rule| rule.limit),
        allowance: rule.map(|rule| rule.allowance).unwrap_or_default(),
        open,
        ended,
        alert_at,
    }
}

/// The statement that a proof of an owner signs. Statements about generations are shorter.
fn owner_statement(gateway: &str, process: Epoch) -> Vec<u8> {
    format!("{process}{gateway}").into_bytes()
}

/// The label of a result in metrics.
fn outcome(result: &Result<AccountState, Rejection>) -> &'static str {
    let Ok(state) = result else { return "rejected" };
    match state.grant.refusal {
        None => "accepted",
        Some(Refusal::Exhausted) => "exhausted",
        Some(Refusal::Recalling) => "recalling",
        Some(Refusal::Recovering) => "recovering",
        Some(Refusal::OutsideWindow) => "outside_window",
        Some(Refusal::Closed) => "closed",
    }
}

/// A time after another one.
pub(in crate::app) fn later(now: Timestamp, by: Duration) -> Timestamp {
    let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_add(millis))
}

/// A time before another one.
fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(millis))
}
