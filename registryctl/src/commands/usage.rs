//! `usage`: the calls of the fleet by caller, tool and verdict.

use std::{cmp::Reverse, time::Duration};

use registry_core::{Amount, Timestamp};
use registry_proto::{convert, v1};

use super::Session;
use crate::{
    cli::{Format, UsageArgs, UsageColumn},
    client::{PAGE_SIZE, request},
    clock,
    failure::Failure,
    screen::TextTable,
    view::UsageView,
};

pub(super) async fn run(session: &Session, args: UsageArgs) -> Result<(), Failure> {
    let UsageArgs { by, interval, since, until, gateway, agent, team, principal, tool, verdict } =
        args;
    let (start, end) = range(clock::timestamp(), since, until)?;
    let properties = by.iter().copied().map(v1::UsageProperty::from);
    let interval = interval.map(v1::UsageInterval::from);
    let mut wanted = v1::QueryUsageRequest {
        group_by: properties.map(i32::from).collect(),
        interval: interval.unwrap_or_default().into(),
        start_time: Some(convert::timestamp(start)),
        end_time: end.map(convert::timestamp),
        gateway,
        agent,
        team,
        principal,
        tool,
        verdict,
        page_size: PAGE_SIZE,
        ..Default::default()
    };
    let client = session.connect().await?;
    let mut usage = Vec::new();
    loop {
        let page = client.answer(client.usage().query_usage(request(wanted.clone()))).await?;
        let currency = page.currency;
        usage.extend(page.usage.into_iter().map(|usage| UsageView::new(usage, &currency)));
        if page.next_page_token.is_empty() {
            break;
        }
        wanted.page_token = page.next_page_token;
    }
    if interval.is_none() {
        // The largest costs first.
        let cost = |usage: &UsageView| Amount::parse(&usage.cost).unwrap_or_default();
        usage.sort_by_key(|usage| Reverse((cost(usage), usage.calls)));
    }
    if session.screen.format == Format::Json {
        return session.screen.json(&usage);
    }
    if usage.is_empty() {
        let help = "without filters, `--by agent,tool` shows the names that have calls";
        return session.screen.line(&format!("no calls; {help}"));
    }
    session.screen.table(&table(&by, interval.is_some(), &usage))
}

/// The times that lie this long before `now`.
fn range(
    now: Timestamp,
    since: Duration,
    until: Option<Duration>,
) -> Result<(Timestamp, Option<Timestamp>), Failure> {
    let before = |age: Duration| {
        let millis = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(now.as_millis().saturating_sub(millis))
    };
    let (start, end) = (before(since), until.map(before));
    match end {
        Some(end) if start >= end => Err(Failure::Usage(format!(
            "--since ({start}) is not before --until ({end}); write the longer time in --since, for \
             example --since 14d --until 7d"
        ))),
        _ => Ok((start, end)),
    }
}

fn table(by: &[UsageColumn], has_interval: bool, usage: &[UsageView]) -> TextTable {
    let mut head = Vec::new();
    if has_interval {
        head.push("START");
    }
    head.extend(by.iter().map(|column| column.heading()));
    head.extend([
        "CALLS",
        "COST",
        "CURRENCY",
        "MEAN MS",
        "REQUEST BYTES",
        "RESPONSE BYTES",
        "FINDINGS",
    ]);
    let mut table = TextTable::new(&head);
    for usage in usage {
        let mut cells = Vec::with_capacity(head.len());
        if has_interval {
            cells.push(usage.starts_at.clone().unwrap_or_default());
        }
        cells.extend(by.iter().map(|column| usage.property(*column).to_owned()));
        cells.extend([
            usage.calls.to_string(),
            usage.cost.clone(),
            usage.currency.clone(),
            (usage.duration_ms / usage.calls.max(1)).to_string(),
            usage.request_bytes.to_string(),
            usage.response_bytes.to_string(),
            usage.findings.to_string(),
        ]);
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn range_starts_before_its_end() {
        let now = Timestamp::parse("2026-01-10T12:30:00Z").unwrap();
        let times = |since, until| -> Result<_, String> {
            let (start, end) = range(now, since, until).map_err(|e| e.to_string())?;
            Ok((start.to_string(), end.map(|end| end.to_string())))
        };
        let start = "2026-01-10T10:30:00.000Z".to_owned();
        assert_eq!(times(2 * HOUR, None), Ok((start.clone(), None)));
        let end = "2026-01-10T11:30:00.000Z".to_owned();
        assert_eq!(times(2 * HOUR, Some(HOUR)), Ok((start, Some(end))));
        assert!(times(HOUR, Some(HOUR)).is_err());
        insta::assert_snapshot!(
            times(HOUR, Some(2 * HOUR)).unwrap_err(),
            @"--since (2026-01-10T11:30:00.000Z) is not before --until (2026-01-10T10:30:00.000Z); write \
              the longer time in --since, for example --since 14d --until 7d"
        );
    }
}
