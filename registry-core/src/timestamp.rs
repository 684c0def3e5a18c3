//! A point in time, as it is written into commits: UTC with milliseconds.
//!
//! Deliberately absent: the clock. Whoever makes a commit says what time it is.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// Milliseconds since 1970-01-01T00:00:00Z, leap seconds ignored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// Why a text is not a timestamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time of the form 2026-01-31T12:00:00Z between the years 1 and 9999")]
pub struct InvalidTimestamp(String);

/// The last millisecond that RFC 3339 can write: 9999-12-31T23:59:59.999Z.
const LATEST: i64 = 253_402_300_799_999;
/// The first: 0001-01-01T00:00:00Z.
const EARLIEST: i64 = -62_135_596_800_000;

impl Timestamp {
    /// From milliseconds since the epoch; outside of the years 1 to 9999 it is clamped.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(EARLIEST, LATEST))
    }

    /// Milliseconds since the epoch.
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// Parses RFC 3339; anything finer than a millisecond is cut off.
    pub fn parse(text: &str) -> Result<Self, InvalidTimestamp> {
        let time = OffsetDateTime::parse(text, &Rfc3339)
            .map_err(|_| InvalidTimestamp(text.chars().take(64).collect()))?;
        let millis = time.unix_timestamp_nanos().div_euclid(1_000_000);
        i64::try_from(millis)
            .ok()
            .filter(|millis| (EARLIEST..=LATEST).contains(millis))
            .map(Self)
            .ok_or_else(|| InvalidTimestamp(text.to_owned()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1000);
        let time = OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| fmt::Error)?;
        let (date, clock) = (time.date(), time.time());
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            date.year(),
            u8::from(date.month()),
            date.day(),
            clock.hour(),
            clock.minute(),
            clock.second(),
            self.0.rem_euclid(1000),
        )
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_it_prints() {
        for millis in [0, 1, -1, 1_795_300_000_123, EARLIEST, LATEST] {
            let printed = Timestamp::from_millis(millis).to_string();
            assert_eq!(Timestamp::parse(&printed).unwrap().as_millis(), millis, "{printed}");
        }
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert!(Timestamp::parse("yesterday").is_err());
    }
}
