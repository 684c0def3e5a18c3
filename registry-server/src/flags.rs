//! Parsers of flag values that several settings share.

use clap::builder::RangedU64ValueParser;

/// Parses a number from 1 to `most`.
pub(crate) fn at_least_one(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

/// Parses a number from 0 to `most`.
pub(crate) fn at_most(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(..=most)
}
