//! Spending with a ledger in memory and a paused clock.

use std::sync::atomic::AtomicU64;

use ledger::{
    AccountKey, Answer, BudgetKey, BudgetRule as LedgerRule, FleetRate, Ledger, LedgerError,
    LedgerFuture, MemoryLedger, ProcessOwner, RECOVERY, Recall, Report, WindowId, WindowRule,
    budget::{BudgetRow, OfflineLimits},
};
use policy::{BudgetRule, Payer, PolicyInForce, RateRule};
use registry_core::{Document, Entity, Kind, entity::policy::Price};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, advance},
};
use tokio_util::sync::CancellationToken;

use super::*;

const PRICE: Amount = Amount::from_micros(15_000);

/// The ledger of a registry, whose failures the test controls.
#[derive(Debug)]
struct TestLedger {
    clock: SpendingClock,
    ledger: Mutex<MemoryLedger>,
    limit: Amount,
    rate: LedgerRule,
    state: Mutex<LedgerState>,
    recalls: tokio::sync::Mutex<mpsc::Receiver<Recall>>,
    reports: AtomicU64,
    reported: watch::Sender<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LedgerState {
    Up,
    Down,
    Silent,
    /// The ledger rejects the ends of earlier processes.
    KeepsProcesses,
}

impl Ledger for TestLedger {
    fn report<'a>(&'a self, gateway: &'a str, report: &'a Report) -> LedgerFuture<'a, Answer> {
        let state = *lock(&self.state);
        Box::pin(async move {
            match state {
                LedgerState::Down => return Err(LedgerError::Unavailable("down".to_owned())),
                LedgerState::Silent => std::future::pending::<()>().await,
                LedgerState::KeepsProcesses if report.ended.contains(&report.process) => {
                    return Err(LedgerError::Rejected("the process still reports".to_owned()));
                }
                LedgerState::Up | LedgerState::KeepsProcesses => {}
            }
            let rule = |key: &BudgetKey| {
                let budget = LedgerRule {
                    limit: self.limit,
                    allowance: Amount::ZERO,
                    windows: WindowRule::Total,
                };
                Some(if key.is_rate() { self.rate.clone() } else { budget })
            };
            let reply = lock(&self.ledger).report(gateway, report, rule, self.clock.wall())?;
            self.reports.fetch_add(1, Ordering::Relaxed);
            self.reported.send_replace(());
            let owner = ProcessOwner { gateway: gateway.to_owned(), proof: b"proof".to_vec() };
            Ok(Answer { owner: Some(owner), ..reply.answer })
        })
    }

    fn recall<'a>(&'a self, _gateway: &'a str) -> LedgerFuture<'a, Recall> {
        Box::pin(async {
            match self.recalls.lock().await.recv().await {
                Some(recall) => Ok(recall),
                None => std::future::pending().await,
            }
        })
    }
}

/// A ledger, and the disk of a gateway.
struct Fleet {
    clock: SpendingClock,
    ledger: Arc<TestLedger>,
    recall: mpsc::Sender<Recall>,
    disk: TempDir,
    policy: Arc<PolicyInForce>,
}

/// A process of the gateway.
struct Process {
    spending: Arc<Spending>,
    reporting: JoinHandle<()>,
    stop: CancellationToken,
}

impl Fleet {
    fn new(limit: Amount) -> Self {
        Self::with(limit, json!({}))
    }

    /// More members of the budget.
    #[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
    fn with(limit: Amount, more: Value) -> Self {
        let mut budget =
            json!({ "name": "b", "per": "agent", "limit": limit.to_string(), "window": "total" });
        budget.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let rate = json!({ "limit": 3, "window": "PT1M", "reach": "fleet" });
        let document =
            json!({ "name": "p", "version": "1.0.0", "budgets": [budget], "rates": [rate] });
        let document = Document::parse(Kind::Policy, &document).unwrap();
        let policy = Arc::new(PolicyInForce::new(Arc::new(document)).unwrap());
        let FleetRate { windows, limit: calls, .. } = FleetRate::new(&policy.policy().rates[0]);
        let clock = SpendingClock::Paused { start: Instant::now() };
        let hour = Duration::from_hours(1);
        let limits = OfflineLimits { offline_for: hour, longest_call: hour };
        let (recall, recalls) = mpsc::channel(1);
        let ledger = TestLedger {
            clock,
            ledger: Mutex::new(MemoryLedger::new(limits, clock.wall())),
            limit,
            rate: LedgerRule { limit: calls, allowance: Amount::ZERO, windows },
            state: Mutex::new(LedgerState::Up),
            recalls: tokio::sync::Mutex::new(recalls),
            reports: AtomicU64::new(0),
            reported: watch::Sender::new(()),
        };
        Self { clock, ledger: Arc::new(ledger), recall, disk: tempfile::tempdir().unwrap(), policy }
    }

    fn cache(&self) -> std::path::PathBuf {
        self.disk.path().join("registry.json")
    }

    fn start(&self) -> Process {
        self.start_at(&self.cache(), Reach::Fleet)
    }

    /// A process of a gateway with another disk.
    fn start_at(&self, cache: &Path, reach: Reach) -> Process {
        let (spending, reporter) = Spending::open(cache, "gateway", reach, self.clock).unwrap();
        let stop = CancellationToken::new();
        let ledger: Arc<dyn Ledger> = self.ledger.clone();
        let reporting = tokio::spawn(reporter.run(ledger, stop.clone()));
        Process { spending, reporting, stop }
    }

    fn charge(&self, amount: Amount) -> BudgetCharge<'_> {
        let payer = Payer { agent: Some("a"), team: None, principal: None, tool: "t" };
        let rule = BudgetRule { policy: &self.policy, budget: &self.policy.policy().budgets[0] };
        BudgetCharge::new(rule, &payer, amount)
    }

    async fn reserve(&self, process: &Process) -> Result<Reservation, BudgetShortage> {
        let reserved = process.spending.reserve(&[self.charge(PRICE)]).await;
        reserved.map_err(|uncovered| uncovered.shortage)
    }

    /// A call that is sent and charged.
    async fn spend(&self, process: &Process) {
        let mut call = self.reserve(process).await.unwrap();
        call.set_sent();
        call.settle();
    }

    fn row(&self) -> BudgetRow {
        let key = self.charge(PRICE).key;
        lock(&self.ledger.ledger).budget(&key, &WindowId::new("total")).unwrap_or_default()
    }

    /// A call under the fleet rate. `None`: the gateway counts alone.
    async fn take(&self, process: &Process) -> Result<Option<Reservation>, FleetRateExceeded> {
        let rule = RateRule { policy: &self.policy, rate: &self.policy.policy().rates[0] };
        process.spending.take_calls(&[RateCharge::new(&rule, "[]")]).await
    }

    /// A call under the fleet rate that is sent. Whether the fleet counts it.
    async fn call(&self, process: &Process) -> Result<bool, FleetRateExceeded> {
        let Some(mut call) = self.take(process).await? else { return Ok(false) };
        call.set_sent();
        call.settle();
        Ok(true)
    }

    /// Waits until the budget in the ledger meets a condition.
    async fn until(&self, is_met: impl Fn(BudgetRow) -> bool) {
        let mut reported = self.ledger.reported.subscribe();
        while !is_met(self.row()) {
            reported.changed().await.unwrap();
        }
    }

    fn set(&self, state: LedgerState) {
        *lock(&self.ledger.state) = state;
    }

    fn marked(&self) -> Amount {
        let (_, processes) = MarkFile::open(&self.cache(), self.clock.wall()).unwrap();
        let marks = processes.iter().flat_map(|process| &process.marks);
        marks.map(|mark| mark.settled).fold(Amount::ZERO, Amount::saturating_add)
    }
}

impl Process {
    async fn crash(self) {
        self.reporting.abort();
        let _ = self.reporting.await;
    }
}

fn times(count: i64) -> Amount {
    PRICE.checked_mul(count).unwrap()
}

#[tokio::test(start_paused = true)]
async fn reservation_follows_its_grant_and_mark() {
    let fleet = Fleet::new(times(10));
    let process = fleet.start();
    let reservation = fleet.reserve(&process).await.unwrap();
    assert!(fleet.row().exposed >= PRICE && fleet.marked() >= PRICE);
    reservation.release();
}

#[tokio::test(start_paused = true)]
async fn exhausted_budget_refuses_without_delay() {
    let fleet = Fleet::new(times(2));
    let process = fleet.start();
    fleet.spend(&process).await;
    let held = fleet.reserve(&process).await.unwrap();
    let start = Instant::now();
    let shortage = fleet.reserve(&process).await.unwrap_err();
    assert!(start.elapsed() < MAX_WAIT);
    let BudgetShortage { limit, used, requested, is_unavailable, is_timeout, .. } = shortage;
    let used_price = UsedBudget { spent: PRICE, reserved: PRICE, in_doubt: Amount::ZERO };
    assert_eq!((limit, used, requested), (times(2), Some(used_price), PRICE));
    assert!(!is_unavailable && !is_timeout);
    held.release();
    fleet.spend(&process).await;
}

#[tokio::test(start_paused = true)]
async fn recovering_ledger_refuses_without_delay() {
    let fleet = Fleet::new(times(10));
    lock(&fleet.ledger.ledger).start_generation(0, fleet.clock.wall()).unwrap();
    let process = fleet.start();
    let start = Instant::now();
    let shortage = fleet.reserve(&process).await.unwrap_err();
    assert!(start.elapsed() < MAX_WAIT);
    assert!(shortage.is_recovering && !shortage.is_timeout, "{shortage:?}");
    lock(&fleet.ledger.ledger).end_recovery();
    fleet.spend(&process).await;
}

#[tokio::test(start_paused = true)]
async fn first_call_after_recovery_is_served() {
    let fleet = Fleet::new(times(10));
    lock(&fleet.ledger.ledger).start_generation(0, fleet.clock.wall()).unwrap();
    advance(RECOVERY).await;
    let process = fleet.start();
    fleet.spend(&process).await;
}

#[tokio::test(start_paused = true)]
async fn first_call_waits_for_unreported_gateways() {
    let fleet = Fleet::new(times(10));
    let other = fleet.start();
    fleet.spend(&other).await;
    other.crash().await;
    lock(&fleet.ledger.ledger).start_generation(0, fleet.clock.wall()).unwrap();
    advance(RECOVERY).await;
    let disk = tempfile::tempdir().unwrap();
    let process = fleet.start_at(&disk.path().join("registry.json"), Reach::Fleet);
    let start = Instant::now();
    let shortage = fleet.reserve(&process).await.unwrap_err();
    assert!(shortage.is_recovering, "the ledger lacks the report of the crashed process");
    assert!(start.elapsed() < MAX_WAIT);
}

#[tokio::test(start_paused = true)]
async fn idle_process_delays_no_recovery() {
    for starts_after_loss in [false, true] {
        let fleet = Fleet::new(times(10));
        let process = fleet.start();
        fleet.spend(&process).await;
        let in_flight = fleet.reserve(&process).await.unwrap();
        process.crash().await;
        drop(in_flight);
        let marked = fleet.marked();
        let lose = || lock(&fleet.ledger.ledger).start_generation(0, fleet.clock.wall()).unwrap();
        if starts_after_loss {
            lose();
        }
        let _idle = fleet.start();
        fleet.until(|row| row.settled == marked && row.exposed == marked).await;
        if !starts_after_loss {
            lose();
        }
        let lost_at = Instant::now();
        let disk = tempfile::tempdir().unwrap();
        let other = fleet.start_at(&disk.path().join("registry.json"), Reach::Fleet);
        let mut reported = fleet.ledger.reported.subscribe();
        while let Err(shortage) = fleet.reserve(&other).await {
            assert!(shortage.is_recovering, "{shortage:?}");
            // The next report of either process.
            reported.borrow_and_update();
            reported.changed().await.unwrap();
        }
        let waited = lost_at.elapsed();
        let expected = Duration::from_secs(55)..Duration::from_secs(70);
        assert!(expected.contains(&waited), "{starts_after_loss}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_share_the_last_rights() {
    let fleet = Fleet::new(PRICE);
    let process = fleet.start();
    let (a, b) = tokio::join!(fleet.reserve(&process), fleet.reserve(&process));
    assert_eq!([a.is_ok(), b.is_ok()].into_iter().filter(|is_ok| *is_ok).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn silent_ledger_delays_call_by_half_a_second() {
    let fleet = Fleet::new(times(2));
    fleet.set(LedgerState::Silent);
    let process = fleet.start();
    let start = Instant::now();
    let shortage = fleet.reserve(&process).await.unwrap_err();
    assert!(shortage.is_timeout, "a retry can succeed");
    let waited = start.elapsed();
    assert!((MAX_WAIT..MAX_WAIT + Duration::from_millis(10)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn unavailable_ledger_leaves_the_allowance() {
    let fleet = Fleet::with(times(2), json!({ "onUnavailable": { "allow": "0.03" } }));
    fleet.set(LedgerState::Down);
    let process = fleet.start();
    fleet.spend(&process).await;
    fleet.spend(&process).await;
    let shortage = fleet.reserve(&process).await.unwrap_err();
    assert!(shortage.is_unavailable);
    fleet.set(LedgerState::Up);
    fleet.until(|row| row.settled == times(2)).await;
    assert_eq!((fleet.row().overshoot, fleet.row().exposed), (times(2), times(2)));
    fleet.set(LedgerState::Down);
    let shortage = fleet.reserve(&process).await.unwrap_err();
    assert!(shortage.is_unavailable, "another outage adds no allowance");
}

#[tokio::test(start_paused = true)]
async fn restarted_process_shares_the_fleet_rate_after_the_ledger_returns() {
    let fleet = Fleet::new(times(10));
    let process = fleet.start();
    fleet.spend(&process).await;
    process.crash().await;
    fleet.set(LedgerState::Down);
    let process = fleet.start();
    advance(Duration::from_secs(10)).await;
    assert!(!fleet.call(&process).await.unwrap(), "the gateway counts alone");
    fleet.set(LedgerState::Up);
    let mut reported = fleet.ledger.reported.subscribe();
    reported.changed().await.unwrap();
    advance(Duration::from_secs(1)).await;
    assert!(fleet.call(&process).await.unwrap(), "the fleet counts the call");
}

#[tokio::test(start_paused = true)]
async fn changed_allowance_applies_to_open_account() {
    let mut fleet = Fleet::with(times(10), json!({ "onUnavailable": { "allow": "0.03" } }));
    fleet.set(LedgerState::Down);
    let process = fleet.start();
    fleet.spend(&process).await;
    fleet.policy = Fleet::new(times(10)).policy;
    assert!(fleet.reserve(&process).await.unwrap_err().is_unavailable);
}

#[tokio::test(start_paused = true)]
async fn compensations_beyond_limit_survive_crash() {
    let fleet = Fleet::new(PRICE);
    let process = fleet.start();
    fleet.spend(&process).await;
    fleet.set(LedgerState::Down);
    for _ in 0..10 {
        let mut call = process.spending.force(&[fleet.charge(PRICE)]).await.unwrap();
        call.set_sent();
        call.settle();
    }
    process.crash().await;
    fleet.set(LedgerState::Up);
    let _next = fleet.start();
    fleet.until(|row| row.settled == times(11) && row.exposed == times(11)).await;
    assert_eq!(fleet.row().unexplained, Amount::ZERO);
}

#[tokio::test(start_paused = true)]
async fn unavailable_ledger_denies_without_allowance() {
    let fleet = Fleet::new(times(10));
    fleet.set(LedgerState::Down);
    let process = fleet.start();
    let shortage = fleet.reserve(&process).await.unwrap_err();
    assert!(shortage.is_unavailable);
    assert_eq!(shortage.used, None, "the spending of the fleet is unknown");
}

/// Crashes a process with an answered call and one in flight. Returns the marked spending.
async fn crash_with_call_in_flight(fleet: &Fleet) -> Amount {
    let process = fleet.start();
    fleet.spend(&process).await;
    let in_flight = fleet.reserve(&process).await.unwrap();
    process.crash().await;
    drop(in_flight);
    fleet.marked()
}

#[tokio::test(start_paused = true)]
async fn next_process_closes_accounts_at_their_marks() {
    let fleet = Fleet::new(times(10));
    let marked = crash_with_call_in_flight(&fleet).await;
    assert!(marked >= times(2), "{marked}");
    let _next = fleet.start();
    fleet.until(|row| row.settled == marked && row.exposed == marked).await;
}

#[tokio::test(start_paused = true)]
async fn rejected_end_delays_no_call_and_is_repeated() {
    let fleet = Fleet::new(times(100));
    let marked = crash_with_call_in_flight(&fleet).await;
    fleet.set(LedgerState::KeepsProcesses);
    let next = fleet.start();
    fleet.spend(&next).await;
    assert!(next.spending.is_available());
    fleet.set(LedgerState::Up);
    fleet.until(|row| row.settled == marked.saturating_add(PRICE)).await;
}

#[tokio::test(start_paused = true)]
async fn orderly_stop_leaves_no_rights() {
    let fleet = Fleet::new(times(10));
    let process = fleet.start();
    fleet.spend(&process).await;
    process.stop.cancel();
    process.reporting.await.unwrap();
    assert_eq!([fleet.row().settled, fleet.row().exposed], [PRICE; 2]);
}

/// A price that a result reports.
fn reported_price() -> Price {
    let price = json!({ "reportedBy": "_meta.cost", "maximum": PRICE.to_string() });
    let document = json!({ "name": "p", "version": "1.0.0", "price": price });
    let document = Document::parse(Kind::Policy, &document).unwrap();
    let Entity::Policy(policy) = document.entity() else { panic!("{document:?}") };
    policy.price.clone().unwrap()
}

impl Fleet {
    /// A task whose result has not arrived.
    async fn start_task(&self, process: &Process) -> Digest {
        let mut call = self.reserve(process).await.unwrap();
        call.set_sent();
        let enforced = Some(Priced { price: reported_price(), reservations: vec![call] });
        let key = Digest::compute(b"task");
        let task = OpenTask { enforced, audited: Vec::new(), trace: None };
        process.spending.keep_task(key, &None, task);
        key
    }
}

#[tokio::test(start_paused = true)]
async fn orderly_stop_charges_open_tasks() {
    let fleet = Fleet::new(times(10));
    let process = fleet.start();
    let key = fleet.start_task(&process).await;
    assert_eq!(fleet.row().settled, Amount::ZERO);
    process.stop.cancel();
    process.reporting.await.unwrap();
    assert_eq!([fleet.row().settled, fleet.row().exposed], [PRICE; 2]);
    assert!(process.spending.take_task(&key).is_none());
}

#[tokio::test(start_paused = true)]
async fn forgotten_task_is_charged_after_half_a_day() {
    let fleet = Fleet::new(times(10));
    let process = fleet.start();
    let key = fleet.start_task(&process).await;
    advance(Duration::from_hours(12)).await;
    fleet.until(|row| row.settled == PRICE).await;
    assert!(process.spending.take_task(&key).is_none());
}

#[tokio::test(start_paused = true)]
async fn idle_rights_return_after_five_seconds() {
    let fleet = Fleet::new(times(10));
    let process = fleet.start();
    fleet.reserve(&process).await.unwrap().release();
    let start = Instant::now();
    assert!(fleet.row().exposed >= PRICE);
    fleet.until(|row| row.exposed == Amount::ZERO).await;
    let waited = start.elapsed();
    assert!((Duration::from_secs(4)..Duration::from_secs(8)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn recalled_rights_return_within_a_quarter_second() {
    let fleet = Fleet::new(times(10));
    let process = fleet.start();
    fleet.reserve(&process).await.unwrap().release();
    let budget = fleet.charge(PRICE).key;
    let account = process.spending.spender.account(&budget, fleet.clock.boot()).unwrap();
    let accounts: Vec<AccountKey> = vec![account.key().clone()];
    let start = Instant::now();
    fleet.recall.send(Recall { accounts }).await.unwrap();
    fleet.until(|row| row.exposed == Amount::ZERO).await;
    assert!(start.elapsed() <= Duration::from_millis(250));
}

#[tokio::test(start_paused = true)]
async fn compensation_spends_beyond_the_limit() {
    let fleet = Fleet::new(PRICE);
    let process = fleet.start();
    fleet.spend(&process).await;
    let mut forced = process.spending.force(&[fleet.charge(PRICE)]).await.unwrap();
    assert!(fleet.marked() >= times(2));
    forced.set_sent();
    forced.settle();
    fleet.until(|row| row.settled == times(2)).await;
    assert_eq!(fleet.row().overshoot, PRICE);
}

#[tokio::test(start_paused = true)]
async fn view_has_amounts_of_fleet_and_gateway() {
    let fleet = Fleet::new(times(3));
    let process = fleet.start();
    fleet.spend(&process).await;
    let _held = fleet.reserve(&process).await.unwrap();
    let view = serde_json::to_value(process.spending.view()).unwrap();
    assert_eq!(view["isLedgerAvailable"], true);
    let budget = &view["budgets"][0];
    assert_eq!(budget["subject"], "a");
    assert_eq!([&budget["fleet"]["limit"], &budget["fleet"]["spent"]], ["0.045", "0.015"]);
    let gateway = &budget["gateway"];
    assert_eq!([&gateway["spent"], &gateway["reserved"]], ["0.015", "0.015"]);
}

#[tokio::test(start_paused = true)]
async fn fleet_rate_is_shared_and_renewed() {
    let fleet = Fleet::new(PRICE);
    let disk = tempfile::tempdir().unwrap();
    let a = fleet.start();
    let b = fleet.start_at(&disk.path().join("registry.json"), Reach::Fleet);
    for process in [&a, &b, &a] {
        assert_eq!(fleet.call(process).await, Ok(true));
    }
    let exceeded = fleet.call(&b).await.unwrap_err();
    assert!(exceeded.retry_after <= Duration::from_mins(1), "{exceeded:?}");
    advance(exceeded.retry_after).await;
    assert_eq!(fleet.call(&b).await, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn released_call_of_fleet_rate_is_available() {
    let fleet = Fleet::new(PRICE);
    let process = fleet.start();
    fleet.take(&process).await.unwrap().unwrap().release();
    for _ in 0..3 {
        assert_eq!(fleet.call(&process).await, Ok(true));
    }
    assert!(fleet.call(&process).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn used_up_fleet_rate_needs_no_report() {
    let fleet = Fleet::new(PRICE);
    let process = fleet.start();
    while fleet.call(&process).await.is_ok() {}
    let reports = fleet.ledger.reports.load(Ordering::Relaxed);
    let start = Instant::now();
    assert!(fleet.call(&process).await.is_err());
    assert_eq!(fleet.ledger.reports.load(Ordering::Relaxed), reports);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn gateway_counts_fleet_rate_without_ledger() {
    for state in [LedgerState::Down, LedgerState::Silent] {
        let fleet = Fleet::new(PRICE);
        fleet.set(state);
        let process = fleet.start();
        for _ in 0..4 {
            assert_eq!(fleet.call(&process).await, Ok(false), "{state:?}");
        }
    }
    let fleet = Fleet::new(PRICE);
    let local = fleet.start_at(&fleet.cache(), Reach::Gateway);
    assert_eq!(fleet.call(&local).await, Ok(false));
}

#[tokio::test(start_paused = true)]
async fn gateway_without_budgets_writes_no_file() {
    let fleet = Fleet::new(PRICE);
    let process = fleet.start();
    advance(Duration::from_mins(1)).await;
    process.stop.cancel();
    process.reporting.await.unwrap();
    assert_eq!(std::fs::read_dir(fleet.disk.path()).unwrap().count(), 0);
    assert_eq!(fleet.ledger.reports.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn local_ledger_keeps_spending_across_restarts() {
    let fleet = Fleet::new(times(2));
    let catalog = crate::testing::catalog(
        1,
        vec![crate::testing::policy(
            "p",
            json!({ "budgets": [
            { "name": "b", "per": "agent", "limit": "0.03", "window": "total" },
        ] }),
        )],
    );
    let (_publish, catalog) = watch::channel(catalog);
    let start = || {
        let ledger = LocalLedger::open(&fleet.cache(), catalog.clone(), fleet.clock).unwrap();
        let (spending, reporter) =
            Spending::open(&fleet.cache(), "g", Reach::Gateway, fleet.clock).unwrap();
        let stop = CancellationToken::new();
        let reporting = tokio::spawn(reporter.run(Arc::new(ledger), stop.clone()));
        Process { spending, reporting, stop }
    };
    let process = start();
    fleet.spend(&process).await;
    process.crash().await;
    let process = start();
    fleet.spend(&process).await;
    let shortage = fleet.reserve(&process).await.unwrap_err();
    let spent = shortage.used.map(|used| used.spent);
    assert_eq!((shortage.limit, spent), (times(2), Some(times(2))));
}
