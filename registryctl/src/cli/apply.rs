//! The arguments of `apply`, which an import that goes on to apply shares.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use registry_core::conflict;

use super::{CommitArgs, WaitArgs, graph::LOCK_FILE};

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// A file, a directory or `-`; may be given several times
    #[arg(long = "file", short, value_name = "FILE|DIR", required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) guards: ApplyGuards,
    #[command(flatten)]
    pub(crate) how: ApplyHow,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
}

/// What else has to be so, and what else is done.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ApplyGuards {
    #[command(flatten)]
    pub(crate) prune: PruneArgs,
    /// Refuse unless all that the files refer to beside themselves is locked, and registered as locked
    #[arg(long)]
    pub(crate) locked: bool,
    /// The lock file for --locked
    #[arg(long, value_name = "FILE", default_value = LOCK_FILE)]
    pub(crate) lock_file: PathBuf,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
}

/// What is retired because the files no longer have it.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PruneArgs {
    /// Retire what --source managed and the files no longer have; what is still needed elsewhere
    /// is deprecated, and what the files have again is active again
    #[arg(long, requires = "source")]
    pub(crate) prune: bool,
    /// Where the files come from: every document must say so in `metadata.managedBy`
    #[arg(long, value_name = "SOURCE", requires = "prune")]
    pub(crate) source: Option<String>,
    /// Retire only what this owner has [default: who would own it: the team, or the author]
    #[arg(long, requires = "prune")]
    pub(crate) owner: Option<String>,
}

/// How a batch is applied.
#[derive(Debug, Args)]
pub(crate) struct ApplyHow {
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Only show what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// With --dry-run: end with 5 if something would change
    #[arg(long, requires = "dry_run")]
    pub(crate) exit_code: bool,
    /// What to do with what is registered with other content
    #[arg(long, value_enum, value_name = "HOW", default_value = "fail")]
    pub(crate) on_conflict: OnConflict,
    /// Why, for the log
    #[arg(long, short, default_value = "")]
    pub(crate) message: String,
}

/// What to do with a key that is registered with other content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnConflict {
    /// Refuse the batch
    Fail,
    /// Leave it out
    Skip,
    /// Give it a new version, and rewrite what refers to it in the batch
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
