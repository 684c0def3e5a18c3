//! Expiry times in human notation: `12h`, `90d`, a time, or `never`.

use crate::timestamp::Timestamp;

/// The text is not a valid expiry, or the time is in the past.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a future time; write 12h, 90d, a time like 2027-01-31T00:00:00Z, or never")]
pub struct InvalidExpiry(String);

/// Parses an expiry relative to `now`. `None` means never.
pub fn parse_expiry(text: &str, now: Timestamp) -> Result<Option<Timestamp>, InvalidExpiry> {
    let invalid = || InvalidExpiry(text.chars().take(64).collect());
    if text == "never" {
        return Ok(None);
    }
    if let Ok(time) = Timestamp::parse(text) {
        return Ok(Some(time));
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: i64 = number.parse().map_err(|_| invalid())?;
    let millis = match unit {
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(invalid()),
    };
    let end = number.checked_mul(millis).and_then(|more| now.as_millis().checked_add(more));
    end.map(|end| Some(Timestamp::from_millis(end))).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_expiry_accepts_spans_times_and_never() {
        let now = Timestamp::from_millis(1_000);
        let read = |text| parse_expiry(text, now);
        assert_eq!(read("never"), Ok(None));
        assert_eq!(read("2h"), Ok(Some(Timestamp::from_millis(7_201_000))));
        assert_eq!(read("1d"), Ok(Some(Timestamp::from_millis(86_401_000))));
        let time = Timestamp::parse("2027-01-31T00:00:00Z").unwrap();
        assert_eq!(read("2027-01-31T00:00:00Z"), Ok(Some(time)));
        for bad in ["", "d", "-1d", "1.5d", "1w", "tomorrow", "99999999999999999d"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
