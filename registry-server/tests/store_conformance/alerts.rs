//! Alerts of budgets, and fleet rates that are over.

use std::{sync::Arc, time::Duration};

use ledger::{AccountReport, BudgetKey, Epoch, Totals, WindowId, WindowSpan};
use registry_core::{Amount, Timestamp, entity::policy::Fraction};
use registry_server::store::{
    AlertAttempt, AlertDelivery, BookKey, BookReports, BookTerms, Crossing, LedgerAges, OpenWindow,
    PostContext, PostRequest, SeenState, Store,
};

use crate::Fixture;

const LIMIT: Amount = Amount::from_micros(10);

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn book(budget: &str) -> BookKey {
    let budget = BudgetKey { policy: "p".into(), budget: budget.into(), subject: "a".into() };
    BookKey { budget, window: WindowId::new("w") }
}

fn half() -> Fraction {
    Fraction::from_ten_thousandths(5_000)
}

/// Reports the spending of a budget whose window ends at 1,000. Returns the reached thresholds.
async fn spend(store: &Store, book: &BookKey, settled: i64, has_webhook: bool) -> Vec<Fraction> {
    let window = book.window.clone();
    let span =
        WindowSpan { id: window.clone(), starts_in: Duration::ZERO, ends_in: None, next: None };
    let terms = BookTerms {
        limit: Some(LIMIT),
        allowance: Amount::ZERO,
        open: Some(OpenWindow { span, end: Some(at(1_000)) }),
        ended: None,
        alert_at: [half(), Fraction::ONE].into(),
    };
    let amount = Amount::from_micros(settled);
    let report = AccountReport {
        budget: book.budget.clone(),
        window: Some(window),
        epoch: Epoch::new(1),
        totals: Totals { granted: amount, settled: amount, ..Totals::default() },
        is_final: false,
        want: None,
    };
    let request = PostRequest { gateway: Arc::from("g"), process: Epoch::new(1), report };
    let context = PostContext {
        seen: SeenState { generation: 0, counter: 0 },
        offline_for: Duration::from_hours(1),
        now: at(settled),
        has_webhook,
    };
    let reports = BookReports { book, terms, requests: &[request] };
    let posting = store.post_reports(&[reports], context).await.unwrap();
    posting.books[0].crossings.iter().map(|crossing| crossing.threshold).collect()
}

/// Claims the alerts that are due until 100 ms later.
async fn claim(store: &Store, now: i64) -> Vec<(String, u32)> {
    let claimed = store.claim_alerts(at(now), at(now + 100), 10).await.unwrap();
    claimed.into_iter().map(|alert| (alert.id, alert.attempts)).collect()
}

pub(crate) async fn each_threshold_is_recorded_once(fixture: &Fixture) {
    let store = fixture.open().await;
    let book = book("b");
    assert_eq!(spend(&store, &book, 4, true).await, []);
    assert_eq!(spend(&store, &book, 6, true).await, [half()]);
    assert_eq!(spend(&store, &book, 7, true).await, []);
    assert_eq!(spend(&store, &book, 10, true).await, [Fraction::ONE]);
    let listed = store.list_alerts(&book, 10).await.unwrap();
    let settled = Amount::from_micros;
    let crossing = |threshold, at, settled| Crossing { threshold, at, settled, limit: LIMIT };
    let crossings: Vec<_> = listed.iter().map(|alert| alert.crossing).collect();
    let expected =
        [crossing(half(), at(6), settled(6)), crossing(Fraction::ONE, at(10), settled(10))];
    assert_eq!(crossings, expected);
    assert!(listed.iter().all(|alert| alert.delivery == AlertDelivery::Pending));
}

pub(crate) async fn claimed_alert_is_claimed_again_later(fixture: &Fixture) {
    let store = fixture.open().await;
    let book = book("b");
    spend(&store, &book, 6, true).await;
    assert_eq!(store.next_alert_attempt().await.unwrap(), Some(at(6)));
    assert_eq!(claim(&store, 5).await, []);
    let first = claim(&store, 6).await;
    let [(id, 1)] = &first[..] else { panic!("{first:?}") };
    assert_eq!(claim(&store, 105).await, []);
    assert_eq!(claim(&store, 106).await, [(id.clone(), 2)]);
    store.record_alert_attempt(id, AlertAttempt::Retry(at(300))).await.unwrap();
    assert_eq!(claim(&store, 299).await, []);
    assert_eq!(claim(&store, 300).await, [(id.clone(), 3)]);
    store.record_alert_attempt(id, AlertAttempt::Delivered(at(310))).await.unwrap();
    store.record_alert_attempt(id, AlertAttempt::Retry(at(320))).await.unwrap();
    assert_eq!(store.next_alert_attempt().await.unwrap(), None, "a late failure has no effect");
    let listed = store.list_alerts(&book, 10).await.unwrap();
    assert_eq!(listed[0].delivery, AlertDelivery::Delivered(at(310)));
}

pub(crate) async fn alert_without_webhook_is_not_claimed(fixture: &Fixture) {
    let store = fixture.open().await;
    let book = book("b");
    spend(&store, &book, 6, false).await;
    assert_eq!(claim(&store, 1_000).await, []);
    let listed = store.list_alerts(&book, 10).await.unwrap();
    assert_eq!(listed[0].delivery, AlertDelivery::NoWebhook);
}

pub(crate) async fn rates_expire_before_budgets(fixture: &Fixture) {
    let store = fixture.open().await;
    let (budget, rate) = (book("b"), book("rate::10/PT1S"));
    for book in [&budget, &rate] {
        spend(&store, book, 6, true).await;
    }
    let is_kept = async |book: &BookKey| store.find_budget(book, at(0)).await.unwrap().is_some();
    let expire = async |before, rates_before| {
        let ages = LedgerAges { before, rates_before, ended_before: at(0) };
        store.expire_ledger(ages).await.unwrap();
    };
    expire(at(0), at(1_000)).await;
    assert_eq!([is_kept(&budget).await, is_kept(&rate).await], [true; 2]);
    expire(at(0), at(1_001)).await;
    assert_eq!([is_kept(&budget).await, is_kept(&rate).await], [true, false]);
    expire(at(1_001), at(1_001)).await;
    assert!(!is_kept(&budget).await);
    assert_eq!(store.next_alert_attempt().await.unwrap(), None, "alerts end with their window");
}
