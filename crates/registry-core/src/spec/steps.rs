//! Step ids of a pattern, and their visibility to bindings.

use std::collections::HashSet;

use schema_compat::pointer::Location;
use serde_json::Value;

use super::{
    binding::{COMPENSATION_KINDS, KINDS, Visible},
    read::Reader,
};

/// The ids of all steps in order; empty for a step without one.
pub(super) struct StepIds(Vec<String>);

impl StepIds {
    /// Collects the ids and reports duplicate and empty ones.
    pub(super) fn read(reader: &Reader, steps: Option<&Value>, at: Location<'_>) -> Self {
        let steps = steps.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let id = |step: &Value| step.get("id").and_then(Value::as_str).map(str::to_owned);
        let ids: Vec<Option<String>> = steps.iter().map(id).collect();
        let mut seen = HashSet::new();
        for (i, id) in ids.iter().enumerate() {
            let Some(id) = id else { continue };
            let step = at.index(i);
            if id.is_empty() {
                reader.problems.invalid(step.member("id"), "the step id is empty", "name the step");
            } else if !seen.insert(id) {
                let message = format!("the step id `{id}` is used twice");
                reader.problems.invalid(step.member("id"), message, "give each step its own id");
            }
        }
        Self(ids.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// The results that the step at this index may bind to.
    pub(super) fn visible_before(&self, position: usize) -> Visible<'_> {
        let (earlier, later) = self.0.split_at(position.min(self.0.len()));
        Visible { earlier, later, kinds: KINDS }
    }

    /// The results that compensations may bind to: those of any step, because later ones may have
    /// completed.
    pub(super) fn visible_to_compensation(&self) -> Visible<'_> {
        Visible { kinds: COMPENSATION_KINDS, ..self.visible_at_end() }
    }

    /// The results that the output may bind to.
    pub(super) fn visible_at_end(&self) -> Visible<'_> {
        self.visible_before(self.0.len())
    }
}
