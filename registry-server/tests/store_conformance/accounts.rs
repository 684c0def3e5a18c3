//! Accounts of the ledger after their processes, and the rights of lost gateways.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ledger::{
    AccountReport, BudgetKey, Epoch, Refusal, Rejection, Totals, Want, WindowId, WindowSpan,
    account::AccountRow,
    budget::{BudgetRow, OfflineLimits, ReclaimError},
};
use registry_core::{Amount, Timestamp};
use registry_server::store::{
    BookKey, BookPosting, BookReports, BookTerms, Error, GenerationCause, LedgerAges,
    LedgerFailure, NewAccessEvent, OpenWindow, PostContext, PostRequest, Posting, Reclaim,
    ReclaimFailure, Reclaimed, SeenState, Store,
};

use crate::{
    Fixture,
    log::{Draft, Log},
    tokens::event,
};

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
    let totals = Totals { granted: micros(granted), settled: micros(settled), ..Totals::default() };
    AccountReport { totals, is_final: false, ..mark(epoch, 0) }
}

/// Posts a report of a process of the gateway. Returns whether the account is closed.
async fn post(store: &Store, process: Epoch, report: &AccountReport, now: Timestamp) -> bool {
    let posting = try_post(store, process, report, now).await.unwrap();
    posting.results[0].as_ref().unwrap().grant.is_closed
}

async fn try_post(
    store: &Store,
    process: Epoch,
    report: &AccountReport,
    now: Timestamp,
) -> Result<BookPosting, LedgerFailure> {
    store.record_contact("g", process, now).await.unwrap();
    let (book, request) = (book(), request(process, report));
    let reports = BookReports { book: &book, terms: terms(&book), requests: &[request] };
    let Posting { mut books, .. } = store.post_reports(&[reports], context(now)).await?;
    Ok(books.remove(0))
}

fn request(process: Epoch, report: &AccountReport) -> PostRequest {
    PostRequest { gateway: Arc::from("g"), process, report: report.clone() }
}

/// A limit of 10 in an open window.
fn terms(book: &BookKey) -> BookTerms {
    let id = book.window.clone();
    let span = WindowSpan { id, starts_in: Duration::ZERO, ends_in: None, next: None };
    BookTerms {
        limit: Some(micros(10)),
        allowance: micros(2),
        open: Some(OpenWindow { span, end: None }),
        ended: None,
        alert_at: [].into(),
    }
}

fn context(now: Timestamp) -> PostContext {
    PostContext {
        seen: SeenState { generation: 0, counter: 0 },
        offline_for: Duration::from_hours(1),
        now,
        has_webhook: false,
    }
}

async fn row(store: &Store) -> BudgetRow {
    row_of(store, &book()).await
}

async fn row_of(store: &Store, book: &BookKey) -> BudgetRow {
    store.find_budget(book, at(0)).await.unwrap().unwrap().row
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

/// A restored database can lack the row of a window that has ended.
pub(crate) async fn late_report_about_a_lost_window_is_recorded(fixture: &Fixture) {
    let store = fixture.open().await;
    let (book, process) = (book(), Epoch::new(1));
    store.record_contact("g", process, at(2_000)).await.unwrap();
    let request = [request(process, &mark(process, 4))];
    let results = async |ended| {
        let terms = BookTerms { open: None, ended, ..terms(&book) };
        let reports = BookReports { book: &book, terms, requests: &request };
        store.post_reports(&[reports], context(at(2_000))).await.unwrap().books.remove(0).results
    };
    assert_eq!(results(None).await[0], Err(Rejection::UnknownWindow));
    let recorded = results(Some(at(1_000))).await.remove(0).unwrap();
    assert_eq!((recorded.budget.settled, recorded.grant.is_closed), (micros(4), true));
    assert_eq!(recorded.grant.refusal, None);
}

pub(crate) async fn only_stored_process_is_completed(fixture: &Fixture) {
    let store = fixture.open().await;
    let process = Epoch::new(1);
    let SeenState { generation, .. } =
        store.start_generation(GenerationCause::Restored(&event(0)), at(0)).await.unwrap();
    let complete = async |generation| store.complete_process("g", process, generation).await;
    assert!(!complete(generation).await.unwrap(), "the database lacks the process");
    assert_eq!(store.last_contact("g", process).await.unwrap(), None);
    store.record_contact("g", process, at(1)).await.unwrap();
    assert!(!complete(generation - 1).await.unwrap(), "an older generation");
    for _ in 0..2 {
        assert!(complete(generation).await.unwrap());
    }
    assert_eq!(store.last_contact("g", process).await.unwrap(), Some(at(1)));
    store.end_process("g", process, &[], at(2)).await.unwrap();
    assert_eq!(store.last_contact("g", process).await.unwrap(), None, "it has ended");
}

pub(crate) async fn generations_of_one_backup_differ(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut numbers = BTreeSet::new();
    for _ in 0..2 {
        let seen =
            store.start_generation(GenerationCause::Restored(&event(0)), at(0)).await.unwrap();
        numbers.insert(seen.generation);
        fixture.execute("UPDATE ledger SET generation = 0").await;
    }
    assert_eq!(numbers.len(), 2, "{numbers:?}");
}

async fn reclaim(store: &Store, now: Timestamp) -> Reclaimed {
    try_reclaim(store, now).await.unwrap()
}

async fn try_reclaim(store: &Store, now: Timestamp) -> Result<Reclaimed, ReclaimFailure> {
    let limits = OfflineLimits {
        offline_for: Duration::from_hours(1),
        longest_call: Duration::from_mins(15),
    };
    let wanted = Reclaim { gateway: "g".to_owned(), epoch: None, limits };
    let lost = NewAccessEvent { at: now, ..event(0) };
    store.reclaim_accounts(&book(), &wanted, &lost).await
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

/// A wait for the locked head would last until the database ends the session of the commit.
pub(crate) async fn refused_reclaim_does_not_wait_for_commit(fixture: &Fixture) {
    let store = fixture.open().await;
    let live = Epoch::new(1);
    post(&store, live, &holding(live, 5, 2), at(9)).await;
    let committing = store.lock_head().await.unwrap();
    let refused = try_reclaim(&store, at(9)).await;
    assert!(
        matches!(refused, Err(ReclaimFailure::Account(ReclaimError::TooEarly(_)))),
        "{refused:?}"
    );
    let mut log = Log::new(&store);
    let expected = log.catalog.revision();
    let commit = log.commit(Draft::new().register("a", "1.0.0"));
    store.append_locked(committing, expected, &[commit], &[]).await.unwrap();
}

/// The accounts that a report of the first process reads: it fails if one of them is damaged.
async fn accounts_read(fixture: &Fixture, store: &Store, report: &AccountReport) -> Vec<Epoch> {
    let mut read = Vec::new();
    for epoch in (1..=4).map(Epoch::new) {
        let damage = format!(
            "UPDATE ledger_accounts SET process = '{}' WHERE epoch = '{epoch}'",
            "-".repeat(32)
        );
        fixture.execute(&damage).await;
        match try_post(store, Epoch::new(1), report, at(0)).await {
            Ok(_) => {}
            Err(LedgerFailure::Store(Error::Corrupt { .. })) => read.push(epoch),
            Err(error) => panic!("{error}"),
        }
        fixture.execute("UPDATE ledger_accounts SET process = epoch").await;
    }
    read
}

pub(crate) async fn report_reads_other_accounts_only_if_refused(fixture: &Fixture) {
    let store = fixture.open().await;
    let [own, idle, spent, closed] = [1, 2, 3, 4].map(Epoch::new);
    for (process, granted) in [(own, 2), (idle, 2), (spent, 1), (closed, 2)] {
        post(&store, process, &holding(process, granted, 1), at(0)).await;
    }
    post(&store, closed, &mark(closed, 1), at(0)).await;
    let wanting = |minimum: Option<i64>, granted: i64| AccountReport {
        want: Some(Want { minimum: minimum.map(micros), granted: micros(granted) }),
        ..holding(own, 2, 1)
    };
    for granted in [holding(own, 2, 1), wanting(None, 3), wanting(Some(3), 3)] {
        assert_eq!(accounts_read(fixture, &store, &granted).await, [own]);
    }
    // 7 are exposed of 10, and 4 are spent.
    let refused = wanting(Some(7), 7);
    assert_eq!(accounts_read(fixture, &store, &refused).await, [own, idle]);
    let posting = try_post(&store, own, &refused, at(0)).await.unwrap();
    let recalled: Vec<_> = posting.recalls.iter().map(|account| account.key.epoch).collect();
    assert_eq!(recalled, [idle]);
}

pub(crate) async fn refused_reports_leave_others_of_transaction_granted(fixture: &Fixture) {
    let store = fixture.open().await;
    let process = Epoch::new(1);
    store.record_contact("g", process, at(0)).await.unwrap();
    let want = |epoch: u128, minimum: i64, granted: i64| {
        let want = Want { minimum: Some(micros(minimum)), granted: micros(granted) };
        let report = holding(Epoch::new(epoch), 0, 0);
        request(process, &AccountReport { want: Some(want), ..report })
    };
    // The second request for the second budget exceeds its limit, and the third one is invalid.
    let requests = [
        vec![want(1, 6, 6)],
        vec![want(1, 6, 6), want(2, 6, 6), want(3, 6, 5), want(4, 4, 4)],
        vec![want(1, 6, 6)],
        vec![want(1, 10, 10)],
    ];
    let keys = ["z", "y", "closed", "x"].map(|subject| {
        let BookKey { budget, window } = book();
        BookKey { budget: BudgetKey { subject: subject.into(), ..budget }, window }
    });
    let post = async || {
        let reports = keys.iter().zip(&requests).map(|(book, requests)| {
            let open = terms(book).open.filter(|_| &*book.budget.subject != "closed");
            BookReports { book, terms: BookTerms { open, ..terms(book) }, requests }
        });
        let reports: Vec<_> = reports.collect();
        store.post_reports(&reports, context(at(0))).await.unwrap()
    };
    let Posting { seen, books } = post().await;
    let granted = |posting: &BookPosting| {
        let granted = posting.results.iter().map(|result| {
            let grant = result.as_ref().ok()?.grant;
            Some((grant.granted.as_micros(), grant.refusal))
        });
        granted.collect::<Vec<_>>()
    };
    let (six, refused) = (Some((6, None)), Some((0, Some(Refusal::Recalling))));
    let expected =
        [vec![six], vec![six, refused, None, Some((4, None))], vec![None], vec![Some((10, None))]];
    assert_eq!(books.iter().map(granted).collect::<Vec<_>>(), expected);
    assert_eq!(books[2].results[0].as_ref().unwrap_err(), &Rejection::UnknownWindow);
    let mut exposed = Vec::new();
    for book in [&keys[0], &keys[1], &keys[3]] {
        exposed.push(row_of(&store, book).await.exposed);
    }
    assert_eq!(exposed, [micros(6), micros(10), micros(10)]);
    let again = post().await;
    assert_eq!(again.seen.counter, seen.counter + 1, "one transaction for four budgets");
    assert_eq!(again.books.iter().map(granted).collect::<Vec<_>>(), expected, "totals are merged");
}

pub(crate) async fn forced_and_unexplained_spending_is_stored(fixture: &Fixture) {
    let store = fixture.open().await;
    let [honest, forged] = [1, 2].map(Epoch::new);
    let compensated = holding(honest, 4, 33);
    let totals = Totals { forced: micros(30), ..compensated.totals };
    post(&store, honest, &AccountReport { totals, ..compensated }, at(0)).await;
    post(&store, forged, &holding(forged, 0, i64::MAX), at(0)).await;
    let budget = row(&store).await;
    assert_eq!(
        (budget.settled, budget.exposed, budget.overshoot),
        (micros(33), micros(33), micros(29))
    );
    assert_eq!((budget.unexplained, budget.peak_allowance), (Amount::MAX, micros(2)));
    let accounts = store.list_accounts(&book(), 2).await.unwrap();
    let amounts = accounts.iter().map(|listed| {
        let AccountRow { settled, forced, unexplained, .. } = listed.row;
        [settled, forced, unexplained]
    });
    let expected = [[micros(33), micros(30), micros(0)], [micros(0), micros(0), Amount::MAX]];
    assert_eq!(amounts.collect::<Vec<_>>(), expected);
}
