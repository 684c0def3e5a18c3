//! Timeouts and waits of a follower.

use std::time::Duration;

/// Longest wait for a connection, and for the answer to the first message.
const CONNECT: Duration = Duration::from_secs(5);
/// The server says something at least this often (its progress interval).
const PROGRESS: Duration = Duration::from_secs(10);
/// A stream that says nothing for so long is dead.
const SILENCE: Duration = PROGRESS.saturating_mul(3);
/// The first wait before a new stream, on average; it doubles.
const RETRY_FIRST: Duration = Duration::from_millis(250);
/// The longest such wait.
const RETRY_LONGEST: Duration = Duration::from_secs(15);
/// The wait after what only an operator can mend, at each of the addresses.
const RETRY_FINAL: Duration = Duration::from_secs(30);

/// How long things take; tests are in a hurry.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Longest wait for a connection, and for the answer to the first message.
    pub connect: Duration,
    /// A stream that says nothing for so long is dead.
    pub silence: Duration,
    /// The first wait before a new stream, on average; it doubles.
    pub retry_first: Duration,
    /// The longest such wait.
    pub retry_longest: Duration,
    /// The wait after what only an operator can mend.
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
