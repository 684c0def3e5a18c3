//! Properties that hold for every registry and every input, tested with random ones.
//!
//! Deliberately absent: examples, which are unit tests.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod canonical;
mod documents;
mod evaluation;
mod flows;
mod graph;
mod history;
mod never_panics;
mod paths;
mod resolve;
mod scope;
