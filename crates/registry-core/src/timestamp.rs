//! Times with millisecond precision in UTC, and dates.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use time::{OffsetDateTime, format_description::well_known::Rfc3339, macros::format_description};

use crate::visible::escape_invisible;

/// Milliseconds since 1970-01-01T00:00:00Z without leap seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// The text is not a valid timestamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time of the form 2026-01-31T12:00:00Z between the years 1 and 9999")]
pub struct InvalidTimestamp(String);

/// The latest time that RFC 3339 can represent: 9999-12-31T23:59:59.999Z.
const LATEST: i64 = 253_402_300_799_999;
/// The earliest supported time: 0001-01-01T00:00:00Z.
const EARLIEST: i64 = -62_135_596_800_000;

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);

    /// Converts milliseconds since the epoch; clamps to the years 1 to 9999.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(EARLIEST, LATEST))
    }

    /// The duration since an earlier time; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        let millis = self.0.saturating_sub(earlier.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or_default())
    }

    /// Milliseconds since the epoch.
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// Parses RFC 3339 and truncates to milliseconds.
    pub fn parse(text: &str) -> Result<Self, InvalidTimestamp> {
        let time = OffsetDateTime::parse(text, &Rfc3339)
            .map_err(|_| InvalidTimestamp(text.chars().take(64).collect()))?;
        let millis = time.unix_timestamp_nanos().div_euclid(1_000_000);
        i64::try_from(millis)
            .ok()
            .filter(|millis| (EARLIEST..=LATEST).contains(millis))
            .map(Self)
            .ok_or_else(|| InvalidTimestamp(escape_invisible(text)))
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

/// A day of the Gregorian calendar in UTC: `2026-12-31`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(time::Date);

/// The text is not a valid date.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a date of the form 2026-12-31")]
pub struct InvalidDate(String);

impl FromStr for Date {
    type Err = InvalidDate;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = format_description!("[year]-[month]-[day]");
        time::Date::parse(text, form)
            .ok()
            .filter(|date| (1..=9999).contains(&date.year()))
            .map(Self)
            .ok_or_else(|| InvalidDate(text.chars().take(64).collect()))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.0.year(), u8::from(self.0.month()), self.0.day())
    }
}

impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_accepts_only_existing_days() {
        assert_eq!("2028-02-29".parse::<Date>().unwrap().to_string(), "2028-02-29");
        for bad in ["2027-02-29", "2026-1-1", "01.02.2026", "0000-01-01", "2026-01-01T00:00:00Z"] {
            assert!(bad.parse::<Date>().is_err(), "{bad}");
        }
    }

    #[test]
    fn timestamp_round_trips_through_text() {
        for millis in [0, 1, -1, 1_795_300_000_123, EARLIEST, LATEST] {
            let printed = Timestamp::from_millis(millis).to_string();
            assert_eq!(Timestamp::parse(&printed).unwrap().as_millis(), millis, "{printed}");
        }
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert!(Timestamp::parse("yesterday").is_err());
    }
}
