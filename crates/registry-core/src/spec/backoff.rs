//! Delays between attempts.

use std::time::Duration;

use schema_compat::pointer::Location;
use serde_json::Value;

use super::read::{DELAY, Reader};
use crate::decode::Fields;

/// The growth of delays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Backoff {
    /// A constant delay.
    Fixed {
        /// The delay in milliseconds.
        delay_ms: u64,
    },
    /// Growth by a constant increment.
    Linear {
        /// The first delay in milliseconds.
        initial_delay_ms: u64,
        /// The increment in milliseconds.
        increment_ms: u64,
        /// The maximum delay in milliseconds.
        max_delay_ms: u64,
    },
    /// Growth by a constant factor.
    Exponential {
        /// The first delay in milliseconds.
        initial_delay_ms: u64,
        /// The maximum delay in milliseconds.
        max_delay_ms: u64,
        /// The factor.
        multiplier: f64,
    },
}

impl Backoff {
    /// The delay before the next attempt after this number of failures, starting at 1.
    pub fn delay(&self, failures: u64) -> Duration {
        let steps = failures.saturating_sub(1);
        let millis = match *self {
            Self::Fixed { delay_ms } => delay_ms,
            Self::Linear { initial_delay_ms, increment_ms, max_delay_ms } => initial_delay_ms
                .saturating_add(increment_ms.saturating_mul(steps))
                .min(max_delay_ms),
            Self::Exponential { initial_delay_ms, max_delay_ms, multiplier } => {
                let steps = i32::try_from(steps).unwrap_or(i32::MAX);
                let grown =
                    Duration::from_millis(initial_delay_ms).as_secs_f64() * multiplier.powi(steps);
                let most = Duration::from_millis(max_delay_ms);
                // More than a duration can represent, or NaN (zero times infinity).
                return Duration::try_from_secs_f64(grown).map_or(most, |grown| grown.min(most));
            }
        };
        Duration::from_millis(millis)
    }

    /// Reads the optional member `backoff`.
    pub(super) fn read_optional<'f>(reader: &Reader, fields: &'f Fields<'f>) -> Option<Self> {
        Self::read(reader, fields.get("backoff")?, fields.at("backoff"))
    }

    fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
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
            let message =
                format!("the first delay {initial_delay_ms} exceeds the maximum {max_delay_ms}");
            reader.problems.invalid(fields.at("maxDelayMs"), message, "increase `maxDelayMs`");
        }
        fields.finish();
        backoff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_delay_grows_up_to_maximum() {
        let millis = |backoff: Backoff| {
            let delays = [1, 2, 3, 4, u64::MAX].map(|failures| backoff.delay(failures).as_millis());
            delays.map(|delay| u64::try_from(delay).unwrap())
        };
        assert_eq!(millis(Backoff::Fixed { delay_ms: 7 }), [7; 5]);
        let linear = Backoff::Linear { initial_delay_ms: 10, increment_ms: 5, max_delay_ms: 22 };
        assert_eq!(millis(linear), [10, 15, 20, 22, 22]);
        let exponential = |initial_delay_ms, max_delay_ms, multiplier| Backoff::Exponential {
            initial_delay_ms,
            max_delay_ms,
            multiplier,
        };
        assert_eq!(millis(exponential(100, 1_000, 2.0)), [100, 200, 400, 800, 1_000]);
        assert_eq!(millis(exponential(100, 1_000, 1.0)), [100; 5]);
        assert_eq!(millis(exponential(0, 50, 2.0)), [0, 0, 0, 0, 50]);
    }
}
