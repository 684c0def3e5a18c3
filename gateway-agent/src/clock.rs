//! The wall clock, for times that other programs or later processes see.

use std::time::{SystemTime, UNIX_EPOCH};

use registry_core::Timestamp;

#[expect(clippy::disallowed_methods, reason = "this is the one place that asks")]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// The current time with the precision of timestamps.
pub(crate) fn timestamp() -> Timestamp {
    let since_epoch = now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}
