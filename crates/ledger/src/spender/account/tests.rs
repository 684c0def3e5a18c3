//! Reservations, marks and requests of one account.

use std::thread;

use super::*;
use crate::{
    key::{BudgetKey, Epoch},
    message::Grant,
    window::WindowSpan,
};

fn units(units: i64) -> Amount {
    Amount::from_micros(units * 1_000_000)
}

fn at(seconds: u64) -> BootTime {
    BootTime::new(Duration::from_secs(seconds))
}

fn demand(lowest: i64, total: i64) -> Demand {
    Demand { lowest: units(lowest), total: units(total) }
}

const NONE: Demand = Demand { lowest: Amount::ZERO, total: Amount::ZERO };

fn account(unit: Unit, allowance: i64) -> Account {
    let budget = BudgetKey { policy: "p".into(), budget: "b".into(), subject: "agent".into() };
    let key = AccountKey { budget, window: WindowId::new("total"), epoch: Epoch::new(1) };
    let settings = BudgetSettings { unit, allowance: units(allowance) };
    let rate = SpendingRate::new(Amount::ZERO, at(0));
    Account::new(key, settings, Amount::ZERO, rate, at(0))
}

fn state(granted: Amount) -> AccountState {
    let span = WindowSpan {
        id: WindowId::new("total"),
        starts_in: Duration::ZERO,
        ends_in: None,
        next: None,
    };
    AccountState {
        window: span,
        grant: Grant { granted, is_closed: false, recall: false, refusal: None },
        budget: BudgetState { limit: units(1_000), ..BudgetState::default() },
    }
}

fn grant(account: &Account, granted: Amount) {
    account.answer(&state(granted), account.totals(), 0, at(0), at(0));
}

/// An account with rights and a mark for all of them.
fn funded(granted: i64) -> Account {
    let account = account(Unit::Money, 0);
    grant(&account, units(granted));
    account.mark_written(units(granted));
    account
}

/// Writes the next mark to the file.
fn write_mark(account: &Account) {
    account.mark_written(account.next_mark(NONE));
}

#[test]
fn reservation_needs_rights_and_mark() {
    let account = account(Unit::Money, 0);
    assert_eq!(account.reserve(units(1), at(0)), Err(Shortfall::Rights));
    grant(&account, units(2));
    assert_eq!(account.reserve(units(1), at(0)), Err(Shortfall::Mark));
    assert_eq!(account.needed_mark(demand(1, 1)), Some(units(1)));
    account.mark_written(units(1));
    assert_eq!(account.reserve(units(1), at(0)), Ok(()));
    assert_eq!(account.reserve(units(1), at(0)), Err(Shortfall::Mark));
    assert_eq!(account.reserve(units(2), at(0)), Err(Shortfall::Rights));
}

#[test]
fn all_rights_can_be_reserved() {
    let account = funded(10);
    assert_eq!(account.reserve(units(10), at(0)), Ok(()));
    assert_eq!(account.reserve(Amount::from_micros(1), at(0)), Err(Shortfall::Rights));
    assert_eq!(account.reserve(Amount::ZERO, at(0)), Ok(()), "zero needs no rights");
    account.settle(units(10), units(4));
    assert_eq!(account.reserve(units(6), at(0)), Ok(()));
    account.release(units(6));
    assert_eq!((account.settled(), account.reserved()), (units(4), Amount::ZERO));
}

#[test]
fn calls_of_fleet_rate_need_no_mark() {
    let account = account(Unit::Calls, 0);
    grant(&account, units(2));
    assert_eq!([account.reserve(CALL, at(0)), account.reserve(CALL, at(0))], [Ok(()), Ok(())]);
    assert_eq!(account.reserve(CALL, at(0)), Err(Shortfall::Rights));
    assert_eq!(account.needed_mark(NONE), None);
}

#[test]
fn fleet_rate_prefetches_whole_calls() {
    let account = account(Unit::Calls, 0);
    grant(&account, units(4));
    account.reserve(CALL, at(1)).unwrap();
    for second in 1..=4 {
        account.tick(NONE, at(second));
    }
    account.reserve(units(3), at(4)).unwrap();
    let want = account.want(NONE, at(4)).unwrap();
    let more = want.granted.saturating_sub(units(4));
    assert!(more >= CALL && more.as_micros() % CALL.as_micros() == 0, "{want:?}");
    assert_eq!(account.prefetch_of_next().granted.as_micros() % CALL.as_micros(), 0);
}

#[test]
fn first_request_of_window_is_an_equal_share() {
    let account = funded(900);
    let mut shared = state(units(900));
    shared.budget = BudgetState { limit: units(10), active_gateways: 4, ..BudgetState::default() };
    account.answer(&shared, account.totals(), 0, at(0), at(0));
    account.reserve(units(900), at(1)).unwrap();
    account.tick(NONE, at(1));
    let want = account.prefetch_of_next();
    assert_eq!((want.minimum, want.granted), (None, Amount::from_micros(2_500_000)));
}

#[test]
fn mark_advances_by_a_second_of_spending() {
    let account = account(Unit::Money, 0);
    grant(&account, units(1_000));
    account.mark_written(units(100));
    for second in 1..=50 {
        account.reserve(units(2), at(second)).unwrap();
        account.settle(units(2), units(2));
        account.tick(NONE, at(second));
    }
    assert_eq!(account.needed_mark(NONE), Some(account.next_mark(NONE)));
    let ahead = account.next_mark(NONE).saturating_sub(units(100));
    assert!(units(1) < ahead && ahead <= units(2), "{ahead}");
    account.mark_written(account.next_mark(NONE));
    assert_eq!(account.needed_mark(NONE), None);
}

#[test]
fn mark_covers_overrun() {
    let account = funded(10);
    account.force(units(25));
    assert_eq!(account.needed_mark(NONE), Some(units(25)));
    account.settle(units(25), units(30));
    assert_eq!(account.next_mark(NONE), units(30));
}

#[test]
fn idle_rights_are_returned_after_five_seconds() {
    let account = funded(10);
    account.reserve(units(3), at(1)).unwrap();
    account.tick(NONE, at(1));
    account.tick(NONE, at(5));
    assert_eq!(account.totals().returned, Amount::ZERO);
    account.tick(demand(1, 2), at(6));
    write_mark(&account);
    assert_eq!(account.totals().returned, units(5), "waiting calls keep their rights");
    account.tick(NONE, at(7));
    write_mark(&account);
    assert_eq!(account.totals().returned, units(7));
    account.settle(units(3), units(3));
    assert_eq!(account.totals().settled, units(3));
}

#[test]
fn rights_above_the_mark_are_returned_too() {
    let account = account(Unit::Money, 0);
    grant(&account, units(10));
    account.mark_written(units(4));
    account.reserve(units(1), at(0)).unwrap();
    account.return_rights(demand(2, 7));
    assert_eq!(account.totals().returned, units(2));
    account.return_rights(NONE);
    write_mark(&account);
    assert_eq!(account.totals().returned, units(9));
    grant(&account, units(12));
    assert_eq!(account.reserve(units(2), at(0)), Err(Shortfall::Mark));
}

#[test]
fn rights_return_after_their_mark() {
    let account = funded(10);
    account.reserve(units(3), at(0)).unwrap();
    account.return_rights(NONE);
    assert_eq!(account.totals().returned, Amount::ZERO, "a crash would charge 10");
    assert_eq!(account.needed_mark(NONE), Some(units(3)));
    write_mark(&account);
    assert_eq!((account.totals().returned, account.needed_mark(NONE)), (units(7), None));
}

#[test]
fn rights_returned_during_a_write_need_another() {
    let account = account(Unit::Money, 0);
    grant(&account, units(10));
    let mark = account.next_mark(demand(10, 10));
    account.return_rights(NONE);
    account.mark_written(mark);
    assert_eq!(account.totals().returned, Amount::ZERO);
    write_mark(&account);
    assert_eq!(account.totals().returned, units(10));
}

#[test]
fn request_covers_waiting_calls_and_overrun() {
    let account = funded(2);
    assert_eq!(account.want(NONE, at(0)), None);
    let want = account.want(demand(3, 5), at(0)).unwrap();
    assert_eq!((want.minimum, want.granted), (Some(units(3)), units(5)));
    account.force(units(6));
    let want = account.want(demand(3, 5), at(0)).unwrap();
    assert_eq!((want.minimum, want.granted), (Some(units(9)), units(11)));
    let want = account.want(NONE, at(0)).unwrap();
    assert_eq!((want.minimum, want.granted), (None, units(6)));
}

const ONE: Amount = Amount::from_micros(1);

#[test]
fn steady_spending_prefetches() {
    let account = funded(200);
    for second in 1..=60 {
        account.reserve(units(1), at(second)).unwrap();
        account.tick(NONE, at(second));
    }
    assert_eq!(account.want(NONE, at(0)), None, "rights for more than 30 seconds");
    account.force(units(120));
    let want = account.want(NONE, at(0)).unwrap();
    assert_eq!(want.minimum, None, "a part is useful");
    assert!(want.granted > units(230), "{want:?}");
}

#[test]
fn allowance_is_spent_once_per_window() {
    let account = account(Unit::Money, 5);
    account.start_allowance();
    account.mark_written(units(100));
    account.reserve(units(4), at(0)).unwrap();
    account.settle(units(4), units(4));
    assert_eq!(account.reserve(units(2), at(0)), Err(Shortfall::Rights));
    account.end_allowance();
    assert_eq!(account.reserve(ONE, at(0)), Err(Shortfall::Rights));
    grant(&account, units(4));
    account.start_allowance();
    assert_eq!(account.reserve(units(2), at(0)), Err(Shortfall::Rights));
    assert_eq!(account.reserve(units(1), at(0)), Ok(()));
}

#[test]
fn rights_for_spent_allowance_do_not_renew_it() {
    let account = account(Unit::Money, 5);
    account.start_allowance();
    account.mark_written(units(100));
    account.reserve(units(4), at(0)).unwrap();
    account.settle(units(4), units(4));
    for granted in [3, 4] {
        grant(&account, units(granted));
        assert_eq!(account.reserve(units(2), at(0)), Err(Shortfall::Rights), "{granted} granted");
    }
    account.end_allowance();
    account.start_allowance();
    assert_eq!(account.reserve(units(2), at(0)), Err(Shortfall::Rights));
    assert_eq!(account.reserve(units(1), at(0)), Ok(()));
}

#[test]
fn older_grants_and_closed_account_add_nothing() {
    let account = funded(5);
    grant(&account, units(3));
    assert_eq!(account.totals().granted, units(5));
    let mut closed = state(units(9));
    closed.grant.is_closed = true;
    account.answer(&closed, account.totals(), 0, at(0), at(0));
    assert_eq!(account.totals().granted, units(5));
    assert_eq!(account.reserve(units(1), at(0)), Err(Shortfall::Closed));
    assert_eq!(account.want(demand(1, 1), at(0)), None);
}

#[test]
fn window_is_counted_from_report_and_answer() {
    let account = account(Unit::Money, 0);
    let mut next = state(units(1));
    next.window.starts_in = Duration::from_secs(30);
    next.window.ends_in = Some(Duration::from_secs(90));
    account.answer(&next, Totals::default(), 0, at(100), at(104));
    account.mark_written(units(1));
    for (second, is_current) in [(130, false), (133, false), (134, true), (189, true), (190, false)]
    {
        assert_eq!(account.is_current(at(second)), is_current, "{second}");
    }
    assert_eq!(account.reserve(units(1), at(190)), Err(Shortfall::OutsideWindow));
}

#[test]
fn extreme_amounts_do_not_overflow() {
    let account = account(Unit::Money, 0);
    grant(&account, Amount::MAX);
    account.mark_written(Amount::MAX);
    assert_eq!(account.reserve(Amount::MAX, at(0)), Ok(()));
    account.settle(Amount::MAX, Amount::MAX);
    account.force(Amount::MAX);
    account.settle(Amount::MAX, Amount::MAX);
    assert_eq!(account.settled(), Amount::MAX);
    assert_eq!(account.reserve(ONE, at(0)), Err(Shortfall::Rights));
    let demand = Demand { lowest: Amount::MAX, total: Amount::MAX };
    assert!(account.want(demand, at(0)).is_some_and(|want| want.minimum <= Some(want.granted)));
    account.tick(demand, at(1));
}

#[test]
fn concurrent_calls_stay_within_rights() {
    let account = funded(1_000);
    thread::scope(|scope| {
        for price in [3, 5, 7] {
            let account = &account;
            scope.spawn(move || {
                for round in 0..2_000 {
                    if account.reserve(units(price), at(0)).is_err() {
                        continue;
                    }
                    if round % 3 == 0 {
                        account.release(units(price));
                    } else {
                        account.settle(units(price), units(price));
                    }
                }
            });
        }
        for round in 0..200 {
            account.return_rights(demand(0, round));
            grant(&account, units(1_000 + round));
            account.mark_written(account.next_mark(demand(3, 20)));
            let Totals { granted, returned, settled, .. } = account.totals();
            assert!(returned.saturating_add(settled) <= granted);
        }
    });
    let Totals { granted, returned, settled, .. } = account.totals();
    assert!(returned.saturating_add(settled) <= granted);
    assert_eq!(account.reserved(), Amount::ZERO);
}
