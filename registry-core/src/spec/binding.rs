//! Where a step's input comes from.
//!
//! Deliberately absent: what happens without a binding; then the previous step's result (for the
//! first step the composition's input) is taken.

use serde_json::Value;

use super::path::Path;

/// A source of data for a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Binding {
    /// A part of the composition's input: `{ input: { path } }` or `{ path }`.
    Input(Path),
    /// A part of an earlier step's result: `{ step: { stepId, path } }` or
    /// `{ reference: { step, path } }`.
    Step {
        /// The step's id.
        id: String,
        /// Into its result.
        path: Path,
    },
    /// This value.
    Constant(Value),
    /// An object of bindings.
    Construct(Vec<(String, Binding)>),
    /// A part of the error that a saga is compensating: `{ error: { path } }`.
    Error(Path),
}
