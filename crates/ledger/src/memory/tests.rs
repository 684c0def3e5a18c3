//! Random interleavings of gateways, network and ledger with crashes, pauses and failovers.
//!
//! The driver knows what each tool call costs and checks that the sum stays within the limit. Each
//! deliberate defect in the messages must make some run overspend, which shows that the driver would
//! notice the same defect in the code.

mod recording;

use std::{collections::BTreeMap, time::Duration};

use super::BookKey;
use crate::{
    AccountAnswer, AccountReport, Answer, BudgetKey, BudgetRule, Epoch, MemoryLedger, Recall,
    Rejection, Report, Totals, WindowId, WindowRule,
    budget::OfflineLimits,
    decode_marks, encode_marks,
    spender::{BootTime, BudgetSettings, Charge, Demand, Demands, Reservation, Spender, Unit},
};
use registry_core::{Amount, Timestamp};
use registry_fixtures::random::Random;

const RUNS: u64 = 2_000;
const LIMITS: OfflineLimits =
    OfflineLimits { offline_for: Duration::from_hours(24), longest_call: Duration::from_mins(10) };

/// The distance of two processes leaves room for the successors of an epoch.
const EPOCHS: u128 = 1_000;

/// A defect of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    /// The ledger takes the rights of silent gateways.
    CreditOnSilence,
    /// Reports carry differences instead of totals.
    Differences,
    /// All processes of a gateway share one account.
    MergedEpochs,
    /// The ledger ignores grants that it does not know.
    NoClaims,
    /// A new generation grants at once.
    NoRecovery,
    /// The close of an account is not repeated.
    ForgottenClose,
    /// Messages of all generations are accepted.
    NoGenerations,
    /// Calls do not wait for the write of their crash mark.
    UnwrittenMarks,
    /// A transaction reads the sum of the exposures before it waits for the lock.
    StaleSums,
    /// Calls with an unknown outcome are released.
    ReleasedOutcomes,
    /// The ledger rejects accounts with more forced spending than the limit.
    RejectedForced,
}

fn units(count: u64) -> Amount {
    Amount::from_micros(i64::try_from(count).unwrap() * 1_000_000)
}

fn empty_report(process: Epoch) -> Report {
    Report {
        process,
        owner: None,
        generation: 0,
        generation_proof: vec![],
        complete: vec![],
        ended: vec![],
        accounts: vec![],
    }
}

/// The reports of a process in the order of their sending.
fn reports(spender: &Spender, demands: &Demands, now: BootTime) -> Vec<Report> {
    let mut reports = spender.ended_reports();
    reports.push(spender.report(demands, now));
    reports
}

/// A gateway with its disk.
struct Gateway {
    name: String,
    process: Epoch,
    spender: Spender,
    /// The file of crash marks.
    file: Vec<u8>,
    is_paused: bool,
    calls: Vec<Call>,
    /// The newest generation of an answer.
    generation: u64,
}

/// A call in flight, and the window that pays for it.
struct Call {
    reservation: Reservation,
    window: WindowId,
    number: usize,
}

/// A message on the network. A report that was delivered has an answer.
#[derive(Clone)]
struct Message {
    gateway: usize,
    process: Epoch,
    sent_at: Duration,
    report: Report,
    /// The report on the wire, which a defect may change.
    wire: Report,
    answer: Option<Answer>,
}

struct World {
    random: Random,
    defect: Defect,
    budget: BudgetKey,
    limit: Amount,
    windows: WindowRule,
    price: Amount,
    now: Duration,
    ledger: MemoryLedger,
    /// The state of a lagging standby.
    standby: MemoryLedger,
    gateways: Vec<Gateway>,
    network: Vec<Message>,
    /// The charges of the tools, by window.
    spent: BTreeMap<WindowId, Amount>,
    /// The windows of the compensations among them.
    compensations: Vec<WindowId>,
    /// The number of compensations with a crash mark whose process crashed before it sent them.
    unsent_compensations: usize,
    /// Whether calls are compensated.
    compensates: bool,
    /// For each call, whether a tool may have executed it.
    executed: Vec<bool>,
    /// The ledgers before each failover.
    lost: Vec<MemoryLedger>,
    epochs: u128,
    is_torn: bool,
    /// For [`Defect::Differences`]: the sums at the ledger, and the last reported totals.
    sums: BTreeMap<(usize, Epoch), Amount>,
    reported: BTreeMap<(usize, Epoch), Amount>,
    /// For [`Defect::ForgottenClose`].
    closed: Vec<(usize, Epoch)>,
    /// For [`Defect::StaleSums`]: the exposures before the last report.
    earlier: BTreeMap<BookKey, Amount>,
}

impl World {
    fn new(seed: u64, defect: Defect) -> Self {
        let mut random = Random::new(seed);
        let price = random.range(1, 7);
        let limit = units(price * random.range(1, 12) + random.range(0, 3));
        // Windows of 20 minutes have about 120 steps.
        let short = WindowRule::Fixed { length: Duration::from_mins(20), anchor: Timestamp::EPOCH };
        let windows = if random.chance(33) { short } else { WindowRule::Total };
        let ledger = MemoryLedger::new(LIMITS, Timestamp::EPOCH);
        let subject = "agent".into();
        let mut world = Self {
            defect,
            budget: BudgetKey { policy: "p".into(), budget: "b".into(), subject },
            limit,
            windows,
            price: units(price),
            now: Duration::ZERO,
            standby: ledger.clone(),
            ledger,
            gateways: Vec::new(),
            network: Vec::new(),
            spent: BTreeMap::new(),
            compensations: Vec::new(),
            unsent_compensations: 0,
            compensates: random.chance(25),
            executed: Vec::new(),
            lost: Vec::new(),
            epochs: 0,
            is_torn: false,
            sums: BTreeMap::new(),
            reported: BTreeMap::new(),
            closed: Vec::new(),
            earlier: BTreeMap::new(),
            random,
        };
        for number in 0..world.random.range(1, 4) {
            let name = format!("gateway-{number}");
            let gateway = world.start(&name, &encode_marks(&[]));
            world.gateways.push(gateway);
        }
        world
    }

    /// Starts a process on a disk. The ledger and its standby know all processes: grants to others
    /// are those that a failover loses without a claim.
    fn start(&mut self, name: &str, file: &[u8]) -> Gateway {
        self.epochs += EPOCHS;
        let process = Epoch::new(self.epochs);
        let marks = decode_marks(file).unwrap_or_default();
        let spender = Spender::new(process, marks);
        spender.add_budget(
            &self.budget,
            BudgetSettings { unit: Unit::Money, allowance: Amount::ZERO },
        );
        let hello = empty_report(process);
        let now = self.wall();
        for ledger in [&mut self.ledger, &mut self.standby] {
            ledger.report(name, &hello, |_| None, now).unwrap();
        }
        let marks = spender.marks(&Demands::new(), self.boot(), now);
        spender.marks_written(&marks);
        let file = encode_marks(&marks);
        let (calls, is_paused) = (Vec::new(), false);
        Gateway { name: name.to_owned(), process, spender, file, is_paused, calls, generation: 0 }
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.now.as_millis()).unwrap())
    }

    fn boot(&self) -> BootTime {
        BootTime::new(self.now)
    }

    fn demands(&mut self) -> Demands {
        let calls = i64::try_from(self.random.range(0, 4)).unwrap();
        let lowest = if self.random.chance(50) { self.price } else { units(1) };
        let total = self.price.checked_mul(calls).unwrap();
        let demand = Demand { lowest: lowest.min(total), total };
        Demands::from([(self.budget.clone(), demand)])
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.random.range(0, 20_000));
        let number = self.random.below(self.gateways.len());
        let demands = self.demands();
        match self.random.range(0, 99) {
            0..18 => self.send(number, &demands),
            18..24 if self.compensates => self.compensate(number, &demands),
            18..38 => self.call(number, &demands),
            38..46 => self.settle(number),
            46..54 => self.give_back(number, &demands),
            54..58 => {
                let gateway = &mut self.gateways[number];
                gateway.is_paused = !gateway.is_paused;
            }
            58 => self.crash(number),
            59..61 => self.standby = self.ledger.clone(),
            61 => self.fail_over(),
            62..65 if self.defect == Defect::CreditOnSilence => self.credit(number),
            _ => self.deliver(),
        }
        if self.network.len() > 40 {
            self.network.remove(0);
        }
    }

    fn send(&mut self, number: usize, demands: &Demands) {
        let (now, boot) = (self.now, self.boot());
        let gateway = &self.gateways[number];
        if gateway.is_paused {
            return;
        }
        let process = gateway.process;
        for report in reports(&gateway.spender, demands, boot) {
            let mut wire = report.clone();
            if self.defect == Defect::Differences {
                for account in &mut wire.accounts {
                    let known = self.reported.entry((number, account.epoch)).or_default();
                    let settled = account.totals.settled;
                    account.totals.settled = settled.saturating_sub(*known).max(Amount::ZERO);
                    *known = settled.max(*known);
                }
            }
            let (gateway, sent_at) = (number, now);
            self.network.push(Message { gateway, process, sent_at, report, wire, answer: None });
        }
    }

    fn call(&mut self, number: usize, demands: &Demands) {
        let (now, wall, price) = (self.boot(), self.wall(), self.price);
        let is_crash = self.random.chance(3);
        let gateway = &mut self.gateways[number];
        if gateway.is_paused {
            return;
        }
        if gateway.spender.needs_mark(demands, now) {
            let marks = gateway.spender.marks(demands, now, wall);
            if self.defect != Defect::UnwrittenMarks {
                gateway.file = encode_marks(&marks);
            }
            if is_crash {
                return self.crash(number);
            }
            gateway.spender.marks_written(&marks);
        }
        let Some(account) = gateway.spender.account(&self.budget, now) else { return };
        let window = account.key().window.clone();
        let charges = vec![Charge { account, amount: price }];
        if let Ok(mut reservation) = gateway.spender.reserve(charges, now) {
            // From now on the call may reach the tool.
            reservation.set_sent();
            let spent = self.spent.entry(window.clone()).or_default();
            *spent = spent.checked_add(price).unwrap();
            let number = self.executed.len();
            self.executed.push(true);
            gateway.calls.push(Call { reservation, window, number });
        }
    }

    /// Sends a compensation, after its crash mark.
    fn compensate(&mut self, number: usize, demands: &Demands) {
        let (now, wall, amount) = (self.boot(), self.wall(), self.price);
        let is_crash = self.random.chance(3);
        let gateway = &mut self.gateways[number];
        let Some(account) = gateway.spender.account(&self.budget, now) else { return };
        if gateway.is_paused {
            return;
        }
        let window = account.key().window.clone();
        let mut reservation = gateway.spender.force(vec![Charge { account, amount }]);
        if gateway.spender.needs_mark(demands, now) {
            let marks = gateway.spender.marks(demands, now, wall);
            if self.defect != Defect::UnwrittenMarks {
                gateway.file = encode_marks(&marks);
            }
            if is_crash {
                self.unsent_compensations += 1;
                return self.crash(number);
            }
            gateway.spender.marks_written(&marks);
        }
        reservation.set_sent();
        reservation.settle();
        let spent = self.spent.entry(window.clone()).or_default();
        *spent = spent.checked_add(amount).unwrap();
        self.compensations.push(window);
    }

    /// Whether more was spent in a window than its limit and the compensations.
    fn is_overspent(&self) -> bool {
        self.spent.iter().any(|(window, spent)| {
            let forced = self.compensations.iter().filter(|of| *of == window);
            let bound = forced.fold(self.limit, |sum, _| sum.saturating_add(self.price));
            *spent > bound
        })
    }

    fn settle(&mut self, number: usize) {
        let is_unsent = self.random.chance(20);
        let Some(call) = self.gateways[number].calls.pop() else { return };
        let Call { reservation, window, number } = call;
        if is_unsent {
            let spent = self.spent.entry(window).or_default();
            *spent = spent.checked_sub(self.price).unwrap();
            self.executed[number] = false;
            reservation.release();
        } else if self.defect == Defect::ReleasedOutcomes && self.random.chance(20) {
            reservation.release();
        } else {
            reservation.settle();
        }
    }

    fn give_back(&mut self, number: usize, demands: &Demands) {
        let now = self.boot();
        let is_tick = self.random.chance(50);
        let gateway = &self.gateways[number];
        if gateway.is_paused {
            return;
        }
        if is_tick {
            gateway.spender.tick(demands, now);
        } else if let Some(account) = gateway.spender.account(&self.budget, now) {
            let recall = Recall { accounts: vec![account.key().clone()] };
            gateway.spender.recall(&recall, demands, now);
        }
    }

    /// Kills a process. Some exit in order before, but their last report may get lost.
    fn crash(&mut self, number: usize) {
        if self.random.chance(25) {
            let (now, wall) = (self.boot(), self.wall());
            let gateway = &mut self.gateways[number];
            gateway.spender.stop();
            if self.random.chance(75) {
                let marks = gateway.spender.marks(&Demands::new(), now, wall);
                gateway.file = encode_marks(&marks);
                gateway.spender.marks_written(&marks);
            }
            self.send(number, &Demands::new());
        }
        let (name, file) = {
            let gateway = &self.gateways[number];
            (gateway.name.clone(), gateway.file.clone())
        };
        let file = if self.random.chance(3) {
            self.is_torn = true;
            file[..file.len() / 2].to_vec()
        } else {
            file
        };
        self.gateways[number] = self.start(&name, &file);
    }

    fn fail_over(&mut self) {
        self.lost.push(self.ledger.clone());
        self.ledger = self.standby.clone();
        // Two failovers are not at the same time.
        self.now += Duration::from_millis(1);
        let now = self.wall();
        // The servers have restarted, and know no lost generation.
        self.ledger.start_generation(0, now).unwrap();
        if self.defect == Defect::NoRecovery {
            self.ledger.end_recovery();
        }
    }

    /// Delivers a message, which may stay on the network as a duplicate, or get lost.
    fn deliver(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let at = self.random.below(self.network.len());
        let message = self.network[at].clone();
        if self.random.chance(75) {
            self.network.remove(at);
        }
        if self.random.chance(15) {
            return;
        }
        match message.answer {
            None => {
                let answer = self.handle(message.gateway, &message.wire);
                self.network.push(Message { answer: Some(answer), ..message });
            }
            Some(answer) => {
                let (sent_at, now) = (BootTime::new(message.sent_at), self.boot());
                let gateway = &mut self.gateways[message.gateway];
                if gateway.process == message.process && !gateway.is_paused {
                    let mut answer = answer;
                    gateway.generation = gateway.generation.max(answer.generation);
                    if self.defect == Defect::NoGenerations {
                        answer.generation = gateway.generation;
                    }
                    gateway.spender.answer(&message.report, &answer, sent_at, now);
                }
            }
        }
    }

    fn handle(&mut self, number: usize, report: &Report) -> Answer {
        let mut changed = report.clone();
        self.damage(number, &mut changed);
        if self.defect == Defect::StaleSums {
            self.use_earlier_sums();
        }
        let (name, now) = (self.gateways[number].name.clone(), self.wall());
        let windows = self.windows.clone();
        let rule = BudgetRule { limit: self.limit, allowance: Amount::ZERO, windows };
        let reply = self.ledger.report(&name, &changed, |_| Some(rule.clone()), now).unwrap();
        let mut answer = reply.answer;
        if matches!(self.defect, Defect::ForgottenClose | Defect::RejectedForced) {
            return Answer { accounts: realigned(report, &changed, &answer), ..answer };
        }
        for (answered, reported) in answer.accounts.iter_mut().zip(&report.accounts) {
            answered.epoch = reported.epoch;
        }
        answer
    }

    fn damage(&mut self, number: usize, report: &mut Report) {
        match self.defect {
            Defect::Differences => {
                for account in &mut report.accounts {
                    let sum = self.sums.entry((number, account.epoch)).or_default();
                    *sum = sum.saturating_add(account.totals.settled);
                    account.totals.settled = *sum;
                }
            }
            Defect::MergedEpochs => {
                for account in &mut report.accounts {
                    account.epoch = Epoch::new(0);
                    account.is_final = false;
                }
            }
            Defect::NoClaims => {
                for account in &mut report.accounts {
                    account.totals.granted = account.totals.returned;
                }
            }
            Defect::NoGenerations => report.generation = self.ledger.generation().number,
            Defect::ForgottenClose => {
                let known = &mut self.closed;
                report.accounts.retain(|account| {
                    let key = (number, account.epoch);
                    let is_repeated = account.is_final && known.contains(&key);
                    if account.is_final {
                        known.push(key);
                    }
                    !is_repeated
                });
            }
            Defect::RejectedForced => {
                let limit = self.limit;
                report.accounts.retain(|account| {
                    let Totals { granted, returned, settled, .. } = account.totals;
                    settled.saturating_sub(granted.saturating_sub(returned)) <= limit
                });
            }
            Defect::None
            | Defect::CreditOnSilence
            | Defect::NoRecovery
            | Defect::UnwrittenMarks
            | Defect::StaleSums
            | Defect::ReleasedOutcomes => {}
        }
    }

    /// Sometimes replaces the sums of exposures by those before the last report, as if its transaction
    /// ran at the same time.
    fn use_earlier_sums(&mut self) {
        let is_concurrent = self.random.chance(30);
        for (key, book) in &mut self.ledger.books {
            let current = book.row.exposed;
            let earlier = self.earlier.insert(key.clone(), current);
            if let Some(earlier) = earlier.filter(|_| is_concurrent) {
                book.row.exposed = earlier;
            }
        }
    }

    /// Returns the unspent rights of a gateway without its knowledge.
    fn credit(&mut self, number: usize) {
        let Some(account) = self.gateways[number].spender.account(&self.budget, self.boot()) else {
            return;
        };
        let settled = account.settled();
        let key = account.key();
        let report = AccountReport {
            budget: key.budget.clone(),
            window: Some(key.window.clone()),
            epoch: key.epoch,
            totals: Totals {
                granted: self.limit,
                returned: self.limit,
                settled,
                ..Totals::default()
            },
            is_final: false,
            want: None,
        };
        let process = self.gateways[number].process;
        let accounts = vec![report];
        let report = Report { accounts, ..empty_report(process) };
        self.handle(number, &report);
    }

    /// Restarts all gateways on their disks, over a network without faults.
    fn restart_all(&mut self) {
        for number in 0..self.gateways.len() {
            let file = self.gateways[number].file.clone();
            let name = self.gateways[number].name.clone();
            let gateway = self.start(&name, &file);
            for _ in 0..2 {
                let sent_at = self.boot();
                for report in reports(&gateway.spender, &Demands::new(), sent_at) {
                    let answer = self.handle(number, &report);
                    gateway.spender.answer(&report, &answer, sent_at, sent_at);
                }
            }
        }
    }
}

/// The answers in the order of the original report; the closes that were dropped have none.
fn realigned(report: &Report, changed: &Report, answer: &Answer) -> Vec<AccountAnswer> {
    let unanswered = |account: &AccountReport| account.answered(Err(Rejection::UnknownWindow));
    let find = |account: &AccountReport| {
        let at = changed.accounts.iter().position(|other| other == account);
        at.map_or_else(|| unanswered(account), |at| answer.accounts[at].clone())
    };
    report.accounts.iter().map(find).collect()
}

/// Runs one interleaving. Returns whether it overspent.
fn overspends(seed: u64, defect: Defect) -> bool {
    let mut world = World::new(seed, defect);
    for _ in 0..world.random.range(60, 700) {
        world.step();
        if world.is_overspent() {
            return true;
        }
    }
    false
}

fn assert_caught(defect: Defect) {
    assert!((0..RUNS).any(|seed| overspends(seed, defect)), "{defect:?} does not overspend");
}

#[test]
fn interleavings_never_overspend() {
    let found: Vec<_> = (0..RUNS).filter(|seed| overspends(*seed, Defect::None)).collect();
    assert!(found.is_empty(), "seeds that overspend: {found:?}");
}

#[test]
fn interleavings_spend_half_of_the_limits() {
    let (mut spent, mut limits) = (Amount::ZERO, Amount::ZERO);
    for seed in 0..100 {
        let mut world = World::new(seed, Defect::None);
        world.windows = WindowRule::Total;
        (0..700).for_each(|_| world.step());
        let total = world.spent.values().copied().next().unwrap_or_default();
        spent = spent.saturating_add(total);
        limits = limits.saturating_add(world.limit);
    }
    assert!(spent.saturating_add(spent) > limits, "{spent} of {limits}");
}

#[test]
fn restarted_processes_leave_nothing_in_doubt() {
    let mut checked = 0;
    for seed in 0..300 {
        let mut world = World::new(seed, Defect::None);
        (0..200).for_each(|_| world.step());
        world.restart_all();
        // Late messages of the ended processes.
        for message in std::mem::take(&mut world.network) {
            world.handle(message.gateway, &message.wire);
        }
        if world.is_torn {
            continue;
        }
        for (window, spent) in &world.spent {
            // A failover can lose a window that no call of a later generation used.
            let Some(row) = world.ledger.budget(&world.budget, window) else { continue };
            assert_eq!(row.exposed, row.settled, "seed {seed}, window {window}");
            assert!(row.settled >= *spent, "seed {seed}, window {window}: {row:?}");
            checked += 1;
        }
    }
    assert!(checked > 200, "{checked}");
}

#[test]
fn credit_on_silence_overspends() {
    assert_caught(Defect::CreditOnSilence);
}

#[test]
fn reported_differences_overspend() {
    assert_caught(Defect::Differences);
}

#[test]
fn merged_epochs_overspend() {
    assert_caught(Defect::MergedEpochs);
}

#[test]
fn ignored_claims_overspend() {
    assert_caught(Defect::NoClaims);
}

#[test]
fn failover_without_recovery_overspends() {
    assert_caught(Defect::NoRecovery);
}

#[test]
fn forgotten_close_overspends() {
    assert_caught(Defect::ForgottenClose);
}

#[test]
fn ignored_generations_overspend() {
    assert_caught(Defect::NoGenerations);
}

#[test]
fn unwritten_marks_overspend() {
    assert_caught(Defect::UnwrittenMarks);
}

#[test]
fn stale_sums_overspend() {
    assert_caught(Defect::StaleSums);
}

#[test]
fn released_outcomes_overspend() {
    assert_caught(Defect::ReleasedOutcomes);
}
