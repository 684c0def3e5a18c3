//! What a change would do to those who depend on what is changed, without making it.

use std::{collections::HashMap, sync::Arc};

use super::{
    paths::ways,
    promise::{Promises, promises},
    reach::{Direction, Reach},
    scratch,
};
use crate::{
    catalog::{Catalog, Record},
    compatibility::Comparison,
    diagnostic::{Code, Diagnostic},
    document::Document,
    lifecycle::{LifecycleState, Notice},
    limits,
    reference::Key,
    rules::{Proposed, plan},
    version::Version,
};

/// What somebody thinks of doing to an entity.
#[derive(Debug, Clone, PartialEq)]
pub enum Planned {
    /// Retire it.
    Retire,
    /// Deprecate it.
    Deprecate,
    /// Replace it by this other version of it, registered or not.
    Change(Arc<Document>),
}

/// What happens to a dependent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// It loses what it needs, or cannot move to the new version.
    Breaks,
    /// It was not found out whether moving breaks what it promises or calls.
    Undecided,
    /// It depends on what is changed, and goes on working.
    Affected,
    /// It is retired itself.
    Retired,
    /// There were too many to validate this one.
    Unchecked,
}

/// A dependent of what is changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Affected {
    /// What it is, and its lifecycle.
    pub record: Arc<Record>,
    /// A shortest path, from the dependent to what is changed.
    pub path: Vec<Key>,
    /// By how many paths it depends on it; `u64::MAX` stands for that many or more.
    pub paths: u64,
    /// What happens to it.
    pub effect: Effect,
    /// What the rules would say about it if it moved to the new version, and how that breaks what
    /// it promises or calls.
    pub findings: Vec<Diagnostic>,
}

/// A replacement, compared with what it replaces.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The version that is replaced.
    pub old: Version,
    /// The version that replaces it.
    pub new: Version,
    /// What was found.
    pub found: Comparison,
}

/// What a change would do.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Impact {
    /// What the rules say about the change itself.
    pub findings: Vec<Diagnostic>,
    /// How a replacement compares with what it replaces.
    pub comparison: Option<Compared>,
    /// The dependents, what breaks first, then the nearest; at most as many as asked for.
    pub affected: Vec<Affected>,
    /// How many dependents there are.
    pub total: usize,
    /// How many of them break.
    pub breaking: usize,
    /// How many of them may break: comparing them found neither.
    pub undecided: usize,
    /// How many of them were not validated because there are too many.
    pub unchecked: usize,
}

impl Impact {
    /// Whether the change can be made, and nothing breaks.
    pub fn is_harmless(&self) -> bool {
        self.breaking == 0 && !self.findings.iter().any(Diagnostic::is_error)
    }
}

/// What a change of a registered entity would do; shows at most so many dependents.
pub fn impact(catalog: &Catalog, key: &Key, planned: &Planned, most: usize) -> Impact {
    let reach = Reach::of(catalog, [key], Direction::Dependents, None);
    let records: Vec<Arc<Record>> =
        reach.nodes()[1..].iter().filter_map(|node| catalog.find(&node.key).cloned()).collect();
    let (findings, comparison, mut effects) = match planned {
        Planned::Retire => {
            (lifecycle(catalog, key, LifecycleState::Retired), None, retire(&records))
        }
        Planned::Deprecate => {
            let effects = records.iter().map(|record| (idle(record), Vec::new())).collect();
            (lifecycle(catalog, key, LifecycleState::Deprecated), None, effects)
        }
        Planned::Change(document) => change(catalog, key, document, &records),
    };
    let count = |wanted| effects.iter().filter(|(effect, _)| *effect == wanted).count();
    let [breaking, undecided, unchecked] =
        [Effect::Breaks, Effect::Undecided, Effect::Unchecked].map(count);
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_key(|at| effects[*at].0);
    order.truncate(most);
    let mut steps = 0;
    order.retain(|at| {
        steps += reach.nodes()[at + 1].depth;
        steps <= limits::GRAPH_EDGES
    });
    let ways = ways(&reach.steps(catalog, usize::MAX), [0]);
    let affected = order.into_iter().map(|at| {
        let (effect, findings) =
            std::mem::replace(&mut effects[at], (Effect::Affected, Vec::new()));
        let path = reach.path(at + 1).into_iter().rev();
        Affected {
            record: records[at].clone(),
            path: path.map(|at| reach.nodes()[at].key.clone()).collect(),
            paths: ways[at + 1],
            effect,
            findings,
        }
    });
    let (affected, total) = (affected.collect(), records.len());
    Impact { findings, comparison, affected, total, breaking, undecided, unchecked }
}

/// For each dependent, in order, what happens to it and what is found about it.
type Effects = Vec<(Effect, Vec<Diagnostic>)>;

fn lifecycle(catalog: &Catalog, key: &Key, state: LifecycleState) -> Vec<Diagnostic> {
    let proposed = Proposed::SetLifecycle { key: key.clone(), state, notice: Notice::default() };
    let mut found = plan(catalog, &[proposed]).diagnostics;
    // The dependents say it, all of them and with their paths.
    found.retain(|found| found.code != Code::StillNeeded);
    found
}

/// What is active needs what it depends on; what is deprecated or retired is on its way out itself.
fn retire(dependents: &[Arc<Record>]) -> Effects {
    let effect = |record: &Arc<Record>| {
        if record.is_active() { Effect::Breaks } else { idle(record) }
    };
    dependents.iter().map(|record| (effect(record), Vec::new())).collect()
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
    document: &Arc<Document>,
    dependents: &[Arc<Record>],
) -> (Vec<Diagnostic>, Option<Compared>, Effects) {
    let moving: Vec<Arc<Document>> = dependents
        .iter()
        .filter(|record| idle(record) == Effect::Affected)
        .take(limits::IMPACT_DOCUMENTS)
        .map(|record| record.document.clone())
        .collect();
    let mut about_new = plan(catalog, &[Proposed::Register(document.clone())]).diagnostics;
    // What moves to it uses it.
    about_new.retain(|found| found.code != Code::SchemaUnused || moving.is_empty());
    let old = catalog.find(key).map(|record| &*record.document);
    let promises = old.map(|old| promises(catalog, (old, document), &moving));
    let (comparison, mut found) = match promises {
        Some(Promises { of_change: found, of_dependents }) => {
            let (old, new) = (key.version.clone(), document.key().version.clone());
            (Some(Compared { old, new, found }), of_dependents)
        }
        None => (None, HashMap::new()),
    };
    for diagnostic in scratch::moved(catalog, key, document, &moving) {
        if let Some(entity) = diagnostic.entity.clone() {
            found.entry(entity).or_default().push(diagnostic);
        }
    }
    let mut room = limits::IMPACT_DOCUMENTS;
    let effects = dependents.iter().map(|record| {
        if idle(record) == Effect::Retired {
            return (Effect::Retired, Vec::new());
        }
        if room == 0 {
            return (Effect::Unchecked, Vec::new());
        }
        room -= 1;
        let findings = found.remove(record.document.key()).unwrap_or_default();
        (moving_along(&findings), findings)
    });
    (about_new, comparison, effects.collect())
}

/// What happens to a dependent that moves along, by what is found about it.
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
