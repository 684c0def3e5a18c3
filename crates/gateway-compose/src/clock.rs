//! The wall clock, for times that outlive the process.

use std::time::{SystemTime, UNIX_EPOCH};

/// The current time in milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the crate reads the wall clock only here")]
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
