//! Property tests with random registries and inputs.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod canonical;
mod documents;
mod evaluation;
mod flows;
mod graph;
mod history;
mod never_panics;
mod paths;
mod policies;
mod resolve;
mod scope;
