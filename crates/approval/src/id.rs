//! The identities of requests and of attempts to consume them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// The text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an id has 32 lower-case hexadecimal digits; the text has {length} characters")]
pub struct InvalidId {
    length: usize,
}

/// 128 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Bits(u128);

/// The identity of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(Bits);

/// The identity of one call that consumes an approval. A gateway repeats the message of a call with
/// the same attempt after a lost answer; another call has another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(Bits);

impl RequestId {
    /// Wraps random bits.
    pub fn new(bits: u128) -> Self {
        Self(Bits(bits))
    }
}

impl Attempt {
    /// Wraps random bits.
    pub fn new(bits: u128) -> Self {
        Self(Bits(bits))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RequestId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl FromStr for Attempt {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Bits {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_hex = text.len() == 32 && text.bytes().all(is_digit);
        let bits = is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        bits.map(Self).ok_or_else(|| InvalidId { length: text.chars().count() })
    }
}

impl Serialize for Bits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_round_trips_through_text() {
        for bits in [0, 1, u128::MAX] {
            let id = RequestId::new(bits);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for bad in ["", "1", &"A".repeat(32), &"+".repeat(32), &"0".repeat(33)] {
            assert!(bad.parse::<RequestId>().is_err(), "{bad}");
        }
    }
}
