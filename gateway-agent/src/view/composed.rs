//! A composed tool with the routes of all its parts.
//!
//! It is built on first use and after a part changes, so calls need no lookups.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use gateway_compose::Plan;
use registry_core::{
    Key, Name,
    entity::{Dependency, Hints, Implementation, Tool},
    limits,
    spec::{Composition, Operation, Spec, Target},
};

use super::{ServedTool, hints};

/// A composition with its parts and the facts derived from them.
#[derive(Debug)]
pub struct Composed {
    plan: Arc<Plan>,
    parts: BTreeMap<Target, ComposedPart>,
    hints: Hints,
    is_read_only: bool,
    is_repeatable: bool,
    reach: BTreeSet<Name>,
    servers: BTreeSet<Key>,
    missing_target: Option<Key>,
    depth: usize,
}

#[derive(Debug)]
struct ComposedPart {
    declared: Dependency,
    served: Arc<ServedTool>,
}

impl Composed {
    /// Returns `None` if the tool is not a composition or a part is unusable: a composition that
    /// cannot complete must not start.
    pub(super) fn new(
        tool: &Tool,
        mut part: impl FnMut(&Dependency) -> Option<Arc<ServedTool>>,
    ) -> Option<Self> {
        let Implementation::Spec(spec) = &tool.implementation else { return None };
        let Composition { spec, uses } = Composition::parse(spec).ok()?;
        let targets: BTreeSet<_> = uses.into_iter().map(|used| used.target).collect();
        let parts = targets.into_iter().map(|target| {
            let declared = target.declared_in(&tool.depends)?.clone();
            let served = part(&declared)?;
            Some((target, ComposedPart { declared, served }))
        });
        Self::from_parts(spec, parts.collect::<Option<_>>()?)
    }

    fn from_parts(spec: Spec, parts: BTreeMap<Target, ComposedPart>) -> Option<Self> {
        let served_tools = || parts.values().map(|part| &part.served);
        let inner = || served_tools().filter_map(|served| served.composed());
        let depth = inner().map(|composed| composed.depth).max().unwrap_or(0) + 1;
        if depth > limits::COMPOSITION_DEPTH {
            return None;
        }
        let tools = parts.keys().filter_map(|target| match target {
            Target::Tool(name) => Some(name),
            Target::Agent { .. } => None,
        });
        let mut reach: BTreeSet<Name> = tools.cloned().collect();
        let mut servers: BTreeSet<Key> =
            served_tools().filter_map(|served| served.server().cloned()).collect();
        for composed in inner() {
            reach.extend(composed.reach.iter().cloned());
            servers.extend(composed.servers.iter().cloned());
        }
        let facts = |ComposedPart { served, .. }: &ComposedPart| gateway_compose::Part {
            is_read_only: served.is_read_only(),
            is_repeatable: served.is_repeatable(),
            takes_text: served.takes_text(),
        };
        let facts = parts.iter().map(|(target, part)| (target.clone(), facts(part))).collect();
        Some(Self {
            plan: Arc::new(Plan::new(spec, facts)),
            hints: Hints::combined(served_tools().map(|served| hints::of_part(served))),
            is_read_only: served_tools().all(|served| served.is_read_only()),
            is_repeatable: served_tools().all(|served| served.is_repeatable()),
            missing_target: served_tools().find_map(|served| served.missing_target()).cloned(),
            reach,
            servers,
            depth,
            parts,
        })
    }

    /// The plan that runs the composition.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The behavior hints, derived from all parts.
    pub fn hints(&self) -> Hints {
        self.hints
    }

    /// Whether all parts are registered as read-only.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Whether all parts are registered as idempotent.
    pub fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }

    /// The names of all called tools, including those of inner compositions.
    pub fn reach(&self) -> &BTreeSet<Name> {
        &self.reach
    }

    /// The called servers and agents, including those of inner compositions.
    pub(crate) fn servers(&self) -> &BTreeSet<Key> {
        &self.servers
    }

    /// The first server or agent without a target.
    pub(crate) fn missing_target(&self) -> Option<&Key> {
        self.missing_target.as_ref()
    }

    /// All parts with their dependencies.
    pub fn parts(&self) -> impl Iterator<Item = (&Dependency, &Arc<ServedTool>)> {
        self.parts.values().map(|part| (&part.declared, &part.served))
    }

    pub(crate) fn part(&self, target: &Target) -> Option<&Arc<ServedTool>> {
        self.parts.get(target).map(|part| &part.served)
    }

    /// The tool that receives the unchanged input. Its input schema applies to the composition.
    pub fn entry(&self) -> Option<&Arc<ServedTool>> {
        self.entry_of(self.plan.spec())
    }

    fn entry_of(&self, spec: &Spec) -> Option<&Arc<ServedTool>> {
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
