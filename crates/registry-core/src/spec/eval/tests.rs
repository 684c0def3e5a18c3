//! Tests of evaluation.

mod bounds;
mod data;
mod projection;

use super::{Budget, Error};

/// Larger than any test needs.
fn budget() -> Budget {
    Budget::new(1 << 20)
}

fn told<T>(outcome: Result<T, Error>) -> Result<T, String> {
    outcome.map_err(|error| error.to_string())
}
