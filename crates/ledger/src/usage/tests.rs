//! A gateway that counts, and a registry in memory.

use super::*;

/// A registry that adds each report once.
#[derive(Default)]
struct Registry {
    sequences: HashMap<Epoch, u64>,
    calls: BTreeMap<UsageKey, u64>,
}

impl Registry {
    fn receive(&mut self, report: &UsageReport) {
        let last = self.sequences.entry(report.process).or_default();
        if report.sequence > *last {
            *last = report.sequence;
            for row in &report.rows {
                *self.calls.entry(row.key.clone()).or_default() += row.totals.calls;
            }
        }
    }

    fn total(&self) -> u64 {
        self.calls.values().sum()
    }
}

fn at(seconds: u64) -> BootTime {
    BootTime::new(Duration::from_secs(seconds))
}

fn names<'a>(agent: &'a str, tool: &'a str) -> UsageNames<'a> {
    UsageNames { agent, team: "bank", principal: UNKNOWN, tool, verdict: "allow" }
}

fn key(agent: &str, tool: &str) -> UsageKey {
    names(agent, tool).into()
}

/// One call for $0.015.
fn call() -> UsageTotals {
    UsageTotals {
        calls: 1,
        cost: Amount::from_micros(15_000),
        duration: Duration::from_millis(2),
        request_bytes: 3,
        response_bytes: 5,
        findings: 7,
    }
}

fn buffer() -> UsageBuffer {
    UsageBuffer::new(Epoch::new(1))
}

/// Sends reports until none is left.
fn drain(buffer: &mut UsageBuffer, registry: &mut Registry) {
    while let Some(report) = buffer.report(at(0)) {
        registry.receive(&report);
        buffer.confirm(report.sequence);
    }
}

#[test]
fn calls_of_one_minute_share_a_row() {
    let mut buffer = buffer();
    for (agent, tool, second) in [("a", "pay", 61), ("a", "pay", 119), ("a", "read", 61)] {
        assert!(buffer.count(names(agent, tool), &call(), at(second)));
    }
    buffer.count(names("a", "pay"), &call(), at(120));
    let report = buffer.report(at(130)).unwrap();
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|row| (&*row.key.tool, row.age.as_secs(), row.totals.calls))
        .collect();
    assert_eq!(rows, [("pay", 70, 2), ("read", 70, 1), ("pay", 10, 1)]);
    let UsageTotals { calls: _, cost, duration, request_bytes, response_bytes, findings } =
        report.rows[0].totals;
    assert_eq!((cost.as_micros(), duration.as_millis()), (30_000, 4));
    assert_eq!((request_bytes, response_bytes, findings), (6, 10, 14));
}

#[test]
fn report_is_unchanged_until_confirmed() {
    let mut buffer = buffer();
    assert_eq!(buffer.report(at(0)), None);
    buffer.count(names("a", "pay"), &call(), at(0));
    let first = buffer.report(at(0)).unwrap();
    buffer.count(names("a", "pay"), &call(), at(0));
    assert_eq!(buffer.report(at(0)), Some(first.clone()));
    buffer.confirm(first.sequence + 1);
    assert_eq!(buffer.report(at(0)), Some(first.clone()), "another report was confirmed");
    buffer.confirm(first.sequence);
    let second = buffer.report(at(0)).unwrap();
    assert_eq!((first.sequence, second.sequence), (1, 2));
    assert_eq!(second.rows[0].totals.calls, 1);
}

#[test]
fn lost_and_repeated_messages_count_once() {
    let (mut buffer, mut registry) = (buffer(), Registry::default());
    let mut delayed = Vec::new();
    for number in 0..100 {
        buffer.count(names("a", "pay"), &call(), at(number));
        let Some(report) = buffer.report(at(number)) else { continue };
        // The request is lost, the answer is lost, or a copy arrives later.
        match number % 4 {
            0 => {}
            1 => registry.receive(&report),
            2 => delayed.push(report),
            _ => {
                registry.receive(&report);
                buffer.confirm(report.sequence);
            }
        }
        if number % 7 == 0 {
            delayed.drain(..).for_each(|report| registry.receive(&report));
        }
    }
    drain(&mut buffer, &mut registry);
    for report in &delayed {
        registry.receive(report);
    }
    assert_eq!(registry.total(), 100);
}

#[test]
fn restarted_process_counts_from_one() {
    let mut registry = Registry::default();
    for epoch in 1..=3 {
        let mut buffer = UsageBuffer::new(Epoch::new(epoch));
        buffer.count(names("a", "pay"), &call(), at(0));
        drain(&mut buffer, &mut registry);
    }
    assert_eq!(registry.total(), 3);
}

#[test]
fn caller_with_many_tools_displaces_no_other() {
    let (mut buffer, mut registry) = (buffer(), Registry::default());
    for number in 0..2 * MAX_CALLER_ROWS {
        let has_own = buffer.count(names("many", &number.to_string()), &call(), at(0));
        assert_eq!(has_own, number < MAX_CALLER_ROWS);
    }
    assert!(buffer.count(names("many", "0"), &call(), at(0)), "a known row grows");
    assert!(buffer.count(names("few", "pay"), &call(), at(0)));
    drain(&mut buffer, &mut registry);
    let other = UsageKey::other_tools(key("many", "").caller);
    assert_eq!(registry.calls[&other], MAX_CALLER_ROWS as u64);
    assert_eq!(registry.calls[&key("few", "pay")], 1);
    assert!(buffer.count(names("many", "new"), &call(), at(0)), "confirmed rows leave room");
}

#[test]
fn memory_is_bounded_without_registry() {
    let (mut buffer, mut registry) = (buffer(), Registry::default());
    let mut calls = 0;
    for hour in 0..3 {
        for number in 0..2 * MAX_ROWS {
            buffer.count(names(&number.to_string(), "pay"), &call(), at(hour * HOUR));
            calls += 1;
        }
    }
    assert_eq!(buffer.rows.len(), MAX_ROWS + 3, "and one row of all others per hour");
    assert_eq!(buffer.pending_calls(), calls);
    drain(&mut buffer, &mut registry);
    assert_eq!(registry.total(), calls, "no call is lost");
    assert!(registry.calls.contains_key(&UsageKey::others()));
    assert!(buffer.rows_of_callers.is_empty());
}

#[test]
fn large_usage_is_sent_in_parts() {
    let mut buffer = buffer();
    for agent in 0..2 {
        for tool in 0..MAX_CALLER_ROWS {
            buffer.count(names(&agent.to_string(), &tool.to_string()), &call(), at(0));
        }
    }
    let mut sizes = Vec::new();
    while let Some(report) = buffer.report(at(0)) {
        sizes.push(report.rows.len());
        buffer.confirm(report.sequence);
    }
    assert_eq!(sizes, [MAX_REPORTED_USAGE, MAX_REPORTED_USAGE, 48]);
}

#[test]
fn sums_end_at_their_maximum() {
    let mut totals = UsageTotals::MAX;
    totals.add(&UsageTotals::MAX);
    assert_eq!(totals, UsageTotals::MAX);
    assert!(totals.are_valid());
    let refund = UsageTotals { cost: Amount::MIN, ..call() };
    assert!(!refund.are_valid());
    totals.add(&refund);
    totals.add(&refund);
    assert_eq!(totals.cost.as_micros(), -UsageTotals::MAX.cost.as_micros());
    assert!(totals.are_valid());
    assert!(!UsageTotals { calls: UsageTotals::MAX.calls + 1, ..call() }.are_valid());
}

#[test]
fn one_expensive_call_fits_its_row() {
    let mut buffer = buffer();
    let expensive = UsageTotals { cost: Amount::MAX, duration: Duration::MAX, ..call() };
    assert!(buffer.count(names("a", "pay"), &expensive, at(0)));
    let report = buffer.report(at(0)).unwrap();
    assert!(report.rows[0].totals.are_valid());
    assert_eq!(report.rows[0].totals.cost, UsageTotals::MAX.cost);
}
