//! Plan, confirmation and commit of changes that a command constructs itself.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    time::Duration,
};

use registry_core::Key;
use registry_proto::v1;
use serde_json::json;

use super::{Session, commit, reject_errors, rollout, show_findings};
use crate::{
    cli::{ConfirmArgs, Format, Percent},
    client::Client,
    failure::Failure,
    plan::Plan,
    report::{Finding, Report},
    screen::Screen,
    style::printable,
    view::SettingView,
};

/// Prints the plan of a batch, asks for confirmation, and commits the batch.
pub(super) async fn run(
    session: &Session,
    client: &Client,
    wanted: &v1::ApplyChangesRequest,
    confirm: ConfirmArgs,
) -> Result<(), Failure> {
    run_and_wait(session, client, wanted, confirm, None).await
}

/// The same, and then waits until a share of the gateways has applied the state. It fails also if
/// a gateway lost its connection recently and has not applied it. The result is printed in any case.
pub(super) async fn run_and_wait(
    session: &Session,
    client: &Client,
    wanted: &v1::ApplyChangesRequest,
    ConfirmArgs { yes, dry_run }: ConfirmArgs,
    wait: Option<(Percent, Duration)>,
) -> Result<(), Failure> {
    let screen = session.screen;
    let planned = commit::or_show(screen, commit::dry_run(client, wanted).await)?;
    let report = Report::new(planned.diagnostics.iter().map(Finding::from).collect());
    reject_errors(screen, &report)?;
    let settings: Vec<_> = planned.settings.into_iter().map(SettingView::from).collect();
    let plan = Plan::new(planned.plan);
    let changes = plan.effective() + settings.len();
    if screen.format == Format::Table {
        show_findings(screen, &report);
        if plan.effective() > 0 {
            screen.table(&plan.table())?;
        }
        for setting in &settings {
            screen.line(&format!("set: {}", printable(&setting.to_string())))?;
        }
        screen.line(&format!("plan: {}", counts(&plan, settings.len())))?;
    }
    let (revision, committed) = if dry_run || changes == 0 {
        (planned.revision, false)
    } else {
        if !yes {
            confirm(&question(changes))?;
        }
        let done = commit::apply_or_show(screen, client, wanted).await?;
        (done.revision, done.committed)
    };
    if screen.format == Format::Table {
        let what = match (dry_run, committed) {
            (true, _) => "dry run: the registry stays",
            (false, true) => "applied: the registry is",
            (false, false) => "nothing to change: the registry stays",
        };
        screen.line(&format!("{what} at revision {revision}"))?;
    }
    let (rollout, result) = match wait.filter(|_| !dry_run) {
        None => (None, Ok(())),
        Some((percent, time)) => match rollout::wait_for(client, revision, percent, time).await {
            Ok((rollout, result)) => {
                let result = result.and_then(|()| rollout.require_all());
                (Some(rollout), result)
            }
            Err(failure) => (None, Err(failure)),
        },
    };
    match (screen.format, &rollout) {
        (Format::Json, rollout) => {
            let mut view = json!({
                "accepted": true,
                "revision": revision,
                "committed": committed,
                "dryRun": dry_run,
                "plan": plan,
                "settings": settings,
                "diagnostics": report.findings(),
            });
            if let Some(rollout) = rollout {
                view["rollout"] = serde_json::to_value(rollout).unwrap_or_default();
            }
            screen.json(&view)?;
        }
        (Format::Table, Some(rollout)) => rollout::show(screen, rollout)?,
        (Format::Table, None) => {}
    }
    result
}

/// `1 retire, 2 settings`.
fn counts(plan: &Plan, settings: usize) -> String {
    let settings = match settings {
        0 => return plan.counts(),
        1 => "1 setting".to_owned(),
        many => format!("{many} settings"),
    };
    if plan.effective() == 0 { settings } else { format!("{}, {settings}", plan.counts()) }
}

/// Asks for confirmation of an action outside of the commit log. `false`: a dry run, which is complete.
pub(super) fn confirm_action(
    screen: Screen,
    action: &str,
    ConfirmArgs { yes, dry_run }: ConfirmArgs,
) -> Result<bool, Failure> {
    if dry_run {
        match screen.format {
            Format::Json => screen.json(&json!({ "dryRun": true, "plan": action }))?,
            Format::Table => screen.line(&printable(&format!("dry run: {action}")))?,
        }
        return Ok(false);
    }
    if !yes {
        eprintln!("plan: {}", printable(action));
        confirm("Continue?")?;
    }
    Ok(true)
}

/// The question about a number of changes.
pub(super) fn question(changes: usize) -> String {
    match changes {
        1 => "Apply this change?".to_owned(),
        many => format!("Apply these {many} changes?"),
    }
}

/// Asks on the terminal. Every answer except `y` and `yes` aborts.
pub(super) fn confirm(question: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "cannot prompt for confirmation: stdin is not a terminal; use --yes or --dry-run"
                .to_owned(),
        ));
    }
    let mut errors = io::stderr().lock();
    let mut answer = String::new();
    write!(errors, "{question} [y/N] ")
        .and_then(|()| errors.flush())
        .and_then(|()| io::stdin().lock().read_line(&mut answer))
        .map_err(Failure::Output)?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Failure::Rejected("aborted".to_owned()))
}

/// Converts a key of a response.
pub(super) fn key_of(key: Option<v1::EntityKey>) -> Result<Key, Failure> {
    let key = key.ok_or_else(|| Failure::invalid_response("an entity has no key"))?;
    Key::try_from(key)
        .map_err(|e| Failure::invalid_response(format!("an entity has an invalid key: {e}")))
}
