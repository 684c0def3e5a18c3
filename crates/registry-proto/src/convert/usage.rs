//! Converts reports of usage.

use std::sync::Arc;

use ledger::usage::{USAGE_NAME_BYTES, UsageCaller, UsageKey, UsageReport, UsageRow, UsageTotals};
use registry_core::Amount;

use super::{
    ledger::{InvalidLedgerMessage, LedgerProblem, check_count, epoch, required_text},
    time::{duration, read_duration},
};
use crate::v1;

/// Writes a report. `gateway` is empty, or the gateway whose report a relay forwards.
pub fn write_usage_report(gateway: &str, report: &UsageReport) -> v1::ReportUsageRequest {
    let UsageReport { process, sequence, rows } = report;
    v1::ReportUsageRequest {
        process: process.to_string(),
        sequence: *sequence,
        usage: rows.iter().map(write_row).collect(),
        gateway: gateway.to_owned(),
    }
}

/// A report, and the problems of its other rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedUsage {
    /// The report with its valid rows.
    pub report: UsageReport,
    /// The problems of the rows that were removed.
    pub rejected: Vec<InvalidLedgerMessage>,
}

/// Reads a report without its gateway. An invalid row does not affect the other rows.
pub fn read_usage_report(
    report: v1::ReportUsageRequest,
) -> Result<ReceivedUsage, InvalidLedgerMessage> {
    let v1::ReportUsageRequest { process, sequence, usage, gateway: _ } = report;
    check_count(usage.len(), "usage")?;
    if sequence == 0 {
        return Err(LedgerProblem::Missing.at("sequence"));
    }
    if i64::try_from(sequence).is_err() {
        return Err(LedgerProblem::OutOfRange.at("sequence"));
    }
    let process = epoch(&process, "process")?;
    let (mut rows, mut rejected) = (Vec::with_capacity(usage.len()), Vec::new());
    for (index, row) in usage.into_iter().enumerate() {
        match read_row(row, &format!("usage[{index}]")) {
            Ok(row) => rows.push(row),
            Err(problem) => rejected.push(problem),
        }
    }
    Ok(ReceivedUsage { report: UsageReport { process, sequence, rows }, rejected })
}

fn write_row(UsageRow { age, key, totals }: &UsageRow) -> v1::ReportedUsage {
    let UsageKey { caller: UsageCaller { agent, team, principal }, tool, verdict } = key;
    v1::ReportedUsage {
        age: Some(duration(*age)),
        agent: agent.to_string(),
        team: team.to_string(),
        principal: principal.to_string(),
        tool: tool.to_string(),
        verdict: verdict.to_string(),
        call_count: totals.calls,
        cost_micros: totals.cost.as_micros(),
        duration: Some(duration(totals.duration)),
        request_bytes: totals.request_bytes,
        response_bytes: totals.response_bytes,
        finding_count: totals.findings,
    }
}

fn read_row(row: v1::ReportedUsage, at: &str) -> Result<UsageRow, InvalidLedgerMessage> {
    let name = |text: String, field: &str| -> Result<Arc<str>, InvalidLedgerMessage> {
        Ok(required_text(text, USAGE_NAME_BYTES, &format!("{at}.{field}"))?.into())
    };
    let caller = UsageCaller {
        agent: name(row.agent, "agent")?,
        team: name(row.team, "team")?,
        principal: name(row.principal, "principal")?,
    };
    let totals = UsageTotals {
        calls: row.call_count,
        cost: Amount::from_micros(row.cost_micros),
        duration: row.duration.map(read_duration).unwrap_or_default(),
        request_bytes: row.request_bytes,
        response_bytes: row.response_bytes,
        findings: row.finding_count,
    };
    if !totals.are_valid() {
        return Err(LedgerProblem::OutOfRange.at(at));
    }
    Ok(UsageRow {
        age: row.age.map(read_duration).unwrap_or_default(),
        key: UsageKey {
            caller,
            tool: name(row.tool, "tool")?,
            verdict: name(row.verdict, "verdict")?,
        },
        totals,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ledger::{Epoch, usage::UNKNOWN};

    use super::*;

    fn report() -> UsageReport {
        let caller =
            UsageCaller { agent: "a".into(), team: "bank".into(), principal: UNKNOWN.into() };
        let key = UsageKey { caller, tool: "pay".into(), verdict: "allow".into() };
        let row = UsageRow { age: Duration::from_secs(61), key, totals: UsageTotals::MAX };
        UsageReport { process: Epoch::new(7), sequence: 3, rows: vec![row] }
    }

    fn problem(change: impl FnOnce(&mut v1::ReportUsageRequest)) -> (String, LedgerProblem) {
        let mut message = write_usage_report("", &report());
        change(&mut message);
        let InvalidLedgerMessage { path, problem } = read_usage_report(message).unwrap_err();
        (path, problem)
    }

    #[test]
    fn report_round_trips() {
        let received = ReceivedUsage { report: report(), rejected: Vec::new() };
        assert_eq!(read_usage_report(write_usage_report("g", &report())), Ok(received));
    }

    #[test]
    fn invalid_report_is_rejected_with_its_field() {
        let at = |path: &str, problem| (path.to_owned(), problem);
        assert_eq!(problem(|r| r.process.clear()), at("process", LedgerProblem::Missing));
        assert_eq!(problem(|r| r.sequence = 0), at("sequence", LedgerProblem::Missing));
        assert_eq!(problem(|r| r.sequence = u64::MAX), at("sequence", LedgerProblem::OutOfRange));
        let row = &report().rows[0];
        let many = vec![write_row(row); 1_001];
        let problems = LedgerProblem::TooMany { count: 1_001, limit: 1_000 };
        assert_eq!(problem(|r| r.usage = many), at("usage", problems));
    }

    #[test]
    fn invalid_row_is_rejected_alone() {
        let at = |path: &str, problem| (path.to_owned(), problem);
        let of_row = |change: fn(&mut v1::ReportedUsage)| {
            let mut message = write_usage_report("", &report());
            let mut row = message.usage[0].clone();
            change(&mut row);
            message.usage.insert(0, row);
            let ReceivedUsage { report: received, rejected } = read_usage_report(message).unwrap();
            assert_eq!(received, report(), "the other row is kept");
            let [InvalidLedgerMessage { path, problem }] = &rejected[..] else {
                panic!("{rejected:?}")
            };
            (path.clone(), problem.clone())
        };
        let out_of_range: [fn(&mut v1::ReportedUsage); 4] = [
            |row| row.call_count = u64::MAX,
            |row| row.cost_micros = i64::MAX,
            |row| row.cost_micros = i64::MIN,
            |row| row.request_bytes = u64::MAX,
        ];
        for change in out_of_range {
            assert_eq!(of_row(change), at("usage[0]", LedgerProblem::OutOfRange));
        }
        assert_eq!(of_row(|row| row.tool.clear()), at("usage[0].tool", LedgerProblem::Missing));
        let control = LedgerProblem::Control('\0');
        assert_eq!(of_row(|row| row.agent = "\0".to_owned()), at("usage[0].agent", control));
        let long = LedgerProblem::TooLong { bytes: 257, limit: 256 };
        assert_eq!(of_row(|row| row.principal = "p".repeat(257)), at("usage[0].principal", long));
    }
}
