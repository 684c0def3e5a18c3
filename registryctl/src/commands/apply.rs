//! `apply`: registers the contents of files as one commit, after showing the registry's plan.

mod inactive;
mod outcome;
mod prepare;

use inactive::Inactive;
use outcome::{Applied, Outcome};
use prepare::{ForeignEntity, HeldEntity, KeptEntity, Prepared, ResolvedConflict};
use registry_proto::v1;

use super::{
    Session, commit, locked, reject_errors, rejected_batch,
    review::{confirm, question},
    rollout,
};
use crate::{
    batch::Batch,
    cli::{ApplyArgs, ApplyOptions, ApplyPolicy, CommitArgs, Format},
    client::Client,
    failure::Failure,
    plan::Plan,
    progress::Progress,
    report::{Finding, Report},
    screen::Screen,
};

/// The registry's plan.
struct Planned {
    plan: Plan,
    revision: u64,
    report: Report,
    inactive: Inactive,
}

pub(super) async fn run(session: &Session, args: ApplyArgs) -> Result<(), Failure> {
    let ApplyArgs { files, policy, options, commit } = args;
    if options.confirm.dry_run && policy.wait.wait.is_some() {
        let message = "--dry-run makes no commit to --wait for; remove one of them";
        return Err(Failure::usage(message));
    }
    apply_batch(session, Batch::read(&files.names())?, options, &policy, commit).await
}

/// Applies a batch, after showing the registry's plan.
pub(super) async fn apply_batch(
    session: &Session,
    read: Batch,
    options: ApplyOptions,
    policy: &ApplyPolicy,
    author: CommitArgs,
) -> Result<(), Failure> {
    let screen = session.screen;
    reject_errors(screen, &read.report(Vec::new()))?;
    let client = session.connect().await?;
    rollout::check_access(&client, &policy.wait).await?;
    let on_conflict = options.on_conflict.into();
    let on_screen = (&client, screen);
    let prepared = prepare::prepare(on_screen, read, on_conflict, &policy.prune, &author).await?;
    let batch = &prepared.batch;
    if policy.locked {
        let drift = locked::drift(&client, batch, &policy.lock_file).await?;
        reject_errors(screen, &batch.report(drift))?;
    }
    let changes = batch.proposals().iter().map(v1::EntityChange::from).collect();
    let base_revision = author.base_revision.or(prepared.revision);
    let author = CommitArgs { base_revision, ..author };
    let wanted = v1::ApplyChangesRequest {
        allow_policy_break: options.allow_policy_break,
        ..commit::new_request(changes, options.message, author, &session.globals.access)
    };
    let mut planned = plan(&client, &wanted, batch, screen).await?;
    planned.inactive = Inactive::find(&client, batch, &planned).await?;
    let is_held = |key: &String| prepared.held.iter().any(|held| held.has_key(key));
    planned.inactive.retain(|key| !is_held(key));
    if screen.format == Format::Table {
        show_prepared(screen, &prepared)?;
        show_plan(screen, &planned)?;
    }
    let changes = planned.plan.effective();
    let outcome = if options.confirm.dry_run {
        Outcome::DryRun
    } else if changes == 0 {
        Outcome::Unchanged
    } else {
        if !options.confirm.yes {
            confirm(&question(changes))?;
        }
        Outcome::Applied(commit_batch(&client, &wanted, batch, screen).await?)
    };
    let applied = Applied { planned, outcome, prepared };
    outcome::finish(&client, screen, &applied, &policy.wait).await?;
    if options.exit_code && changes > 0 {
        return Err(Failure::WouldChange("changes are pending".to_owned()));
    }
    if options.exit_code && !applied.prepared.held.is_empty() {
        let message =
            "entities of the files are held in another state, which `apply` does not change";
        return Err(Failure::WouldChange(message.to_owned()));
    }
    Ok(())
}

/// Requests a plan from the registry.
async fn plan(
    client: &Client,
    wanted: &v1::ApplyChangesRequest,
    batch: &Batch,
    screen: Screen,
) -> Result<Planned, Failure> {
    let progress = Progress::spinner("planning");
    let answer = commit::dry_run(client, wanted).await;
    drop(progress);
    let response = located(answer, batch, screen)?;
    let v1::ApplyChangesResponse { revision, committed: _, plan, diagnostics, settings: _ } =
        response;
    let report = batch.report(diagnostics.iter().map(Finding::from).collect());
    reject_errors(screen, &report)?;
    Ok(Planned { plan: Plan::new(plan), revision, report, inactive: Inactive::default() })
}

async fn commit_batch(
    client: &Client,
    wanted: &v1::ApplyChangesRequest,
    batch: &Batch,
    screen: Screen,
) -> Result<v1::ApplyChangesResponse, Failure> {
    let progress = Progress::spinner("applying");
    let answer = commit::apply(client, wanted).await;
    drop(progress);
    located(answer, batch, screen)
}

/// Prints the findings of a rejected batch with their locations in files.
fn located<T>(answer: Result<T, Failure>, batch: &Batch, screen: Screen) -> Result<T, Failure> {
    answer.map_err(|failure| match failure {
        Failure::Invalid(found) => {
            rejected_batch(screen, &batch.report(found.iter().map(Finding::from).collect()))
        }
        other => other,
    })
}

fn show_prepared(screen: Screen, prepared: &Prepared) -> Result<(), Failure> {
    let conflicts = prepared.conflicts.iter().map(ResolvedConflict::to_string);
    let held = prepared.held.iter().map(HeldEntity::to_string);
    let kept = prepared.kept.iter().map(KeptEntity::to_string);
    let foreign = prepared.foreign.iter().map(ForeignEntity::to_string);
    conflicts.chain(held).chain(kept).chain(foreign).try_for_each(|line| screen.line(&line))
}

fn show_plan(screen: Screen, planned: &Planned) -> Result<(), Failure> {
    super::show_findings(screen, &planned.report);
    if planned.plan.effective() > 0 {
        screen.table(&planned.plan.table())?;
    }
    screen.line(&format!("plan: {}", planned.plan.counts()))?;
    planned.inactive.lines().try_for_each(|line| screen.line(&line))
}
