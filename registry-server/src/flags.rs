//! Parsers of option values.

use clap::builder::RangedU64ValueParser;

/// Parses an integer from 1 to `max`.
pub(crate) fn at_least_one(max: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=max)
}

/// Parses an integer from 0 to `max`.
pub(crate) fn at_most(max: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(..=max)
}
