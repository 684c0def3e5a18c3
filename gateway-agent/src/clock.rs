//! The wall clock, for times that other programs or later processes see.

use std::time::SystemTime;

#[expect(clippy::disallowed_methods, reason = "this is the one place that asks")]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}
