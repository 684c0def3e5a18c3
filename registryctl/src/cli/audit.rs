//! The arguments of `audit`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::AtArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Recompute everything from the database, and say exactly what does not fit
    Verify,
    /// Print a signed checkpoint of the log; keep it, to hold the registry to it later
    Checkpoint,
    /// Print the public key that checkpoints are checked with
    Key,
    /// Write a proof that a commit is in the log
    Prove(ProveArgs),
    /// Check a proof without the registry
    Check(CheckArgs),
    /// Write the audit trail as JSON Lines: a commit a line, oldest first
    Export(ExportTrailArgs),
    /// List the trail of access, oldest first: API tokens that were made or ended, and commits of authenticated
    /// principals, with the time and the caller's address
    Access(AccessTrailArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ProveArgs {
    /// The commit's revision
    pub(crate) revision: u64,
    /// Also prove that the log continues what it was after this revision, of which a checkpoint was kept
    #[arg(long, value_name = "REVISION")]
    pub(crate) since: Option<u64>,
    /// Write to this file instead of standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The proof that `audit prove` wrote
    pub(crate) proof: PathBuf,
    /// The registry's public key, or a file with it, as `audit key` prints it
    #[arg(long, value_name = "KEY|FILE")]
    pub(crate) key: String,
    /// A checkpoint that was kept; the proof must show that the log continues it
    #[arg(long, value_name = "FILE")]
    pub(crate) since: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ExportTrailArgs {
    /// Only commits after this revision
    #[arg(long, value_name = "REVISION", default_value_t = 0)]
    pub(crate) after: u64,
    #[command(flatten)]
    pub(crate) at: AtArgs,
    /// Write to this file instead of standard output; it is replaced only when all is there
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AccessTrailArgs {
    /// Only events after this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) after: u64,
}
