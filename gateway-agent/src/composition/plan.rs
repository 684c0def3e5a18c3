//! A composition that can be run: its spec, read once, with every tool and skill that it calls.
//!
//! It is made when somebody first asks for the tool, and again when a part of it changes; a call
//! looks nothing up. Deliberately absent: running it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use registry_core::{
    Key, Name,
    entity::{Dependency, Hints, Implementation, Tool},
    limits,
    spec::{Composition, Operation, Saga, Spec, Target},
};

use super::{failure::Beside, hints};
use crate::view::Offer;

/// A composition with all its parts.
#[derive(Debug)]
pub struct Plan {
    spec: Spec,
    parts: BTreeMap<Target, Part>,
    /// What follows of its parts is worked out once: compositions of compositions share theirs.
    hints: Hints,
    is_read_only: bool,
    is_repeatable: bool,
    reach: BTreeSet<Name>,
    servers: BTreeSet<Key>,
    /// The first of them without a target.
    missing_target: Option<Key>,
    depth: usize,
}

/// What a composition calls.
#[derive(Debug)]
struct Part {
    /// In this version.
    declared: Dependency,
    offer: Arc<Offer>,
}

impl Plan {
    /// Of a registered tool; `None` where it is no composition, or something that it uses cannot be
    /// used: what cannot run to its end is not begun.
    pub fn new(
        tool: &Tool,
        mut part: impl FnMut(&Dependency) -> Option<Arc<Offer>>,
    ) -> Option<Self> {
        let Implementation::Spec(spec) = &tool.implementation else { return None };
        let Composition { spec, uses } = Composition::parse(spec).ok()?;
        let targets: BTreeSet<_> = uses.into_iter().map(|used| used.target).collect();
        let parts = targets.into_iter().map(|target| {
            let declared = target.declared_in(&tool.depends)?.clone();
            let offer = part(&declared)?;
            Some((target, Part { declared, offer }))
        });
        Self::of(spec, parts.collect::<Option<_>>()?)
    }

    fn of(spec: Spec, parts: BTreeMap<Target, Part>) -> Option<Self> {
        let offers = || parts.values().map(|part| &part.offer);
        let plans = || offers().filter_map(|offer| offer.plan());
        let depth = plans().map(|plan| plan.depth).max().unwrap_or(0) + 1;
        if depth > limits::COMPOSITION_DEPTH {
            return None;
        }
        let tools = parts.keys().filter_map(|target| match target {
            Target::Tool(name) => Some(name),
            Target::Agent { .. } => None,
        });
        let mut reach: BTreeSet<Name> = tools.cloned().collect();
        let mut servers: BTreeSet<Key> =
            offers().filter_map(|offer| offer.server().cloned()).collect();
        for plan in plans() {
            reach.extend(plan.reach.iter().cloned());
            servers.extend(plan.servers.iter().cloned());
        }
        Some(Self {
            hints: Hints::of_all(offers().map(|offer| hints::of_part(offer))),
            is_read_only: offers().all(|offer| offer.is_read_only()),
            is_repeatable: offers().all(|offer| offer.is_repeatable()),
            missing_target: offers().find_map(|offer| offer.missing_target()).cloned(),
            reach,
            servers,
            depth,
            spec,
            parts,
        })
    }

    /// What its parts may do, all together.
    pub fn hints(&self) -> Hints {
        self.hints
    }

    /// Whether all its parts are registered as changing nothing.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Whether all its parts are registered as tools that may be called twice without harm.
    pub fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }

    /// The names of all tools that it calls, itself or through its parts.
    pub fn reach(&self) -> &BTreeSet<Name> {
        &self.reach
    }

    /// The servers and agents that it asks, itself or through its parts.
    pub(super) fn servers(&self) -> &BTreeSet<Key> {
        &self.servers
    }

    /// Its first server or agent without a target.
    pub(crate) fn missing_target(&self) -> Option<&Key> {
        self.missing_target.as_ref()
    }

    /// What is run.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The saga at this place of the spec.
    pub(super) fn saga(&self, pointer: &str) -> Option<Arc<Saga>> {
        saga_in(&self.spec, pointer)
    }

    /// All that it calls, each once, and how it declares it.
    pub fn parts(&self) -> impl Iterator<Item = (&Dependency, &Arc<Offer>)> {
        self.parts.values().map(|part| (&part.declared, &part.offer))
    }

    /// What goes by this name in the spec.
    pub(super) fn part(&self, target: &Target) -> Option<&Arc<Offer>> {
        self.parts.get(target).map(|part| &part.offer)
    }

    /// Whether an operation may be done twice without harm, as what it calls is registered.
    pub(super) fn may_be_repeated(&self, operation: &Operation) -> bool {
        self.calls_only(operation, Offer::is_repeatable)
    }

    /// What an operation that is over has done, as what it calls is registered.
    pub(super) fn done(&self, operation: &Operation) -> Beside {
        let only_reads = self.calls_only(operation, Offer::is_read_only);
        if only_reads { Beside::Nothing } else { Beside::Done }
    }

    /// What a tool that was called has done.
    pub(super) fn done_by(&self, tool: &Target) -> Beside {
        let only_reads = self.part(tool).is_some_and(|part| part.is_read_only());
        if only_reads { Beside::Nothing } else { Beside::Done }
    }

    /// What an operation may have done that was cut off.
    pub(super) fn cut_off(&self, operation: &Operation) -> Beside {
        match self.done(operation) {
            Beside::Nothing => Beside::Nothing,
            Beside::Done | Beside::Unknown => Beside::Unknown,
        }
    }

    fn calls_only(&self, operation: &Operation, is_so: fn(&Offer) -> bool) -> bool {
        match operation {
            Operation::Call(target) => self.part(target).is_some_and(|part| is_so(part)),
            Operation::Pattern(spec) => {
                let others: &[&Target] = match &**spec {
                    Spec::DeadLetter(letter) => &[&letter.dead_letter_tool],
                    Spec::ClaimCheck(check) => &[&check.store_tool, &check.retrieve_tool],
                    _ => &[],
                };
                spec.operations().into_iter().all(|inner| self.calls_only(inner, is_so))
                    && others.iter().all(|tool| self.part(tool).is_some_and(|part| is_so(part)))
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
            Operation::Call(target) => self.part(target),
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
        Operation::Call(_) => None,
    })
}
