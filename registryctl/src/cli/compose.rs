//! The arguments of `compose`: checking compositions, and calling one.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum ComposeCommand {
    /// Check the compositions of files without a registry, and show what each does, as an outline or
    /// (`--output mermaid`, `svg`, `dot`) as a picture
    Check(ComposeCheckArgs),
    /// Call a composition, or any tool, at a gateway, and show each step
    Run(ComposeRunArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ComposeCheckArgs {
    /// A file, a directory or `-`; may be given several times
    #[arg(long = "file", short, value_name = "FILE|DIR", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// What is registered already: a file that `export` wrote, or any valid registry-v2 file
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    /// Only this composition; a picture is of one
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ComposeRunArgs {
    /// The tool, as callers know it
    pub(crate) tool: String,
    /// Its arguments, a JSON object
    #[arg(default_value = "{}")]
    pub(crate) arguments: String,
    /// The gateway's MCP endpoint
    #[arg(
        long,
        env = "GATEWAY_MCP_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:7080/mcp"
    )]
    pub(crate) gateway: String,
    /// On whose behalf, where the gateway believes headers
    #[arg(long, value_name = "NAME@VERSION")]
    pub(crate) agent: Option<String>,
    /// A file with a token to show
    #[arg(long, value_name = "FILE")]
    pub(crate) bearer_file: Option<PathBuf>,
}
