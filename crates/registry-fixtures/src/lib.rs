//! Test registries for other crates.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

pub mod entities;
pub mod values;
pub mod world;
