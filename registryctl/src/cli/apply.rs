//! The arguments of `apply`, and those that it shares with `import --apply`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use registry_core::conflict;

use super::{CommitArgs, FilesArgs, WaitArgs, graph::LOCK_FILE};

const CONFIRMATION: &str = "Confirmation";

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) files: FilesArgs,
    #[command(flatten)]
    pub(crate) options: ApplyOptions,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
    #[command(flatten)]
    pub(crate) policy: ApplyPolicy,
}

/// Pruning, locked references and the rollout.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ApplyPolicy {
    #[command(flatten)]
    pub(crate) prune: PruneArgs,
    /// Reject references outside of the files that differ from the lock file
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
    /// Retire entities of --managed-by that the files no longer have
    ///
    /// Entities with other dependents are deprecated instead. Entities that the files contain again
    /// become active.
    #[arg(long, requires = "managed_by")]
    pub(crate) prune: bool,
    /// The `metadata.managedBy` of every document in the files
    #[arg(long, value_name = "SOURCE", requires = "prune")]
    pub(crate) managed_by: Option<String>,
    /// Retire only entities of this owner [default: team or author]
    #[arg(long, requires = "prune")]
    pub(crate) owner: Option<String>,
}

/// Options of a batch.
#[derive(Debug, Args)]
pub(crate) struct ApplyOptions {
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
    /// With --dry-run: exit with 5 if something would change or is held
    #[arg(long, help_heading = CONFIRMATION, requires = "dry_run")]
    pub(crate) exit_code: bool,
    /// Conflicting content: fail, skip or bump
    #[arg(
        long,
        help_heading = "Commit",
        value_enum,
        value_name = "POLICY",
        default_value = "fail",
        hide_possible_values = true
    )]
    pub(crate) on_conflict: OnConflict,
    /// Accept tools that policies do not fit; their calls are denied
    ///
    /// The tools or the policies are new. The commit records the policies. Calls are denied
    /// (`POLICY_ERROR`) until a fitting version of the tool or the policy is registered.
    #[arg(long, help_heading = "Commit")]
    pub(crate) allow_policy_break: bool,
    /// Commit message
    #[arg(long, short, help_heading = "Commit", default_value = "", hide_default_value = true)]
    pub(crate) message: String,
}

/// Confirmation of a change.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = CONFIRMATION)]
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
