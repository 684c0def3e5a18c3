//! Timeouts and retry delays of a follower.

use std::time::Duration;

const CONNECT: Duration = Duration::from_secs(5);
/// The progress interval of the server: it sends a message at least this often.
const PROGRESS: Duration = Duration::from_secs(10);
const SILENCE: Duration = PROGRESS.saturating_mul(3);
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_LONGEST: Duration = Duration::from_secs(15);
const RETRY_FINAL: Duration = Duration::from_secs(30);

/// Timeouts and retry delays. Tests shorten them.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Time limit for the connection and for the response to the first message.
    pub connect: Duration,
    /// A stream without a message for this time is closed.
    pub silence: Duration,
    /// The first reconnect delay on average. Each following delay doubles.
    pub retry_first: Duration,
    /// The maximum reconnect delay.
    pub retry_longest: Duration,
    /// The delay after an error that only an operator can fix.
    pub retry_final: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: CONNECT,
            silence: SILENCE,
            retry_first: RETRY_FIRST,
            retry_longest: RETRY_LONGEST,
            retry_final: RETRY_FINAL,
        }
    }
}
