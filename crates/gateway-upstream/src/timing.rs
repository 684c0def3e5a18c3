//! Intervals and time limits of targets.

use std::time::Duration;

/// The intervals and time limits of targets. Tests shorten them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// Between two lists of the definitions of a healthy target.
    pub(crate) relist: Duration,
    /// Between two health checks of a network target.
    pub(crate) check: Duration,
    /// Before the first reconnect to an unreachable target; each following delay doubles.
    pub(crate) retry_first: Duration,
    /// The maximum reconnect delay.
    pub(crate) retry_longest: Duration,
    /// Uptime after which the restart delay of a child process is reset.
    pub(crate) stable: Duration,
    /// Between the request to exit and the kill of a child process.
    pub(crate) grace: Duration,
    /// Idle time after which a caller's own child process ends.
    pub(crate) idle: Duration,
    /// Time limit for the client's answer to a question.
    pub(crate) answer: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            relist: Duration::from_mins(1),
            check: Duration::from_secs(5),
            retry_first: Duration::from_millis(250),
            retry_longest: Duration::from_secs(30),
            stable: Duration::from_secs(10),
            grace: Duration::from_secs(2),
            idle: Duration::from_mins(5),
            answer: Duration::from_mins(5),
        }
    }
}
