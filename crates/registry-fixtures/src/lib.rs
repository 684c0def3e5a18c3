//! Registries and random numbers for the tests of other crates.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

pub mod entities;
pub mod random;
pub mod values;
pub mod world;
