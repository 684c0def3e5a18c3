//! `policy rollback NAME VERSION`: registers the content of an earlier version as the next version.
//!
//! The new version has no `managedBy`: a managing source that does not contain it would retire it, and
//! so turn the policy off.

use registry_core::entity::MANAGED_BY;
use serde_json::Value;

use super::{Versions, registration};
use crate::{
    cli::RollbackArgs,
    commands::{Session, commit, review},
    failure::Failure,
};

pub(super) async fn run(session: &Session, args: RollbackArgs) -> Result<(), Failure> {
    let RollbackArgs { name, version, allow_policy_break, message, confirm, commit: author } = args;
    let client = session.connect().await?;
    // The commit fails if another version is registered in the meantime.
    let revision = client.head().await?.0;
    let versions = Versions::fetch(&client, name.clone(), revision).await?;
    if versions.release() == Some((&version, false)) {
        let message = format!("policy/{name}@{version} is in force; name an earlier version");
        return Err(Failure::Usage(message));
    }
    let mut document = unmanaged(versions.content(&version).await?);
    if let Some((current, false)) = versions.release() {
        let held = unmanaged(versions.content(current).await?);
        document["version"] = held["version"].clone();
        if held == document {
            return Err(Failure::Usage(format!(
                "policy/{name}@{current} is in force and has the content of {version}; name a \
                 version with other content"
            )));
        }
    }
    let next = versions.next()?;
    document["version"] = next.to_string().into();
    let message =
        message.unwrap_or_else(|| format!("Roll back policy/{name} to {version} as {next}"));
    let changes = vec![registration(&document)?];
    let mut wanted = commit::new_request(changes, message, author, &session.globals.access);
    wanted.base_revision = wanted.base_revision.or(Some(revision));
    wanted.allow_policy_break = allow_policy_break;
    review::run(session, &client, &wanted, confirm).await
}

/// The document without its managing source.
fn unmanaged(mut document: Value) -> Value {
    let Some(members) = document.as_object_mut() else { return document };
    if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove(MANAGED_BY);
        if metadata.is_empty() {
            members.remove("metadata");
        }
    }
    document
}
