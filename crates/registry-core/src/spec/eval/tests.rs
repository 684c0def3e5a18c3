//! Every row of the tables that say what compositions mean.

mod bounds;
mod data;
mod projection;

use super::{Budget, Error};

/// More than any row needs.
fn budget() -> Budget {
    Budget::new(1 << 20)
}

fn told<T>(outcome: Result<T, Error>) -> Result<T, String> {
    outcome.map_err(|error| error.to_string())
}
