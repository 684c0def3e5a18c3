//! Logs of tests that run in parallel.

use std::sync::OnceLock;

use tracing::{Dispatch, subscriber::NoSubscriber};

/// Keeps a second subscriber for the rest of the process. A test that captures its log calls this before.
///
/// With one subscriber, `tracing` asks the thread that first reaches a statement whether it is enabled. Another test
/// without a subscriber would disable the statement for the whole process.
pub fn keep_second_subscriber() {
    static SECOND: OnceLock<Dispatch> = OnceLock::new();
    SECOND.get_or_init(|| Dispatch::new(NoSubscriber::new()));
}
