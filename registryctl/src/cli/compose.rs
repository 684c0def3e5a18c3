//! The arguments of `compose`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::FilesArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ComposeCommand {
    /// Check compositions offline and print their steps
    ///
    /// `--output mermaid`, `svg` and `dot` draw one composition.
    Check(ComposeCheckArgs),
    /// Call a tool at a gateway and print each call of its composition
    ///
    /// A cached result, `filter` and `schemaMap` call nothing, so they have no line.
    Run(ComposeRunArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ComposeCheckArgs {
    #[command(flatten)]
    pub(crate) files: FilesArgs,
    /// The registered entities: a file of `export`, or any valid registry-v2 file
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    /// Only the composition of this tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ComposeRunArgs {
    /// Public name of the tool
    pub(crate) tool: String,
    /// Arguments of the tool, as a JSON object
    #[arg(default_value = "{}")]
    pub(crate) arguments: String,
    /// MCP endpoint of the gateway
    ///
    /// The environment variable is `GATEWAY_MCP_URL`.
    #[arg(
        long,
        env = "GATEWAY_MCP_URL",
        hide_env = true,
        value_name = "URL",
        default_value = "http://127.0.0.1:7080/mcp"
    )]
    pub(crate) gateway: String,
    /// Agent in the identity headers, for gateways that trust them
    #[arg(long, value_name = "NAME@VERSION")]
    pub(crate) agent: Option<String>,
    /// File with a bearer token for the gateway
    #[arg(long, value_name = "FILE")]
    pub(crate) bearer_file: Option<PathBuf>,
}
