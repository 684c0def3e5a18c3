//! Usage of tools.

use std::{collections::BTreeSet, time::Duration};

use ledger::{
    Epoch,
    usage::{UsageCaller, UsageKey, UsageReport, UsageRow, UsageTotals},
};
use registry_core::{Amount, Timestamp};
use registry_server::store::{Store, UsageAges, UsageInterval, UsageProperty, UsageQuery};

use crate::Fixture;

const HOUR: Duration = Duration::from_hours(1);

fn now() -> Timestamp {
    Timestamp::parse("2026-01-10T12:30:00Z").unwrap()
}

fn before(age: Duration) -> Timestamp {
    Timestamp::from_millis(now().as_millis() - i64::try_from(age.as_millis()).unwrap())
}

/// One call of `pay` for $0.015.
fn row(age: Duration) -> UsageRow {
    let caller = UsageCaller { agent: "a".into(), team: "t".into(), principal: "p".into() };
    let key = UsageKey { caller, tool: "pay".into(), verdict: "allow".into() };
    let totals = UsageTotals {
        calls: 1,
        cost: Amount::from_micros(15_000),
        duration: Duration::from_millis(2),
        request_bytes: 3,
        response_bytes: 5,
        findings: 7,
    };
    UsageRow { age, key, totals }
}

fn report(sequence: u64, ages: &[Duration]) -> UsageReport {
    let rows = ages.iter().map(|age| row(*age)).collect();
    UsageReport { process: Epoch::new(1), sequence, rows }
}

/// Adds a report. Usage of every age is stored by minute.
async fn add(store: &Store, report: &UsageReport) {
    store.add_usage("g", report, Timestamp::EPOCH, now()).await.unwrap();
}

/// The starts of intervals with their calls.
async fn intervals(store: &Store, interval: UsageInterval) -> Vec<(String, u64)> {
    let query = UsageQuery { interval: Some(interval), limit: 100, ..Default::default() };
    let groups = store.query_usage(&query).await.unwrap();
    groups.iter().map(|group| (group.key.start().to_string(), group.totals.calls)).collect()
}

async fn total(store: &Store) -> UsageTotals {
    let query = UsageQuery { limit: 100, ..Default::default() };
    let groups = store.query_usage(&query).await.unwrap();
    assert!(groups.len() < 2, "{groups:?}");
    groups.first().map(|group| group.totals).unwrap_or_default()
}

pub(crate) async fn usage_report_is_added_once(fixture: &Fixture) {
    let store = fixture.open().await;
    let first = report(1, &[Duration::ZERO, HOUR]);
    let (a, b) = tokio::join!(
        store.add_usage("g", &first, Timestamp::EPOCH, now()),
        store.add_usage("g", &first, Timestamp::EPOCH, now()),
    );
    a.unwrap();
    b.unwrap();
    assert_eq!(total(&store).await.calls, 2);
    add(&store, &report(3, &[HOUR])).await;
    for late in 1..=3 {
        add(&store, &report(late, &[HOUR])).await;
    }
    let expected = UsageTotals {
        calls: 3,
        cost: Amount::from_micros(45_000),
        duration: Duration::from_millis(6),
        request_bytes: 9,
        response_bytes: 15,
        findings: 21,
    };
    assert_eq!(total(&store).await, expected);
    store.add_usage("other", &first, Timestamp::EPOCH, now()).await.unwrap();
    assert_eq!(total(&store).await.calls, 5, "another gateway has numbers of its own");
    add(&store, &report(4, &[])).await;
    assert_eq!(total(&store).await.calls, 5);
}

pub(crate) async fn old_minutes_merge_into_hours(fixture: &Fixture) {
    let store = fixture.open().await;
    let minute = Duration::from_mins(1);
    add(&store, &report(1, &[Duration::ZERO, minute, 50 * HOUR, 50 * HOUR + minute])).await;
    let start = |text: &str| format!("2026-01-{text}:00.000Z");
    let recent = [(start("10T12:29"), 1), (start("10T12:30"), 1)];
    let minutes = [(start("08T10:29"), 1), (start("08T10:30"), 1)];
    let found = intervals(&store, UsageInterval::Minute).await;
    assert_eq!(found, [minutes, recent.clone()].concat());
    let hours_before = before(48 * HOUR);
    let ages = UsageAges { hours_before, deleted_before: Timestamp::EPOCH };
    for _ in 0..2 {
        store.expire_usage(ages).await.unwrap();
        let found = intervals(&store, UsageInterval::Minute).await;
        assert_eq!(found[0], (start("08T10:00"), 2));
        assert_eq!(found[1..], recent);
    }
    store.add_usage("g", &report(2, &[50 * HOUR]), hours_before, now()).await.unwrap();
    let hours = [(start("08T10:00"), 3), (start("10T12:00"), 2)];
    assert_eq!(intervals(&store, UsageInterval::Hour).await, hours);
    let days = [(start("08T00:00"), 3), (start("10T00:00"), 2)];
    assert_eq!(intervals(&store, UsageInterval::Day).await, days);
    assert_eq!(total(&store).await.cost, Amount::from_micros(75_000));
}

pub(crate) async fn old_usage_is_deleted(fixture: &Fixture) {
    let store = fixture.open().await;
    add(&store, &report(1, &[HOUR, 3 * HOUR])).await;
    let deleted_before = before(2 * HOUR);
    store.expire_usage(UsageAges { hours_before: Timestamp::EPOCH, deleted_before }).await.unwrap();
    assert_eq!(total(&store).await.calls, 1);
    add(&store, &report(1, &[HOUR])).await;
    assert_eq!(total(&store).await.calls, 1, "the number of the report is kept");
}

pub(crate) async fn large_sums_end_at_their_maximum(fixture: &Fixture) {
    let store = fixture.open().await;
    for sequence in 1..=3 {
        let mut report = report(sequence, &[Duration::ZERO]);
        report.rows[0].totals = UsageTotals::MAX;
        add(&store, &report).await;
    }
    assert_eq!(total(&store).await, UsageTotals::MAX);
    let least = Amount::ZERO.saturating_sub(UsageTotals::MAX.cost);
    for sequence in 4..=6 {
        let mut report = report(sequence, &[Duration::ZERO]);
        report.rows[0].totals = UsageTotals { cost: least, ..UsageTotals::default() };
        add(&store, &report).await;
    }
    assert_eq!(total(&store).await, UsageTotals { cost: least, ..UsageTotals::MAX });
}

pub(crate) async fn large_rows_are_summed_and_merged(fixture: &Fixture) {
    let store = fixture.open().await;
    let minutes: Vec<_> = (0..4).map(|age| 50 * HOUR + age * Duration::from_mins(1)).collect();
    let mut report = report(1, &minutes);
    for row in &mut report.rows {
        row.totals.cost = UsageTotals::MAX.cost;
    }
    add(&store, &report).await;
    assert_eq!(total(&store).await.cost, UsageTotals::MAX.cost);
    let ages = UsageAges { hours_before: before(48 * HOUR), deleted_before: Timestamp::EPOCH };
    store.expire_usage(ages).await.unwrap();
    let merged = total(&store).await;
    assert_eq!((merged.calls, merged.cost), (4, UsageTotals::MAX.cost));
}

pub(crate) async fn usage_is_filtered_and_paged(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut report = report(1, &[Duration::ZERO; 7]);
    for (number, row) in report.rows.iter_mut().enumerate() {
        row.key.tool = format!("t{number}").into();
        row.key.caller.agent = if number < 2 { "a".into() } else { "team/b".into() };
    }
    for (row, skill) in report.rows[5..].iter_mut().zip(["work/c/skill", "work/skill"]) {
        (row.key.tool, row.key.caller.agent) = (skill.into(), "d".into());
    }
    add(&store, &report).await;
    let group_by = BTreeSet::from([UsageProperty::Tool]);
    let query = UsageQuery { group_by, limit: 2, ..Default::default() };
    let mut after = None;
    let mut pages = Vec::new();
    loop {
        let page = UsageQuery { after, ..query.clone() };
        let groups = store.query_usage(&page).await.unwrap();
        after = groups.last().map(|group| group.key.clone());
        pages.push(groups.iter().map(|group| group.key.tool.clone()).collect::<Vec<_>>());
        if groups.is_empty() {
            break;
        }
    }
    assert_eq!(pages.concat(), ["t0", "t1", "t2", "t3", "t4", "work/c/skill", "work/skill"]);
    let count = async |query: UsageQuery| store.query_usage(&query).await.unwrap().len();
    let all = UsageQuery { limit: 100, ..query };
    let of_agent = [(UsageProperty::Agent, "a".to_owned())].into();
    assert_eq!(count(UsageQuery { filters: of_agent, ..all.clone() }).await, 2);
    for (scopes, expected) in [
        ("tool/t0", 1),
        ("tool/t0 agent/a", 2),
        ("TEAM/*", 3),
        ("tea/* policy/t0 tool/a", 0),
        ("work/*", 1),
        ("*", 7),
    ] {
        let scopes: Vec<_> = scopes.split(' ').map(|scope| scope.parse().unwrap()).collect();
        let found = count(UsageQuery { scopes: scopes.into(), ..all.clone() }).await;
        assert_eq!(found, expected);
    }
    let minute = Duration::from_mins(1);
    let since = |age| UsageQuery { start: Some(before(age)), ..all.clone() };
    assert_eq!(count(since(Duration::ZERO)).await, 7);
    assert_eq!(count(UsageQuery { end: Some(now()), ..since(minute) }).await, 0);
    let end = Timestamp::from_millis(now().as_millis() + 1);
    assert_eq!(count(UsageQuery { end: Some(end), ..since(minute) }).await, 7);
}
