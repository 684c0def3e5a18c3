//! `deprecate`, `retire` and `restore`: one change of lifecycle, as a commit of its own.
//!
//! Deliberately absent: a question before it; the change is named in full and can be taken back.

use registry_core::{LifecycleState, rules::Proposed};
use registry_proto::v1;
use serde_json::json;

use super::{Session, commit, refused};
use crate::{
    cli::{Format, LifecycleArgs},
    failure::Failure,
    plan::Plan,
    report::{Finding, Report},
};

pub(super) async fn run(
    session: &Session,
    args: LifecycleArgs,
    state: LifecycleState,
) -> Result<(), Failure> {
    let LifecycleArgs { key, message, commit: author } = args;
    let client = session.connect().await?;
    let why = message.clone().unwrap_or_default();
    let proposed = Proposed::SetLifecycle { key: key.clone(), state, message };
    let wanted = commit::request_of(vec![(&proposed).into()], why, author, &session.globals.access);
    let response = commit::apply(&client, &wanted).await.map_err(|failure| match failure {
        Failure::Invalid(found) => {
            refused(session.screen, &Report::new(found.iter().map(Finding::from).collect()))
        }
        other => other,
    })?;
    let v1::ApplyResponse { revision, committed, plan, diagnostics } = response;
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
