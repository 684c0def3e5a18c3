//! The wall clock.

use std::time::SystemTime;

/// The current time.
#[expect(clippy::disallowed_methods, reason = "the program reads the wall clock only here")]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}
