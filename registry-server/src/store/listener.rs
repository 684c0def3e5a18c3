//! What wakes whoever follows the log.
//!
//! A wake only says "look again"; what there is to see is in the log. Deliberately absent: the
//! content of notifications.

use super::Error;

/// Waits for news of the log.
#[derive(Debug)]
pub struct Listener {}

impl Listener {
    /// Returns when there may be new commits: after an append by anybody, and after the connection
    /// was lost and found again. On SQLite never: nobody else writes. Callers also poll.
    pub async fn wait(&mut self) -> Result<(), Error> {
        std::future::pending().await
    }
}
