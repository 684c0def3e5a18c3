//! Converts timestamps and durations.

use std::time::Duration;

use registry_core::Timestamp;

/// An invalid timestamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTime {
    /// Nanoseconds outside of 0 to 999,999,999.
    #[error("invalid timestamp: {0} nanoseconds, the range is 0 to 999999999")]
    Nanos(i32),
    /// Before the year 1 or after the year 9999.
    #[error("invalid timestamp: {0} seconds, the range is the years 1 to 9999")]
    Range(i64),
}

/// Writes a timestamp.
pub fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    let millis = time.as_millis();
    // The remainder of a division by 1000 fits.
    let nanos = i32::try_from(millis.rem_euclid(1000)).unwrap_or_default() * 1_000_000;
    prost_types::Timestamp { seconds: millis.div_euclid(1000), nanos }
}

/// Reads a timestamp, truncated to milliseconds.
pub fn read_timestamp(time: prost_types::Timestamp) -> Result<Timestamp, InvalidTime> {
    let prost_types::Timestamp { seconds, nanos } = time;
    if !(0..1_000_000_000).contains(&nanos) {
        return Err(InvalidTime::Nanos(nanos));
    }
    read_millis(seconds.saturating_mul(1000).saturating_add(i64::from(nanos / 1_000_000)))
        .map_err(|_| InvalidTime::Range(seconds))
}

/// The longest duration of a message: 10,000 years.
pub const LONGEST_DURATION: Duration = Duration::from_hours(87_660_000);

/// Writes a duration of at most [`LONGEST_DURATION`].
pub fn duration(duration: Duration) -> prost_types::Duration {
    // A duration of that length is always representable.
    prost_types::Duration::try_from(duration.min(LONGEST_DURATION)).unwrap_or_default()
}

/// Reads a duration. A negative one becomes zero.
pub fn read_duration(duration: prost_types::Duration) -> Duration {
    // The conversion negates the seconds, which overflows.
    if duration.seconds < 0 {
        return Duration::ZERO;
    }
    Duration::try_from(duration).unwrap_or_default()
}

/// Reads milliseconds since the epoch.
fn read_millis(millis: i64) -> Result<Timestamp, InvalidTime> {
    let time = Timestamp::from_millis(millis);
    if time.as_millis() == millis { Ok(time) } else { Err(InvalidTime::Range(millis / 1000)) }
}
