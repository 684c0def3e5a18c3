//! Impact analysis: the effect of a hypothetical change on dependents.

use std::{collections::HashMap, sync::Arc};

use super::{
    promise::{Promises, promises},
    reach::{Direction, Reach, Reached},
    scratch,
};
use crate::{
    catalog::{Catalog, Record},
    compatibility::Comparison,
    diagnostic::{Code, Diagnostic},
    document::Document,
    entity::Entity,
    kind::Kind,
    lifecycle::{LifecycleState, Notice},
    limits,
    policies::EffectiveVersions,
    reference::Key,
    rules::{Proposed, plan, policy_change},
    version::Version,
};

/// A hypothetical change of an entity.
#[derive(Debug, Clone, PartialEq)]
pub enum HypotheticalChange {
    /// Retirement.
    Retire,
    /// Deprecation.
    Deprecate,
    /// Replacement by another version, registered or not.
    Replace(Replacement),
}

/// A replacing version with the other documents of its batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Replacement {
    /// The replacing version.
    pub document: Arc<Document>,
    /// The documents that the same batch registers, such as the server of a tool.
    pub accompanying: Vec<Arc<Document>>,
}

impl Replacement {
    /// The registrations of the batch, that of the replacing version first.
    fn batch(&self) -> Vec<Proposed> {
        let accompanying = self.accompanying.iter().cloned();
        std::iter::once(self.document.clone()).chain(accompanying).map(Proposed::Register).collect()
    }

    /// The accompanying documents that are not registered yet.
    fn unregistered(&self, catalog: &Catalog) -> Vec<Arc<Document>> {
        let is_new = |document: &&Arc<Document>| {
            document.key() != self.document.key() && catalog.find(document.key()).is_none()
        };
        self.accompanying.iter().filter(is_new).cloned().collect()
    }
}

/// The effect on one dependent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// It loses a dependency, or cannot move to the new version.
    Breaks,
    /// The compatibility of the move could not be decided.
    Undecided,
    /// It depends on the changed entity and keeps working.
    Affected,
    /// It is retired.
    Retired,
    /// It was not validated because there are too many dependents.
    Unchecked,
}

/// A dependent of the changed entity.
#[derive(Debug, Clone, PartialEq)]
pub struct Affected {
    /// The dependent with its lifecycle.
    pub record: Arc<Record>,
    /// A shortest path from the dependent to the changed entity.
    pub path: Vec<Key>,
    /// The number of paths between them, saturating at `u64::MAX`.
    pub paths: u64,
    /// The effect of the change.
    pub effect: Effect,
    /// The findings of validation after a move to the new version, including broken promises and
    /// calls.
    pub findings: Vec<Diagnostic>,
}

/// The comparison of a replacement with the replaced version.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplacementComparison {
    /// The replaced version.
    pub old: Version,
    /// The replacing version.
    pub new: Version,
    /// The findings.
    pub found: Comparison,
}

/// The effect of a hypothetical change.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Impact {
    /// The findings of validation for the change itself.
    pub findings: Vec<Diagnostic>,
    /// The comparison of a replacement with the replaced version. `None` for policies, which have no
    /// dependents.
    pub comparison: Option<ReplacementComparison>,
    /// The dependents up to the requested number: breaking ones first, then by distance.
    pub affected: Vec<Affected>,
    /// The number of dependents.
    pub total: usize,
    /// The number of dependents that break.
    pub breaking: usize,
    /// The number of dependents whose compatibility could not be decided.
    pub undecided: usize,
    /// The number of dependents that were not validated because of the limit.
    pub unchecked: usize,
    /// The effective policies that select the entity, or the replacement.
    pub policies: Vec<Arc<Record>>,
    /// The entities that a policy, or its replacement, selects, up to the requested number.
    pub selected: Vec<Arc<Record>>,
    /// The number of entities that it selects.
    pub selected_total: usize,
}

impl Impact {
    /// Whether the change is valid and no dependent breaks.
    pub fn is_harmless(&self) -> bool {
        self.breaking == 0 && !self.findings.iter().any(Diagnostic::is_error)
    }
}

/// Analyzes a change of a registered entity and returns at most `most` dependents.
pub fn impact(catalog: &Catalog, key: &Key, planned: &HypotheticalChange, most: usize) -> Impact {
    let reach = Reach::from_roots(catalog, [key], Direction::Dependents, None);
    let (root, dependents) = reach.nodes().split_at(reach.nodes().len().min(1));
    let (findings, comparison, (effects, mut of_dependents)) = match planned {
        HypotheticalChange::Retire => {
            (lifecycle(catalog, key, LifecycleState::Retired), None, retire(dependents))
        }
        HypotheticalChange::Deprecate => {
            let effects = dependents.iter().map(|dependent| idle(dependent.record)).collect();
            let findings = lifecycle(catalog, key, LifecycleState::Deprecated);
            (findings, None, (effects, HashMap::new()))
        }
        HypotheticalChange::Replace(replacement) => change(catalog, key, replacement, dependents),
    };
    let count = |wanted| effects.iter().filter(|effect| **effect == wanted).count();
    let [breaking, undecided, unchecked] =
        [Effect::Breaks, Effect::Undecided, Effect::Unchecked].map(count);
    let mut order: Vec<usize> = (0..dependents.len()).collect();
    order.sort_by_key(|at| effects[*at]);
    order.truncate(most);
    let mut steps = 0;
    order.retain(|at| {
        steps += dependents[*at].depth;
        steps <= limits::GRAPH_EDGES
    });
    let positions: Vec<usize> = order.iter().map(|at| root.len() + at).collect();
    let path_counts = reach.path_counts(&positions);
    let affected = order.iter().zip(positions).zip(path_counts).map(|((&at, position), paths)| {
        let Reached { key, record, .. } = dependents[at];
        let path = reach.path(position).into_iter().rev();
        Affected {
            record: record.clone(),
            path: path.map(|at| reach.nodes()[at].key.clone()).collect(),
            paths,
            effect: effects[at],
            findings: of_dependents.remove(key).unwrap_or_default(),
        }
    });
    let (affected, total) = (affected.collect(), dependents.len());
    let (policies, selected, selected_total) = selection(catalog, key, planned, most);
    Impact {
        findings,
        comparison,
        affected,
        total,
        breaking,
        undecided,
        unchecked,
        policies,
        selected,
        selected_total,
    }
}

/// The policies that select an entity, or the entities that a policy selects.
fn selection(
    catalog: &Catalog,
    key: &Key,
    planned: &HypotheticalChange,
    most: usize,
) -> (Vec<Arc<Record>>, Vec<Arc<Record>>, usize) {
    let document = match planned {
        HypotheticalChange::Replace(replacement) => Some(&replacement.document),
        HypotheticalChange::Retire | HypotheticalChange::Deprecate => {
            catalog.find(key).map(|record| &record.document)
        }
    };
    let Some(document) = document else { return Default::default() };
    if let Entity::Policy(policy) = document.entity() {
        let mut selected: Vec<_> = catalog.selected_by(policy).cloned().collect();
        let total = selected.len();
        selected.truncate(most);
        return (Vec::new(), selected, total);
    }
    let is_selecting = |record: &&Arc<Record>| match record.document.entity() {
        Entity::Policy(policy) => catalog.is_selected(&policy.applies_to, document.entity()),
        _ => false,
    };
    let effective = catalog.effective_policies().into_iter().flat_map(EffectiveVersions::iter);
    (effective.filter(is_selecting).cloned().collect(), Vec::new(), 0)
}

/// The effect on each dependent, in order, and the findings about some of them.
type Effects = (Vec<Effect>, HashMap<Key, Vec<Diagnostic>>);

fn lifecycle(catalog: &Catalog, key: &Key, state: LifecycleState) -> Vec<Diagnostic> {
    // The dependents report that they need it, with their paths. Force skips that rule, whose cost is
    // proportional to the dependents.
    let force_reason = (state == LifecycleState::Retired).then(|| "impact analysis".to_owned());
    let notice = Notice { force_reason, ..Notice::default() };
    plan(catalog, &[Proposed::SetLifecycle { key: key.clone(), state, notice }]).diagnostics
}

/// An active dependent needs its dependencies; a deprecated or retired one is being phased out.
fn retire(dependents: &[Reached<'_>]) -> Effects {
    let effect = |dependent: &Reached<'_>| {
        if dependent.record.is_active() { Effect::Breaks } else { idle(dependent.record) }
    };
    (dependents.iter().map(effect).collect(), HashMap::new())
}

fn idle(record: &Record) -> Effect {
    match record.lifecycle.state {
        LifecycleState::Retired => Effect::Retired,
        LifecycleState::Active | LifecycleState::Deprecated => Effect::Affected,
    }
}

fn change(
    catalog: &Catalog,
    key: &Key,
    replacement: &Replacement,
    dependents: &[Reached<'_>],
) -> (Vec<Diagnostic>, Option<ReplacementComparison>, Effects) {
    let moving: Vec<Arc<Document>> = dependents
        .iter()
        .filter(|dependent| idle(dependent.record) == Effect::Affected)
        .take(limits::IMPACT_DOCUMENTS)
        .map(|dependent| dependent.record.document.clone())
        .collect();
    let document = &replacement.document;
    let accompanying = replacement.unregistered(catalog);
    let mut about_new = plan(catalog, &replacement.batch()).diagnostics;
    // A schema counts as used by the dependents that move to it.
    about_new.retain(|found| found.code != Code::SchemaUnused || moving.is_empty());
    let old = catalog.find(key).map(|record| &*record.document);
    // The plan compares with the version in force, which can be another one.
    about_new.retain(|found| !matches!(found.code, Code::PolicyRelaxed | Code::PolicyTightened));
    let changes = old.into_iter().flat_map(|old| policy_change::findings(old, document));
    about_new.extend(changes.map(|found| found.for_change(0, document.key())));
    let old = old.filter(|_| key.kind != Kind::Policy);
    let promises = old.map(|old| promises(catalog, (old, document), &moving, &accompanying));
    let (comparison, mut found) = match promises {
        Some(Promises { of_change: found, of_dependents }) => {
            let (old, new) = (key.version.clone(), document.key().version.clone());
            (Some(ReplacementComparison { old, new, found }), of_dependents)
        }
        None => (None, HashMap::new()),
    };
    for diagnostic in scratch::moved(catalog, key, (document, &accompanying[..]), &moving) {
        if let Some(entity) = diagnostic.entity.clone() {
            found.entry(entity).or_default().push(diagnostic);
        }
    }
    let mut room = limits::IMPACT_DOCUMENTS;
    let effects = dependents.iter().map(|dependent| {
        if idle(dependent.record) == Effect::Retired {
            return Effect::Retired;
        }
        if room == 0 {
            return Effect::Unchecked;
        }
        room -= 1;
        found.get(dependent.key).map_or(Effect::Affected, |findings| moving_along(findings))
    });
    let effects = effects.collect();
    (about_new, comparison, (effects, found))
}

/// The effect on a dependent that moves along, derived from its findings.
fn moving_along(findings: &[Diagnostic]) -> Effect {
    let is_doubt = |found: &Diagnostic| found.code == Code::CompatibilityUndecided;
    if findings.iter().any(Diagnostic::is_error) {
        Effect::Breaks
    } else if findings.iter().any(is_doubt) {
        Effect::Undecided
    } else {
        Effect::Affected
    }
}
