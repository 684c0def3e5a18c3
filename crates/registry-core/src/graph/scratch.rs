//! What the rules would say if dependents moved to another version of what they need: their
//! documents, changed to refer to it, validated on a catalog in which they are not yet registered.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    catalog::Catalog,
    diagnostic::{Code, Diagnostic},
    document::Document,
    reference::Key,
    rewrite::rewritten,
    rules::{Proposed, validate},
};

/// Moves these dependents from the old version to the new one, and says what is found about them
/// then and not as things are.
pub(super) fn moved(
    catalog: &Catalog,
    old: &Key,
    new: &Arc<Document>,
    dependents: &[Arc<Document>],
) -> Vec<Diagnostic> {
    let scratch = catalog.without(dependents.iter().map(|document| document.key()));
    let renamed = BTreeMap::from([(old.clone(), new.key().clone())]);
    let mut unreadable = Vec::new();
    let mut batch = vec![Proposed::Register(new.clone())];
    for document in dependents {
        match Document::parse(document.key().kind, &rewritten(document, &renamed)) {
            Ok(document) => batch.push(Proposed::Register(Arc::new(document))),
            Err(found) => {
                unreadable.extend(found.into_iter().map(|found| found.about(0, document.key())));
            }
        }
    }
    let mut found = validate(&scratch, &batch).diagnostics;
    found.retain(|found| found.entity.as_ref() != Some(new.key()) && !is_circle(found));
    if !found.is_empty() {
        let as_is: Vec<_> = dependents.iter().cloned().map(Proposed::Register).collect();
        let known = validate(&scratch, &as_is).diagnostics;
        found.retain(|found| !known.iter().any(|known| same(known, found)));
    }
    found.append(&mut unreadable);
    found
}

/// A new version that needs what would move to it needs the version of that which there is.
fn is_circle(found: &Diagnostic) -> bool {
    matches!(found.code, Code::DependencyCycle | Code::SchemaCycle)
}

/// Whether two findings say the same, wherever they stand in their batches.
fn same(a: &Diagnostic, b: &Diagnostic) -> bool {
    (a.code, &a.entity, &a.pointer, &a.message) == (b.code, &b.entity, &b.pointer, &b.message)
}
