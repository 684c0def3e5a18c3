//! Jitter for timers. The random numbers are not suitable for secrets.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// Random duration within 10 % of this one.
pub(crate) fn around(duration: Duration) -> Duration {
    duration.mul_f64(0.9 + 0.2 * fraction())
}

/// Random duration from zero to this one.
pub(crate) fn up_to(duration: Duration) -> Duration {
    duration.mul_f64(fraction())
}

/// A random number from 0 to 1.
fn fraction() -> f64 {
    // Each `RandomState` has different keys, which seed the hash.
    let random = RandomState::new().hash_one(0_u8);
    f64::from(u32::try_from(random >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}
