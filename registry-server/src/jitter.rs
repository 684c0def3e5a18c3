//! A little randomness, so that many timers do not fire together.
//!
//! The random numbers are not suitable for secrets.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// A random duration up to a tenth shorter or longer than this one.
pub(crate) fn around(duration: Duration) -> Duration {
    duration.mul_f64(0.9 + 0.2 * fraction())
}

/// A random duration between nothing and this one.
pub(crate) fn up_to(duration: Duration) -> Duration {
    duration.mul_f64(fraction())
}

/// A random number from 0 to 1.
fn fraction() -> f64 {
    // Each `RandomState` has keys of its own, which seed the hash.
    let random = RandomState::new().hash_one(0_u8);
    f64::from(u32::try_from(random >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}
