//! Audit events and metrics of approvals without a registry, like those of a registry.

use approval::{State, Transition};
use metrics::counter;

const STEPS: &str = "gateway_approval_steps_total";

/// Writes a step of a request to the audit.
pub(super) fn audit(step: &Transition) {
    let (from, to) = (step.from.map_or("", State::as_str), step.to.as_str());
    let (request, cause, actor) = (step.request, step.by.kind(), step.by.name());
    tracing::info!(target: "audit", event = "approval", %request, from, to, cause, actor);
    if step.from != Some(step.to) {
        counter!(STEPS, "state" => to).increment(1);
    }
}
