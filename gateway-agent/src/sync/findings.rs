//! Diagnostics of rejected messages for the registry's operators: the entity, the position and the
//! reason.
//!
//! They are computed only after a message was rejected.

use std::collections::BTreeSet;

use bytes::Bytes;
use registry_core::{
    Action, Catalog, Change, Code, Diagnostic, Document, Key, SealedCommit,
    document::InvalidDocument,
};
use registry_proto::{
    convert::{self, InvalidSnapshotEntity},
    v1::{Delta, SnapshotEntity},
};
use serde_json::Value;

/// The problems of a delta, relative to the current catalog.
pub(super) fn of_delta(held: &Catalog, delta: &Delta) -> Vec<Diagnostic> {
    let Ok(commit) = SealedCommit::parse(&delta.commit) else { return Vec::new() };
    let is_next = commit.revision == held.revision().next();
    let mut documents = delta.documents.iter();
    let mut registered = BTreeSet::new();
    let mut found = Vec::new();
    for Change { key, action } in &commit.changes {
        let is_there = held.find(key).is_some() || registered.contains(key);
        match action {
            Action::Register { digest, .. } => {
                registered.insert(key);
                found.extend(of_registration(key, documents.next(), *digest));
                if is_there && is_next {
                    let message = format!("{key} already exists");
                    found.push(about(key, Code::AlreadyRegistered, message));
                }
            }
            Action::Deprecate(_) | Action::Retire(_) | Action::Restore => {
                if !is_there && is_next {
                    let message = format!("{key} does not exist and cannot be changed");
                    found.push(about(key, Code::NotRegistered, message));
                }
            }
        }
    }
    found
}

fn of_registration(
    key: &Key,
    document: Option<&Bytes>,
    digest: registry_core::Digest,
) -> Vec<Diagnostic> {
    let Some(document) = document else {
        let message = format!("the document of {key} is missing");
        return vec![about(key, Code::DocumentInvalid, message)];
    };
    match Document::verify(key.kind, document.clone(), digest) {
        Ok(document) if document.key() == key => Vec::new(),
        Ok(document) => {
            let message = format!("{key} has the document of {}", document.key());
            vec![about(key, Code::DocumentInvalid, message)]
        }
        Err(e) => of_document(Some(key), &e),
    }
}

/// The problems of single entities of a snapshot or step.
pub(super) fn of_entities(entities: &[SnapshotEntity]) -> Vec<Diagnostic> {
    let read = |entity: &SnapshotEntity| registry_core::Record::try_from(entity.clone()).err();
    let found = entities.iter().filter_map(|entity| Some(of_entity(entity, &read(entity)?)));
    found.flatten().collect()
}

fn of_entity(entity: &SnapshotEntity, error: &InvalidSnapshotEntity) -> Vec<Diagnostic> {
    let key = claimed_key(entity);
    match error {
        InvalidSnapshotEntity::Document(e) => of_document(key.as_ref(), e),
        other => {
            let found = Diagnostic::error(Code::DocumentInvalid, "", other.to_string());
            vec![Diagnostic { entity: key, ..found }]
        }
    }
}

/// The key according to the document, if its name and version are readable.
fn claimed_key(entity: &SnapshotEntity) -> Option<Key> {
    let value: Value = serde_json::from_slice(&entity.document).ok()?;
    let text = |name| value.get(name).and_then(Value::as_str);
    Key::parse(convert::kind(entity.kind).ok()?, text("name")?, text("version")?).ok()
}

fn of_document(key: Option<&Key>, error: &InvalidDocument) -> Vec<Diagnostic> {
    let found = match error {
        InvalidDocument::Entity { problems, .. } => problems.clone(),
        InvalidDocument::Digest { .. } | InvalidDocument::Json(_) => {
            vec![Diagnostic::error(Code::DocumentInvalid, "", error.to_string())]
        }
    };
    found.into_iter().map(|found| Diagnostic { entity: key.cloned(), ..found }).collect()
}

fn about(key: &Key, code: Code, message: String) -> Diagnostic {
    Diagnostic { entity: Some(key.clone()), ..Diagnostic::error(code, "", message) }
}
