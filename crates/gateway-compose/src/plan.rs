//! The plan of a composition: its spec, and the facts about the tools and agents that it calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

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
        match pattern_at(&self.spec, pointer)? {
            Spec::Saga(saga) => Some(Arc::clone(saga)),
            _ => None,
        }
    }

    /// Returns the tools and agents that contribute to the stored result of the pattern at a pointer
    /// into the spec: all except compensations.
    pub fn contributors_at(&self, pointer: &str) -> Option<BTreeSet<&Target>> {
        pattern_at(&self.spec, pointer).map(contributors)
    }

    /// Returns the tools and agents that contribute to the result of the composition.
    pub fn contributors(&self) -> BTreeSet<&Target> {
        contributors(&self.spec)
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
                let mut others = own_targets(spec).into_iter();
                spec.operations().into_iter().all(|inner| self.calls_only(inner, predicate))
                    && others.all(|tool| self.part(tool).is_some_and(predicate))
            }
        }
    }
}

/// The pattern at a pointer, if it stores results.
fn pattern_at<'s>(spec: &'s Spec, pointer: &str) -> Option<&'s Spec> {
    let own = match spec {
        Spec::Saga(saga) => Some(&saga.pointer),
        Spec::Cache(cache) => Some(&cache.pointer),
        Spec::Idempotent(once) => Some(&once.pointer),
        _ => None,
    };
    if own.is_some_and(|own| own == pointer) {
        return Some(spec);
    }
    spec.operations().into_iter().find_map(|operation| match operation {
        Operation::Pattern(inner) => pattern_at(inner, pointer),
        Operation::Call(_) => None,
    })
}

fn contributors(spec: &Spec) -> BTreeSet<&Target> {
    let mut found: BTreeSet<_> = own_targets(spec).into_iter().collect();
    let operations: Vec<&Operation> = match spec {
        Spec::Saga(saga) => saga.steps.iter().map(|step| &step.action).collect(),
        _ => spec.operations(),
    };
    for operation in operations {
        match operation {
            Operation::Call(target) => {
                found.insert(target);
            }
            Operation::Pattern(inner) => found.append(&mut contributors(inner)),
        }
    }
    found
}

/// The tools of a pattern in addition to its operations.
fn own_targets(spec: &Spec) -> Vec<&Target> {
    match spec {
        Spec::DeadLetter(letter) => vec![&letter.dead_letter_tool],
        Spec::ClaimCheck(check) => vec![&check.store_tool, &check.retrieve_tool],
        _ => Vec::new(),
    }
}
