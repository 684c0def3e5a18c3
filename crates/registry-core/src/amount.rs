//! Amounts of money: whole micro-units of the registry's currency, with checked arithmetic.
//!
//! The text of an amount is a decimal such as `0.015`. Amounts are never floating-point numbers and
//! never rounded.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::visible::escape_invisible;

/// Micro-units in one unit of the currency.
const MICROS: i128 = 1_000_000;
/// Maximum number of decimals.
const DECIMALS: usize = 6;
/// Maximum number of characters of a rejected text in a message.
const SHOWN: usize = 64;

/// An amount of money in micro-units, from −9,223,372,036,854.775808 to 9,223,372,036,854.775807.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount(i64);

/// The text is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// The text is not a decimal number.
    #[error("`{0}` is not an amount; write a decimal number such as 10 or 0.015")]
    Malformed(String),
    /// The text has more than six decimals.
    #[error("`{0}` has more than six decimals; write at most six, such as 0.000001")]
    Decimals(String),
    /// The amount does not fit.
    #[error("`{0}` is too large; the largest amount is {max}", max = Amount::MAX)]
    OutOfRange(String),
    /// The amount is negative, but must not be.
    #[error("`{0}` is negative; write zero or a positive amount")]
    Negative(String),
}

impl Amount {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// The largest amount.
    pub const MAX: Self = Self(i64::MAX);
    /// The smallest amount, which is negative.
    pub const MIN: Self = Self(i64::MIN);

    /// Converts micro-units.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// The micro-units.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Parses a decimal number with at most six decimals: `10`, `0.015`, `-2.50`. Exponents, signs
    /// other than `-`, leading zeros and separators are rejected.
    pub fn parse(text: &str) -> Result<Self, AmountError> {
        let shown = || escape_invisible(text.chars().take(SHOWN).collect::<String>());
        let malformed = || AmountError::Malformed(shown());
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let (whole, decimals) = match digits.split_once('.') {
            Some((_, "")) => return Err(malformed()),
            Some(parts) => parts,
            None => (digits, ""),
        };
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let has_leading_zero = whole.len() > 1 && whole.starts_with('0');
        if whole.is_empty() || has_leading_zero || !is_number(whole) || !is_number(decimals) {
            return Err(malformed());
        }
        if decimals.len() > DECIMALS {
            return Err(AmountError::Decimals(shown()));
        }
        let out_of_range = || AmountError::OutOfRange(shown());
        // At most 32 digits fit into the wider type, so only a longer text fails here.
        let micros: i128 =
            format!("{whole}{decimals:0<DECIMALS$}").parse().map_err(|_| out_of_range())?;
        let micros = if is_negative { -micros } else { micros };
        i64::try_from(micros).map(Self).map_err(|_| out_of_range())
    }

    /// Like [`Self::parse`], but rejects negative amounts, such as those of prices and limits.
    pub fn parse_non_negative(text: &str) -> Result<Self, AmountError> {
        let amount = Self::parse(text)?;
        if amount.is_negative() {
            return Err(AmountError::Negative(text.to_owned()));
        }
        Ok(amount)
    }

    /// Whether the amount is less than zero.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// The sum; `None` if it does not fit.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The difference; `None` if it does not fit.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// The product; `None` if it does not fit.
    pub fn checked_mul(self, factor: i64) -> Option<Self> {
        self.0.checked_mul(factor).map(Self)
    }

    /// The sum, clamped to the range of amounts.
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, clamped to the range of amounts.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Formats the shortest decimal: `10`, `0.015`, `-2.5`.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = i128::from(self.0);
        let sign = if micros < 0 { "-" } else { "" };
        let (whole, rest) = (micros.abs() / MICROS, micros.abs() % MICROS);
        let text = if rest == 0 {
            format!("{sign}{whole}")
        } else {
            let decimals = format!("{rest:0DECIMALS$}");
            format!("{sign}{whole}.{}", decimals.trim_end_matches('0'))
        };
        f.write_str(&text)
    }
}

impl fmt::Debug for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amount_prints_shortest_decimal() {
        for (text, micros, printed) in [
            ("10", 10_000_000, "10"),
            ("10.00", 10_000_000, "10"),
            ("0.015", 15_000, "0.015"),
            ("0.000001", 1, "0.000001"),
            ("1.100000", 1_100_000, "1.1"),
            ("-2.50", -2_500_000, "-2.5"),
            ("-0.000001", -1, "-0.000001"),
            ("0", 0, "0"),
            ("-0", 0, "0"),
            ("9223372036854.775807", i64::MAX, "9223372036854.775807"),
            ("-9223372036854.775808", i64::MIN, "-9223372036854.775808"),
        ] {
            let amount = Amount::parse(text).unwrap();
            assert_eq!((amount.as_micros(), &*amount.to_string()), (micros, printed), "{text}");
            assert_eq!(Amount::parse(printed), Ok(amount));
        }
    }

    #[test]
    fn amount_rejects_other_notations() {
        let long = "9".repeat(500);
        let others =
            "- .5 5. . +1 --1 1e3 1E3 0x1 NaN inf 1,000 1_0 00 01.5 1.2.3 1.-2 1.5$ \u{661}";
        for bad in others.split(' ').chain(["", " 1", "1 ", "1.\u{200b}5"]) {
            let error = Amount::parse(bad).unwrap_err();
            assert!(matches!(error, AmountError::Malformed(_)), "{bad}: {error:?}");
        }
        for fine in ["0.0000001", "1.0000000", "0.01500000000000000000"] {
            let error = Amount::parse(fine).unwrap_err();
            assert!(matches!(error, AmountError::Decimals(_)), "{fine}: {error:?}");
        }
        for large in ["9223372036854.775808", "-9223372036854.775809", "9223372036855", &*long] {
            let error = Amount::parse(large).unwrap_err();
            assert!(matches!(error, AmountError::OutOfRange(_)), "{large}: {error:?}");
            assert!(error.to_string().len() < 200);
        }
    }

    #[test]
    fn non_negative_amount_rejects_negative() {
        assert_eq!(Amount::parse_non_negative("0"), Ok(Amount::ZERO));
        let error = Amount::parse_non_negative("-0.01").unwrap_err();
        assert_eq!(error, AmountError::Negative("-0.01".to_owned()));
    }

    #[test]
    fn arithmetic_detects_overflow() {
        let one = Amount::from_micros(1);
        assert_eq!(Amount::MAX.checked_add(one), None);
        assert_eq!(Amount::MIN.checked_sub(one), None);
        assert_eq!(Amount::MAX.checked_mul(2), None);
        assert_eq!(Amount::MAX.checked_sub(one).unwrap().checked_add(one), Some(Amount::MAX));
        assert_eq!(Amount::MAX.saturating_add(one), Amount::MAX);
        assert_eq!(Amount::MIN.saturating_sub(one), Amount::MIN);
    }

    #[test]
    fn amount_is_a_string_in_json() {
        let amount: Amount = serde_json::from_value(json!("0.0150")).unwrap();
        assert_eq!(serde_json::to_value(amount).unwrap(), json!("0.015"));
        for bad in [json!(0.015), json!(10), json!(null), json!("1e3")] {
            assert!(serde_json::from_value::<Amount>(bad.clone()).is_err(), "{bad}");
        }
    }
}
