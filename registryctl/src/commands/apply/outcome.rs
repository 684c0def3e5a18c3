//! The result of an apply, and the wait for gateways.

use registry_proto::v1;
use serde::Serialize;

use super::{
    Planned,
    inactive::Inactive,
    prepare::{ForeignEntity, HeldEntity, KeptEntity, Prepared, ResolvedConflict},
};
use crate::{
    cli::{Format, WaitArgs},
    client::Client,
    commands::rollout::{self, Rollout},
    failure::Failure,
    plan::Plan,
    report::Finding,
    screen::Screen,
};

pub(super) enum Outcome {
    DryRun,
    Unchanged,
    Applied(v1::ApplyChangesResponse),
}

pub(super) struct Applied {
    pub(super) planned: Planned,
    pub(super) outcome: Outcome,
    pub(super) prepared: Prepared,
}

/// The JSON result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AppliedView<'a> {
    accepted: bool,
    revision: u64,
    committed: bool,
    dry_run: bool,
    plan: &'a Plan,
    diagnostics: &'a [Finding],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    conflicts: &'a [ResolvedConflict],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    held: &'a [HeldEntity],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    foreign: &'a [ForeignEntity],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    kept: &'a [KeptEntity],
    #[serde(flatten)]
    inactive: &'a Inactive,
    #[serde(skip_serializing_if = "Option::is_none")]
    rollout: Option<&'a Rollout>,
}

/// Prints the result and waits for gateways, if requested. The result is printed even if waiting fails.
pub(super) async fn finish(
    client: &Client,
    screen: Screen,
    applied: &Applied,
    WaitArgs { wait, timeout }: &WaitArgs,
) -> Result<(), Failure> {
    if screen.format == Format::Table {
        screen.line(&applied.line())?;
    }
    let (rollout, result) = match wait {
        None => (None, Ok(())),
        Some(percent) => {
            match rollout::wait_for(client, applied.revision(), *percent, *timeout).await {
                Ok((rollout, result)) => (Some(rollout), result),
                Err(failure) => (None, Err(failure)),
            }
        }
    };
    match (screen.format, &rollout) {
        (Format::Json, rollout) => screen.json(&applied.view(rollout.as_ref()))?,
        (Format::Table, Some(rollout)) => rollout::show(screen, rollout)?,
        (Format::Table, None) => {}
    }
    result
}

impl Applied {
    /// The current revision of the registry.
    fn revision(&self) -> u64 {
        match &self.outcome {
            Outcome::Applied(response) => response.revision,
            Outcome::DryRun | Outcome::Unchanged => self.planned.revision,
        }
    }

    fn is_committed(&self) -> bool {
        matches!(&self.outcome, Outcome::Applied(response) if response.committed)
    }

    fn view<'a>(&'a self, rollout: Option<&'a Rollout>) -> AppliedView<'a> {
        AppliedView {
            accepted: true,
            revision: self.revision(),
            committed: self.is_committed(),
            dry_run: matches!(self.outcome, Outcome::DryRun),
            plan: &self.planned.plan,
            diagnostics: self.planned.report.findings(),
            conflicts: &self.prepared.conflicts,
            held: &self.prepared.held,
            foreign: &self.prepared.foreign,
            kept: &self.prepared.kept,
            inactive: &self.planned.inactive,
            rollout,
        }
    }

    fn line(&self) -> String {
        let revision = self.revision();
        match self.outcome {
            Outcome::DryRun => format!("dry run: the registry stays at revision {revision}"),
            Outcome::Applied(_) if self.is_committed() => {
                format!("applied: the registry is at revision {revision}")
            }
            Outcome::Applied(_) | Outcome::Unchanged => {
                format!("nothing to change: the registry stays at revision {revision}")
            }
        }
    }
}
