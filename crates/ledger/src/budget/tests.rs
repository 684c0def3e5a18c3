//! Grants at the boundaries of a budget.

use super::*;
use crate::{
    key::{BudgetKey, Epoch},
    message::Totals,
    window::WindowId,
};

fn units(units: i64) -> Amount {
    Amount::from_micros(units * 1_000_000)
}

fn terms(limit: Amount) -> Terms {
    Terms { limit: Some(limit), suspended: None, allowance: Amount::ZERO }
}

fn key(epoch: u128) -> AccountKey {
    let budget = BudgetKey { policy: "p".into(), budget: "b".into(), subject: "agent".into() };
    AccountKey { budget, window: WindowId::new("total"), epoch: Epoch::new(epoch) }
}

fn report(totals: [i64; 3], want: Option<Want>) -> AccountReport {
    let [granted, returned, settled] = totals.map(units);
    let AccountKey { budget, window, epoch } = key(1);
    let totals = Totals { granted, returned, settled, forced: Amount::ZERO };
    AccountReport { budget, window: Some(window), epoch, totals, is_final: false, want }
}

fn waiting(price: i64) -> Want {
    Want { minimum: Some(units(price)), granted: units(price) }
}

fn prefetch(granted: i64) -> Want {
    Want { minimum: None, granted: units(granted) }
}

#[test]
fn thresholds_are_reached_at_exact_fractions() {
    let row = |settled: i64, adjustment: i64| BudgetRow {
        settled: Amount::from_micros(settled),
        adjustment: Amount::from_micros(adjustment),
        ..BudgetRow::default()
    };
    let fraction = Fraction::from_ten_thousandths;
    for (settled, adjustment, parts, limit, is_reached) in [
        (8, 0, 8_000, 10, true),
        (7, 0, 8_000, 10, false),
        (8, 1, 8_000, 10, false),
        (0, 0, 1, 0, false),
        (1, 0, 10_000, 0, true),
        (i64::MAX, 0, 10_000, i64::MAX, true),
        (i64::MAX, 0, 10_000_000, i64::MAX, false),
    ] {
        let found =
            row(settled, adjustment).has_reached(fraction(parts), Amount::from_micros(limit));
        assert_eq!(found, is_reached, "{settled} of {limit} at {parts}");
    }
}

/// A budget with one account.
#[derive(Debug, Clone, Copy, Default)]
struct Ledger {
    budget: BudgetRow,
    account: AccountRow,
}

impl Ledger {
    fn post(&mut self, limit: i64, report: &AccountReport) -> Posted {
        self.try_post(&terms(units(limit)), report).unwrap()
    }

    fn try_post(&mut self, terms: &Terms, report: &AccountReport) -> Result<Posted, ReportError> {
        let posted = post(terms, &self.budget, &self.account, report)?;
        (self.budget, self.account) = (posted.budget, posted.account);
        Ok(posted)
    }

    /// Adds an account of another gateway, and keeps this one.
    fn grant_other(&mut self, limit: i64, granted: i64) {
        let account = std::mem::take(&mut self.account);
        self.post(limit, &report([0, 0, 0], Some(waiting(granted))));
        self.account = account;
    }
}

#[test]
fn exactly_the_limit_is_granted() {
    let mut ledger = Ledger::default();
    let posted = ledger.post(10, &report([0, 0, 0], Some(waiting(10))));
    assert_eq!((posted.grant.granted, posted.grant.refusal), (units(10), None));
    let posted = ledger.post(10, &report([10, 0, 10], Some(waiting(20))));
    assert_eq!(posted.grant.refusal, Some(Refusal::Exhausted));
    assert_eq!(ledger.budget.exposed, units(10));
}

#[test]
fn second_request_for_everything_is_refused() {
    let mut ledger = Ledger::default();
    ledger.grant_other(10, 10);
    let posted = ledger.post(10, &report([0, 0, 0], Some(waiting(10))));
    assert_eq!((posted.grant.granted, posted.grant.refusal), (units(0), Some(Refusal::Exhausted)));
}

#[test]
fn limit_of_zero_grants_nothing() {
    let mut ledger = Ledger::default();
    let posted = ledger.post(0, &report([0, 0, 0], Some(waiting(1))));
    assert_eq!(posted.grant.refusal, Some(Refusal::Exhausted));
    let posted = ledger.post(0, &report([0, 0, 0], Some(prefetch(1))));
    assert_eq!((posted.grant.granted, posted.grant.refusal), (Amount::ZERO, None));
}

#[test]
fn prefetch_is_partial_and_waiting_call_is_not() {
    let mut half = Ledger::default();
    half.grant_other(10, 5);
    let mut copy = half;
    let posted = copy.post(10, &report([0, 0, 0], Some(prefetch(10))));
    assert_eq!((posted.grant.granted, posted.grant.refusal), (units(5), None));
    let posted = half.post(10, &report([0, 0, 0], Some(waiting(10))));
    assert_eq!((posted.grant.granted, posted.grant.refusal), (units(0), Some(Refusal::Exhausted)));
    assert_eq!(half.budget.state(units(10), 1).available(), units(5));
}

#[test]
fn repeated_and_reordered_reports_change_nothing() {
    let mut ledger = Ledger::default();
    let first = report([0, 0, 0], Some(waiting(6)));
    ledger.post(10, &first);
    let second = report([6, 1, 3], Some(waiting(8)));
    ledger.post(10, &second);
    let rows = (ledger.budget, ledger.account);
    for old in [&first, &second, &first] {
        let posted = ledger.post(10, old);
        assert_eq!((posted.budget, posted.account), rows);
        assert_eq!((posted.grant.granted, posted.grant.refusal), (units(8), None));
    }
}

#[test]
fn returned_rights_are_granted_again() {
    let mut ledger = Ledger::default();
    ledger.post(10, &report([0, 0, 0], Some(waiting(10))));
    ledger.post(10, &report([10, 7, 3], None));
    assert_eq!(ledger.budget.exposed, units(3));
    ledger.grant_other(10, 7);
    assert_eq!(ledger.budget.exposed, units(10));
}

#[test]
fn overrun_is_covered_before_new_rights() {
    let mut ledger = Ledger::default();
    ledger.post(10, &report([0, 0, 0], Some(waiting(2))));
    let posted = ledger.post(10, &report([2, 0, 5], None));
    assert_eq!((posted.budget.exposed, posted.budget.overshoot), (units(5), units(3)));
    // A call of 1 needs 3 for the overrun and 1 for itself.
    let want = Some(waiting(6));
    let posted = ledger.post(6, &report([2, 0, 5], want));
    assert_eq!((posted.grant.granted, posted.budget.exposed), (units(6), units(6)));
    assert_eq!(posted.budget.overshoot, units(3), "recorded once");
    let mut full = Ledger::default();
    full.post(5, &report([0, 0, 5], None));
    let posted = full.post(5, &report([0, 0, 5], Some(waiting(6))));
    assert_eq!(posted.grant.refusal, Some(Refusal::Exhausted));
    let posted = full.post(5, &report([0, 0, 5], Some(waiting(5))));
    assert_eq!((posted.grant.granted, posted.budget.exposed), (units(5), units(5)));
}

#[test]
fn claim_restores_lost_grants() {
    let mut ledger = Ledger::default();
    let posted = ledger.post(10, &report([8, 0, 3], Some(prefetch(20))));
    assert_eq!(posted.claimed, units(8));
    assert_eq!((posted.grant.granted, posted.budget.exposed), (units(10), units(10)));
}

#[test]
fn crash_mark_closes_account_at_its_value() {
    let mut ledger = Ledger::default();
    ledger.post(10, &report([0, 0, 0], Some(waiting(10))));
    ledger.post(10, &report([10, 0, 3], None));
    let mark = |settled| AccountReport { is_final: true, ..report([0, 0, settled], None) };
    let posted = ledger.post(10, &mark(2));
    assert!(!posted.grant.is_closed, "a stale mark closes nothing");
    assert_eq!(posted.budget.exposed, units(10));
    let posted = ledger.post(10, &mark(4));
    assert!(posted.grant.is_closed);
    assert_eq!((posted.budget.exposed, posted.budget.settled), (units(4), units(4)));
    assert_eq!(ledger.post(10, &mark(4)).budget, posted.budget);
    let posted = ledger.post(10, &report([10, 0, 3], Some(prefetch(20))));
    assert_eq!((posted.grant.is_closed, posted.budget.exposed), (true, units(4)));
    let posted = ledger.post(10, &report([10, 0, 3], Some(waiting(11))));
    assert_eq!(posted.grant.refusal, Some(Refusal::Closed));
}

#[test]
fn late_report_is_recorded_as_overshoot() {
    let limits = OfflineLimits {
        offline_for: Duration::from_hours(1),
        longest_call: Duration::from_mins(10),
    };
    let at = |minutes: i64| Timestamp::from_millis(minutes * 60_000);
    let mut ledger = Ledger::default();
    ledger.post(10, &report([0, 0, 0], Some(waiting(10))));
    ledger.post(10, &report([10, 0, 3], None));
    let reclaim =
        |ledger: &Ledger, now| reclaim(&ledger.budget, &ledger.account, at(5), limits, at(now));
    assert_eq!(reclaim(&ledger, 74), Err(ReclaimError::TooEarly(at(75))));
    let reclaimed = reclaim(&ledger, 75).unwrap();
    (ledger.budget, ledger.account) = (reclaimed.budget, reclaimed.account);
    assert_eq!((ledger.budget.exposed, ledger.budget.reclaimed), (units(3), units(7)));
    assert_eq!(reclaim(&ledger, 75), Err(ReclaimError::Closed));
    let posted = ledger.post(10, &report([10, 0, 8], None));
    assert_eq!((posted.budget.settled, posted.budget.exposed), (units(8), units(8)));
    assert_eq!(posted.budget.overshoot, units(5));
}

#[test]
fn changed_limit_keeps_spending() {
    let mut ledger = Ledger::default();
    ledger.post(10, &report([0, 0, 0], Some(waiting(10))));
    let lowered = ledger.post(4, &report([10, 0, 2], Some(waiting(11))));
    assert_eq!((lowered.grant.recall, lowered.grant.refusal), (true, Some(Refusal::Exhausted)));
    let returned = ledger.post(4, &report([10, 8, 2], None));
    assert_eq!((returned.grant.recall, returned.budget.exposed), (false, units(2)));
    let raised = ledger.post(20, &report([10, 8, 2], Some(waiting(28))));
    assert_eq!((raised.grant.granted, raised.budget.exposed), (units(28), units(20)));
}

#[test]
fn adjustment_changes_limit_of_window() {
    let mut ledger = Ledger::default();
    ledger.budget.adjustment = units(5);
    assert_eq!(ledger.post(10, &report([0, 0, 0], Some(waiting(15)))).grant.refusal, None);
    ledger.budget.adjustment = units(-20);
    assert_eq!(ledger.budget.effective_limit(units(10)), Amount::ZERO);
    assert_eq!(ledger.budget.effective_limit(Amount::MAX), Amount::MAX.saturating_sub(units(20)));
}

#[test]
fn suspended_budget_records_and_grants_nothing() {
    let mut ledger = Ledger::default();
    for reason in [Refusal::Recovering, Refusal::OutsideWindow] {
        let terms = Terms { suspended: Some(reason), ..terms(units(10)) };
        let posted = ledger.try_post(&terms, &report([3, 0, 2], Some(waiting(4)))).unwrap();
        assert_eq!((posted.grant.granted, posted.grant.refusal), (units(3), Some(reason)));
        assert_eq!(posted.budget.settled, units(2));
    }
}

#[test]
fn impossible_reports_change_nothing() {
    let mut ledger = Ledger::default();
    let terms = terms(units(10));
    for (totals, want, error) in [
        ([-1, 0, 0], None, ReportError::Negative),
        ([0, -1, 0], None, ReportError::Negative),
        ([0, 0, -1], None, ReportError::Negative),
        ([1, 2, 0], None, ReportError::ReturnedTooMuch),
        ([0, 0, 0], Some(Want { minimum: Some(units(2)), granted: units(1) }), ReportError::Want),
    ] {
        let found = ledger.try_post(&terms, &report(totals, want)).unwrap_err();
        assert_eq!(found, error);
        assert_eq!((ledger.budget, ledger.account), Default::default());
    }
}

/// Spending without rights beyond this amount is not plausible under a limit of 10.
const IMPLAUSIBLE: i64 = 10_001;
const LARGEST: i64 = i64::MAX / 1_000_000;

fn forced(amount: i64, settled: i64) -> AccountReport {
    let report = report([0, 0, settled], None);
    AccountReport { totals: Totals { forced: units(amount), ..report.totals }, ..report }
}

#[test]
fn claimed_rights_count_up_to_the_limit() {
    for (totals, rights) in
        [([10, 0, 0], 10), ([40, 35, 0], 5), ([11, 0, 0], 0), ([LARGEST, 0, 0], 0)]
    {
        let mut ledger = Ledger::default();
        let posted = ledger.post(10, &report(totals, None));
        assert_eq!(posted.account.rights(), units(rights), "{totals:?}");
        assert_eq!(posted.budget.exposed, units(rights), "{totals:?}");
    }
}

#[test]
fn explained_spending_counts_and_other_is_kept_apart() {
    let terms = Terms { allowance: units(1), ..terms(units(10)) };
    for (report, settled, unexplained) in [
        (forced(0, 11), 11, 0),
        (forced(0, 12), 0, 12),
        (forced(1, 12), 12, 0),
        (forced(5_000, 5_000), 5_000, 0),
        (forced(0, LARGEST), 0, LARGEST),
        (forced(LARGEST, LARGEST), 0, LARGEST),
        (forced(2 * IMPLAUSIBLE, 2 * IMPLAUSIBLE), 0, 2 * IMPLAUSIBLE),
    ] {
        let mut ledger = Ledger::default();
        let posted = ledger.try_post(&terms, &report).unwrap();
        let BudgetRow { settled: found, exposed, unexplained: apart, .. } = posted.budget;
        let expected = (units(settled), units(settled), units(unexplained));
        assert_eq!((found, exposed, apart), expected, "{report:?}");
        assert_eq!((posted.unexplained, posted.account.spent()), (apart, report.totals.settled));
    }
}

#[test]
fn forged_report_leaves_limit_to_others() {
    let mut ledger = Ledger::default();
    ledger.post(10, &forced(LARGEST, LARGEST));
    ledger.account = AccountRow::default();
    let posted = ledger.post(10, &report([0, 0, 0], Some(waiting(10))));
    assert_eq!(posted.grant.refusal, None);
    assert_eq!(posted.budget.exposed, units(10));
}

#[test]
fn rights_explain_spending_later() {
    let mut ledger = Ledger::default();
    ledger.post(10, &report([0, 0, 15], None));
    assert_eq!(ledger.budget.unexplained, units(15));
    ledger.post(10, &report([0, 0, 15], Some(prefetch(15))));
    let posted = ledger.post(10, &report([10, 0, 15], None));
    assert_eq!((posted.budget.settled, posted.budget.exposed), (units(10), units(10)));
    assert_eq!(posted.budget.unexplained, units(5));
    let posted = ledger.post(10, &report([10, 0, 17], None));
    assert_eq!((posted.budget.settled, posted.budget.unexplained), (units(12), units(5)));
}

#[test]
fn spending_without_policy_is_explained_by_rights() {
    let mut ledger = Ledger::default();
    ledger.post(10, &report([0, 0, 0], Some(waiting(4))));
    let retired = Terms { limit: None, ..terms(Amount::ZERO) };
    let posted = ledger.try_post(&retired, &report([4, 0, 3], None)).unwrap();
    assert_eq!((posted.budget.settled, posted.budget.unexplained), (units(3), units(0)));
    let posted = ledger.try_post(&retired, &report([9, 0, 6], None)).unwrap();
    assert_eq!((posted.budget.settled, posted.budget.unexplained), (units(4), units(2)));
    assert_eq!(posted.budget.exposed, units(4));
}

#[test]
fn highest_limit_and_allowance_bound_late_reports() {
    let mut ledger = Ledger::default();
    let before = Terms { allowance: units(3), ..terms(units(10)) };
    ledger.try_post(&before, &report([0, 0, 0], Some(waiting(10)))).unwrap();
    let posted = ledger.post(0, &report([10, 0, 23], None));
    assert_eq!((posted.budget.settled, posted.budget.overshoot), (units(23), units(13)));
    let posted = ledger.post(0, &report([10, 0, 24], None));
    assert_eq!((posted.budget.settled, posted.budget.unexplained), (units(23), units(1)));
    ledger.account = AccountRow::default();
    let lost = ledger.post(0, &report([8, 0, 5], None));
    assert_eq!(lost.claimed, units(8), "the limit was lowered after the lost grant");
}

#[test]
fn extreme_amounts_are_recorded() {
    let mut ledger = Ledger::default();
    let largest = Want { minimum: Some(Amount::MAX), granted: Amount::MAX };
    let posted = ledger.try_post(&terms(Amount::MAX), &report([0, 0, 0], Some(largest))).unwrap();
    assert_eq!((posted.grant.granted, posted.budget.exposed), (Amount::MAX, Amount::MAX));
    for count in 1..=2 {
        ledger.account = AccountRow::default();
        let posted = ledger.post(LARGEST, &report([0, 0, LARGEST], None));
        assert_eq!(posted.account.unexplained, units(LARGEST));
        assert_eq!(posted.budget.unexplained > units(LARGEST), count == 2, "the sum ends");
    }
    let negative = Want { minimum: Some(Amount::MIN), granted: Amount::MIN };
    let posted = ledger.try_post(&terms(Amount::MAX), &report([0, 0, 0], Some(negative))).unwrap();
    assert_eq!(posted.grant.granted, Amount::ZERO);
}

#[test]
fn shortage_recalls_reachable_and_doubts_others() {
    let holding = |epoch, granted, settled, is_reachable| Holding {
        gateway: format!("gateway-{epoch}"),
        key: key(epoch),
        account: AccountRow { granted, settled, ..AccountRow::default() },
        is_reachable,
    };
    let holdings = [
        holding(1, units(1), units(0), true),
        holding(2, units(4), units(1), true),
        holding(3, units(3), units(3), true),
        holding(4, units(2), units(0), false),
    ];
    let state = BudgetState { limit: units(10), settled: units(4), ..BudgetState::default() };
    let shortage = find_shortage(&state, &holdings, &holdings[0], units(6));
    assert_eq!(shortage.recall, [&holdings[1]]);
    assert_eq!((shortage.in_doubt, shortage.refusal()), (units(2), Refusal::Recalling));
    let hopeless = find_shortage(&state, &holdings, &holdings[0], units(7));
    assert_eq!((hopeless.recall.len(), hopeless.refusal()), (0, Refusal::Exhausted));
    assert_eq!(hopeless.in_doubt, units(2));
}
