//! Search, measured and checked over a realistic catalog.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod company;
mod relevance;
mod size;
