//! `apply --locked`: checks that all references to other entities, and their dependencies, are locked and
//! registered with the locked digests.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use registry_core::{
    Key,
    edges::{Reference, references},
    limits,
    resolve::Requirement,
    rules::Proposed,
};

use super::{
    lock::{DRIFT_REMEDY, closure, same_registry},
    resolve::{Resolutions, resolve},
};
use crate::{
    batch::Batch,
    client::Client,
    failure::Failure,
    lock::Lock,
    report::{Finding, Level},
};

/// The differences from the lock file: of references, with their locations, or else of their
/// dependencies.
pub(super) async fn drift(
    client: &Client,
    batch: &Batch,
    lock_file: &Path,
) -> Result<Vec<Finding>, Failure> {
    let lock = Lock::read(lock_file)?;
    let external = external_references(batch.proposals());
    let keys: BTreeSet<&Key> = external.iter().map(|(_, _, reference)| &reference.key).collect();
    let registered = registered(client, &lock, &keys).await?;
    let check = |key: &str| problem(&lock, lock_file, key, registered.get(key));
    let references = external.iter().filter_map(|(change, entity, reference)| {
        let found = check(&reference.key.to_string())?;
        let pointer = reference.pointer.clone();
        Some(Finding { entity: Some(entity.to_string()), pointer, change: Some(*change), ..found })
    });
    let references: Vec<_> = references.collect();
    if !references.is_empty() {
        return Ok(references);
    }
    Ok(registered.keys().filter_map(|key| check(key)).collect())
}

/// The difference of one dependency from the lock file.
fn problem(
    lock: &Lock,
    lock_file: &Path,
    key: &str,
    registered: Option<&String>,
) -> Option<Finding> {
    let (code, message, help) = match (lock.entities.get(key), registered) {
        (Some(locked), Some(digest)) if digest == locked => return None,
        (Some(locked), Some(digest)) => (
            "lock-drift",
            format!("{key} is locked with the digest {locked} and registered with {digest}"),
            DRIFT_REMEDY,
        ),
        (Some(_), None) => {
            ("lock-drift", format!("{key} is locked and not registered"), DRIFT_REMEDY)
        }
        (None, _) => (
            "lock-missing",
            format!("{key} is not in {}", lock_file.display()),
            "add it, or a dependent of it, to the requirements and run `registryctl lock`",
        ),
    };
    Some(Finding {
        code: code.to_owned(),
        severity: Level::Error,
        entity: None,
        pointer: String::new(),
        message,
        help: Some(help.to_owned()),
        location: None,
        change: None,
    })
}

/// The references to entities outside of the batch, with the change and the entity that contain them.
fn external_references(proposals: &[Proposed]) -> Vec<(usize, Key, Reference)> {
    let inside: BTreeSet<&Key> =
        proposals.iter().filter_map(Proposed::document).map(|document| document.key()).collect();
    let mut external = Vec::new();
    for (change, document) in proposals.iter().map(Proposed::document).enumerate() {
        let Some(document) = document else { continue };
        for reference in references(document.entity()) {
            if !inside.contains(&reference.key) {
                external.push((change, document.key().clone(), reference));
            }
        }
    }
    external
}

/// The digests of the registered entities among these, and of their dependencies.
async fn registered(
    client: &Client,
    lock: &Lock,
    keys: &BTreeSet<&Key>,
) -> Result<BTreeMap<String, String>, Failure> {
    let keys: Vec<&Key> = keys.iter().copied().collect();
    if keys.is_empty() {
        check_registry(client, lock).await?;
    }
    let mut digests = BTreeMap::new();
    for keys in keys.chunks(limits::REQUIREMENTS) {
        let exact: Vec<_> = keys.iter().map(|key| Requirement::exact(key)).collect();
        let Resolutions { outcomes, registry, revision } = resolve(client, &exact, None).await?;
        same_registry(lock, &registry)?;
        let found: Vec<_> = outcomes.into_iter().flatten().map(|found| found.key).collect();
        if !found.is_empty() {
            digests.extend(closure(client, found.iter(), revision).await?);
        }
    }
    Ok(digests)
}

/// Checks the registry of the lock file, also if the batch has no external references.
async fn check_registry(client: &Client, lock: &Lock) -> Result<(), Failure> {
    let any = lock.entities.keys().find_map(|key| key.parse::<Key>().ok());
    let Some(any) = any else { return Ok(()) };
    let answers = resolve(client, &[Requirement::exact(&any)], None).await?;
    same_registry(lock, &answers.registry)
}
