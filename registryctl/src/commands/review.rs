//! A batch that the command line puts together itself: the registry's plan is shown, the user
//! confirms, and the batch is committed.

use registry_core::Key;
use registry_proto::v1;
use serde_json::json;

use super::{Session, apply::confirm, commit, refuse_errors, show_findings};
use crate::{
    cli::Format,
    client::{Client, request},
    failure::Failure,
    plan::Plan,
    report::{Finding, Report},
    view::SettingView,
};

/// How a batch is committed.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    /// Without a question.
    pub(super) yes: bool,
    /// Not at all: the plan is the result.
    pub(super) dry_run: bool,
}

/// Shows the plan of a batch, asks, and commits it.
pub(super) async fn run(
    session: &Session,
    client: &Client,
    wanted: &v1::ApplyRequest,
    How { yes, dry_run }: How,
) -> Result<(), Failure> {
    let screen = session.screen;
    let dry = v1::ApplyRequest { dry_run: true, request_id: None, ..wanted.clone() };
    let answer = client.answer(client.registry().apply(request(dry))).await;
    let planned = commit::or_show(screen, answer)?;
    let report = Report::new(planned.diagnostics.iter().map(Finding::from).collect());
    refuse_errors(screen, &report)?;
    let settings: Vec<_> = planned.settings.into_iter().map(SettingView::from).collect();
    let plan = Plan::new(planned.plan);
    let changes = plan.effective() + settings.len();
    if screen.format == Format::Table {
        show_findings(screen, &report);
        if plan.effective() > 0 {
            screen.table(&plan.table())?;
        }
        for setting in &settings {
            screen.line(&format!("set: {setting}"))?;
        }
        screen.line(&format!("plan: {}", plan.counts()))?;
    }
    let (revision, committed) = if dry_run || changes == 0 {
        (planned.revision, false)
    } else {
        if !yes {
            confirm(changes)?;
        }
        let done = commit::apply_or_show(screen, client, wanted).await?;
        (done.revision, done.committed)
    };
    match screen.format {
        Format::Json => screen.json(&json!({
            "accepted": true,
            "revision": revision,
            "committed": committed,
            "dryRun": dry_run,
            "plan": plan,
            "settings": settings,
            "diagnostics": report.findings(),
        })),
        Format::Table if dry_run => {
            screen.line(&format!("dry run: the registry stays at revision {revision}"))
        }
        Format::Table if committed => {
            screen.line(&format!("applied: the registry is at revision {revision}"))
        }
        Format::Table => {
            screen.line(&format!("nothing to change: the registry stays at revision {revision}"))
        }
    }
}

/// A key as the registry sends it.
pub(super) fn key_of(key: Option<v1::EntityKey>) -> Result<Key, Failure> {
    let key = key.ok_or_else(|| Failure::answer("an entity has no key"))?;
    Key::try_from(key).map_err(|e| Failure::answer(format!("an entity's key cannot be read: {e}")))
}
