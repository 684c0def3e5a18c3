//! The arguments of `import`.
//!
//! Deliberately absent: what is imported how.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::CommitArgs;

/// Brings in what others have described.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    pub(crate) from: ImportFrom,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImportFrom {
    /// Register the MCP servers of a server.json, or of an answer of an MCP registry
    #[command(name = "server-json", visible_alias = "server.json")]
    ServerJson(ImportServerJsonArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImportServerJsonArgs {
    /// A file, `-` for standard input, or a URL: http(s)://HOST/PATH
    #[arg(value_name = "FILE|URL")]
    pub(crate) from: String,
    /// Do not register: write a registry-v2 file to review and apply later; `-`: standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) how: ApplyHow,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
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
    /// Why, for the log
    #[arg(long, short, default_value = "")]
    pub(crate) message: String,
}
