//! Property tests of comparisons with random schemas.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod compatibility;
mod schemas;
