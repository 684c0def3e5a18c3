//! A dozen IANA zones with today's rules, and plain offsets. The history of the rules is not
//! supported: past instants use the present rules.

use time::{Date, Duration, Month, OffsetDateTime, Time, UtcOffset, Weekday};

use crate::tool_error::ToolError;

/// When a zone saves daylight.
#[derive(Debug, Clone, Copy)]
enum Saving {
    Never,
    /// From the last Sunday of March to that of October, at 01:00 UTC.
    Europe,
    /// From the second Sunday of March to the first of November, at 02:00 local time.
    America,
    /// From the first Sunday of October to that of April, at 02:00 standard time.
    Sydney,
}

/// Name, standard offset in minutes, daylight saving.
const ZONES: [(&str, i32, Saving); 13] = [
    ("UTC", 0, Saving::Never),
    ("Europe/London", 0, Saving::Europe),
    ("Europe/Berlin", 60, Saving::Europe),
    ("Europe/Paris", 60, Saving::Europe),
    ("Europe/Helsinki", 120, Saving::Europe),
    ("America/New_York", -300, Saving::America),
    ("America/Chicago", -360, Saving::America),
    ("America/Los_Angeles", -480, Saving::America),
    ("America/Sao_Paulo", -180, Saving::Never),
    ("Asia/Kolkata", 330, Saving::Never),
    ("Asia/Shanghai", 480, Saving::Never),
    ("Asia/Tokyo", 540, Saving::Never),
    ("Australia/Sydney", 600, Saving::Sydney),
];

/// The zone's offset at an instant, and whether it saves daylight then.
pub fn offset_at(zone: &str, now: OffsetDateTime) -> Result<(UtcOffset, bool), ToolError> {
    if let Some((_, minutes, saving)) = ZONES.iter().find(|(name, ..)| *name == zone) {
        let is_dst = saving.is_on(*minutes, now);
        return offset(minutes + if is_dst { 60 } else { 0 })
            .map(|offset| (offset, is_dst))
            .ok_or_else(|| unknown(zone));
    }
    parse_offset(zone).map(|offset| (offset, false)).ok_or_else(|| unknown(zone))
}

impl Saving {
    fn is_on(self, standard_minutes: i32, now: OffsetDateTime) -> bool {
        let standard = Duration::minutes(standard_minutes.into());
        let year = (now + standard).year();
        let at = |date: Option<Date>, hour: i64| {
            date.map(|date| date.with_time(Time::MIDNIGHT).assume_utc() + Duration::hours(hour))
        };
        // Start and end as UTC instants.
        let (start, end) = match self {
            Self::Never => return false,
            Self::Europe => {
                (at(last_sunday(year, Month::March), 1), at(last_sunday(year, Month::October), 1))
            }
            Self::America => (
                at(sunday(year, Month::March, 2), 2).map(|at| at - standard),
                at(sunday(year, Month::November, 1), 1).map(|at| at - standard),
            ),
            Self::Sydney => (
                at(sunday(year, Month::October, 1), 2).map(|at| at - standard),
                at(sunday(year, Month::April, 1), 2).map(|at| at - standard),
            ),
        };
        let (Some(start), Some(end)) = (start, end) else { return false };
        if start < end { now >= start && now < end } else { now >= start || now < end }
    }
}

/// The n-th Sunday of a month.
fn sunday(year: i32, month: Month, nth: u8) -> Option<Date> {
    let first = Date::from_calendar_date(year, month, 1).ok()?;
    let until_sunday = (7 - first.weekday().number_days_from_sunday()) % 7;
    first.replace_day(1 + until_sunday + 7 * (nth - 1)).ok()
}

/// The last Sunday of a month of 31 days.
fn last_sunday(year: i32, month: Month) -> Option<Date> {
    let last = Date::from_calendar_date(year, month, 31).ok()?;
    last.checked_sub(Duration::days(last.weekday().number_days_from_sunday().into()))
        .filter(|date| date.weekday() == Weekday::Sunday)
}

/// `Z`, `+02:00` or `-03:30`.
fn parse_offset(text: &str) -> Option<UtcOffset> {
    if text == "Z" {
        return Some(UtcOffset::UTC);
    }
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = digits.split_once(':')?;
    let number = |text: &str| {
        (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| text.parse::<i32>().ok())?
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours <= 14 && minutes < 60).then(|| offset(sign * (hours * 60 + minutes)))?
}

fn offset(minutes: i32) -> Option<UtcOffset> {
    UtcOffset::from_whole_seconds(minutes * 60).ok()
}

fn unknown(zone: &str) -> ToolError {
    let known: Vec<&str> = ZONES.iter().map(|(name, ..)| *name).collect();
    ToolError::new(
        "unknown_timezone",
        format!("unknown timezone {zone:?}; known: {}, or ±hh:mm", known.join(", ")),
    )
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    fn minutes(zone: &str, now: OffsetDateTime) -> i32 {
        offset_at(zone, now).unwrap().0.whole_seconds() / 60
    }

    #[test]
    fn europe_changes_at_one_in_utc() {
        assert_eq!(minutes("Europe/Berlin", datetime!(2026-03-29 00:59:59 UTC)), 60);
        assert_eq!(minutes("Europe/Berlin", datetime!(2026-03-29 01:00 UTC)), 120);
        assert_eq!(minutes("Europe/London", datetime!(2026-10-25 00:59:59 UTC)), 60);
        assert_eq!(minutes("Europe/London", datetime!(2026-10-25 01:00 UTC)), 0);
    }

    #[test]
    fn america_changes_at_two_local_time() {
        assert_eq!(minutes("America/New_York", datetime!(2026-03-08 06:59:59 UTC)), -300);
        assert_eq!(minutes("America/New_York", datetime!(2026-03-08 07:00 UTC)), -240);
        assert_eq!(minutes("America/New_York", datetime!(2026-11-01 05:59:59 UTC)), -240);
        assert_eq!(minutes("America/New_York", datetime!(2026-11-01 06:00 UTC)), -300);
    }

    #[test]
    fn sydney_saves_in_the_southern_summer() {
        assert_eq!(minutes("Australia/Sydney", datetime!(2026-01-15 00:00 UTC)), 660);
        assert_eq!(minutes("Australia/Sydney", datetime!(2026-04-04 15:59:59 UTC)), 660);
        assert_eq!(minutes("Australia/Sydney", datetime!(2026-04-04 16:00 UTC)), 600);
        assert_eq!(minutes("Australia/Sydney", datetime!(2026-10-03 16:00 UTC)), 660);
        assert_eq!(minutes("Australia/Sydney", datetime!(2026-12-31 20:00 UTC)), 660);
    }

    #[test]
    fn offsets_parse_and_nonsense_does_not() {
        let now = datetime!(2026-01-01 00:00 UTC);
        assert_eq!(minutes("+05:45", now), 345);
        assert_eq!(minutes("-03:30", now), -210);
        for nonsense in ["", "+", "5", "+5:00", "+15:00", "+05:60", "+-5:00", "é", "UTC+2"] {
            assert!(offset_at(nonsense, now).is_err(), "{nonsense:?}");
        }
    }
}
