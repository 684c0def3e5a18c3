//! `deprecate`, `retire` and `restore`: one change of lifecycle, as one commit.

mod with_tools;

use registry_core::{Key, Kind, LifecycleState, Notice, rules::Proposed};
use registry_proto::v1;

use super::{Session, commit, policy::highest_release, review};
use crate::{
    cli::{DeprecateArgs, LifecycleArgs, RestoreArgs, RetireArgs, Versions},
    client::Client,
    failure::Failure,
};

pub(super) async fn deprecate(session: &Session, args: DeprecateArgs) -> Result<(), Failure> {
    let DeprecateArgs { change, replacement, sunset: sunset_date } = args;
    let message = change.message.clone();
    let notice = Notice { message, replacement, sunset_date, force_reason: None };
    run(session, change, (LifecycleState::Deprecated, notice), false).await
}

pub(super) async fn retire(session: &Session, args: RetireArgs) -> Result<(), Failure> {
    if args.with_tools {
        return with_tools::run(session, args).await;
    }
    let RetireArgs {
        versions,
        message,
        replacement,
        sunset: sunset_date,
        force,
        confirm,
        commit,
        ..
    } = args;
    let key = match versions {
        Versions::One(key) => key,
        Versions::All(kind, name) => {
            return Err(Failure::Usage(format!(
                "retire requires an exact version: {kind}/{name}@VERSION; --with-tools retires all \
                 versions of a server"
            )));
        }
    };
    let notice = Notice { message: message.clone(), replacement, sunset_date, force_reason: force };
    let change = LifecycleArgs { key, message, confirm, commit };
    run(session, change, (LifecycleState::Retired, notice), false).await
}

pub(super) async fn restore(session: &Session, args: RestoreArgs) -> Result<(), Failure> {
    let RestoreArgs { allow_policy_break, change } = args;
    run(session, change, (LifecycleState::Active, Notice::default()), allow_policy_break).await
}

async fn run(
    session: &Session,
    args: LifecycleArgs,
    (state, notice): (LifecycleState, Notice),
    allow_policy_break: bool,
) -> Result<(), Failure> {
    let LifecycleArgs { key, message, confirm, commit: author } = args;
    let client = session.connect().await?;
    if key.kind == Kind::Policy {
        let head = client.head().await?.0;
        note_version_in_force(&client, &key, state, head).await?;
    }
    let message = message.unwrap_or_default();
    let change = Proposed::SetLifecycle { key, state, notice };
    let changes = vec![(&change).into()];
    let wanted = v1::ApplyChangesRequest {
        allow_policy_break,
        ..commit::new_request(changes, message, author, &session.globals.access)
    };
    review::run(session, &client, &wanted, confirm).await
}

/// Explains the effect of a change of lifecycle on the version of a policy that is in force, unless it
/// is the expected one.
pub(super) async fn note_version_in_force(
    client: &Client,
    changed: &Key,
    state: LifecycleState,
    head: u64,
) -> Result<(), Failure> {
    let Key { name, version, .. } = changed;
    if version.is_prerelease() {
        return Ok(());
    }
    let Some((release, is_retired)) = highest_release(client, name, head).await? else {
        return Ok(());
    };
    let rollback =
        || format!("`registryctl policy rollback {name} {version}` registers this content again");
    let is_highest = release == *version;
    let note = match (state, is_highest, is_retired) {
        (LifecycleState::Retired, false, false) => {
            format!(
                "policy/{name}@{release} is in force and stays; its retirement turns the policy off"
            )
        }
        (LifecycleState::Active | LifecycleState::Deprecated, false, true) => {
            format!("policy/{name} stays off, because {release} is retired; {}", rollback())
        }
        (LifecycleState::Active, false, false) => {
            format!("policy/{name}@{release} is in force and stays; {}", rollback())
        }
        (LifecycleState::Deprecated, true, true) => {
            format!(
                "policy/{name}@{version} is retired, and its deprecation puts it in force again"
            )
        }
        _ => return Ok(()),
    };
    eprintln!("note: {note}");
    Ok(())
}
