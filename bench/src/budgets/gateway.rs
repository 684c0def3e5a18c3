//! The accounts of a gateway without its calls: reservations, reports over gRPC, and recalls. It has
//! the timing of a gateway, and keeps its crash marks in memory.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use acceptance::access::Authorized;
use ledger::{
    Answer, BudgetKey, Epoch, Recall, Refusal, Report, Spender,
    spender::{BootTime, BudgetSettings, Charge, Demand, Demands, Reservation, Shortfall, Unit},
};
use registry_core::{Amount, Timestamp};
use registry_proto::{
    convert::{read_answer, read_recall, write_report},
    v1::{self, ledger_service_client::LedgerServiceClient},
};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tonic::Streaming;

/// Maximum time that a call waits for rights.
const MAX_WAIT: Duration = Duration::from_millis(500);
/// Interval of reports without waiting calls.
const TICK: Duration = Duration::from_secs(1);
/// Delay before the request of a waiting call is repeated.
const REPEAT: Duration = Duration::from_millis(20);

/// A gateway with one budget and one call at a time.
pub(super) struct SpendingGateway {
    spender: Spender,
    budget: BudgetKey,
    client: LedgerServiceClient<Authorized>,
    /// The zero of the boot clock.
    started: Instant,
    waiting: Mutex<Option<WaitingCall>>,
    /// Crash marks are written one after the other.
    marks: Mutex<()>,
    calls: AtomicU64,
    grants: AtomicU64,
    wake: Notify,
    /// Notifies the waiting call of each answer.
    progress: watch::Sender<()>,
}

#[derive(Clone, Copy)]
struct WaitingCall {
    number: u64,
    price: Amount,
    /// Whether the ledger refused its request.
    is_refused: bool,
}

impl SpendingGateway {
    /// Connects a process to the ledger. Its tasks report and follow recalls.
    pub(super) async fn start(
        channel: Authorized,
        process: Epoch,
        budget: BudgetKey,
        tasks: &mut JoinSet<()>,
    ) -> Arc<Self> {
        let spender = Spender::new(process, Vec::new());
        spender.add_budget(&budget, BudgetSettings { unit: Unit::Money, allowance: Amount::ZERO });
        let gateway = Arc::new(Self {
            spender,
            budget,
            client: LedgerServiceClient::new(channel),
            started: Instant::now(),
            waiting: Mutex::default(),
            marks: Mutex::default(),
            calls: AtomicU64::new(0),
            grants: AtomicU64::new(0),
            wake: Notify::new(),
            progress: watch::Sender::new(()),
        });
        gateway.write_marks();
        let recalls =
            gateway.client.clone().watch_recalls(v1::WatchRecallsRequest::default()).await;
        let recalls = recalls.expect("a stream").into_inner();
        tasks.spawn(gateway.clone().follow_recalls(recalls));
        tasks.spawn(gateway.clone().report_regularly());
        gateway
    }

    /// The grants so far.
    pub(super) fn grants(&self) -> u64 {
        self.grants.load(Ordering::Relaxed)
    }

    /// Reserves the price of a call, which waits for rights if necessary. `None`: it is refused.
    pub(super) async fn reserve(&self, price: Amount) -> Option<Reservation> {
        if let Ok(reservation) = self.attempt(price) {
            return Some(reservation);
        }
        let mut progress = self.progress.subscribe();
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        *lock(&self.waiting) = Some(WaitingCall { number, price, is_refused: false });
        self.wake.notify_one();
        let reserved = async {
            loop {
                match self.attempt(price) {
                    Ok(reservation) => return Some(reservation),
                    Err(Some(Shortfall::Mark)) => self.write_marks(),
                    Err(_) if self.is_refused() => return None,
                    Err(_) => {}
                }
                // The sender is a part of `self`.
                let _ = progress.changed().await;
            }
        };
        let reserved = timeout(MAX_WAIT, reserved).await;
        *lock(&self.waiting) = None;
        reserved.ok().flatten()
    }

    /// Closes the accounts, after the tasks have ended.
    pub(super) async fn stop(&self) {
        self.spender.stop();
        self.exchange().await;
    }

    /// `Err(None)`: the ledger has not opened the account.
    fn attempt(&self, price: Amount) -> Result<Reservation, Option<Shortfall>> {
        let now = self.now();
        let Some(account) = self.spender.account(&self.budget, now) else { return Err(None) };
        let charge = Charge { account, amount: price };
        self.spender.reserve(vec![charge], now).map_err(|uncovered| Some(uncovered.shortfall))
    }

    async fn follow_recalls(self: Arc<Self>, mut recalls: Streaming<v1::WatchRecallsResponse>) {
        while let Some(recall) = recalls.message().await.expect("a sound stream") {
            let accounts = read_recall(recall).expect("a valid recall").into_iter();
            let recall = Recall { accounts: accounts.map(|account| account.key).collect() };
            self.spender.recall(&recall, &self.demands(), self.now());
            self.write_marks();
            self.wake.notify_one();
        }
    }

    async fn report_regularly(self: Arc<Self>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_waiting = lock(&self.waiting).is_some();
            tokio::select! {
                () = self.wake.notified() => {}
                () = sleep(REPEAT), if is_waiting => {}
                _ = ticks.tick() => self.spender.tick(&self.demands(), self.now()),
            }
            self.exchange().await;
        }
    }

    /// Sends a report and applies the answer.
    async fn exchange(&self) {
        let call = *lock(&self.waiting);
        let sent_at = self.now();
        let report = self.spender.report(&self.demands_of(call), sent_at);
        let answer = self.client.clone().report_spending(write_report("", &report)).await;
        let answer = read_answer(answer.expect("an answer").into_inner()).expect("a valid answer");
        let counts = self.spender.answer(&report, &answer, sent_at, self.now());
        assert!(counts, "the answer is of an older generation");
        self.note_grants(&report, &answer, call);
        self.write_marks();
    }

    fn note_grants(&self, report: &Report, answer: &Answer, call: Option<WaitingCall>) {
        for (reported, answered) in report.accounts.iter().zip(&answer.accounts) {
            let state = answered.result.as_ref().expect("an account");
            if state.grant.granted > reported.totals.granted {
                self.grants.fetch_add(1, Ordering::Relaxed);
            }
            // After other refusals, the request is repeated.
            if let Some(Refusal::Exhausted | Refusal::Recovering) = state.grant.refusal {
                self.refuse(call);
            }
        }
    }

    fn refuse(&self, refused: Option<WaitingCall>) {
        let mut waiting = lock(&self.waiting);
        let Some((refused, waiting)) = refused.zip(waiting.as_mut()) else { return };
        // A later call waits for its own request.
        waiting.is_refused |= waiting.number == refused.number;
    }

    fn is_refused(&self) -> bool {
        lock(&self.waiting).is_some_and(|call| call.is_refused)
    }

    fn write_marks(&self) {
        let _one_at_a_time = lock(&self.marks);
        let marks = self.spender.marks(&self.demands(), self.now(), Timestamp::EPOCH);
        self.spender.marks_written(&marks);
        self.progress.send_replace(());
    }

    fn demands(&self) -> Demands {
        let call = *lock(&self.waiting);
        self.demands_of(call)
    }

    fn demands_of(&self, call: Option<WaitingCall>) -> Demands {
        let demand = |call: WaitingCall| Demand { lowest: call.price, total: call.price };
        call.map(|call| (self.budget.clone(), demand(call))).into_iter().collect()
    }

    fn now(&self) -> BootTime {
        BootTime::new(self.started.elapsed())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
