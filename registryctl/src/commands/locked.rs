//! `apply --locked`: what the files refer to beside themselves is locked, and registered as locked.
//!
//! Deliberately absent: what that needs in turn; its references are exact and part of its digest.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use registry_core::{
    Key, limits,
    resolve::Requirement,
    rules::{Proposed, Reference, references},
};

use super::{
    lock::same_registry,
    resolve::{Answers, ask},
};
use crate::{
    batch::Batch,
    client::Client,
    failure::Failure,
    lock::Lock,
    report::{Finding, Level},
};

/// What is not as it was locked, each with its place in the batch.
pub(super) async fn drift(
    client: &Client,
    batch: &Batch,
    lock_file: &Path,
) -> Result<Vec<Finding>, Failure> {
    let lock = Lock::read(lock_file)?;
    let outside = outside(batch.proposals());
    let keys: BTreeSet<&Key> = outside.iter().map(|(_, _, reference)| &reference.key).collect();
    let registered = registered(client, &lock, &keys).await?;
    let path = lock_file.display();
    let problem = |key: &Key| {
        let Some(locked) = lock.entities.get(&key.to_string()) else {
            let problem = format!("{key} is not in {path}");
            return Some(("lock-missing", problem, "require it, and run `registryctl lock`"));
        };
        let help = "find out who changed the lock file, or lock anew";
        match registered.get(key) {
            Some(digest) if digest == locked => None,
            Some(digest) => Some((
                "lock-drift",
                format!("{key} is locked as {locked}, but registered as {digest}"),
                help,
            )),
            None => Some(("lock-drift", format!("{key} is locked, but not registered"), help)),
        }
    };
    let finding = |(change, entity, reference): (usize, Key, Reference)| {
        let (code, message, help) = problem(&reference.key)?;
        Some(Finding {
            code: code.to_owned(),
            severity: Level::Error,
            entity: Some(entity.to_string()),
            pointer: reference.pointer,
            message,
            help: Some(help.to_owned()),
            place: None,
            change: Some(change),
        })
    };
    Ok(outside.into_iter().filter_map(finding).collect())
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

/// The digests of those that are registered.
async fn registered(
    client: &Client,
    lock: &Lock,
    keys: &BTreeSet<&Key>,
) -> Result<BTreeMap<Key, String>, Failure> {
    let keys: Vec<&Key> = keys.iter().copied().collect();
    let mut registered = BTreeMap::new();
    for keys in keys.chunks(limits::REQUIREMENTS) {
        let exact: Vec<_> = keys.iter().map(|key| Requirement::exactly(key)).collect();
        let Answers { outcomes, registry, revision: _ } = ask(client, &exact, None).await?;
        same_registry(lock, &registry)?;
        for (key, outcome) in keys.iter().zip(outcomes) {
            if let Ok(found) = outcome {
                registered.insert((*key).clone(), found.digest);
            }
        }
    }
    Ok(registered)
}
