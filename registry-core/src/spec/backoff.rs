//! How long to wait between attempts.
//!
//! Deliberately absent: waiting.

use serde_json::Value;

use super::read::{DELAY, Reader};
use crate::decode::{At, Fields};

/// How delays grow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Backoff {
    /// Always the same.
    Fixed {
        /// The delay.
        delay_ms: u64,
    },
    /// By the same step each time.
    Linear {
        /// The first delay.
        initial_delay_ms: u64,
        /// The step.
        increment_ms: u64,
        /// Never longer.
        max_delay_ms: u64,
    },
    /// By a factor each time.
    Exponential {
        /// The first delay.
        initial_delay_ms: u64,
        /// Never longer.
        max_delay_ms: u64,
        /// The factor.
        multiplier: f64,
    },
}

impl Backoff {
    /// Reads the member `backoff`, if it is there.
    pub(super) fn read_optional<'f>(reader: &Reader, fields: &'f Fields<'f>) -> Option<Self> {
        Self::read(reader, fields.get("backoff")?, fields.at("backoff"))
    }

    fn read(reader: &Reader, value: &Value, at: At<'_>) -> Option<Self> {
        let names = &["fixed", "linear", "exponential"];
        let (name, body) = reader.variant(value, at, "backoff", names)?;
        let at = at.member(name);
        let fields = reader.problems.object(body, at)?;
        let number = |name| reader.required_number(&fields, name, DELAY);
        let backoff = match name {
            "fixed" => number("delayMs").map(|delay_ms| Self::Fixed { delay_ms }),
            "linear" => {
                let increment_ms = number("incrementMs");
                let ends = number("initialDelayMs").zip(number("maxDelayMs"));
                ends.zip(increment_ms).map(|((initial_delay_ms, max_delay_ms), increment_ms)| {
                    Self::Linear { initial_delay_ms, increment_ms, max_delay_ms }
                })
            }
            _ => {
                let multiplier = reader.real(&fields, "multiplier", 1.0..=100.0).unwrap_or(2.0);
                let ends = number("initialDelayMs").zip(number("maxDelayMs"));
                ends.map(|(initial_delay_ms, max_delay_ms)| Self::Exponential {
                    initial_delay_ms,
                    max_delay_ms,
                    multiplier,
                })
            }
        };
        if let Some(
            Self::Linear { initial_delay_ms, max_delay_ms, .. }
            | Self::Exponential { initial_delay_ms, max_delay_ms, .. },
        ) = backoff
            && initial_delay_ms > max_delay_ms
        {
            let message = format!("the first delay {initial_delay_ms} is above {max_delay_ms}");
            reader.problems.invalid(fields.at("maxDelayMs"), message, "raise `maxDelayMs`");
        }
        fields.finish();
        backoff
    }
}
