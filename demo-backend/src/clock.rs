//! The clock of the servers: real, or fixed by `--fixed-time`.

use time::{OffsetDateTime, UtcOffset};

/// The source of the current time.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// The machine's clock.
    System,
    /// A fixed instant.
    Fixed(OffsetDateTime),
}

impl Clock {
    /// The current instant, in UTC.
    pub fn now(self) -> OffsetDateTime {
        match self {
            Self::System => OffsetDateTime::now_utc(),
            Self::Fixed(instant) => instant.to_offset(UtcOffset::UTC),
        }
    }

    /// The current instant as RFC 3339 text in whole seconds.
    pub fn timestamp(self) -> String {
        rfc3339(self.now())
    }
}

/// RFC 3339 text in whole seconds, `Z` for UTC.
pub fn rfc3339(at: OffsetDateTime) -> String {
    let (date, clock) = (at.date(), at.time());
    format!(
        "{date}T{:02}:{:02}:{:02}{}",
        clock.hour(),
        clock.minute(),
        clock.second(),
        offset_text(at.offset())
    )
}

/// `Z`, or the offset as `+hh:mm`.
pub fn offset_text(offset: UtcOffset) -> String {
    if offset.is_utc() {
        return "Z".to_owned();
    }
    let sign = if offset.is_negative() { '-' } else { '+' };
    let (hours, minutes, _) = offset.as_hms();
    format!("{sign}{:02}:{:02}", hours.unsigned_abs(), minutes.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use time::macros::{datetime, offset};

    use super::*;

    #[test]
    fn writes_whole_seconds_with_the_offset() {
        let instant = datetime!(2026-03-01 04:05:06.789 UTC);
        assert_eq!(rfc3339(instant), "2026-03-01T04:05:06Z");
        assert_eq!(rfc3339(instant.to_offset(offset!(+5:30))), "2026-03-01T09:35:06+05:30");
        assert_eq!(rfc3339(instant.to_offset(offset!(-8))), "2026-02-28T20:05:06-08:00");
    }
}
