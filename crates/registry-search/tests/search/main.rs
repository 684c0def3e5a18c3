//! Search, measured and checked over a realistic catalog.
//!
//! Deliberately absent: speed, which `bench/` measures, and the insides of the index.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod company;
mod relevance;
mod size;
