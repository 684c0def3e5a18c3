//! Sends waiting reports to the registry at an interval, and the rest after the stop.

use std::{mem, time::Duration};

use ledger::LedgerError;
use metrics::counter;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Maximum time that the registry takes to answer.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Number of attempts to send the last reports. Each one uses the next server after a failure.
const LAST_ATTEMPTS: usize = 2;

/// Reports that wait for the registry.
pub(crate) trait WaitingReports {
    type Report;

    /// Interval of reports. A crash loses what is newer.
    const INTERVAL: Duration;
    /// The subject of the reports in log messages.
    const SUBJECT: &'static str;
    /// The metric that counts calls missing from all reports.
    const LOST: &'static str;

    /// The next report. `None`: there is nothing to report.
    fn next(&self) -> Option<Self::Report>;

    /// Sends a report.
    async fn send(&self, report: &Self::Report) -> Result<(), LedgerError>;

    /// Forgets a report that has an answer.
    fn confirm(&self, report: &Self::Report);

    /// The number of calls in a report.
    fn calls(report: &Self::Report) -> u64;

    /// The number of calls without an answered report.
    fn waiting_calls(&self) -> u64;
}

/// Reports until `stop`, which must follow the end of all calls. Then reports the rest.
pub(crate) async fn run<R: WaitingReports>(reports: &R, stop: CancellationToken) {
    let mut is_answered = true;
    let working = async {
        loop {
            sleep(R::INTERVAL).await;
            send_all(reports, &mut is_answered).await;
        }
    };
    // The last reports repeat one that the stop interrupts.
    let _: Option<()> = stop.run_until_cancelled(working).await;
    for _ in 0..LAST_ATTEMPTS {
        send_all(reports, &mut is_answered).await;
    }
    let lost = reports.waiting_calls();
    if lost > 0 {
        lose::<R>(lost, "the registry did not receive it");
    }
}

/// Sends reports until none is left or one fails. `is_answered`: whether the last one was answered.
async fn send_all<R: WaitingReports>(reports: &R, is_answered: &mut bool) {
    while let Some(report) = reports.next() {
        let failure = match timeout(ANSWER_LIMIT, reports.send(&report)).await {
            Ok(Ok(())) => None,
            Ok(Err(LedgerError::Rejected(reason))) => {
                lose::<R>(R::calls(&report), &reason);
                None
            }
            Ok(Err(LedgerError::Unavailable(reason))) => Some(reason),
            Err(_) => Some(no_answer()),
        };
        let was_answered = mem::replace(is_answered, failure.is_none());
        match failure {
            Some(reason) => {
                if was_answered {
                    tracing::warn!("cannot report the {}, retrying: {reason}", R::SUBJECT);
                }
                return;
            }
            None if !was_answered => {
                tracing::info!("the registry receives the {} again", R::SUBJECT);
            }
            None => {}
        }
        reports.confirm(&report);
    }
}

fn lose<R: WaitingReports>(calls: u64, reason: &str) {
    counter!(R::LOST).increment(calls);
    tracing::error!("the {} of {calls} calls is lost: {reason}", R::SUBJECT);
}

pub(crate) fn no_answer() -> String {
    format!("no answer within {} s", ANSWER_LIMIT.as_secs())
}
