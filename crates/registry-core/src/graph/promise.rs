//! The effect of a move on the promises and calls of each dependent.
//!
//! The comparison is that of any two versions (`compatibility`). A moved entity gets the version
//! `1.0.0+moved`, so that references stay unambiguous.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use schema_compat::compatibility::{Budget, Difference, UndecidedCheck};

use crate::{
    catalog::Catalog,
    compatibility::{Comparison, CompatibilityDirection, Outcome, compare},
    diagnostic::{Code, Diagnostic},
    document::Document,
    edges::{Reference, Relation, references},
    entity::Entity,
    reference::Key,
    rewrite::rewritten,
    version::Version,
};

const HELP: &str = "release it as a new major version, or keep the old dependency";

/// The findings of the change itself and of each dependent.
pub(super) struct Promises {
    pub(super) of_change: Comparison,
    pub(super) of_dependents: HashMap<Key, Vec<Diagnostic>>,
}

/// Compares a replacement with the replaced version, and each dependent with its moved form.
pub(super) fn promises(
    catalog: &Catalog,
    (old, new): (&Document, &Arc<Document>),
    dependents: &[Arc<Document>],
    accompanying: &[Arc<Document>],
) -> Promises {
    let mut world = World::new(catalog, (old.key(), new), dependents);
    world.add(accompanying);
    let mut budget = Budget::for_batch();
    let mut compared = HashMap::new();
    let before = std::iter::once(old).chain(dependents.iter().map(|document| &**document));
    for document in before {
        let Some(after) = world.after(document.key()) else { continue };
        let resolve = |key: &Key| world.find(key);
        let (before, after) = (document.entity(), after.entity());
        let mut found =
            compare(before, after, CompatibilityDirection::Backward, &resolve, &mut budget);
        let places =
            found.differences.iter_mut().filter_map(|found| found.referenced_location.as_mut());
        for text in places.chain(found.undecided_checks.iter_mut().map(|doubt| &mut doubt.reason)) {
            *text = world.told(text);
        }
        compared.insert(document.key(), found);
    }
    let about = |document: &Arc<Document>| {
        let own = compared.get(document.key()).map(|found| own(document, found));
        let mut found = own.unwrap_or_default();
        for reference in references(document.entity()) {
            if reference.relation == Relation::Depends
                && let Some(comparison) = compared.get(&reference.key)
                && let Some(target) = world.after(&reference.key)
            {
                let name = world.told(&target.key().to_string());
                found.extend(call(document, &reference, (target, &name, comparison)));
            }
        }
        (document.key().clone(), found)
    };
    let of_dependents = dependents.iter().map(about).collect();
    let of_change = compared.remove(old.key()).unwrap_or_else(Comparison::identical);
    Promises { of_change, of_dependents }
}

/// The catalog together with the moved entities.
struct World<'a> {
    catalog: &'a Catalog,
    renamed: BTreeMap<Key, Key>,
    /// The original keys of moved entities, by the text of their temporary keys.
    was: HashMap<String, &'a Key>,
    /// The moved entities, and those that are registered with the new version.
    moved: HashMap<Key, Arc<Document>>,
}

impl<'a> World<'a> {
    fn new(
        catalog: &'a Catalog,
        (old, new): (&'a Key, &Arc<Document>),
        dependents: &'a [Arc<Document>],
    ) -> Self {
        let keys = dependents.iter().map(|document| document.key());
        let keys = keys.chain((old == new.key()).then_some(old));
        let was: HashMap<_, _> = keys.map(|key| (moved(key).to_string(), key)).collect();
        let to = if old == new.key() { moved(old) } else { new.key().clone() };
        let mut renamed = BTreeMap::from([(old.clone(), to.clone())]);
        renamed.extend(was.values().map(|key| ((*key).clone(), moved(key))));
        let mut documents = HashMap::from([(to, Arc::clone(new))]);
        for document in dependents {
            // A document that is invalid with its new references is reported by `scratch`.
            let value = rewritten(document, &renamed);
            if let Ok(parsed) = Document::from_value(document.key().kind, value) {
                documents.insert(parsed.key().clone(), Arc::new(parsed));
            }
        }
        Self { catalog, renamed, was, moved: documents }
    }

    /// Adds documents that are registered with the new version.
    fn add(&mut self, accompanying: &[Arc<Document>]) {
        let by_key = |document: &Arc<Document>| (document.key().clone(), document.clone());
        self.moved.extend(accompanying.iter().map(by_key));
    }

    /// Replaces temporary keys in a text for people.
    fn told(&self, text: &str) -> String {
        let told = |word: &str| match self.was.get(word) {
            Some(was) => format!("the moved {was}"),
            None => word.to_owned(),
        };
        text.split(' ').map(told).collect::<Vec<_>>().join(" ")
    }

    /// The document of this entity after the move.
    fn after(&self, key: &Key) -> Option<&Arc<Document>> {
        self.moved.get(self.renamed.get(key)?)
    }

    fn find(&self, key: &Key) -> Option<&Entity> {
        let registered = || self.catalog.find(key).map(|record| &record.document);
        self.moved.get(key).or_else(registered).map(|document| document.entity())
    }
}

/// The temporary key of a moved entity. Semver ignores build metadata after `+` in precedence.
fn moved(key: &Key) -> Key {
    let version = key.version.to_string();
    let sign = if version.contains('+') { '.' } else { '+' };
    let version = Version::parse(&format!("{version}{sign}moved"));
    Key { version: version.unwrap_or_else(|_| key.version.clone()), ..key.clone() }
}

/// The promises of a dependent before and after its move.
fn own(document: &Document, found: &Comparison) -> Vec<Diagnostic> {
    let version = &document.key().version;
    let breaks = |difference: &Difference| {
        let message = difference.explain(version, &"the moved one");
        Diagnostic::error(Code::BreakingChange, difference.pointer.clone(), message).with_help(HELP)
    };
    let doubt = |doubt: &UndecidedCheck| {
        let message = format!("compatibility could not be decided: {}", doubt.reason);
        Diagnostic::warning(Code::CompatibilityUndecided, doubt.pointer.clone(), message)
    };
    let breaks = found.differences.iter().map(breaks);
    let all = breaks.chain(found.undecided_checks.iter().map(doubt));
    all.map(|found| found.for_change(0, document.key())).collect()
}

/// The calls of a dependent before and after the change or move of their target.
fn call(
    document: &Document,
    reference: &Reference,
    (target, name, found): (&Document, &str, &Comparison),
) -> Option<Diagnostic> {
    let found = for_skill(found, target.entity(), skill(document, reference).as_deref());
    let before = &reference.key.version;
    let problem = match found.outcome() {
        Outcome::Identical | Outcome::Compatible => return None,
        Outcome::Breaking => {
            let difference = found.differences.first()?;
            let why = difference.explain(before, &"the new one");
            let message = format!("{name} at {}: {why}", difference.pointer);
            Diagnostic::error(Code::BreakingChange, reference.pointer.clone(), message)
        }
        Outcome::Undecided => {
            let doubt = found.undecided_checks.first()?;
            let message = format!(
                "compatibility of {name} with {before} could not be decided at {}: {}",
                doubt.pointer, doubt.reason
            );
            Diagnostic::warning(Code::CompatibilityUndecided, reference.pointer.clone(), message)
        }
    };
    Some(problem.for_change(0, document.key()))
}

/// The skill named by a dependency.
fn skill(document: &Document, reference: &Reference) -> Option<String> {
    let value = document.entity().to_value();
    Some(value.pointer(&reference.pointer)?.get("skill")?.as_str()?.to_owned())
}

/// The findings for the callers of one skill. Validation reports a missing skill.
fn for_skill(found: &Comparison, target: &Entity, skill: Option<&str>) -> Comparison {
    let mut found = found.clone();
    let Entity::Agent(agent) = target else { return found };
    let concerns = |pointer: &str| {
        let index = pointer.strip_prefix("/skills/").and_then(|rest| rest.split('/').next());
        let at = index.and_then(|index| agent.skills.get(index.parse::<usize>().ok()?));
        at.is_some_and(|at| skill.is_none_or(|skill| at.id == skill))
    };
    found.differences.retain(|difference| concerns(&difference.pointer));
    found.undecided_checks.retain(|doubt| concerns(&doubt.pointer));
    found
}
