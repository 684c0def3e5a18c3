//! The arguments of `import`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use registry_core::{Kind, Name, Version};

use super::{ApplyHow, CommitArgs, live::LiveArgs};

const AFTER: &str = "\
What is imported is printed as a registry-v2 file, or written with --out, for a person to review;
what was repaired, and what a person must decide, is listed on standard error. With --apply the
registry's plan follows, and then the commit.";

/// Makes registry-v2 documents of what is there already.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    pub(crate) from: ImportFrom,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImportFrom {
    /// Import the tools of a live MCP server, and expose its prompts and resources
    Mcp(ImportMcpArgs),
    /// Import all servers of an MCP client's file: Claude Desktop, Claude Code, Cursor, VS Code
    McpServers(ImportMcpServersArgs),
    /// Fetch an A2A agent's card
    A2a(ImportA2aArgs),
    /// Repair a registry file of version 1, or a loose one of version 2
    Registry(ImportRegistryArgs),
    /// Take the MCP servers of a server.json, or of an answer of an MCP registry
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
    /// The file, in JSON or YAML; `-`: standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) result: ImportResultArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ImportA2aArgs {
    /// Where the agent is (its card is under /.well-known/), or where its card is (….json)
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    /// The agent's name in the registry [default: its own]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The agent's version [default: its own, or 0.1.0]
    #[arg(long, value_parser = |text: &str| Version::parse(text))]
    pub(crate) version: Option<Version>,
    #[command(flatten)]
    pub(crate) result: ImportResultArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ImportMcpServersArgs {
    /// The file, such as `claude_desktop_config.json`, `.mcp.json` or `.vscode/mcp.json`; `-`: standard input
    pub(crate) file: PathBuf,
    /// Write the gateway's `targets` to this file; those of other servers in it stay
    #[arg(long, value_name = "FILE")]
    pub(crate) targets: Option<PathBuf>,
    /// Whether names of tools begin with their server's name. Without a prefix, a tool whose name an
    /// earlier server has is left out
    #[arg(long, value_name = "WHEN", default_value = "never")]
    pub(crate) tool_prefix: ToolPrefix,
    /// Do not expose the servers' prompts and resources
    #[arg(long)]
    pub(crate) tools_only: bool,
    #[arg(long, env = "PATH", hide = true, hide_env_values = true, default_value = "")]
    pub(crate) program_path: String,
    #[arg(long, env = "HOME", hide = true, hide_env_values = true, default_value = "")]
    pub(crate) program_home: String,
    #[command(flatten)]
    pub(crate) result: ImportResultArgs,
}

/// When the names of tools begin with their server's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolPrefix {
    /// `search` is the tool `search`.
    Never,
    /// `search` of the server `docs` is the tool `docs_search`.
    Always,
}

#[derive(Debug, Args)]
pub(crate) struct ImportMcpArgs {
    /// Where the server is: http(s)://HOST/PATH
    #[arg(required_unless_present = "stdio")]
    pub(crate) url: Option<String>,
    /// Start this program and speak over its standard streams instead
    #[arg(long, value_name = "COMMAND", conflicts_with = "url")]
    pub(crate) stdio: Option<String>,
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    /// The server's name in the registry [default: its own]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The version of the server and its tools [default: its own, or 0.1.0]
    #[arg(long, value_parser = |text: &str| Version::parse(text))]
    pub(crate) version: Option<Version>,
    /// Write the gateway's target to this file; those of other servers in it stay
    #[arg(long, value_name = "FILE")]
    pub(crate) targets: Option<PathBuf>,
    /// Register equal schemas of several tools once, and refer to them with `$ref`
    #[arg(long)]
    pub(crate) share_schemas: bool,
    /// Do not expose the server's prompts and resources
    #[arg(long)]
    pub(crate) tools_only: bool,
    /// Put this before the name of each tool, so that it differs from those of other servers
    #[arg(long, value_name = "PREFIX", value_parser = tool_name)]
    pub(crate) prefix: Option<Name>,
    /// Register the server's tool A as B, without the prefix; may be repeated
    #[arg(long = "rename", value_name = "A=B", value_parser = rename)]
    pub(crate) renames: Vec<(String, Name)>,
    #[command(flatten)]
    pub(crate) result: ImportResultArgs,
}

fn tool_name(text: &str) -> Result<Name, String> {
    Name::parse(Kind::Tool, text).map_err(|e| e.to_string())
}

/// The last `=` separates, because the server may have one in a name.
fn rename(text: &str) -> Result<(String, Name), String> {
    let (from, to) = text.rsplit_once('=').ok_or("expected SERVER_NAME=REGISTERED_NAME")?;
    Ok((from.to_owned(), tool_name(to)?))
}

/// What becomes of the documents.
#[derive(Debug, Args)]
pub(crate) struct ImportResultArgs {
    /// Write here instead: one file if it ends in `.json`, else a directory with a file a kind
    #[arg(long, short = 'o', value_name = "FILE|DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write `metadata.managedBy` into every document, for `apply --prune`
    #[arg(long, value_name = "SOURCE")]
    pub(crate) managed_by: Option<String>,
    /// Go on and register them, after showing the plan; without it, nothing is registered
    #[arg(long)]
    pub(crate) apply: bool,
    #[command(flatten)]
    pub(crate) how: ApplyHow,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
}
