//! The saga: steps in order, each with a way to undo it.
//!
//! Deliberately absent: the journal that lets a saga survive the gateway.

use super::{Binding, Operation, Path};

/// Steps whose effects are undone in reverse order when a later one fails.
#[derive(Debug, Clone, PartialEq)]
pub struct Saga {
    /// At least one step.
    pub steps: Vec<SagaStep>,
    /// Which part of the input names this instance.
    pub saga_id_path: Option<Path>,
    /// When it is given up and compensated.
    pub timeout_ms: Option<u64>,
    /// The result of a completed saga; without it all results by step id.
    pub output: Option<Binding>,
}

/// One step of a saga.
#[derive(Debug, Clone, PartialEq)]
pub struct SagaStep {
    /// Unique within the saga.
    pub id: String,
    /// For people.
    pub name: String,
    /// What it does.
    pub action: Operation,
    /// How it is undone.
    pub compensate: Option<Operation>,
    /// The action's input; without it the previous step's result.
    pub input: Option<Binding>,
    /// The compensation's input; without it the action's.
    pub compensate_input: Option<Binding>,
    /// Whether to compensate when nobody knows whether the action took place.
    pub compensate_on_unknown: bool,
}
