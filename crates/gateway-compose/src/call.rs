//! The call of a composed tool.

use std::sync::Arc;

use gateway_policy::BufferReservation;
use registry_core::Key;

use crate::{CompositionState, Plan, RunOwner, RunScope, StepRunner};

/// The call of a composed tool.
#[derive(Debug)]
pub struct CompositionCall<'a> {
    /// The composed tool.
    pub tool: &'a Key,
    /// Its plan.
    pub plan: &'a Arc<Plan>,
    /// The interface to the tools.
    pub runner: Arc<dyn StepRunner>,
    /// The state that compositions keep between calls.
    pub state: &'a Arc<CompositionState>,
    /// The caller.
    pub owner: RunOwner,
    /// The enclosing run, if the composed tool is a step.
    pub scope: Option<&'a RunScope>,
    /// Maximum size of a result, in bytes.
    pub response_bytes: usize,
    /// The caller's memory for results.
    pub buffered: Option<&'a Arc<BufferReservation>>,
}
