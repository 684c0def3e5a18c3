//! Timestamps. Both types are foreign to this crate, hence functions.

use registry_core::Timestamp;

/// Why a timestamp cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTime {
    /// Nanoseconds outside of 0 to 999,999,999.
    #[error("a timestamp has {0} nanoseconds, 0 to 999999999 are allowed")]
    Nanos(i32),
    /// Before the year 1 or after the year 9999.
    #[error("a timestamp of {0} seconds is outside of the years 1 to 9999")]
    Range(i64),
}

/// Writes a timestamp.
pub fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    let millis = time.as_millis();
    // The remainder of a division by 1000 fits.
    let nanos = i32::try_from(millis.rem_euclid(1000)).unwrap_or_default() * 1_000_000;
    prost_types::Timestamp { seconds: millis.div_euclid(1000), nanos }
}

/// Reads a timestamp; anything finer than a millisecond is cut off.
pub fn read_timestamp(time: prost_types::Timestamp) -> Result<Timestamp, InvalidTime> {
    let prost_types::Timestamp { seconds, nanos } = time;
    if !(0..1_000_000_000).contains(&nanos) {
        return Err(InvalidTime::Nanos(nanos));
    }
    read_millis(seconds.saturating_mul(1000).saturating_add(i64::from(nanos / 1_000_000)))
        .map_err(|_| InvalidTime::Range(seconds))
}

/// Reads milliseconds since the epoch.
pub(super) fn read_millis(millis: i64) -> Result<Timestamp, InvalidTime> {
    let time = Timestamp::from_millis(millis);
    if time.as_millis() == millis { Ok(time) } else { Err(InvalidTime::Range(millis / 1000)) }
}
