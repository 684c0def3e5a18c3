//! Durations in seconds and sizes such as `128MB`.

use std::time::Duration;

use serde_json::Value;

/// The longest duration: one day.
const LONGEST_SECONDS: f64 = 86_400.0;
/// The shortest duration.
const SHORTEST_SECONDS: f64 = 0.001;
/// The largest size: one pebibyte, far above any machine, so that sums do not overflow.
const LARGEST_BYTES: u64 = 1 << 50;

/// Units of sizes. Decimal and binary units differ, as SI and IEC define.
const UNITS: [(&str, u64); 9] = [
    ("", 1),
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// A duration in seconds from one millisecond to one day.
pub(crate) fn seconds(value: &Value) -> Result<Duration, &'static str> {
    let seconds = value.as_f64().filter(|s| (SHORTEST_SECONDS..=LONGEST_SECONDS).contains(s));
    let seconds = seconds.ok_or("a number of seconds from 0.001 to 86400 is required")?;
    Ok(Duration::from_secs_f64(seconds))
}

/// A size in bytes: a number, or a text with a unit.
pub(crate) fn bytes(value: &Value) -> Result<u64, &'static str> {
    let bytes = match value {
        Value::String(text) => sized(text),
        value => value.as_u64(),
    };
    let bytes = bytes.filter(|bytes| (1..=LARGEST_BYTES).contains(bytes));
    bytes.ok_or("a size in bytes or with a unit is required, such as 128MB or 1GiB")
}

fn sized(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit.trim_start_matches(' '))?;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn seconds_are_positive_and_bounded() {
        assert_eq!(seconds(&json!(5)), Ok(Duration::from_secs(5)));
        assert_eq!(seconds(&json!(0.25)), Ok(Duration::from_millis(250)));
        for bad in [json!(0), json!(-1), json!(86_401), json!("5"), json!(null), json!(1e-9)] {
            assert!(seconds(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_have_decimal_and_binary_units() {
        for (text, size) in [("128MB", 128_000_000), ("1 GiB", 1 << 30), ("7", 7), ("7B", 7)] {
            assert_eq!(bytes(&json!(text)), Ok(size), "{text}");
        }
        assert_eq!(bytes(&json!(4096)), Ok(4096));
        for bad in
            ["", "MB", "0", "-1", "1.5GB", "1mb", "1 M B", "99999999999999999999", "9999999TB"]
        {
            assert!(bytes(&json!(bad)).is_err(), "{bad}");
        }
    }
}
