//! A point in a registry's history, given by revision or by time.

use std::{fmt, str::FromStr};

use crate::{
    chain::Revision,
    timestamp::{Date, InvalidTimestamp, Timestamp},
    visible::escape_invisible,
};

/// A point in a registry's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointInTime {
    /// The state after this revision.
    Revision(Revision),
    /// The state after the last commit at or before this time.
    Time(Timestamp),
}

/// The text is neither a revision, a day nor a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is neither a revision like 42, nor a day like 2026-01-31 or a time like 2026-01-31T12:00:00Z"
)]
pub struct InvalidPointInTime(String);

impl FromStr for PointInTime {
    type Err = InvalidPointInTime;

    /// A day without a time means its last millisecond in UTC.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(revision) = text.parse() {
            return Ok(Self::Revision(Revision(revision)));
        }
        let time =
            |text: &str| -> Result<_, InvalidTimestamp> { Timestamp::parse(text).map(Self::Time) };
        if text.parse::<Date>().is_ok() {
            return time(&format!("{text}T23:59:59.999Z"))
                .map_err(|_| InvalidPointInTime(escape_invisible(text)));
        }
        time(text).map_err(|_| InvalidPointInTime(text.chars().take(64).collect()))
    }
}

impl fmt::Display for PointInTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Revision(revision) => write!(f, "revision {revision}"),
            Self::Time(time) => time.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn point_in_time_parses_revision_day_and_time() {
        let read = |text: &str| text.parse::<PointInTime>().unwrap().to_string();
        assert_eq!(read("42"), "revision 42");
        assert_eq!(read("2026-01-31"), "2026-01-31T23:59:59.999Z");
        assert_eq!(read("2026-01-31T12:00:00+01:00"), "2026-01-31T11:00:00.000Z");
        for bad in ["", "-1", "yesterday", "2026-02-30", "2026-01-31 12:00"] {
            assert!(bad.parse::<PointInTime>().is_err(), "{bad}");
        }
    }
}
