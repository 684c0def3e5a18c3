//! Calls of traces.

use std::time::Duration;

use approval::Principal;
use registry_core::Timestamp;
use registry_server::store::{
    ReportedCall, Store, StoredCall, TraceLimits, TraceQuery, TraceReport,
};

use crate::Fixture;

const LIMITS: TraceLimits = TraceLimits { of_account: 100, total: 1_000 };

fn now() -> Timestamp {
    Timestamp::parse("2026-01-10T12:30:00Z").unwrap()
}

fn later(by: Duration) -> Timestamp {
    Timestamp::from_millis(now().as_millis() + i64::try_from(by.as_millis()).unwrap())
}

fn account(subject: &str) -> Principal {
    Principal { issuer: "i".to_owned(), subject: subject.to_owned(), person: None }
}

/// A call of the trace `t`, which starts the later the higher its number is.
fn call(subject: &str, number: u64) -> ReportedCall {
    ReportedCall {
        number,
        account: account(subject),
        trace_id: "t".to_owned(),
        started: later(Duration::from_secs(number)),
        call: format!(r#"{{"agent":"{subject}-{number}"}}"#),
    }
}

fn report(process: char, calls: Vec<ReportedCall>) -> TraceReport {
    TraceReport { process: process.to_string().repeat(32), calls }
}

async fn add(store: &Store, gateway: &str, report: &TraceReport) {
    store.add_trace_calls(gateway, report, LIMITS, now()).await.unwrap();
}

fn query(account: Option<Principal>) -> TraceQuery {
    TraceQuery { trace_id: "t".to_owned(), account, after: None, limit: 1_000 }
}

/// The numbers of the calls of an account, or of all.
async fn numbers(store: &Store, subject: Option<&str>) -> Vec<u64> {
    let calls = store.trace_calls(&query(subject.map(account))).await.unwrap();
    calls.iter().map(|call| call.number).collect()
}

pub(crate) async fn reported_calls_are_stored_once(fixture: &Fixture) {
    let store = fixture.open().await;
    let first = report('a', vec![call("x", 2), call("x", 1)]);
    let (a, b) = tokio::join!(
        store.add_trace_calls("g", &first, LIMITS, now()),
        store.add_trace_calls("g", &first, LIMITS, now()),
    );
    a.unwrap();
    b.unwrap();
    assert_eq!(numbers(&store, None).await, [1, 2]);
    add(&store, "g", &report('b', vec![call("x", 1)])).await;
    add(&store, "other", &report('a', vec![call("x", 1)])).await;
    add(&store, "g", &report('a', Vec::new())).await;
    let calls = store.trace_calls(&query(None)).await.unwrap();
    let facts =
        |call: &StoredCall| (call.gateway.clone(), call.process[..1].to_owned(), call.number);
    let facts: Vec<_> = calls.iter().map(facts).collect();
    let of =
        |gateway: &str, process: &str, number| (gateway.to_owned(), process.to_owned(), number);
    assert_eq!(facts, [of("g", "a", 1), of("g", "b", 1), of("other", "a", 1), of("g", "a", 2)]);
    assert_eq!(calls[0].at.started, later(Duration::from_secs(1)));
    assert_eq!((&calls[0].account, calls[0].call.as_str()), (&account("x"), r#"{"agent":"x-1"}"#));
}

pub(crate) async fn trace_calls_are_filtered_and_paged(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut calls: Vec<_> = (1..=5).map(|number| call("x", number)).collect();
    // Equal starts.
    for call in &mut calls {
        call.started = now();
    }
    calls.push(call("y", 6));
    calls.push(ReportedCall { trace_id: "u".to_owned(), ..call("x", 7) });
    add(&store, "g", &report('a', calls)).await;
    assert_eq!(numbers(&store, Some("x")).await, [1, 2, 3, 4, 5]);
    assert_eq!(numbers(&store, Some("y")).await, [6]);
    assert_eq!(numbers(&store, Some("z")).await, Vec::<u64>::new());
    let (mut after, mut found) = (None, Vec::new());
    loop {
        let page = TraceQuery { after, limit: 2, ..query(None) };
        let page = store.trace_calls(&page).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.at);
        found.extend(page.iter().map(|call| call.number));
    }
    assert_eq!(found, [1, 2, 3, 4, 5, 6]);
}

pub(crate) async fn oldest_trace_calls_beyond_limits_are_deleted(fixture: &Fixture) {
    let store = fixture.open().await;
    let limits = TraceLimits { of_account: 3, total: 5 };
    let add = async |process, calls| {
        store.add_trace_calls("g", &report(process, calls), limits, now()).await.unwrap();
    };
    add('a', (1..=5).map(|number| call("x", number)).collect()).await;
    assert_eq!(numbers(&store, Some("x")).await, [3, 4, 5], "of the account");
    add('b', vec![call("y", 6), call("z", 7), call("z", 8)]).await;
    assert_eq!(numbers(&store, None).await, [4, 5, 6, 7, 8], "in total");
}

pub(crate) async fn old_trace_calls_are_deleted(fixture: &Fixture) {
    let store = fixture.open().await;
    add(&store, "g", &report('a', vec![call("x", 1)])).await;
    let hour = later(Duration::from_hours(1));
    store.add_trace_calls("g", &report('a', vec![call("x", 2)]), LIMITS, hour).await.unwrap();
    store.expire_trace_calls(hour).await.unwrap();
    assert_eq!(numbers(&store, None).await, [2]);
}
