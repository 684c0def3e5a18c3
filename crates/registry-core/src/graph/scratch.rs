//! Validation of dependents that move to another version of a dependency. The catalog for
//! validation does not contain the changed documents.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    catalog::Catalog,
    diagnostic::{Code, Diagnostic},
    document::Document,
    reference::Key,
    rewrite::rewritten,
    rules::{Proposed, validate},
};

/// Moves dependents from the old to the new version. Returns the findings that the unmoved
/// dependents do not have.
pub(super) fn moved(
    catalog: &Catalog,
    old: &Key,
    (new, accompanying): (&Arc<Document>, &[Arc<Document>]),
    dependents: &[Arc<Document>],
) -> Vec<Diagnostic> {
    let scratch = catalog.without(dependents.iter().map(|document| document.key()));
    let renamed = BTreeMap::from([(old.clone(), new.key().clone())]);
    let mut unreadable = Vec::new();
    let registered = std::iter::once(new).chain(accompanying).cloned();
    let mut batch: Vec<_> = registered.map(Proposed::Register).collect();
    for document in dependents {
        match Document::from_value(document.key().kind, rewritten(document, &renamed)) {
            Ok(document) => batch.push(Proposed::Register(Arc::new(document))),
            Err(found) => {
                unreadable
                    .extend(found.into_iter().map(|found| found.for_change(0, document.key())));
            }
        }
    }
    let mut found = validate(&scratch, &batch).diagnostics;
    // The findings about the change itself are reported separately.
    let is_of_change = |found: &Diagnostic| {
        let mut registered = std::iter::once(new).chain(accompanying);
        registered.any(|document| found.entity.as_ref() == Some(document.key()))
    };
    // A move changes no keys of dependents, so those without references had none before.
    let is_unused = |found: &Diagnostic| found.code == Code::SchemaUnused;
    found.retain(|found| !is_of_change(found) && !is_circle(found) && !is_unused(found));
    if !found.is_empty() {
        let as_is: Vec<_> = dependents.iter().cloned().map(Proposed::Register).collect();
        let known = validate(&scratch, &as_is).diagnostics;
        found.retain(|found| !known.iter().any(|known| same(known, found)));
    }
    found.append(&mut unreadable);
    found
}

/// A new version that depends on a moved dependent refers to its registered version, so the cycle
/// is not real.
fn is_circle(found: &Diagnostic) -> bool {
    matches!(found.code, Code::DependencyCycle | Code::SchemaCycle)
}

/// Whether two findings are equal, apart from their positions in the batch.
fn same(a: &Diagnostic, b: &Diagnostic) -> bool {
    (a.code, &a.entity, &a.pointer, &a.message) == (b.code, &b.entity, &b.pointer, &b.message)
}
