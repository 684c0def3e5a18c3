//! `deprecate`, `retire` and `restore`: one change of lifecycle, as a commit of its own.
//!
//! The command does not ask for confirmation: its arguments are complete, and the change can be
//! reverted.

mod with_tools;

use registry_core::{LifecycleState, Notice, rules::Proposed};
use registry_proto::v1;
use serde_json::json;

use super::{Session, commit};
use crate::{
    cli::{Format, LifecycleArgs, NoticeArgs, RetireArgs, Versions},
    failure::Failure,
    plan::Plan,
    report::{Finding, Report},
};

pub(super) async fn deprecate(session: &Session, args: NoticeArgs) -> Result<(), Failure> {
    let NoticeArgs { change, replacement, sunset } = args;
    let message = change.message.clone();
    let notice = Notice { message, replacement, sunset, forced: None };
    run(session, change, (LifecycleState::Deprecated, notice)).await
}

pub(super) async fn retire(session: &Session, args: RetireArgs) -> Result<(), Failure> {
    if args.with_tools {
        return with_tools::run(session, args).await;
    }
    let RetireArgs { what, message, replacement, sunset, force, commit, .. } = args;
    let key = match what {
        Versions::One(key) => key,
        Versions::All(kind, name) => {
            return Err(Failure::Usage(format!(
                "retire needs an exact version: {kind}/{name}@VERSION; all versions of a server \
                 are retired with --with-tools"
            )));
        }
    };
    let notice = Notice { message: message.clone(), replacement, sunset, forced: force };
    let change = LifecycleArgs { key, message, commit };
    run(session, change, (LifecycleState::Retired, notice)).await
}

pub(super) async fn restore(session: &Session, change: LifecycleArgs) -> Result<(), Failure> {
    run(session, change, (LifecycleState::Active, Notice::default())).await
}

async fn run(
    session: &Session,
    args: LifecycleArgs,
    (state, notice): (LifecycleState, Notice),
) -> Result<(), Failure> {
    let LifecycleArgs { key, message, commit: author } = args;
    let client = session.connect().await?;
    let why = message.unwrap_or_default();
    let proposed = Proposed::SetLifecycle { key: key.clone(), state, notice };
    let wanted = commit::request_of(vec![(&proposed).into()], why, author, &session.globals.access);
    let response = commit::apply_or_show(session.screen, &client, &wanted).await?;
    let v1::ApplyResponse { revision, committed, plan, diagnostics, settings: _ } = response;
    let report = Report::new(diagnostics.iter().map(Finding::from).collect());
    if session.screen.format == Format::Json {
        return session.screen.json(&json!({
            "revision": revision,
            "committed": committed,
            "plan": Plan::new(plan),
            "diagnostics": report.findings(),
        }));
    }
    super::show_findings(session.screen, &report);
    session.screen.line(&if committed {
        format!("{key} is {state} in revision {revision}")
    } else {
        format!("{key} was {state} already; the registry stays at revision {revision}")
    })
}
