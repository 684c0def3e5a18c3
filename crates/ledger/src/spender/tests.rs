//! Gateways and a ledger in memory.

use super::*;
use crate::{
    BudgetRule, MemoryLedger, Refusal, Rejection, Reply, WindowRule,
    budget::{OfflineLimits, ReclaimError},
    message::{AccountState, ReportError},
};

const LIMITS: OfflineLimits =
    OfflineLimits { offline_for: Duration::from_hours(1), longest_call: Duration::from_mins(10) };
const MONEY: BudgetSettings = BudgetSettings { unit: Unit::Money, allowance: Amount::ZERO };

fn units(units: i64) -> Amount {
    Amount::from_micros(units * 1_000_000)
}

fn budget(name: &str) -> BudgetKey {
    BudgetKey { policy: "p".into(), budget: name.into(), subject: "agent".into() }
}

fn demands(lowest: i64, total: i64) -> Demands {
    let demand = Demand { lowest: units(lowest), total: units(total) };
    Demands::from([(budget("b"), demand)])
}

/// A ledger with one rule for all budgets, and the time of everyone.
struct Fleet {
    ledger: MemoryLedger,
    rule: BudgetRule,
    now: Duration,
}

impl Fleet {
    fn new(limit: i64, windows: WindowRule) -> Self {
        let ledger = MemoryLedger::new(LIMITS, Timestamp::EPOCH);
        let rule = BudgetRule { limit: units(limit), allowance: Amount::ZERO, windows };
        Self { ledger, rule, now: Duration::ZERO }
    }

    fn boot(&self) -> BootTime {
        BootTime::new(self.now)
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.now.as_millis()).unwrap())
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn gateway(&self, name: &'static str, epoch: u128, file: Vec<ProcessMarks>) -> Gateway {
        let spender = Spender::new(Epoch::new(epoch), file);
        spender.add_budget(&budget("b"), MONEY);
        let gateway = Gateway { name, spender };
        gateway.write(self, &Demands::new());
        gateway
    }
}

struct Gateway {
    name: &'static str,
    spender: Spender,
}

impl Gateway {
    fn write(&self, fleet: &Fleet, demands: &Demands) -> Vec<ProcessMarks> {
        let marks = self.spender.marks(demands, fleet.boot(), fleet.wall());
        self.spender.marks_written(&marks);
        marks
    }

    fn deliver(&self, fleet: &mut Fleet, report: &Report) -> Reply {
        let (now, rule) = (fleet.wall(), fleet.rule.clone());
        fleet.ledger.report(self.name, report, |_| Some(rule.clone()), now).unwrap()
    }

    /// Reports the earlier processes on the disk.
    fn end_predecessors(&self, fleet: &mut Fleet) -> Vec<Reply> {
        let mut replies = Vec::new();
        for report in self.spender.ended_reports() {
            let reply = self.deliver(fleet, &report);
            assert!(self.spender.answer(&report, &reply.answer, fleet.boot(), fleet.boot()));
            replies.push(reply);
        }
        replies
    }

    /// Sends all reports and applies their answers. Returns the reply about this process.
    fn exchange(&self, fleet: &mut Fleet, demands: &Demands) -> Reply {
        self.end_predecessors(fleet);
        let report = self.spender.report(demands, fleet.boot());
        let reply = self.deliver(fleet, &report);
        assert!(self.spender.answer(&report, &reply.answer, fleet.boot(), fleet.boot()));
        self.write(fleet, demands);
        reply
    }

    fn charge(&self, fleet: &Fleet, name: &str, price: i64) -> Charge {
        let account = self.spender.account(&budget(name), fleet.boot()).unwrap();
        Charge { account, amount: units(price) }
    }

    fn reserve(&self, fleet: &Fleet, price: i64) -> Result<Reservation, Shortfall> {
        let charges = vec![self.charge(fleet, "b", price)];
        self.spender.reserve(charges, fleet.boot()).map_err(|uncovered| uncovered.shortfall)
    }

    fn spend(&self, fleet: &Fleet, price: i64) {
        if self.reserve(fleet, price).is_err_and(|shortfall| shortfall == Shortfall::Mark) {
            self.write(fleet, &demands(price, price));
        }
        let mut call = self.reserve(fleet, price).unwrap();
        call.set_sent();
        call.settle();
    }
}

fn only(reply: &Reply) -> &AccountState {
    assert_eq!(reply.answer.accounts.len(), 1, "{reply:?}");
    reply.answer.accounts[0].result.as_ref().unwrap()
}

#[test]
fn first_call_opens_account_with_its_price() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let gateway = fleet.gateway("a", 1, vec![]);
    assert!(gateway.spender.report(&Demands::new(), fleet.boot()).accounts.is_empty());
    let reply = gateway.exchange(&mut fleet, &demands(4, 4));
    assert_eq!(only(&reply).grant.granted, units(4));
    gateway.spend(&fleet, 4);
    assert_eq!(gateway.reserve(&fleet, 1).unwrap_err(), Shortfall::Rights);
    let reply = gateway.exchange(&mut fleet, &demands(7, 7));
    assert_eq!(only(&reply).grant.refusal, Some(Refusal::Exhausted));
    let reply = gateway.exchange(&mut fleet, &demands(6, 6));
    assert_eq!(only(&reply).grant.refusal, None);
    gateway.spend(&fleet, 6);
    gateway.exchange(&mut fleet, &Demands::new());
    assert!(gateway.spender.report(&Demands::new(), fleet.boot()).accounts.is_empty());
}

#[test]
fn process_opens_no_account_before_its_file() {
    let fleet = Fleet::new(10, WindowRule::Total);
    let spender = Spender::new(Epoch::new(1), vec![]);
    spender.add_budget(&budget("b"), MONEY);
    assert!(spender.needs_mark(&Demands::new(), fleet.boot()));
    assert!(spender.report(&demands(1, 1), fleet.boot()).accounts.is_empty());
}

#[test]
fn chain_is_reserved_as_a_whole() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.spender.add_budget(&budget("c"), MONEY);
    let [rich, poor] = [units(5), units(1)].map(|total| Demand { lowest: total, total });
    let demands = Demands::from([(budget("b"), rich), (budget("c"), poor)]);
    gateway.exchange(&mut fleet, &demands);
    let chain = || vec![gateway.charge(&fleet, "c", 3), gateway.charge(&fleet, "b", 3)];
    let uncovered = gateway.spender.reserve(chain(), fleet.boot()).unwrap_err();
    assert_eq!(
        (uncovered.charge.account.key().budget.clone(), uncovered.shortfall),
        (budget("c"), Shortfall::Rights)
    );
    assert!(gateway.reserve(&fleet, 5).is_ok(), "nothing stays reserved");
    assert!(gateway.spender.reserve(vec![], fleet.boot()).is_ok());
    gateway.spender.force(chain()).settle();
    assert_eq!(gateway.charge(&fleet, "c", 0).account.settled(), units(3));
}

#[test]
fn dropped_reservation_is_charged_if_sent() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.exchange(&mut fleet, &demands(10, 10));
    drop(gateway.reserve(&fleet, 10).unwrap());
    let mut call = gateway.reserve(&fleet, 6).unwrap();
    call.set_sent();
    drop(call);
    gateway.reserve(&fleet, 4).unwrap().settle_at(units(1));
    let account = gateway.charge(&fleet, "b", 0).account;
    assert_eq!((account.settled(), account.reserved()), (units(7), Amount::ZERO));
}

#[test]
fn idle_rights_elsewhere_are_recalled() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let [a, b] = [fleet.gateway("a", 1, vec![]), fleet.gateway("b", 2, vec![])];
    a.exchange(&mut fleet, &demands(10, 10));
    a.spend(&fleet, 3);
    a.exchange(&mut fleet, &Demands::new());
    let reply = b.exchange(&mut fleet, &demands(7, 7));
    assert_eq!(only(&reply).grant.refusal, Some(Refusal::Recalling));
    a.spender.recall(&reply.recalls["a"], &Demands::new(), fleet.boot());
    a.write(&fleet, &Demands::new());
    a.exchange(&mut fleet, &Demands::new());
    b.exchange(&mut fleet, &demands(7, 7));
    b.spend(&fleet, 7);
    let reply = a.exchange(&mut fleet, &demands(1, 1));
    assert_eq!(only(&reply).grant.refusal, Some(Refusal::Recalling), "the spending is unreported");
    b.exchange(&mut fleet, &Demands::new());
    let reply = a.exchange(&mut fleet, &demands(1, 1));
    assert_eq!(only(&reply).grant.refusal, Some(Refusal::Exhausted));
    assert_eq!(only(&reply).budget.settled, units(10));
}

#[test]
fn rights_of_unreachable_gateway_are_in_doubt() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let [a, b] = [fleet.gateway("a", 1, vec![]), fleet.gateway("b", 2, vec![])];
    a.exchange(&mut fleet, &demands(10, 10));
    fleet.wait(10);
    let reply = b.exchange(&mut fleet, &demands(1, 1));
    let state = only(&reply);
    assert_eq!(state.grant.refusal, Some(Refusal::Exhausted));
    assert_eq!((state.budget.in_doubt, state.budget.active_gateways), (units(10), 1));
    assert!(reply.recalls.is_empty());
}

#[test]
fn lowered_limit_recalls_rights() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.exchange(&mut fleet, &demands(10, 10));
    gateway.spend(&fleet, 1);
    fleet.rule.limit = units(4);
    assert!(only(&gateway.exchange(&mut fleet, &Demands::new())).grant.recall);
    let reply = gateway.exchange(&mut fleet, &Demands::new());
    assert_eq!(only(&reply).budget.exposed, units(1));
    let reply = gateway.exchange(&mut fleet, &demands(3, 3));
    assert_eq!(only(&reply).grant.refusal, None);
}

#[test]
fn next_process_closes_accounts_at_their_marks() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.exchange(&mut fleet, &demands(2, 6));
    gateway.spend(&fleet, 2);
    let file = gateway.write(&fleet, &Demands::new());
    let marks = decode(&file);
    let next = fleet.gateway("a", 2, marks);
    let replies = next.end_predecessors(&mut fleet);
    let state = only(&replies[0]);
    assert!(state.grant.is_closed);
    assert_eq!((state.budget.settled, state.budget.exposed), (units(6), units(6)));
    assert!(next.spender.ended_reports().is_empty());
    fleet.wait(24 * 3_600);
    assert_eq!(next.write(&fleet, &Demands::new()).len(), 1, "forgotten after a day");
}

fn decode(file: &[ProcessMarks]) -> Vec<ProcessMarks> {
    crate::decode_marks(&crate::encode_marks(file)).unwrap()
}

#[test]
fn next_process_closes_accounts_without_marks() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let gateway = fleet.gateway("a", 1, vec![]);
    let file = gateway.write(&fleet, &Demands::new());
    let report = gateway.spender.report(&demands(10, 10), fleet.boot());
    gateway.deliver(&mut fleet, &report);
    let next = fleet.gateway("a", 2, decode(&file));
    next.exchange(&mut fleet, &Demands::new());
    let exposed =
        |fleet: &Fleet| fleet.ledger.budget(&budget("b"), &WindowId::new("total")).unwrap().exposed;
    assert_eq!(exposed(&fleet), Amount::ZERO);
    for window in [None, Some(WindowId::new("total"))] {
        let mut late = report.clone();
        late.accounts[0].epoch = Epoch::new(7);
        late.accounts[0].window = window;
        let reply = gateway.deliver(&mut fleet, &late);
        assert_eq!(only(&reply).grant.refusal, Some(Refusal::Closed));
    }
    assert_eq!(exposed(&fleet), Amount::ZERO, "late messages of the process open nothing");
}

#[test]
fn stopped_process_closes_its_accounts() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.exchange(&mut fleet, &demands(10, 10));
    let mut call = gateway.reserve(&fleet, 4).unwrap();
    call.set_sent();
    let next = vec![gateway.charge(&fleet, "b", 1)];
    gateway.spender.stop();
    let uncovered = gateway.spender.reserve(next, fleet.boot()).unwrap_err();
    assert_eq!(uncovered.shortfall, Shortfall::Closed);
    assert!(gateway.spender.report(&demands(1, 1), fleet.boot()).ended.is_empty());
    call.settle();
    let report = gateway.spender.report(&Demands::new(), fleet.boot());
    assert!(report.accounts.is_empty() && report.ended.is_empty(), "the file has a higher mark");
    assert!(gateway.spender.needs_mark(&Demands::new(), fleet.boot()));
    gateway.write(&fleet, &Demands::new());
    let reply = gateway.exchange(&mut fleet, &demands(1, 1));
    assert!(only(&reply).grant.is_closed);
    let row = fleet.ledger.budget(&budget("b"), &WindowId::new("total")).unwrap();
    assert_eq!((row.settled, row.exposed), (units(4), units(4)));
    fleet.ledger.start_generation(0, fleet.wall()).unwrap();
    fleet.wait(60);
    let other = fleet.gateway("b", 2, vec![]);
    other.exchange(&mut fleet, &Demands::new());
    other.exchange(&mut fleet, &Demands::new());
    let reply = other.exchange(&mut fleet, &demands(6, 6));
    assert_eq!(only(&reply).grant.refusal, None, "the recovery does not wait for it");
}

#[test]
fn stale_mark_leaves_rights_in_doubt() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.exchange(&mut fleet, &demands(3, 3));
    let old = gateway.write(&fleet, &Demands::new());
    gateway.spend(&fleet, 3);
    gateway.exchange(&mut fleet, &demands(7, 7));
    gateway.spend(&fleet, 4);
    gateway.exchange(&mut fleet, &Demands::new());
    let key = gateway.charge(&fleet, "b", 0).account.key().clone();
    let next = fleet.gateway("a", 2, decode(&old));
    assert!(!only(&next.end_predecessors(&mut fleet)[0]).grant.is_closed);
    fleet.wait(4_200);
    next.exchange(&mut fleet, &Demands::new());
    assert_eq!(fleet.ledger.reclaim("a", &key, fleet.wall()), Ok(units(3)));
}

#[test]
fn lost_file_leaves_rights_in_doubt() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    fleet.gateway("a", 1, vec![]).exchange(&mut fleet, &demands(10, 10));
    fleet.gateway("a", 2, vec![]).exchange(&mut fleet, &Demands::new());
    let row = fleet.ledger.budget(&budget("b"), &WindowId::new("total")).unwrap();
    assert_eq!((row.exposed, row.settled), (units(10), Amount::ZERO));
}

#[test]
fn gateway_ignores_answers_of_older_generations() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let gateway = fleet.gateway("a", 1, vec![]);
    let old = gateway.spender.report(&demands(5, 5), fleet.boot());
    let late = gateway.deliver(&mut fleet, &old);
    fleet.ledger.start_generation(0, fleet.wall()).unwrap();
    let reply = gateway.exchange(&mut fleet, &demands(5, 5));
    assert_eq!(only(&reply).grant.refusal, None, "already granted");
    let before = gateway.charge(&fleet, "b", 0).account.totals();
    assert!(!gateway.spender.answer(&old, &late.answer, fleet.boot(), fleet.boot()));
    assert_eq!(gateway.charge(&fleet, "b", 0).account.totals(), before);
}

#[test]
fn new_generation_waits_for_complete_report() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let [a, b] = [fleet.gateway("a", 1, vec![]), fleet.gateway("b", 2, vec![])];
    for gateway in [&a, &b] {
        gateway.exchange(&mut fleet, &demands(2, 2));
        gateway.spend(&fleet, 2);
    }
    let standby = fleet.ledger.clone();
    a.exchange(&mut fleet, &demands(6, 6));
    fleet.ledger = standby;
    fleet.ledger.start_generation(0, fleet.wall()).unwrap();
    fleet.wait(60);
    let refusal = |reply: &Reply| only(reply).grant.refusal;
    assert_eq!(refusal(&b.exchange(&mut fleet, &demands(6, 6))), Some(Refusal::Recovering));
    let reply = b.exchange(&mut fleet, &demands(6, 6));
    assert_eq!(refusal(&reply), Some(Refusal::Recovering), "the other gateway is missing");
    a.exchange(&mut fleet, &Demands::new());
    a.exchange(&mut fleet, &Demands::new());
    let reply = b.exchange(&mut fleet, &demands(6, 6));
    assert_eq!(refusal(&reply), Some(Refusal::Recalling), "the claim of 6 counts");
    assert_eq!(only(&reply).budget.exposed, units(10));
}

#[test]
fn process_without_accounts_is_awaited_in_new_generation() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let before = fleet.gateway("a", 1, vec![]);
    before.exchange(&mut fleet, &demands(2, 2));
    let marks = before.write(&fleet, &Demands::new());
    let idle = fleet.gateway("a", 2, marks);
    assert!(!idle.spender.is_awaited(), "the ledger does not know it");
    idle.exchange(&mut fleet, &Demands::new());
    fleet.ledger.start_generation(0, fleet.wall()).unwrap();
    idle.exchange(&mut fleet, &Demands::new());
    assert!(idle.spender.is_awaited());
    idle.exchange(&mut fleet, &Demands::new());
    assert!(!idle.spender.is_awaited());
    let other = fleet.gateway("b", 3, vec![]);
    let refusal = |reply: &Reply| only(reply).grant.refusal;
    for _ in 0..2 {
        let reply = other.exchange(&mut fleet, &demands(1, 1));
        assert_eq!(refusal(&reply), Some(Refusal::Recovering));
    }
    fleet.wait(60);
    assert_eq!(refusal(&other.exchange(&mut fleet, &demands(1, 1))), None);
}

#[test]
fn second_restore_of_backup_loses_no_grant() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let [a, b] = [fleet.gateway("a", 1, vec![]), fleet.gateway("b", 2, vec![])];
    for gateway in [&a, &b] {
        gateway.exchange(&mut fleet, &demands(1, 1));
    }
    let backup = fleet.ledger.clone();
    let restore = |fleet: &mut Fleet| {
        fleet.wait(1);
        fleet.ledger = backup.clone();
        // The operator knows no generation.
        fleet.ledger.start_generation(0, fleet.wall()).unwrap();
        fleet.wait(60);
        for gateway in [&a, &b, &a, &b] {
            gateway.exchange(fleet, &Demands::new());
        }
    };
    restore(&mut fleet);
    assert_eq!(only(&a.exchange(&mut fleet, &demands(8, 8))).grant.granted, units(8));
    restore(&mut fleet);
    let reply = b.exchange(&mut fleet, &demands(8, 8));
    assert_eq!(only(&reply).budget.exposed, units(9), "the other gateway has claimed its grant");
    assert_eq!(only(&reply).grant.granted, units(1));
}

#[test]
fn ledger_of_older_generation_catches_up() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let restored = fleet.ledger.clone();
    fleet.ledger.start_generation(6, fleet.wall()).unwrap();
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.exchange(&mut fleet, &demands(1, 1));
    fleet.ledger = restored;
    assert_eq!(gateway.exchange(&mut fleet, &demands(1, 1)).answer.generation, 8);
}

#[test]
fn offline_gateway_stops_reserving() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let gateway = fleet.gateway("a", 1, vec![]);
    let report = gateway.spender.report(&demands(5, 5), fleet.boot());
    let (sent_at, reply) = (fleet.boot(), gateway.deliver(&mut fleet, &report));
    fleet.wait(600);
    gateway.spender.answer(&report, &reply.answer, sent_at, fleet.boot());
    gateway.write(&fleet, &demands(5, 5));
    fleet.wait(2_999);
    assert!(gateway.reserve(&fleet, 5).is_ok());
    fleet.wait(1);
    assert_eq!(gateway.reserve(&fleet, 5).unwrap_err(), Shortfall::Rights);
    gateway.exchange(&mut fleet, &demands(5, 5));
    assert!(gateway.reserve(&fleet, 5).is_ok());
}

#[test]
fn allowance_lasts_while_ledger_is_unavailable() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let gateway = cut_off(&fleet);
    gateway.write(&fleet, &demands(3, 3));
    gateway.spend(&fleet, 3);
    assert_eq!(gateway.reserve(&fleet, 1).unwrap_err(), Shortfall::Rights);
    gateway.spender.set_available(true);
    gateway.exchange(&mut fleet, &Demands::new());
    let row = fleet.ledger.budget(&budget("b"), &WindowId::new("total")).unwrap();
    assert_eq!((row.settled, row.overshoot), (units(3), units(3)));
    assert_eq!(row.exposed, units(3), "covered by a grant");
}

/// A gateway with an account whose allowance is 3, in an outage.
fn cut_off(fleet: &Fleet) -> Gateway {
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.spender.add_budget(&budget("b"), BudgetSettings { allowance: units(3), ..MONEY });
    gateway.spender.set_available(false);
    let windows = fleet.rule.windows.open_at(fleet.wall()).unwrap();
    let span = windows.span(&windows.current, fleet.wall());
    gateway.spender.open(&budget("b"), &span, fleet.boot());
    gateway
}

#[test]
fn window_of_finished_account_gets_another_one() {
    let mut fleet = Fleet::new(10, WindowRule::parse("PT2M", None, None).unwrap());
    let gateway = cut_off(&fleet);
    let windows = fleet.rule.windows.open_at(fleet.wall()).unwrap();
    let span = windows.span(&windows.current, fleet.wall());
    gateway.write(&fleet, &demands(2, 2));
    gateway.spend(&fleet, 2);
    fleet.wait(130);
    gateway.write(&fleet, &Demands::new());
    // The wall clock, which was set back, is in the same window.
    gateway.spender.open(&budget("b"), &span, fleet.boot());
    gateway.write(&fleet, &demands(1, 1));
    gateway.spend(&fleet, 1);
    gateway.spender.set_available(true);
    gateway.write(&fleet, &Demands::new());
    gateway.exchange(&mut fleet, &Demands::new());
    let row = fleet.ledger.budget(&budget("b"), &span.id).unwrap();
    assert_eq!(row.settled, units(3));
}

#[test]
fn changed_allowance_applies_to_open_account() {
    let fleet = Fleet::new(10, WindowRule::Total);
    let gateway = cut_off(&fleet);
    gateway.write(&fleet, &demands(6, 6));
    gateway.spend(&fleet, 2);
    let change = |allowance| {
        let settings = BudgetSettings { allowance: units(allowance), ..MONEY };
        gateway.spender.add_budget(&budget("b"), settings);
        gateway.write(&fleet, &demands(6, 6));
    };
    change(0);
    assert_eq!(gateway.reserve(&fleet, 1).unwrap_err(), Shortfall::Rights);
    change(6);
    assert_eq!(gateway.reserve(&fleet, 5).unwrap_err(), Shortfall::Rights);
    gateway.spend(&fleet, 4);
    gateway.spender.set_available(true);
    change(7);
    assert_eq!(gateway.reserve(&fleet, 1).unwrap_err(), Shortfall::Rights);
    gateway.spender.set_available(false);
    gateway.write(&fleet, &demands(1, 1));
    assert_eq!(gateway.charge(&fleet, "b", 0).account.spent_allowance(), units(7));
}

#[test]
fn allowance_starts_when_offline_time_ends() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.spender.add_budget(&budget("b"), BudgetSettings { allowance: units(3), ..MONEY });
    gateway.exchange(&mut fleet, &demands(5, 5));
    gateway.spender.set_available(false);
    gateway.write(&fleet, &demands(8, 8));
    fleet.wait(3_600);
    assert_eq!(gateway.reserve(&fleet, 3).unwrap_err(), Shortfall::Mark);
    gateway.write(&fleet, &demands(3, 3));
    assert!(gateway.reserve(&fleet, 3).is_ok());
    assert_eq!(gateway.reserve(&fleet, 4).unwrap_err(), Shortfall::Rights);
}

#[test]
fn forced_spending_beyond_limit_is_recorded() {
    let mut fleet = Fleet::new(5, WindowRule::Total);
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.exchange(&mut fleet, &demands(5, 5));
    gateway.spend(&fleet, 2);
    gateway.spender.force(vec![gateway.charge(&fleet, "b", 10)]).settle();
    let file = gateway.write(&fleet, &Demands::new());
    let next = fleet.gateway("a", 2, decode(&file));
    next.exchange(&mut fleet, &Demands::new());
    let row = fleet.ledger.budget(&budget("b"), &WindowId::new("total")).unwrap();
    assert_eq!((row.settled, row.exposed, row.overshoot), (units(12), units(12), units(7)));
    assert_eq!(row.unexplained, Amount::ZERO);
}

#[test]
fn process_with_invalid_account_is_not_ended() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.exchange(&mut fleet, &demands(10, 10));
    let file = gateway.write(&fleet, &Demands::new());
    let next = fleet.gateway("a", 2, decode(&file));
    let report = next.spender.ended_reports().remove(0);
    let mut damaged = report.clone();
    damaged.accounts[0].totals.returned = units(1);
    let reply = next.deliver(&mut fleet, &damaged);
    assert_eq!(
        reply.answer.accounts[0].result,
        Err(Rejection::Invalid(ReportError::ReturnedTooMuch))
    );
    assert!(next.spender.answer(&report, &reply.answer, fleet.boot(), fleet.boot()));
    assert_eq!(next.spender.ended_reports(), [report], "it is repeated");
    next.exchange(&mut fleet, &Demands::new());
    assert!(next.spender.ended_reports().is_empty());
}

#[test]
fn restart_in_outage_continues_allowance() {
    let fleet = Fleet::new(10, WindowRule::Total);
    let start = |epoch, file: Vec<ProcessMarks>| {
        let gateway = fleet.gateway("a", epoch, file);
        let settings = BudgetSettings { allowance: units(3), ..MONEY };
        gateway.spender.add_budget(&budget("b"), settings);
        gateway.spender.set_available(false);
        let windows = fleet.rule.windows.open_at(fleet.wall()).unwrap();
        let span = windows.span(&windows.current, fleet.wall());
        gateway.spender.open(&budget("b"), &span, fleet.boot());
        gateway
    };
    let first = start(1, vec![]);
    let file = first.write(&fleet, &demands(2, 2));
    first.spend(&fleet, 2);
    let second = start(2, decode(&file));
    second.spend(&fleet, 1);
    assert_eq!(second.reserve(&fleet, 1).unwrap_err(), Shortfall::Rights);
    second.spender.stop();
    second.spender.report(&Demands::new(), fleet.boot());
    let file = second.write(&fleet, &Demands::new());
    let third = start(3, decode(&file));
    assert_eq!(third.reserve(&fleet, 1).unwrap_err(), Shortfall::Rights);
}

#[test]
fn allowance_of_old_window_is_forgotten() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let spent = |ends_at| SpentAllowance {
        budget: budget("b"),
        window: WindowId::new("w"),
        spent: units(1),
        ends_at,
    };
    let allowances = vec![spent(Some(Timestamp::EPOCH))];
    let process = Epoch::new(9);
    let (owner, written_at, marks) = (None, Timestamp::EPOCH, vec![]);
    let file = vec![ProcessMarks { process, owner, written_at, marks, allowances }];
    let gateway = fleet.gateway("a", 1, file);
    let own = |file: Vec<ProcessMarks>| file.last().unwrap().allowances.len();
    assert_eq!(own(gateway.write(&fleet, &Demands::new())), 1);
    fleet.wait(24 * 3_600);
    assert_eq!(own(gateway.write(&fleet, &Demands::new())), 0);
}

/// A gateway that has spent a unit in each of five seconds, and has more rights.
fn busy(fleet: &mut Fleet) -> Gateway {
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.exchange(fleet, &demands(20, 20));
    for _ in 0..5 {
        gateway.spend(fleet, 1);
        fleet.wait(1);
        gateway.spender.tick(&Demands::new(), fleet.boot());
        gateway.exchange(fleet, &Demands::new());
    }
    gateway
}

#[test]
fn idle_rights_are_not_requested_again() {
    let mut fleet = Fleet::new(100, WindowRule::Total);
    let gateway = busy(&mut fleet);
    fleet.wait(5);
    gateway.spender.tick(&Demands::new(), fleet.boot());
    for _ in 0..2 {
        gateway.exchange(&mut fleet, &Demands::new());
    }
    let row = fleet.ledger.budget(&budget("b"), &WindowId::new("total")).unwrap();
    assert_eq!((row.settled, row.exposed), (units(5), units(5)));
    assert!(gateway.spender.report(&Demands::new(), fleet.boot()).accounts.is_empty());
}

#[test]
fn recalled_rights_are_not_requested_again() {
    let mut fleet = Fleet::new(100, WindowRule::Total);
    let gateway = busy(&mut fleet);
    let key = gateway.charge(&fleet, "b", 0).account.key().clone();
    gateway.spender.recall(&Recall { accounts: vec![key] }, &Demands::new(), fleet.boot());
    gateway.write(&fleet, &Demands::new());
    for _ in 0..2 {
        gateway.exchange(&mut fleet, &Demands::new());
    }
    let row = fleet.ledger.budget(&budget("b"), &WindowId::new("total")).unwrap();
    assert_eq!((row.settled, row.exposed), (units(5), units(5)));
}

#[test]
fn reservation_keeps_its_window() {
    let mut fleet = Fleet::new(10, WindowRule::parse("PT2M", None, None).unwrap());
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.exchange(&mut fleet, &demands(4, 4));
    let mut call = gateway.reserve(&fleet, 4).unwrap();
    call.set_sent();
    let first = gateway.charge(&fleet, "b", 0).account;
    fleet.wait(120);
    assert!(gateway.spender.account(&budget("b"), fleet.boot()).is_none());
    gateway.exchange(&mut fleet, &demands(10, 10));
    gateway.spend(&fleet, 10);
    fleet.wait(6);
    gateway.exchange(&mut fleet, &Demands::new());
    call.settle();
    gateway.write(&fleet, &Demands::new());
    gateway.exchange(&mut fleet, &Demands::new());
    let row = fleet.ledger.budget(&budget("b"), &first.key().window).unwrap();
    assert_eq!((row.settled, row.exposed), (units(4), units(4)));
    assert!(gateway.spender.report(&Demands::new(), fleet.boot()).accounts.is_empty());
    fleet.ledger.start_generation(0, fleet.wall()).unwrap();
    gateway.exchange(&mut fleet, &Demands::new());
    let repeated = gateway.spender.report(&Demands::new(), fleet.boot());
    assert!(repeated.accounts.iter().any(|account| account.is_final));
}

#[test]
fn next_window_is_opened_before_it_starts() {
    let mut fleet = Fleet::new(1_000, WindowRule::parse("PT5M", None, None).unwrap());
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.exchange(&mut fleet, &demands(300, 300));
    for _ in 0..299 {
        gateway.spend(&fleet, 1);
        gateway.spend(&fleet, 1);
        fleet.wait(1);
        gateway.spender.tick(&Demands::new(), fleet.boot());
        gateway.exchange(&mut fleet, &Demands::new());
    }
    fleet.wait(1);
    assert!(gateway.reserve(&fleet, 1).is_ok(), "no call waits for the new window");
}

#[test]
fn reclaimed_account_is_replaced_by_a_new_one() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.exchange(&mut fleet, &demands(8, 8));
    gateway.spend(&fleet, 3);
    let key = gateway.charge(&fleet, "b", 0).account.key().clone();
    fleet.wait(4_199);
    let reclaimed = fleet.ledger.reclaim("a", &key, fleet.wall());
    assert!(matches!(reclaimed, Err(ReclaimError::TooEarly(_))), "{reclaimed:?}");
    fleet.wait(1);
    assert_eq!(fleet.ledger.reclaim("b", &key, fleet.wall()), Err(ReclaimError::Unknown));
    assert_eq!(fleet.ledger.reclaim("a", &key, fleet.wall()), Ok(units(8)));
    let reply = gateway.exchange(&mut fleet, &demands(5, 5));
    assert!(only(&reply).grant.is_closed);
    assert!(gateway.spender.account(&budget("b"), fleet.boot()).is_none());
    gateway.exchange(&mut fleet, &demands(5, 5));
    assert_ne!(gateway.charge(&fleet, "b", 0).account.key().epoch, key.epoch);
    gateway.spend(&fleet, 5);
    gateway.exchange(&mut fleet, &Demands::new());
    let row = fleet.ledger.budget(&key.budget, &key.window).unwrap();
    assert_eq!((row.settled, row.overshoot, row.reclaimed), (units(8), units(3), units(8)));
}

#[test]
fn stored_ledger_continues_with_its_accounts() {
    let mut fleet = Fleet::new(10, WindowRule::parse("PT1H", None, None).unwrap());
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.exchange(&mut fleet, &demands(8, 8));
    let stored = serde_json::to_string(&fleet.ledger).unwrap();
    let restored: MemoryLedger = serde_json::from_str(&stored).unwrap();
    assert_eq!(restored, fleet.ledger);
    let empty = MemoryLedger::new(LIMITS, Timestamp::EPOCH);
    fleet.wait(24 * 3_600);
    fleet.ledger.expire(fleet.wall());
    assert_eq!(fleet.ledger, restored);
    fleet.wait(3_600);
    fleet.ledger.expire(fleet.wall());
    assert_eq!(fleet.ledger, empty);
}

fn closing(key: &AccountKey) -> AccountReport {
    final_report(&Mark { account: key.clone(), settled: Amount::ZERO, forced: Amount::ZERO })
}

#[test]
fn late_report_about_a_lost_window_is_recorded() {
    let mut fleet = Fleet::new(10, WindowRule::parse("PT2M", None, None).unwrap());
    let backup = fleet.ledger.clone();
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.exchange(&mut fleet, &demands(4, 4));
    gateway.spend(&fleet, 4);
    let window = gateway.charge(&fleet, "b", 0).account.key().window.clone();
    fleet.ledger = backup;
    fleet.wait(130);
    for _ in 0..3 {
        gateway.exchange(&mut fleet, &Demands::new());
    }
    let row = fleet.ledger.budget(&budget("b"), &window).unwrap();
    assert_eq!((row.settled, row.exposed), (units(4), units(4)));
    let mut late = gateway.spender.report(&demands(1, 1), fleet.boot());
    late.accounts[0].window = Some(WindowId::new("2020-01-01T00:00:00.000Z"));
    let reply = gateway.deliver(&mut fleet, &late);
    assert_eq!(reply.answer.accounts[0].result, Err(Rejection::UnknownWindow));
}

#[test]
fn unknown_budgets_and_windows_are_rejected() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let gateway = fleet.gateway("a", 1, vec![]);
    let mut report = gateway.spender.report(&demands(1, 1), fleet.boot());
    let reply = fleet.ledger.report("a", &report, |_| None, fleet.wall()).unwrap();
    assert_eq!(reply.answer.accounts[0].result, Err(Rejection::UnknownBudget));
    report.accounts[0].window = Some(WindowId::new("2026-13"));
    let reply = gateway.deliver(&mut fleet, &report);
    assert_eq!(reply.answer.accounts[0].result, Err(Rejection::UnknownWindow));
    assert!(gateway.spender.answer(&report, &reply.answer, fleet.boot(), fleet.boot()));
    assert!(gateway.spender.account(&budget("b"), fleet.boot()).is_none());
    report.generation = u64::MAX;
    assert!(fleet.ledger.report("a", &report, |_| None, fleet.wall()).is_err());
}

#[test]
fn predecessors_report_for_their_owner() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let owner = |gateway: &str| {
        Some(ProcessOwner { gateway: gateway.to_owned(), proof: gateway.as_bytes().to_vec() })
    };
    let own = |marks: &[ProcessMarks]| marks.last().unwrap().owner.clone();
    let gateway = fleet.gateway("a", 1, vec![]);
    let report = gateway.spender.report(&demands(4, 4), fleet.boot());
    let mut reply = gateway.deliver(&mut fleet, &report);
    reply.answer.owner = owner("a");
    let late = gateway.spender.marks(&Demands::new(), fleet.boot(), fleet.wall());
    assert!(gateway.spender.answer(&report, &reply.answer, fleet.boot(), fleet.boot()));
    gateway.spender.marks_written(&late);
    assert!(gateway.spender.needs_mark(&Demands::new(), fleet.boot()), "the file has no owner");
    let file = gateway.write(&fleet, &demands(3, 3));
    assert_eq!((own(&late), own(&file)), (None, owner("a")));
    assert_eq!(gateway.spender.report(&Demands::new(), fleet.boot()).owner, owner("a"));
    let mark = file.last().unwrap().marks[0].settled;
    let next = fleet.gateway("b", 2, file);
    let own = next.spender.report(&Demands::new(), fleet.boot());
    assert_eq!((own.owner, own.ended, own.complete), (None, vec![], vec![]));
    let ended = next.spender.ended_reports().remove(0);
    assert!(ended.is_of_one_process());
    assert_eq!((ended.process, &ended.owner), (Epoch::new(1), &owner("a")));
    let reply = gateway.deliver(&mut fleet, &ended);
    assert!(next.spender.answer(&ended, &reply.answer, fleet.boot(), fleet.boot()));
    assert!(next.spender.ended_reports().is_empty());
    let own = next.spender.report(&Demands::new(), fleet.boot());
    assert_eq!(own.complete, [Epoch::new(2)]);
    let row = fleet.ledger.budget(&budget("b"), &WindowId::new("total")).unwrap();
    assert_eq!((row.settled, row.exposed), (mark, mark), "the other rights are released");
}

#[test]
fn predecessor_without_owner_keeps_first_one() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let gateway = fleet.gateway("a", 1, vec![]);
    gateway.exchange(&mut fleet, &demands(4, 4));
    let file = gateway.write(&fleet, &Demands::new());
    let next = fleet.gateway("a", 2, decode(&file));
    let ended = next.spender.ended_reports().remove(0);
    assert_eq!((ended.process, &ended.owner), (Epoch::new(1), &None));
    let mut reply = next.deliver(&mut fleet, &ended);
    let owner = ProcessOwner { gateway: "a".to_owned(), proof: b"proof".to_vec() };
    reply.answer.owner = Some(owner.clone());
    assert!(next.spender.answer(&ended, &reply.answer, fleet.boot(), fleet.boot()));
    fleet.ledger.start_generation(0, fleet.wall()).unwrap();
    let own = next.spender.report(&Demands::new(), fleet.boot());
    let reply = next.deliver(&mut fleet, &own);
    assert!(next.spender.answer(&own, &reply.answer, fleet.boot(), fleet.boot()));
    let file = next.write(&fleet, &Demands::new());
    let last = fleet.gateway("b", 3, decode(&file));
    for process in [&next, &last] {
        let repeated = process.spender.ended_reports().remove(0);
        assert_eq!((repeated.process, &repeated.owner), (Epoch::new(1), &Some(owner.clone())));
    }
}

#[test]
fn gateway_cannot_report_for_another_one() {
    let mut fleet = Fleet::new(10, WindowRule::Total);
    let [a, b] = [fleet.gateway("a", 1, vec![]), fleet.gateway("b", 2, vec![])];
    a.exchange(&mut fleet, &demands(10, 10));
    let key = a.charge(&fleet, "b", 0).account.key().clone();
    let forged = Report {
        ended: vec![Epoch::new(1)],
        accounts: vec![closing(&key)],
        ..b.spender.report(&Demands::new(), fleet.boot())
    };
    b.deliver(&mut fleet, &forged);
    let row = fleet.ledger.budget(&key.budget, &key.window).unwrap();
    assert_eq!(row.exposed, units(10));
}
