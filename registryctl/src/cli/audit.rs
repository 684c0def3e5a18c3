//! The arguments of `audit`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{AsOfArgs, log::parse_revision};

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Verify the whole log: hashes, documents and the current state
    Verify,
    /// Print a signed checkpoint of the log
    ///
    /// Keep it outside of the registry. `audit prove --since` later proves that the log continues it.
    Checkpoint,
    /// Print the public key that verifies checkpoints
    Key,
    /// Write a proof that a commit is in the log
    Prove(ProveArgs),
    /// Verify a proof or an export offline
    Check(CheckArgs),
    /// Export the commits as JSON Lines, oldest first
    Export(ExportLogArgs),
    /// List the access log, oldest first: tokens and the addresses of authenticated commits
    Access(AccessLogArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ProveArgs {
    /// Revision of the commit
    #[arg(value_parser = parse_revision)]
    pub(crate) revision: u64,
    /// Also prove that the log continues the kept checkpoint of this revision
    ///
    /// The second line of a checkpoint is its revision.
    #[arg(long, value_name = "REVISION", value_parser = parse_revision)]
    pub(crate) since: Option<u64>,
    /// Write to this file instead of standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// A file of `audit prove`, or of `audit export` from the first revision on
    pub(crate) file: PathBuf,
    /// The registry's public key, or a file with it, as `audit key` prints it
    #[arg(long, value_name = "KEY|FILE")]
    pub(crate) key: String,
    /// A kept checkpoint that the log must continue; required for an export
    #[arg(long, value_name = "FILE")]
    pub(crate) since: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ExportLogArgs {
    /// Only commits after this revision
    #[arg(long, value_name = "REVISION", default_value_t = 0, value_parser = parse_revision)]
    pub(crate) after: u64,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
    /// Write to this file instead of standard output
    ///
    /// The file is replaced only after the complete log was received.
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AccessLogArgs {
    /// Only events after this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) after: u64,
}
