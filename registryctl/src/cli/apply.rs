//! The arguments of `apply`, and those that it shares with `import --apply`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use registry_core::conflict;

use super::{CommitArgs, FilesArgs, WaitArgs, graph::LOCK_FILE};

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) files: FilesArgs,
    #[command(flatten)]
    pub(crate) policy: ApplyPolicy,
    #[command(flatten)]
    pub(crate) options: ApplyOptions,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
}

/// Pruning, locked references and the rollout.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ApplyPolicy {
    #[command(flatten)]
    pub(crate) prune: PruneArgs,
    /// Reject references to entities that the lock file does not contain with the same digest
    #[arg(long, help_heading = "Lock")]
    pub(crate) locked: bool,
    /// The lock file for --locked
    #[arg(long, help_heading = "Lock", value_name = "FILE", default_value = LOCK_FILE)]
    pub(crate) lock_file: PathBuf,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
}

/// Retirement of entities that the files no longer contain.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Pruning")]
pub(crate) struct PruneArgs {
    /// Retire entities of --managed-by that the files no longer contain
    ///
    /// Entities with other dependents are deprecated instead. Entities that the files contain again
    /// become active.
    #[arg(long, requires = "managed_by")]
    pub(crate) prune: bool,
    /// The value of `metadata.managedBy` in every document of the files
    #[arg(long, value_name = "SOURCE", requires = "prune")]
    pub(crate) managed_by: Option<String>,
    /// Retire only entities of this owner [default: the caller's team, or the author]
    #[arg(long, requires = "prune")]
    pub(crate) owner: Option<String>,
}

/// Options of a batch.
#[derive(Debug, Args)]
pub(crate) struct ApplyOptions {
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
    /// With --dry-run: exit with 5 if something would change
    #[arg(long, requires = "dry_run")]
    pub(crate) exit_code: bool,
    /// Handling of entities that are registered with other content
    #[arg(long, value_enum, value_name = "POLICY", default_value = "fail")]
    pub(crate) on_conflict: OnConflict,
    /// Commit message
    #[arg(long, short, default_value = "", hide_default_value = true)]
    pub(crate) message: String,
}

/// Confirmation of a change.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ConfirmArgs {
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Print the plan and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Handling of a key that is registered with other content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnConflict {
    /// Reject the batch
    Fail,
    /// Omit the entity
    Skip,
    /// Register it with a new version, and update references in the batch
    Bump,
}

impl From<OnConflict> for conflict::OnConflict {
    fn from(how: OnConflict) -> Self {
        match how {
            OnConflict::Fail => Self::Fail,
            OnConflict::Skip => Self::Skip,
            OnConflict::Bump => Self::Bump,
        }
    }
}
