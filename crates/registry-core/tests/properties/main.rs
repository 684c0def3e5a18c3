//! Properties that hold for every registry and every input, tested with random ones.

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
