//! Durations as people write them: `250ms`, `10s`, `5m`.
//!
//! Deliberately absent: fractions and sums such as `1m30s`.

use std::time::Duration;

/// Parses a whole number with its unit: `ms`, `s`, `m` or `h`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let invalid = || format!("`{text}` is not a duration like 250ms, 10s or 5m");
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

/// As [`parse_duration`], for what must take some time: nothing may spin.
pub fn parse_wait(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration.is_zero() { Err(format!("`{text}` is no time at all")) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_four_units_and_nothing_else() {
        assert_eq!(parse_duration("250ms").unwrap(), Duration::from_millis(250));
        assert_eq!(parse_duration("10s").unwrap(), Duration::from_secs(10));
        assert_eq!(parse_duration("5m").unwrap(), Duration::from_mins(5));
        assert_eq!(parse_duration("2h").unwrap(), Duration::from_hours(2));
        for bad in ["", "10", "s", "1.5s", "-1s", "10 s", "99999999999999999999h", "1d"] {
            assert!(parse_duration(bad).unwrap_err().contains(&format!("`{bad}`")));
        }
        assert_eq!(parse_duration("0s").unwrap(), Duration::ZERO);
        assert!(parse_wait("0s").unwrap_err().contains("no time at all"));
    }
}
