//! The wall clock, for what is laid beside other programs' times or outlives the process.

use std::time::SystemTime;

/// What time it is.
#[expect(clippy::disallowed_methods, reason = "this is the one place that asks")]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}
