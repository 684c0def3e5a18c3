//! A composition that can be run: its spec, read once, with every tool that it calls.
//!
//! It is made when somebody first asks for the tool, and again when a part of it changes; a call
//! looks nothing up. Deliberately absent: running it.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use registry_core::{
    Key, Name,
    entity::{Dependency, DependencyTarget, Implementation, Tool},
    spec::{Composition, Operation, Saga, Spec, Target},
};

use crate::view::Offer;

/// A composition with all its parts.
#[derive(Debug)]
pub struct Plan {
    spec: Spec,
    parts: BTreeMap<Name, Arc<Offer>>,
}

impl Plan {
    /// Of a registered tool; `None` where it is no composition, or something that it uses cannot be
    /// used: what cannot run to its end is not begun.
    pub fn new(tool: &Tool, mut part: impl FnMut(&Key) -> Option<Arc<Offer>>) -> Option<Self> {
        let Implementation::Spec(spec) = &tool.implementation else { return None };
        let Composition { spec, uses } = Composition::parse(spec).ok()?;
        let mut parts = BTreeMap::new();
        for used in uses {
            let Target::Tool(name) = used.target else { return None };
            if let Entry::Vacant(place) = parts.entry(name) {
                let is_it = |one: &&Dependency| {
                    one.target == DependencyTarget::Tool && one.name == *place.key()
                };
                let offer = part(&tool.depends.iter().find(is_it)?.key())?;
                place.insert(offer);
            }
        }
        Some(Self { spec, parts })
    }

    /// What is run.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The saga at this place of the spec.
    pub(super) fn saga(&self, pointer: &str) -> Option<Arc<Saga>> {
        saga_in(&self.spec, pointer)
    }

    /// Every tool that it calls, each once.
    pub fn parts(&self) -> impl Iterator<Item = &Arc<Offer>> {
        self.parts.values()
    }

    /// The tool that goes by this name in the spec.
    pub(super) fn part(&self, name: &Name) -> Option<&Arc<Offer>> {
        self.parts.get(name)
    }

    /// Whether an operation may be done twice without harm, as what it calls is registered.
    pub(super) fn is_repeatable(&self, operation: &Operation) -> bool {
        match operation {
            Operation::Tool(name) => self.part(name).is_some_and(|part| part.is_repeatable()),
            Operation::Agent { .. } => false,
            Operation::Pattern(spec) => {
                let others: &[&Name] = match &**spec {
                    Spec::DeadLetter(letter) => &[&letter.dead_letter_tool],
                    Spec::ClaimCheck(check) => &[&check.store_tool, &check.retrieve_tool],
                    _ => &[],
                };
                spec.operations().into_iter().all(|inner| self.is_repeatable(inner))
                    && others.iter().all(|name| self.part(name).is_some_and(|p| p.is_repeatable()))
            }
        }
    }

    /// The tool that gets what the composition gets, as it is: what it demands, the composition
    /// demands.
    pub fn entry(&self) -> Option<&Arc<Offer>> {
        self.entry_of(&self.spec)
    }

    fn entry_of(&self, spec: &Spec) -> Option<&Arc<Offer>> {
        let operation = match spec {
            Spec::Pipeline(pipeline) => {
                pipeline.steps.first().filter(|step| step.input.is_none()).map(|s| &s.operation)
            }
            Spec::Saga(saga) => {
                saga.steps.first().filter(|step| step.input.is_none()).map(|step| &step.action)
            }
            Spec::Retry(retry) => Some(&retry.inner),
            Spec::Timeout(timeout) => Some(&timeout.inner),
            Spec::Cache(cache) => Some(&cache.inner),
            Spec::Idempotent(idempotent) => Some(&idempotent.inner),
            Spec::CircuitBreaker(breaker) => Some(&breaker.inner),
            Spec::DeadLetter(letter) => Some(&letter.inner),
            Spec::ScatterGather(_)
            | Spec::Filter(_)
            | Spec::SchemaMap(_)
            | Spec::MapEach(_)
            | Spec::ClaimCheck(_) => None,
        };
        match operation? {
            Operation::Tool(name) => self.part(name),
            Operation::Agent { .. } => None,
            Operation::Pattern(spec) => self.entry_of(spec),
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
        Operation::Tool(_) | Operation::Agent { .. } => None,
    })
}
