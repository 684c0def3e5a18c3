//! The wall clock.

use std::time::SystemTime;

use registry_core::Timestamp;
use registry_proto::convert;

/// The current time.
#[expect(clippy::disallowed_methods, reason = "the program reads the wall clock only here")]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// The current time, in milliseconds.
pub(crate) fn timestamp() -> Timestamp {
    let now: prost_types::Timestamp = now().into();
    convert::read_timestamp(now).unwrap_or_default()
}
