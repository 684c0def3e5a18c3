//! Durations in human notation (`250ms`, `10s`, `5m`, `2h`) and in that of ISO 8601 (`PT5M`, `P1D`).

use std::time::Duration;

use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

use crate::visible::escape_invisible;

/// The text is not a valid duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDuration {
    /// The text is not a whole number with a unit, or the duration is too long.
    #[error("`{0}` is not a duration such as 250ms, 10s, 5m or 2h")]
    Malformed(String),
    /// The duration is zero, but must be positive.
    #[error("`{0}` is zero; write a positive duration such as 250ms, 10s, 5m or 2h")]
    Zero(String),
}

/// Parses a whole number with its unit: `ms`, `s`, `m` or `h`.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let invalid = || InvalidDuration::Malformed(escape_invisible(text));
    let number: u64 = number.parse().map_err(|_| invalid())?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(invalid()),
    };
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(invalid)
}

/// Like [`parse_duration`], but rejects zero, which would make a loop spin.
pub fn parse_positive_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let duration = parse_duration(text)?;
    if duration.is_zero() {
        Err(InvalidDuration::Zero(escape_invisible(text)))
    } else {
        Ok(duration)
    }
}

/// Longest duration in ISO 8601 notation: 1,000 days.
const LONGEST_ISO: Duration = Duration::from_hours(24 * 1_000);

/// The text is not a valid duration of ISO 8601.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration from PT1S to P1000D in whole days, hours, minutes and seconds")]
pub struct InvalidIsoDuration(String);

/// Parses a positive duration of ISO 8601 in whole days, hours, minutes and seconds: `P1DT2H`.
/// Years and months have no fixed length and are rejected.
pub fn parse_iso_duration(text: &str) -> Result<Duration, InvalidIsoDuration> {
    let invalid = || InvalidIsoDuration(escape_invisible(text));
    let rest = text.strip_prefix('P').ok_or_else(invalid)?;
    let (date, time) = match rest.split_once('T') {
        Some((_, "")) => return Err(invalid()),
        Some((date, time)) => (date, time),
        None => (rest, ""),
    };
    let units = [(date, &[('D', 86_400)][..]), (time, &[('H', 3_600), ('M', 60), ('S', 1)])];
    let mut seconds = 0_u64;
    for (mut part, units) in units {
        for (unit, length) in units {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let Some(rest) = part[digits..].strip_prefix(*unit) else { continue };
            let count: u64 = part[..digits].parse().map_err(|_| invalid())?;
            let length = count.checked_mul(*length).ok_or_else(invalid)?;
            seconds = seconds.checked_add(length).ok_or_else(invalid)?;
            part = rest;
        }
        if !part.is_empty() {
            return Err(invalid());
        }
    }
    let duration = Duration::from_secs(seconds);
    if duration.is_zero() || duration > LONGEST_ISO { Err(invalid()) } else { Ok(duration) }
}

/// Formats whole seconds in ISO 8601 notation, with the largest units first.
pub fn format_iso_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let part = |count: u64, unit: &str| {
        if count == 0 { String::new() } else { format!("{count}{unit}") }
    };
    let days = part(seconds / 86_400, "D");
    let (hours, minutes) = (part(seconds / 3_600 % 24, "H"), part(seconds / 60 % 60, "M"));
    let time = format!("{hours}{minutes}{}", part(seconds % 60, "S"));
    let separator = if time.is_empty() { "" } else { "T" };
    format!("P{days}{separator}{time}")
}

/// Serializes a duration in ISO 8601 notation.
pub(crate) fn serialize_iso<S: Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format_iso_duration(*duration))
}

/// Serializes an optional duration in ISO 8601 notation.
#[expect(clippy::ref_option, reason = "the signature is that of serde")]
pub(crate) fn serialize_optional_iso<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duration.map(format_iso_duration).serialize(serializer)
}

/// Deserializes an optional duration in ISO 8601 notation.
pub(crate) fn deserialize_optional_iso<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse_iso_duration(&text)).transpose().map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_duration_accepts_four_units() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("5m"), Ok(Duration::from_mins(5)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_hours(2)));
        let too_long = ["99999999999999999999h", "9999999999999999h"];
        for bad in
            ["", "10", "s", "1.5s", "-1s", "10 s", "1d", "5\u{fc}"].into_iter().chain(too_long)
        {
            let refused = parse_positive_duration(bad).unwrap_err().to_string();
            assert_eq!(refused, format!("`{bad}` is not a duration such as 250ms, 10s, 5m or 2h"));
        }
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        let zero = parse_positive_duration("0s");
        assert!(matches!(zero, Err(InvalidDuration::Zero(_))), "{zero:?}");
    }

    #[test]
    fn iso_durations_round_trip() {
        for (text, seconds) in
            [("PT1S", 1), ("PT1M", 60), ("P1DT2H3M4S", 93_784), ("P1000D", 86_400_000)]
        {
            let parsed = parse_iso_duration(text).unwrap();
            assert_eq!((parsed.as_secs(), &*format_iso_duration(parsed)), (seconds, text));
        }
        assert_eq!(parse_iso_duration("PT90S").map(format_iso_duration).as_deref(), Ok("PT1M30S"));
        for bad in [
            "", "P", "PT", "PT0S", "1D", "P1M", "P1W", "PT1.5S", "PT1S1M", "P1001D", "P-1D", "pT1S",
        ] {
            assert_eq!(parse_iso_duration(bad), Err(InvalidIsoDuration(bad.to_owned())));
        }
    }
}
