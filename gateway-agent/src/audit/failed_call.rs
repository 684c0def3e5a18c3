//! Log lines about denied and failed calls. The audit events of the same calls have the details.

use std::{
    sync::{LazyLock, Mutex, PoisonError},
    time::Duration,
};

use gateway_policy::CallOutcome;
use tracing::Level;

use super::CallRecord;
use crate::fixed_window::FixedWindow;

/// Maximum lines in a [`PERIOD`], because callers can repeat denied calls without end.
const LINES: u32 = 20;
const PERIOD: Duration = Duration::from_secs(1);

/// The denied and failed calls of the process in the current period.
static CALLS: LazyLock<Mutex<FixedWindow>> = LazyLock::new(|| Mutex::new(FixedWindow::new()));

/// A line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Call,
    /// The period has no more lines.
    Limit,
}

/// Counts a call and returns its line.
fn next_line(calls: &mut FixedWindow) -> Option<Line> {
    match calls.count(PERIOD) {
        ..=LINES => Some(Line::Call),
        count => (count == LINES + 1).then_some(Line::Limit),
    }
}

impl CallRecord {
    /// Logs a denied or failed call. An error in the result of a tool is not a failed call.
    pub(super) fn log_failure(&self) {
        let end = match self.outcome {
            CallOutcome::Ok
            | CallOutcome::ToolError
            | CallOutcome::InputRequired
            | CallOutcome::Cancelled => return,
            CallOutcome::Denied => "denied",
            CallOutcome::InvalidInput
            | CallOutcome::InvalidOutput
            | CallOutcome::Misconfigured
            | CallOutcome::UpstreamFailed
            | CallOutcome::UpstreamTimeout
            | CallOutcome::UpstreamBusy => "failed",
        };
        if !tracing::enabled!(Level::INFO) {
            return;
        }
        let line = next_line(&mut CALLS.lock().unwrap_or_else(PoisonError::into_inner));
        match line {
            Some(Line::Call) => tracing::info!(
                agent = self.agent().map(tracing::field::display),
                tool = &*self.tool,
                server = self.server().map(tracing::field::display),
                reason = self.denial_reason().unwrap_or(self.outcome.as_str()),
                trace_id = %self.trace_id(),
                "call {end}"
            ),
            Some(Line::Limit) => tracing::info!(
                "more than {LINES} calls were denied or failed in this second; audit events have the others"
            ),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lines_per_period_are_limited() {
        let mut calls = FixedWindow::new();
        for _ in 0..2 {
            let lines: Vec<_> = (0..LINES + 9).map_while(|_| next_line(&mut calls)).collect();
            let (last, calls) = lines.split_last().unwrap();
            assert_eq!(calls, [Line::Call; LINES as usize]);
            assert_eq!(*last, Line::Limit);
            tokio::time::advance(PERIOD).await;
        }
    }
}
