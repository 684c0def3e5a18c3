//! Applies a batch or plans it.

use std::sync::Arc;

use super::{concurrency::ConcurrencyLimit, run_blocking};
use crate::{
    feed::Hub,
    metrics,
    registrar::{Applied, Error, Registrar, Submission, audit_events},
};

/// The number of concurrent dry runs. It leaves cores for other work.
const DRY_RUNS: usize = 2;

/// Whether a batch is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Commit it.
    Commit,
    /// Plan it without a commit.
    DryRun,
}

/// Applies batches.
pub struct Writes {
    registrar: Registrar,
    hub: Arc<Hub>,
    dry_runs: ConcurrencyLimit,
}

impl Writes {
    /// Writes through this registrar.
    pub fn new(registrar: Registrar, hub: Arc<Hub>) -> Self {
        Self { registrar, hub, dry_runs: ConcurrencyLimit::new(DRY_RUNS) }
    }

    /// Applies a batch, or plans it in a dry run.
    pub async fn apply(&self, submission: Submission, mode: Mode) -> Result<Applied, Error> {
        if mode == Mode::DryRun {
            return self.dry_run(submission).await;
        }
        let result = self.registrar.apply(submission).await;
        metrics::applied(outcome(&result));
        if let Err(Error::Refused(found)) = &result {
            metrics::rejected(found);
        }
        result
    }

    /// Plans a batch against the latest catalog. Findings that would reject the batch are part of the
    /// result.
    async fn dry_run(&self, submission: Submission) -> Result<Applied, Error> {
        let slot = self.dry_runs.take().await;
        self.registrar.catch_up().await?;
        let catalog = self.hub.catalog();
        let revision = catalog.revision();
        submission.check_preconditions(&catalog)?;
        let planning = move || {
            let plan = submission.plan(&catalog);
            audit_events::denied(&submission, &plan.diagnostics, true);
            drop(slot);
            (plan, submission.batch)
        };
        let planned = run_blocking(planning).await;
        let (plan, batch) = planned.map_err(|failed| Error::Internal(failed.to_string()))?;
        Ok(Applied { revision, committed: false, batch, plan })
    }
}

fn outcome(result: &Result<Applied, Error>) -> &'static str {
    match result {
        Ok(Applied { committed: true, .. }) => "committed",
        Ok(_) => "unchanged",
        Err(Error::Refused(_)) => "rejected",
        Err(Error::BaseRevision { .. }) => "base_revision",
        Err(Error::DigestMismatch { .. }) => "digest_mismatch",
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
