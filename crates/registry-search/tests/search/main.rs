//! Search quality and limits over a realistic catalog.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod company;
mod relevance;
mod size;
