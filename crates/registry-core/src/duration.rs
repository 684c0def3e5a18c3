//! Durations in human notation: `250ms`, `10s`, `5m`, `2h`.

use std::time::Duration;

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
        assert!(parse_positive_duration("0s").unwrap_err().to_string().contains("is zero"));
    }
}
