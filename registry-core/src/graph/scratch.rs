//! What the rules would say if dependents moved to another version of what they need: their
//! documents, changed to refer to it, validated on a catalog in which they are not yet registered.
//!
//! Deliberately absent: new versions for what moves. On the scratch catalog each keeps its key, so
//! that what is found names it as its owner knows it.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    catalog::Catalog,
    diagnostic::{Code, Diagnostic},
    document::Document,
    reference::{Key, SchemaRef},
    rules::{Proposed, Relation, references, validate},
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
    let mut unreadable = Vec::new();
    let mut batch = vec![Proposed::Register(new.clone())];
    for document in dependents {
        match repointed(document, old, new.key()) {
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

/// The document with each reference to one version made a reference to the other.
fn repointed(document: &Document, old: &Key, new: &Key) -> Result<Document, Vec<Diagnostic>> {
    let entity = document.entity();
    let mut value = entity.to_value();
    let version = || Value::String(new.version.to_string());
    for reference in references(entity).iter().filter(|reference| reference.key == *old) {
        let Some(place) = value.pointer_mut(&reference.pointer) else { continue };
        match reference.relation {
            Relation::Source => place["serverVersion"] = version(),
            Relation::Depends | Relation::Provides => place["version"] = version(),
            Relation::Schema => *place = Value::String(SchemaRef::text_of(new)),
        }
    }
    Document::parse(entity.kind(), &value)
}
