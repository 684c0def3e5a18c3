//! The plan of a composition: its spec, and the facts about the tools and agents that it calls.

use std::{collections::BTreeMap, sync::Arc};

use registry_core::spec::{Operation, Saga, Spec, Target};

use crate::Effects;

/// A composition that can run. A plan is created once per version of its parts.
#[derive(Debug)]
pub struct Plan {
    spec: Spec,
    parts: BTreeMap<Target, Part>,
}

/// The facts about a called tool or agent, as registered.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Whether a call changes nothing.
    pub is_read_only: bool,
    /// Whether a call can be repeated without harm.
    pub is_repeatable: bool,
    /// Whether it takes text instead of an object.
    pub takes_text: bool,
}

impl Plan {
    /// Creates a plan. `parts` has every target of the spec.
    pub fn new(spec: Spec, parts: BTreeMap<Target, Part>) -> Self {
        Self { spec, parts }
    }

    /// The spec.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns the saga at a pointer into the spec.
    pub fn saga(&self, pointer: &str) -> Option<Arc<Saga>> {
        saga_in(&self.spec, pointer)
    }

    /// Returns the facts about a target.
    pub(super) fn part(&self, target: &Target) -> Option<&Part> {
        self.parts.get(target)
    }

    /// Whether an operation can be repeated without harm.
    pub(super) fn is_repeatable(&self, operation: &Operation) -> bool {
        self.calls_only(operation, |part| part.is_repeatable)
    }

    /// The effects of an operation that has ended.
    pub(super) fn effects_of(&self, operation: &Operation) -> Effects {
        let only_reads = self.calls_only(operation, |part| part.is_read_only);
        if only_reads { Effects::None } else { Effects::Committed }
    }

    /// The effects of a call.
    pub(super) fn effects_of_call(&self, tool: &Target) -> Effects {
        let only_reads = self.part(tool).is_some_and(|part| part.is_read_only);
        if only_reads { Effects::None } else { Effects::Committed }
    }

    /// The effects of an interrupted operation.
    pub(super) fn effects_if_interrupted(&self, operation: &Operation) -> Effects {
        match self.effects_of(operation) {
            Effects::None => Effects::None,
            Effects::Committed | Effects::Unknown => Effects::Unknown,
        }
    }

    fn calls_only(&self, operation: &Operation, predicate: fn(&Part) -> bool) -> bool {
        match operation {
            Operation::Call(target) => self.part(target).is_some_and(predicate),
            Operation::Pattern(spec) => {
                let others: &[&Target] = match &**spec {
                    Spec::DeadLetter(letter) => &[&letter.dead_letter_tool],
                    Spec::ClaimCheck(check) => &[&check.store_tool, &check.retrieve_tool],
                    _ => &[],
                };
                spec.operations().into_iter().all(|inner| self.calls_only(inner, predicate))
                    && others.iter().all(|tool| self.part(tool).is_some_and(predicate))
            }
        }
    }
}

fn saga_in(spec: &Spec, pointer: &str) -> Option<Arc<Saga>> {
    if let Spec::Saga(saga) = spec
        && saga.pointer == pointer
    {
        return Some(Arc::clone(saga));
    }
    spec.operations().into_iter().find_map(|operation| match operation {
        Operation::Pattern(inner) => saga_in(inner, pointer),
        Operation::Call(_) => None,
    })
}
