//! The arguments of `import`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use registry_core::{Kind, Name, Version};

use super::{
    ApplyOptions, CommitArgs,
    live::{CardKeyArgs, LiveArgs},
    selector::parse_version,
};

const AFTER: &str = "\
The result is printed as a registry-v2 file, or written with --out, for review. Repairs and open
decisions are listed on standard error. --apply then shows the registry's plan and registers it.";

/// Convert existing definitions into registry files
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = AFTER)]
pub(crate) struct ImportArgs {
    /// A file whose form is detected: registry file, MCP client configuration or server.json
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) program: ProgramEnvironment,
    #[command(flatten)]
    pub(crate) result: ImportResultArgs,
    #[command(subcommand)]
    pub(crate) from: Option<ImportFrom>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImportFrom {
    /// Import the tools, prompts and resources of a live MCP server
    Mcp(ImportMcpArgs),
    /// Import the servers of an MCP client: Claude, Cursor or VS Code
    McpServers(ImportMcpServersArgs),
    /// Import an A2A agent from its card
    A2a(ImportA2aArgs),
    /// Repair a registry file of version 1, or an invalid one of version 2
    Registry(ImportRegistryArgs),
    /// Import a server.json or the response of an MCP registry
    #[command(name = "server-json", visible_alias = "server.json")]
    ServerJson(ImportServerJsonArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImportServerJsonArgs {
    /// A file, `-` for standard input, or a URL: http(s)://HOST/PATH
    #[arg(value_name = "FILE|URL")]
    pub(crate) from: String,
    #[command(flatten)]
    pub(crate) result: ImportResultArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ImportRegistryArgs {
    /// The file, in JSON or YAML; `-` for standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) result: ImportResultArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ImportA2aArgs {
    /// URL of the agent (its card is below /.well-known/) or of the card (….json)
    pub(crate) url: String,
    /// Name of the agent in the registry [default: from the card]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Version of the agent [default: from the card, or 0.1.0]
    #[arg(long, value_parser = parse_version)]
    pub(crate) version: Option<Version>,
    #[command(flatten)]
    pub(crate) result: ImportResultArgs,
    #[command(flatten)]
    pub(crate) keys: CardKeyArgs,
    #[command(flatten)]
    pub(crate) live: LiveArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ImportMcpServersArgs {
    /// Configuration file, such as `.mcp.json`; `-` for standard input
    ///
    /// Other names are `claude_desktop_config.json` and `.vscode/mcp.json`.
    pub(crate) file: PathBuf,
    /// Write the gateway's `targets` to this file, and keep other targets
    #[arg(long, value_name = "FILE")]
    pub(crate) targets: Option<PathBuf>,
    /// Prefix tool names with the server name: never or always
    ///
    /// Without a prefix, a tool with the name of an earlier server's tool is omitted.
    #[arg(long, value_name = "WHEN", default_value = "never", hide_possible_values = true)]
    pub(crate) tool_prefix: ToolPrefix,
    /// Do not expose prompts and resources
    #[arg(long)]
    pub(crate) tools_only: bool,
    #[command(flatten)]
    pub(crate) program: ProgramEnvironment,
    #[command(flatten)]
    pub(crate) result: ImportResultArgs,
}

/// The environment of started programs.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProgramEnvironment {
    #[arg(
        long = "program-path",
        env = "PATH",
        hide = true,
        hide_env_values = true,
        default_value = ""
    )]
    pub(crate) path: String,
    #[arg(
        long = "program-home",
        env = "HOME",
        hide = true,
        hide_env_values = true,
        default_value = ""
    )]
    pub(crate) home: String,
}

/// When the names of tools start with the name of their server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolPrefix {
    /// `search` is registered as `search`
    Never,
    /// `search` of the server `docs` is registered as `docs_search`
    Always,
}

#[derive(Debug, Args)]
pub(crate) struct ImportMcpArgs {
    /// URL of the server: http(s)://HOST/PATH
    #[arg(required_unless_present = "stdio")]
    pub(crate) url: Option<String>,
    /// Start this program and use its standard streams instead of a URL
    #[arg(long, value_name = "COMMAND", conflicts_with = "url")]
    pub(crate) stdio: Option<String>,
    /// Name of the server in the registry [default: as reported]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Version of the server and its tools [default: as reported, or 0.1.0]
    #[arg(long, value_parser = parse_version)]
    pub(crate) version: Option<Version>,
    /// Write the gateway's target to this file, and keep other targets
    #[arg(long, value_name = "FILE")]
    pub(crate) targets: Option<PathBuf>,
    /// Register equal schemas once, and refer to them with `$ref`
    #[arg(long)]
    pub(crate) share_schemas: bool,
    /// Do not expose prompts and resources
    #[arg(long)]
    pub(crate) tools_only: bool,
    /// Prefix of the registered tool names
    #[arg(long, value_name = "PREFIX", value_parser = tool_name)]
    pub(crate) prefix: Option<Name>,
    /// Register tool A as B, without the prefix; may be repeated
    #[arg(long = "rename", value_name = "A=B", value_parser = rename)]
    pub(crate) renames: Vec<(String, Name)>,
    #[command(flatten)]
    pub(crate) result: ImportResultArgs,
    #[command(flatten)]
    pub(crate) live: LiveArgs,
}

fn tool_name(text: &str) -> Result<Name, String> {
    Name::parse(Kind::Tool, text).map_err(|e| e.to_string())
}

/// Splits at the last `=`: names on the server may contain one.
fn rename(text: &str) -> Result<(String, Name), String> {
    let (from, to) = text.rsplit_once('=').ok_or("expected SERVER_NAME=REGISTERED_NAME")?;
    Ok((from.to_owned(), tool_name(to)?))
}

/// Output and registration of the imported documents.
#[derive(Debug, Args)]
#[command(next_help_heading = "Result")]
pub(crate) struct ImportResultArgs {
    /// Write to a file (….json), or to a directory with one file per kind
    #[arg(long, short = 'o', value_name = "FILE|DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Replace existing files that have other content
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
    /// Set `metadata.managedBy` in every document, for `apply --prune`
    #[arg(long, value_name = "SOURCE")]
    pub(crate) managed_by: Option<String>,
    /// Register the documents after showing the plan
    #[arg(long)]
    pub(crate) apply: bool,
    #[command(flatten)]
    pub(crate) options: ApplyOptions,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
}
