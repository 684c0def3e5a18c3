//! How an apply ended, and the wait for gateways where one was asked for.

use registry_proto::v1;
use serde::Serialize;

use super::{
    Planned,
    prepare::{Held, Prepared, Settled},
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

/// How it ended.
pub(super) enum Ending {
    DryRun,
    Unchanged,
    Applied(v1::ApplyResponse),
}

/// All that there is to say in the end.
pub(super) struct Ended {
    pub(super) planned: Planned,
    pub(super) ending: Ending,
    pub(super) prepared: Prepared,
}

/// The result for scripts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'a> {
    accepted: bool,
    revision: u64,
    committed: bool,
    dry_run: bool,
    plan: &'a Plan,
    diagnostics: &'a [Finding],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    conflicts: &'a [Settled],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    held: &'a [Held],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    retired: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    rollout: Option<&'a Rollout>,
}

/// Shows how it ended, and waits for gateways if that was asked for. What was applied is shown
/// whatever becomes of the waiting.
pub(super) async fn finish(
    client: &Client,
    screen: Screen,
    ended: &Ended,
    WaitArgs { wait, timeout }: &WaitArgs,
) -> Result<(), Failure> {
    if screen.format == Format::Table {
        screen.line(&ended.line())?;
    }
    let (rollout, result) = match wait {
        None => (None, Ok(())),
        Some(percent) => {
            match rollout::wait_for(client, ended.revision(), *percent, *timeout).await {
                Ok((rollout, result)) => (Some(rollout), result),
                Err(failure) => (None, Err(failure)),
            }
        }
    };
    match (screen.format, &rollout) {
        (Format::Json, rollout) => screen.json(&ended.outcome(rollout.as_ref()))?,
        (Format::Table, Some(rollout)) => rollout::show(screen, rollout)?,
        (Format::Table, None) => {}
    }
    result
}

impl Ended {
    /// The revision that the registry is at.
    fn revision(&self) -> u64 {
        match &self.ending {
            Ending::Applied(response) => response.revision,
            Ending::DryRun | Ending::Unchanged => self.planned.revision,
        }
    }

    fn is_committed(&self) -> bool {
        matches!(&self.ending, Ending::Applied(response) if response.committed)
    }

    fn outcome<'a>(&'a self, rollout: Option<&'a Rollout>) -> Outcome<'a> {
        Outcome {
            accepted: true,
            revision: self.revision(),
            committed: self.is_committed(),
            dry_run: matches!(self.ending, Ending::DryRun),
            plan: &self.planned.plan,
            diagnostics: self.planned.report.findings(),
            conflicts: &self.prepared.settled,
            held: &self.prepared.held,
            retired: &self.planned.retired,
            rollout,
        }
    }

    fn line(&self) -> String {
        let revision = self.revision();
        match self.ending {
            Ending::DryRun => format!("dry run: the registry stays at revision {revision}"),
            Ending::Applied(_) if self.is_committed() => {
                format!("applied: the registry is at revision {revision}")
            }
            Ending::Applied(_) | Ending::Unchanged => {
                format!("nothing to change: the registry stays at revision {revision}")
            }
        }
    }
}
