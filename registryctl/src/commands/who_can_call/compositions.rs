//! The compositions whose steps and compensations call a tool or skill, and the decisions about them.

use std::collections::{BTreeMap, BTreeSet};

use policy::{PartialDecision, Purpose};
use registry_core::{
    Catalog, Key, LifecycleState,
    entity::tool::Implementation,
    spec::{Composition, Use},
};

use super::decide;
use crate::commands::policy::decide::{Decider, Target};

/// A composition that calls a tool or skill, directly or through other compositions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CompositionCall {
    pub(super) composition: Key,
    is_compensation: bool,
}

impl CompositionCall {
    pub(super) fn purpose(&self) -> Purpose {
        purpose(self.is_compensation)
    }
}

fn purpose(is_compensation: bool) -> Purpose {
    if is_compensation { Purpose::Compensation } else { Purpose::Step }
}

/// A call in a composition.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InnerCall {
    is_compensation: bool,
    /// The called composition. `None`: the tool or skill itself.
    composition: Option<CompositionCall>,
}

/// The compositions that call a tool or skill, with their calls on the way to it.
pub(super) type CompositionCalls = BTreeMap<CompositionCall, BTreeSet<InnerCall>>;

/// The compositions that call a version of a tool or skill.
pub(super) fn calling(catalog: &Catalog, called: &Target) -> CompositionCalls {
    let mut found = CompositionCalls::new();
    let mut open: Vec<Option<CompositionCall>> = vec![None];
    while let Some(inner) = open.pop() {
        let direct = match &inner {
            None => direct_callers(catalog, called.key(), called.skill()),
            Some(inner) => direct_callers(catalog, &inner.composition, None),
        };
        for mut outer in direct {
            let call =
                InnerCall { is_compensation: outer.is_compensation, composition: inner.clone() };
            outer.is_compensation |= inner.as_ref().is_some_and(|inner| inner.is_compensation);
            if !found.contains_key(&outer) {
                open.push(Some(outer.clone()));
            }
            found.entry(outer).or_default().insert(call);
        }
    }
    found
}

/// The decisions about the compositions through which an agent calls a tool or skill.
pub(super) struct CompositionDecisions<'a> {
    decider: &'a Decider,
    agent: &'a Key,
    target: &'a Target,
    calls: &'a CompositionCalls,
    /// The decisions about the calls in a composition, by whether it compensates.
    inner: BTreeMap<(&'a CompositionCall, bool), PartialDecision>,
}

impl<'a> CompositionDecisions<'a> {
    pub(super) fn new(
        decider: &'a Decider,
        agent: &'a Key,
        target: &'a Target,
        calls: &'a CompositionCalls,
    ) -> Self {
        Self { decider, agent, target, calls, inner: BTreeMap::new() }
    }

    /// The decision about the calls of the target through a composition that the agent calls.
    pub(super) fn through(&mut self, call: &'a CompositionCall) -> PartialDecision {
        let own = self.composition(&call.composition, Purpose::Call);
        both(own, self.inside(call, false))
    }

    /// The decision about the path to the target in a composition that is denied least.
    fn inside(&mut self, call: &'a CompositionCall, is_compensation: bool) -> PartialDecision {
        if let Some(known) = self.inner.get(&(call, is_compensation)) {
            return known.clone();
        }
        let calls = self.calls;
        let decisions = calls.get(call).into_iter().flatten().map(|inner| {
            let is_compensation = is_compensation || inner.is_compensation;
            let purpose = purpose(is_compensation);
            match &inner.composition {
                None => decide(self.decider, self.agent, self.target, purpose),
                Some(next) => {
                    let own = self.composition(&next.composition, purpose);
                    both(own, self.inside(next, is_compensation))
                }
            }
        });
        let decision = decisions.min_by_key(severity).unwrap_or(PartialDecision::Allowed);
        self.inner.insert((call, is_compensation), decision.clone());
        decision
    }

    fn composition(&self, key: &Key, purpose: Purpose) -> PartialDecision {
        let composition = self.decider.tool(key);
        composition.map_or(PartialDecision::Allowed, |composition| {
            decide(self.decider, self.agent, &composition, purpose)
        })
    }
}

fn severity(decision: &PartialDecision) -> u8 {
    match decision {
        PartialDecision::Allowed => 0,
        PartialDecision::Undecided(_) => 1,
        PartialDecision::Denied(_) => 2,
    }
}

/// The decision about calls that need both.
fn both(outer: PartialDecision, inner: PartialDecision) -> PartialDecision {
    match (outer, inner) {
        (PartialDecision::Undecided(mut policies), PartialDecision::Undecided(more)) => {
            policies.extend(more);
            policies.sort_unstable();
            policies.dedup();
            PartialDecision::Undecided(policies)
        }
        (outer, inner) if severity(&outer) >= severity(&inner) => outer,
        (_, inner) => inner,
    }
}

fn direct_callers(
    catalog: &Catalog,
    called: &Key,
    skill: Option<&str>,
) -> BTreeSet<CompositionCall> {
    let mut found = BTreeSet::new();
    for key in catalog.dependents(called) {
        let record = catalog.find(key);
        let record = record.filter(|one| one.lifecycle.state != LifecycleState::Retired);
        let tool = record.and_then(|record| record.document.entity().as_tool());
        let Some((tool, Implementation::Spec(spec))) =
            tool.map(|tool| (tool, &tool.implementation))
        else {
            continue;
        };
        let is_call = |one: &Use| {
            one.target.declared_in(&tool.depends).is_some_and(|declared| {
                declared.key() == *called && declared.skill.as_deref() == skill
            })
        };
        for call in Composition::collect_uses(spec).iter().filter(|one| is_call(one)) {
            let is_compensation = call.pointer.contains("/compensate/");
            found.insert(CompositionCall { composition: key.clone(), is_compensation });
        }
    }
    found
}
