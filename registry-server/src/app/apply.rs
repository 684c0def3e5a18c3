//! Apply a batch, or say what it would do.
//!
//! Deliberately absent: who somebody is; the gate knows.

use super::{App, beside};
use crate::{
    metrics,
    registrar::{Applied, Error, Submission},
};

/// Whether the batch is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Commit it.
    Commit,
    /// Only say what would happen.
    DryRun,
}

/// Applies a batch.
pub async fn apply(app: &App, submission: Submission, mode: Mode) -> Result<Applied, Error> {
    if mode == Mode::DryRun {
        return rehearse(app, submission).await;
    }
    let result = app.registrar.apply(submission).await;
    metrics::applied(outcome(&result));
    if let Err(Error::Refused(found)) = &result {
        metrics::refused(found);
    }
    result
}

/// How many dry runs are planned at once, so that they leave the cores to others.
pub const REHEARSALS: usize = 2;

/// Plans beside the runtime, in turn with others; what would refuse the batch is part of the answer.
async fn rehearse(app: &App, submission: Submission) -> Result<Applied, Error> {
    let turn = app.rehearsals.take().await;
    app.registrar.catch_up().await?;
    let catalog = app.catalog();
    let revision = catalog.revision();
    if let Some(wanted) = submission.base_revision.filter(|wanted| *wanted != revision) {
        return Err(Error::BaseRevision { wanted, current: revision });
    }
    let planning = move || {
        let plan = submission.plan(&catalog);
        drop(turn);
        (plan, submission.batch)
    };
    let (plan, batch) = beside(planning, Error::Internal).await?;
    Ok(Applied { revision, committed: false, batch, plan })
}

fn outcome(result: &Result<Applied, Error>) -> &'static str {
    match result {
        Ok(Applied { committed: true, .. }) => "committed",
        Ok(_) => "unchanged",
        Err(Error::Refused(_)) => "refused",
        Err(Error::BaseRevision { .. }) => "base_revision",
        Err(Error::RequestIdReused { .. }) => "request_id_reused",
        Err(Error::QueueFull) => "queue_full",
        Err(Error::Contended { .. }) => "contended",
        Err(Error::Database(_)) => "database",
        Err(Error::OutcomeUnknown) => "unknown",
        Err(Error::Relay { .. }) => "relay",
        Err(Error::Draining) => "draining",
        Err(Error::Internal(_)) => "internal",
    }
}
