//! Accounts of the ledger after their processes, and the rights of lost gateways.

use std::{sync::Arc, time::Duration};

use ledger::{
    AccountReport, BudgetKey, Epoch, Totals, WindowId, WindowSpan,
    budget::{BudgetRow, OfflineLimits},
};
use registry_core::{Amount, Timestamp};
use registry_server::store::{
    BookKey, BookTerms, LedgerAges, NewLedgerChange, OpenWindow, PostContext, PostRequest, Reclaim,
    Reclaimed, SeenState, Store,
};

use crate::Fixture;

const HOUR: i64 = 3_600_000;

fn at(hours: i64) -> Timestamp {
    Timestamp::from_millis(hours * HOUR)
}

fn micros(micros: i64) -> Amount {
    Amount::from_micros(micros)
}

fn book() -> BookKey {
    let budget = BudgetKey { policy: "p".into(), budget: "b".into(), subject: "a".into() };
    BookKey { budget, window: WindowId::new("total") }
}

/// The final report of a spending, as the next process on the disk sends it.
fn mark(epoch: Epoch, settled: i64) -> AccountReport {
    let BookKey { budget, window } = book();
    let totals = Totals { settled: micros(settled), ..Totals::default() };
    AccountReport { budget, window: Some(window), epoch, totals, is_final: true, want: None }
}

/// A report of rights and spending.
fn holding(epoch: Epoch, granted: i64, settled: i64) -> AccountReport {
    let totals =
        Totals { granted: micros(granted), returned: Amount::ZERO, settled: micros(settled) };
    AccountReport { totals, is_final: false, ..mark(epoch, 0) }
}

/// Posts a report of a process of the gateway. Returns whether the account is closed.
async fn post(store: &Store, process: Epoch, report: &AccountReport, now: Timestamp) -> bool {
    store.record_contact("g", process, now).await.unwrap();
    let BookKey { window, .. } = book();
    let span = WindowSpan { id: window, starts_in: Duration::ZERO, ends_in: None, next: None };
    let terms = BookTerms {
        limit: Some(micros(10)),
        is_bounded: true,
        allowance: Amount::ZERO,
        open: Some(OpenWindow { span, end: None }),
        alert_at: [].into(),
    };
    let request = PostRequest { gateway: Arc::from("g"), process, report: report.clone() };
    let context = PostContext {
        seen: SeenState { generation: 0, counter: 0 },
        offline_for: Duration::from_hours(1),
        now,
        has_webhook: false,
    };
    let posting = store.post_to_budget(&book(), &terms, &[request], context).await.unwrap();
    posting.results[0].as_ref().unwrap().grant.is_closed
}

async fn row(store: &Store) -> BudgetRow {
    store.find_budget(&book(), at(0)).await.unwrap().unwrap().row
}

/// Deletes old rows a month later.
async fn expire(store: &Store) {
    let ages = LedgerAges { before: at(700), rates_before: at(700), ended_before: at(0) };
    store.expire_ledger(ages).await.unwrap();
}

pub(crate) async fn late_report_of_ended_process_charges_nothing(fixture: &Fixture) {
    let store = fixture.open().await;
    let [first, second, third] = [1, 2, 3].map(Epoch::new);
    post(&store, first, &holding(first, 6, 4), at(0)).await;
    let reported = [mark(first, 5)];
    assert!(post(&store, second, &reported[0], at(1)).await);
    store.end_process("g", first, &reported, at(1)).await.unwrap();
    let settled = row(&store).await;
    assert_eq!((settled.settled, settled.exposed), (micros(5), micros(5)));
    expire(&store).await;
    assert_eq!(store.count_accounts(&book()).await.unwrap(), 0);
    // The answer was lost, and the gateway was down for a month.
    assert!(post(&store, third, &reported[0], at(721)).await);
    assert_eq!(row(&store).await, settled);
    let unreported = mark(Epoch::new(4), 1);
    assert!(post(&store, third, &unreported, at(721)).await);
    assert_eq!(row(&store).await.settled, micros(6), "another process is charged");
}

pub(crate) async fn account_without_ended_process_is_kept(fixture: &Fixture) {
    let store = fixture.open().await;
    let process = Epoch::new(1);
    post(&store, process, &holding(process, 6, 4), at(0)).await;
    assert_eq!(reclaim(&store, at(2)).await, Reclaimed { amount: micros(2), live: vec![] });
    expire(&store).await;
    assert!(post(&store, process, &holding(process, 6, 5), at(721)).await);
    let row = row(&store).await;
    assert_eq!((row.settled, row.exposed, row.overshoot), (micros(5), micros(5), micros(1)));
}

async fn reclaim(store: &Store, now: Timestamp) -> Reclaimed {
    let limits = OfflineLimits {
        offline_for: Duration::from_hours(1),
        longest_call: Duration::from_mins(15),
    };
    let wanted = Reclaim { gateway: "g".to_owned(), epoch: None, limits };
    let what = NewLedgerChange { at: now, principal: "op".to_owned(), reason: "lost".to_owned() };
    store.reclaim_accounts(&book(), &wanted, &what).await.unwrap()
}

pub(crate) async fn reclaim_leaves_rights_of_live_processes(fixture: &Fixture) {
    let store = fixture.open().await;
    let [dead, live] = [1, 2].map(Epoch::new);
    post(&store, dead, &holding(dead, 4, 1), at(0)).await;
    post(&store, live, &holding(live, 5, 2), at(9)).await;
    assert_eq!(reclaim(&store, at(10)).await, Reclaimed { amount: micros(3), live: vec![live] });
    let row = row(&store).await;
    assert_eq!((row.exposed, row.reclaimed), (micros(6), micros(3)));
}
