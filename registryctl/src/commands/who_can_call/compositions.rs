//! The compositions whose steps and compensations call a tool or skill.

use std::collections::BTreeSet;

use policy::Purpose;
use registry_core::{
    Catalog, Key, LifecycleState,
    entity::tool::Implementation,
    spec::{Composition, Use},
};

use crate::commands::policy::decide::Target;

/// A composition that calls a tool or skill, directly or through other compositions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CompositionCall {
    pub(super) composition: Key,
    is_compensation: bool,
}

impl CompositionCall {
    pub(super) fn purpose(&self) -> Purpose {
        if self.is_compensation { Purpose::Compensation } else { Purpose::Step }
    }
}

/// The compositions that call a version of a tool or skill.
pub(super) fn calling(catalog: &Catalog, called: &Target) -> BTreeSet<CompositionCall> {
    let mut found = direct_callers(catalog, called.key(), called.skill());
    let mut open: Vec<_> = found.iter().cloned().collect();
    while let Some(inner) = open.pop() {
        for mut outer in direct_callers(catalog, &inner.composition, None) {
            outer.is_compensation |= inner.is_compensation;
            if found.insert(outer.clone()) {
                open.push(outer);
            }
        }
    }
    found
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
