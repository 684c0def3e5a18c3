//! Counts calls by caller, tool and verdict, and reports the sums to the registry.

use std::{
    io, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ledger::{
    Epoch, LedgerError,
    usage::{
        UNKNOWN, USAGE_NAME_BYTES, UsageBuffer, UsageCaller, UsageKey, UsageReport, UsageTotals,
    },
};
use metrics::counter;
use registry_core::{Amount, Catalog};
use registry_follow::UsageClient;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{identity::Caller, random::random_bits, spending::SpendingClock};

/// Interval of reports. A crash loses the usage since the last one.
const INTERVAL: Duration = Duration::from_secs(10);
/// Maximum time that the registry takes to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Number of attempts to send the last report. Each one uses the next server after a failure.
const LAST_ATTEMPTS: usize = 2;

const LOST: &str = "gateway_usage_calls_lost_total";
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
    caller: UsageCaller,
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

    fn count(&self, key: UsageKey, totals: &UsageTotals) {
        if !self.buffer().count(key, totals, self.clock.boot()) {
            counter!(OTHER).increment(totals.calls);
        }
    }

    /// The report to send. `None`: there is no usage.
    pub(crate) fn next_report(&self) -> Option<UsageReport> {
        self.buffer().report(self.clock.boot())
    }

    /// Reports until `stop`, which must follow the end of all calls. Then reports the rest.
    pub async fn report(&self, client: &UsageClient, stop: CancellationToken) {
        let mut is_answered = true;
        let working = async {
            loop {
                sleep(INTERVAL).await;
                self.send(client, &mut is_answered).await;
            }
        };
        // The last report repeats one that the stop interrupts.
        let _: Option<()> = stop.run_until_cancelled(working).await;
        for _ in 0..LAST_ATTEMPTS {
            self.send(client, &mut is_answered).await;
        }
        let lost = self.buffer().pending_calls();
        if lost > 0 {
            counter!(LOST).increment(lost);
            tracing::error!("the usage of {lost} calls is lost: the registry did not receive it");
        }
    }

    /// Sends reports until none is left or one fails. `is_answered`: whether the last one was
    /// answered.
    async fn send(&self, client: &UsageClient, is_answered: &mut bool) {
        while let Some(report) = self.next_report() {
            let failure = match timeout(ANSWER_LIMIT, client.report(&report)).await {
                Ok(Ok(())) => None,
                Ok(Err(LedgerError::Rejected(reason))) => {
                    let calls = report.rows.iter().map(|row| row.totals.calls);
                    let calls = calls.fold(0, u64::saturating_add);
                    counter!(LOST).increment(calls);
                    tracing::error!("the usage of {calls} calls is lost: {reason}");
                    None
                }
                Ok(Err(LedgerError::Unavailable(reason))) => Some(reason),
                Err(_) => Some(format!("no answer within {} s", ANSWER_LIMIT.as_secs())),
            };
            let was_answered = mem::replace(is_answered, failure.is_none());
            match failure {
                Some(reason) => {
                    if was_answered {
                        tracing::warn!("cannot report usage, retrying: {reason}");
                    }
                    return;
                }
                None if !was_answered => tracing::info!("the registry receives usage again"),
                None => {}
            }
            self.buffer().confirm(report.sequence);
        }
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
        let caller = UsageCaller {
            agent: name(agent.map(|agent| agent.name.as_str())),
            team: name(record.map(|record| catalog.owner_of(record))),
            principal: name(caller.and_then(Caller::log_name)),
        };
        Self { usage: Arc::clone(usage), caller, method }
    }

    /// Counts the call. `tool` is the name of a registered tool or skill.
    pub(crate) fn count(self, tool: Option<&str>, verdict: &str, totals: &UsageTotals) {
        let Self { usage, caller, method } = self;
        let key = UsageKey { caller, tool: name(tool), verdict: name(Some(verdict)) };
        let Some(method) = method else { return usage.count(key, totals) };
        let UsageTotals { cost, .. } = *totals;
        if cost != Amount::ZERO {
            // The result of a task corrects the price of its call.
            usage.count(key.clone(), &UsageTotals { cost, ..UsageTotals::default() });
        }
        let key = UsageKey { tool: format!("({method})").into(), ..key };
        usage.count(key, &UsageTotals { cost: Amount::ZERO, ..*totals });
    }
}

/// A name that the registry accepts: one line of limited length.
fn name(text: Option<&str>) -> Arc<str> {
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
