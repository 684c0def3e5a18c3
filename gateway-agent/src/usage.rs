//! Counts calls by caller, tool and verdict, and reports the sums to the registry.

use std::{
    borrow::Cow,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ledger::{
    Epoch, LedgerError,
    usage::{UNKNOWN, USAGE_NAME_BYTES, UsageBuffer, UsageNames, UsageReport, UsageTotals},
};
use metrics::counter;
use registry_core::{Amount, Catalog, Name};
use registry_follow::UsageClient;
use tokio_util::sync::CancellationToken;

use crate::{
    identity::Caller,
    random::random_bits,
    reports::{self, WaitingReports},
    spending::SpendingClock,
};

const OTHER: &str = "gateway_usage_calls_other_total";

/// The usage that the registry has not confirmed.
#[derive(Debug)]
pub struct Usage {
    buffer: Mutex<UsageBuffer>,
    clock: SpendingClock,
}

/// Counts one call in the usage of its caller.
#[derive(Debug)]
pub(crate) struct CallMeter {
    usage: Arc<Usage>,
    /// The registered agent that calls.
    agent: Option<Name>,
    /// The team that owns the agent.
    team: Option<Arc<str>>,
    /// The owner of the verified credential.
    principal: Option<Box<str>>,
    /// The method of an operation that is no call of a tool.
    method: Option<&'static str>,
}

impl Usage {
    /// Starts without usage. Fails without random bits.
    pub fn open(clock: SpendingClock) -> io::Result<Arc<Self>> {
        let process = Epoch::new(random_bits().map_err(io::Error::other)?);
        Ok(Arc::new(Self { buffer: Mutex::new(UsageBuffer::new(process)), clock }))
    }

    pub(crate) fn buffer(&self) -> MutexGuard<'_, UsageBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, names: UsageNames<'_>, totals: &UsageTotals) {
        let now = self.clock.boot();
        if !self.buffer().count(names, totals, now) {
            counter!(OTHER).increment(totals.calls);
        }
    }

    /// The report to send. `None`: there is no usage.
    pub(crate) fn next_report(&self) -> Option<UsageReport> {
        self.buffer().report(self.clock.boot())
    }

    /// Reports until `stop`, which must follow the end of all calls. Then reports the rest.
    pub async fn report(&self, client: &UsageClient, stop: CancellationToken) {
        reports::run(&UsageReports { usage: self, client }, stop).await;
    }
}

/// The reports to a registry.
struct UsageReports<'a> {
    usage: &'a Usage,
    client: &'a UsageClient,
}

impl WaitingReports for UsageReports<'_> {
    type Report = UsageReport;

    const INTERVAL: Duration = Duration::from_secs(10);
    const SUBJECT: &'static str = "usage";
    const LOST: &'static str = "gateway_usage_calls_lost_total";

    fn next(&self) -> Option<UsageReport> {
        self.usage.next_report()
    }

    async fn send(&self, report: &UsageReport) -> Result<(), LedgerError> {
        self.client.report(report).await
    }

    fn confirm(&self, report: &UsageReport) {
        self.usage.buffer().confirm(report.sequence);
    }

    fn calls(report: &UsageReport) -> u64 {
        report.rows.iter().map(|row| row.totals.calls).fold(0, u64::saturating_add)
    }

    fn waiting_calls(&self) -> u64 {
        self.usage.buffer().pending_calls()
    }
}

impl CallMeter {
    /// Names the caller in a catalog. `method`: that of an operation that is no call of a tool.
    pub(crate) fn new(
        usage: &Arc<Usage>,
        catalog: &Catalog,
        caller: Option<&Caller>,
        method: Option<&'static str>,
    ) -> Self {
        let agent = caller.and_then(Caller::agent);
        let record = agent.and_then(|agent| catalog.find(agent));
        Self {
            usage: Arc::clone(usage),
            agent: agent.map(|agent| agent.name.clone()),
            team: record.map(|record| catalog.shared_owner_of(record)),
            principal: caller.and_then(Caller::log_name).map(Into::into),
            method,
        }
    }

    /// Counts the call. `tool` is the name of a registered tool or skill.
    pub(crate) fn count(&self, tool: Option<&str>, verdict: &str, totals: &UsageTotals) {
        let Self { usage, agent, team, principal, method } = self;
        let agent = agent.as_ref().map(Name::as_str);
        let names = [agent, team.as_deref(), principal.as_deref(), tool, Some(verdict)].map(name);
        let [agent, team, principal, tool, verdict] = &names;
        let names = UsageNames { agent, team, principal, tool, verdict };
        let Some(method) = method else { return usage.count(names, totals) };
        let UsageTotals { cost, .. } = *totals;
        if cost != Amount::ZERO {
            // The result of a task corrects the price of its call.
            usage.count(names, &UsageTotals { cost, ..UsageTotals::default() });
        }
        let tool = &*format!("({method})");
        let totals = UsageTotals { cost: Amount::ZERO, ..*totals };
        usage.count(UsageNames { tool, ..names }, &totals);
    }
}

/// A name that the registry accepts: one line of limited length.
fn name(text: Option<&str>) -> Cow<'_, str> {
    let text = text.filter(|text| !text.is_empty()).unwrap_or(UNKNOWN);
    let text = &text[..text.floor_char_boundary(USAGE_NAME_BYTES)];
    if text.contains(char::is_control) {
        text.replace(char::is_control, "?").into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lines_of_limited_length() {
        assert_eq!(&*name(None), UNKNOWN);
        assert_eq!(&*name(Some("")), UNKNOWN);
        assert_eq!(&*name(Some("a\u{0}b\nc")), "a?b?c");
        let long = "é".repeat(USAGE_NAME_BYTES);
        assert_eq!(name(Some(&long)).len(), USAGE_NAME_BYTES);
    }
}
