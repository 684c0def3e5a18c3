//! Property tests with random schemas.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod basic;
mod compatibility;
mod schemas;
