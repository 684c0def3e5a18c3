//! `apply --locked`: what the files refer to beside themselves, and all that this needs, is locked,
//! and registered as locked.

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
    lock::{closure, same_registry},
    resolve::{Answers, ask},
};
use crate::{
    batch::Batch,
    client::Client,
    failure::Failure,
    lock::Lock,
    report::{Finding, Level},
};

/// What is not as it was locked: references, with their places in the batch, or, where those are
/// right, what they need.
pub(super) async fn drift(
    client: &Client,
    batch: &Batch,
    lock_file: &Path,
) -> Result<Vec<Finding>, Failure> {
    let lock = Lock::read(lock_file)?;
    let outside = outside(batch.proposals());
    let keys: BTreeSet<&Key> = outside.iter().map(|(_, _, reference)| &reference.key).collect();
    let needed = needed(client, &lock, &keys).await?;
    let judge = |key: &str| problem(&lock, lock_file, key, needed.get(key));
    let referred = outside.iter().filter_map(|(change, entity, reference)| {
        let found = judge(&reference.key.to_string())?;
        let pointer = reference.pointer.clone();
        Some(Finding { entity: Some(entity.to_string()), pointer, change: Some(*change), ..found })
    });
    let referred: Vec<_> = referred.collect();
    if !referred.is_empty() {
        return Ok(referred);
    }
    Ok(needed.keys().filter_map(|key| judge(key)).collect())
}

/// What is wrong with something that is needed, if anything is.
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
            format!("{key} is locked as {locked}, but registered as {digest}"),
            "find out who changed the lock file, or lock anew",
        ),
        (Some(_), None) => (
            "lock-drift",
            format!("{key} is locked, but not registered"),
            "find out who changed the lock file, or lock anew",
        ),
        (None, _) => (
            "lock-missing",
            format!("{key} is not in {}", lock_file.display()),
            "require it, or what needs it, and run `registryctl lock`",
        ),
    };
    Some(Finding {
        code: code.to_owned(),
        severity: Level::Error,
        entity: None,
        pointer: String::new(),
        message,
        help: Some(help.to_owned()),
        place: None,
        change: None,
    })
}

/// Every reference to what is not in the batch: the change that has it, its entity, the reference.
fn outside(proposals: &[Proposed]) -> Vec<(usize, Key, Reference)> {
    let inside: BTreeSet<&Key> =
        proposals.iter().filter_map(Proposed::document).map(|document| document.key()).collect();
    let mut outside = Vec::new();
    for (change, document) in proposals.iter().map(Proposed::document).enumerate() {
        let Some(document) = document else { continue };
        for reference in references(document.entity()) {
            if !inside.contains(&reference.key) {
                outside.push((change, document.key().clone(), reference));
            }
        }
    }
    outside
}

/// The digests of those that are registered, and of all that they need.
async fn needed(
    client: &Client,
    lock: &Lock,
    keys: &BTreeSet<&Key>,
) -> Result<BTreeMap<String, String>, Failure> {
    let keys: Vec<&Key> = keys.iter().copied().collect();
    if keys.is_empty() {
        of_this_registry(client, lock).await?;
    }
    let mut needed = BTreeMap::new();
    for keys in keys.chunks(limits::REQUIREMENTS) {
        let exact: Vec<_> = keys.iter().map(|key| Requirement::exact(key)).collect();
        let Answers { outcomes, registry, revision } = ask(client, &exact, None).await?;
        same_registry(lock, &registry)?;
        let registered: Vec<_> = outcomes.into_iter().flatten().map(|found| found.key).collect();
        if !registered.is_empty() {
            needed.extend(closure(client, registered.iter(), revision).await?);
        }
    }
    Ok(needed)
}

/// Whose lock it is matters also where nothing is referred to.
async fn of_this_registry(client: &Client, lock: &Lock) -> Result<(), Failure> {
    let any = lock.entities.keys().find_map(|key| key.parse::<Key>().ok());
    let Some(any) = any else { return Ok(()) };
    let answers = ask(client, &[Requirement::exact(&any)], None).await?;
    same_registry(lock, &answers.registry)
}
