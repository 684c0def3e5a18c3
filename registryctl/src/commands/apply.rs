//! `apply`: files become one batch; the registry says what it would do; the user agrees; it does.

mod ending;
mod prepare;
mod retired;

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use ending::{Ended, Ending};
use prepare::{Held, Prepared, Settled};
use registry_proto::v1;

use super::{Session, commit, locked, refuse_errors, refused, rollout};
use crate::{
    batch::Batch,
    cli::{ApplyArgs, ApplyGuards, ApplyHow, CommitArgs, Format},
    client::{Client, request},
    failure::Failure,
    plan::Plan,
    progress::Progress,
    report::{Finding, Report},
    screen::Screen,
};

/// What the registry would do.
struct Planned {
    plan: Plan,
    revision: u64,
    report: Report,
    /// Unchanged entries that are retired.
    retired: Vec<String>,
}

pub(super) async fn run(session: &Session, args: ApplyArgs) -> Result<(), Failure> {
    let ApplyArgs { files, guards, how, commit } = args;
    if how.dry_run && guards.wait.wait.is_some() {
        return Err(Failure::usage("--dry-run changes nothing that could be waited for"));
    }
    apply_batch(session, Batch::read(&files)?, how, &guards, commit).await
}

/// Applies a batch, after showing the registry's plan.
pub(super) async fn apply_batch(
    session: &Session,
    read: Batch,
    how: ApplyHow,
    guards: &ApplyGuards,
    author: CommitArgs,
) -> Result<(), Failure> {
    let screen = session.screen;
    refuse_errors(screen, &read.report(Vec::new()))?;
    let client = session.connect().await?;
    rollout::check(&client, &guards.wait).await?;
    let on_conflict = how.on_conflict.into();
    let prepared = prepare::prepare(&client, read, on_conflict, &guards.prune, &author).await?;
    let batch = &prepared.batch;
    if guards.locked {
        let drift = locked::drift(&client, batch, &guards.lock_file).await?;
        refuse_errors(screen, &batch.report(drift))?;
    }
    let changes = batch.proposals().iter().map(v1::Change::from).collect();
    let base_revision = author.base_revision.or(prepared.revision);
    let author = CommitArgs { base_revision, ..author };
    let wanted = commit::request_of(changes, how.message, author, &session.globals.access);
    let mut planned = plan(&client, &wanted, batch, screen).await?;
    let found = retired::find(&client, batch, &planned).await?;
    let is_held = |key: &String| prepared.held.iter().any(|held| held.is_of(key));
    planned.retired = found.into_iter().filter(|key| !is_held(key)).collect();
    if screen.format == Format::Table {
        show_prepared(screen, &prepared)?;
        show_plan(screen, &planned)?;
    }
    let would_change = planned.plan.effective() > 0;
    let ending = match planned.plan.effective() {
        _ if how.dry_run => Ending::DryRun,
        0 => Ending::Unchanged,
        changes => {
            if !how.yes {
                confirm(changes)?;
            }
            Ending::Applied(commit_batch(&client, &wanted, batch, screen).await?)
        }
    };
    let ended = Ended { planned, ending, prepared };
    ending::finish(&client, screen, &ended, &guards.wait).await?;
    if how.exit_code && would_change {
        return Err(Failure::WouldChange("something would change".to_owned()));
    }
    Ok(())
}

/// Asks the registry what it would do.
async fn plan(
    client: &Client,
    wanted: &v1::ApplyRequest,
    batch: &Batch,
    screen: Screen,
) -> Result<Planned, Failure> {
    let progress = Progress::spinner("planning");
    let dry = v1::ApplyRequest { dry_run: true, request_id: None, ..wanted.clone() };
    let answer = client.answer(client.registry().apply(request(dry))).await;
    drop(progress);
    let response = located(answer, batch, screen)?;
    let v1::ApplyResponse { revision, committed: _, plan, diagnostics, settings: _ } = response;
    let report = batch.report(diagnostics.iter().map(Finding::from).collect());
    refuse_errors(screen, &report)?;
    Ok(Planned { plan: Plan::new(plan), revision, report, retired: Vec::new() })
}

async fn commit_batch(
    client: &Client,
    wanted: &v1::ApplyRequest,
    batch: &Batch,
    screen: Screen,
) -> Result<v1::ApplyResponse, Failure> {
    let progress = Progress::spinner("applying");
    let answer = commit::apply(client, wanted).await;
    drop(progress);
    located(answer, batch, screen)
}

/// Shows the findings of a refused batch, each with its place in a file.
fn located<T>(answer: Result<T, Failure>, batch: &Batch, screen: Screen) -> Result<T, Failure> {
    answer.map_err(|failure| match failure {
        Failure::Invalid(found) => {
            refused(screen, &batch.report(found.iter().map(Finding::from).collect()))
        }
        other => other,
    })
}

fn show_prepared(screen: Screen, prepared: &Prepared) -> Result<(), Failure> {
    let settled = prepared.settled.iter().map(Settled::to_string);
    let held = prepared.held.iter().map(Held::to_string);
    settled.chain(held).try_for_each(|line| screen.line(&line))
}

fn show_plan(screen: Screen, planned: &Planned) -> Result<(), Failure> {
    super::show_findings(screen, &planned.report);
    if planned.plan.effective() > 0 {
        screen.table(&planned.plan.table())?;
    }
    screen.line(&format!("plan: {}", planned.plan.counts()))?;
    retired::line(&planned.retired).map_or(Ok(()), |line| screen.line(&line))
}

/// Asks on the terminal; anything but yes is a no.
pub(super) fn confirm(changes: usize) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "nobody can be asked, because standard input is not a terminal; add --yes to apply, \
             or --dry-run to only see the plan"
                .to_owned(),
        ));
    }
    let noun = if changes == 1 { "this change" } else { &format!("these {changes} changes") };
    let mut errors = io::stderr().lock();
    let mut answer = String::new();
    write!(errors, "Apply {noun}? [y/N] ")
        .and_then(|()| errors.flush())
        .and_then(|()| io::stdin().lock().read_line(&mut answer))
        .map_err(Failure::Output)?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Failure::Rejected("not applied, as you said".to_owned()))
}
