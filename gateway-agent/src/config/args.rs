//! The command line. Every flag has an environment variable, and both override the configuration
//! file.
//!
//! `--registry` is parsed later: an error message of the flag parser would repeat its password.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use clap::{Arg, CommandFactory as _, Parser, Subcommand, ValueEnum};
use registry_core::{Document, Kind, Secret, parse_socket_address};
use serde_json::json;

const DEFAULT_FILE: &str = "./gateway.yaml";
const DEFAULT_DATA: &str = "./data";

/// Gateway between AI agents and their tools (MCP servers, A2A agents)
///
/// Serves MCP at /mcp, and /livez, /readyz and /metrics. It follows a registry through a verified
/// local copy, and keeps serving while the registry is unavailable.
#[derive(Debug, Clone, Default, Parser)]
#[command(version, max_term_width = 100)]
pub struct Args {
    /// Configuration file [default: ./gateway.yaml]
    #[arg(long, value_name = "FILE", env = "GATEWAY_CONFIG", global = true)]
    pub config: Option<PathBuf>,
    /// Address for callers; overrides `listen` [default: 127.0.0.1:7080]
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        env = "GATEWAY_LISTEN",
        value_parser = parse_socket_address,
        help_heading = "Listening"
    )]
    pub listen: Option<SocketAddr>,
    /// Server certificate chain (PEM); overrides `tls.certFile`
    #[arg(
        long,
        value_name = "FILE",
        env = "GATEWAY_TLS_CERT",
        requires = "tls_key",
        help_heading = "Listening"
    )]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM); overrides `tls.keyFile`
    #[arg(
        long,
        value_name = "FILE",
        env = "GATEWAY_TLS_KEY",
        requires = "tls_cert",
        help_heading = "Listening"
    )]
    pub tls_key: Option<PathBuf>,
    /// CA bundle (PEM) for client certificates, which are then required; overrides
    /// `tls.clientCaFile`
    #[arg(long, value_name = "FILE", env = "GATEWAY_TLS_CLIENT_CA", help_heading = "Listening")]
    pub tls_client_ca: Option<PathBuf>,
    /// Certificate revocation lists (PEM), one for each CA of the bundle; overrides
    /// `tls.clientCrlFile`
    #[arg(long, value_name = "FILE", env = "GATEWAY_TLS_CLIENT_CRL", help_heading = "Listening")]
    pub tls_client_crl: Option<PathBuf>,
    /// Registry: `grpc(s)://host:port` (several servers: `grpc://a:7070,b:7070`),
    /// `http(s)://host/registry.json` or `file://path`; overrides `registry.source`
    #[arg(
        long,
        value_name = "SOURCE",
        env = "GATEWAY_REGISTRY",
        hide_env_values = true,
        global = true,
        help_heading = "Registry"
    )]
    pub registry: Option<String>,
    /// File of MCP servers in the format of Claude Desktop, Cursor or VS Code; without a registry,
    /// the gateway serves the tools of these servers; overrides `mcpServers.file`
    #[arg(
        long,
        value_name = "FILE",
        env = "GATEWAY_MCP_SERVERS",
        global = true,
        help_heading = "MCP servers"
    )]
    pub mcp_servers: Option<PathBuf>,
    /// When to prefix tool names with the server's name; overrides `mcpServers.prefix`
    #[arg(
        long,
        value_name = "WHEN",
        env = "GATEWAY_TOOL_PREFIX",
        global = true,
        help_heading = "MCP servers"
    )]
    pub tool_prefix: Option<ToolPrefix>,
    /// Directory of the discovered registry file and its cache [default: ./data]
    #[arg(
        long,
        value_name = "DIR",
        env = "GATEWAY_DATA",
        global = true,
        help_heading = "MCP servers"
    )]
    pub data: Option<PathBuf>,
    /// Follow only these entities and their dependencies: `agent/planner@1.2.0`, `agent/planner@*`,
    /// `team/*` or `tag:finance`; repeatable; overrides `registry.scope` and `registry.scopeFile`
    #[arg(
        long,
        value_name = "ROOT",
        env = "GATEWAY_SCOPE",
        value_delimiter = ',',
        global = true,
        help_heading = "Registry"
    )]
    pub scope: Vec<String>,
    /// Calls that need the approval of the operator at `admin`, without a registry (`registryctl
    /// gateway approvals`)
    #[arg(
        long,
        value_name = "CALLS",
        env = "GATEWAY_APPROVE",
        global = true,
        help_heading = "MCP servers"
    )]
    pub approve: Option<Approve>,
    /// Public key that must have signed the catalog, as printed by `registryctl audit key`;
    /// overrides `registry.key`
    #[arg(
        long,
        value_name = "KEY",
        env = "GATEWAY_REGISTRY_KEY",
        global = true,
        help_heading = "Registry"
    )]
    pub registry_key: Option<String>,
    /// Bearer token for the registry; `registry.tokenFile` is the alternative
    #[arg(
        long,
        value_name = "TOKEN",
        hide = true,
        env = "GATEWAY_REGISTRY_TOKEN",
        hide_env_values = true,
        global = true,
        help_heading = "Registry"
    )]
    pub registry_token: Option<Secret>,
    /// Cache file; overrides `registry.cache` [default: ./cache/registry-v2.json]
    #[arg(
        long,
        value_name = "FILE",
        env = "GATEWAY_CACHE",
        global = true,
        help_heading = "Registry"
    )]
    pub cache: Option<PathBuf>,
    /// Name of this gateway in the registry [default: the host name]
    #[arg(
        long,
        value_name = "NAME",
        env = "GATEWAY_NAME",
        global = true,
        help_heading = "Registry"
    )]
    pub name: Option<String>,
    /// Allow listening beyond loopback without authentication over TLS
    #[arg(long, env = "GATEWAY_INSECURE", help_heading = "Listening")]
    pub insecure: bool,
    /// Log filter: error, warn, info, debug, trace, or per module `gateway_agent::sync=debug`
    #[arg(
        long,
        value_name = "FILTER",
        env = "GATEWAY_LOG",
        default_value = "info",
        global = true,
        help_heading = "Logs"
    )]
    pub log: String,
    /// Log format on standard error
    #[arg(
        long,
        value_name = "FORMAT",
        env = "GATEWAY_LOG_FORMAT",
        default_value = "text",
        global = true,
        help_heading = "Logs"
    )]
    pub log_format: LogFormat,
    /// Check the configuration, and its targets against the registry file or cache, then exit
    #[arg(long)]
    pub check: bool,
    /// The cache if neither a flag nor the file sets one. `None`: the default.
    #[arg(skip)]
    pub default_cache: Option<PathBuf>,
    /// The subcommand. `None`: serve callers over HTTP.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The subcommands.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Serve one MCP client over standard input and output
    ///
    /// For clients of any protocol version that support only stdio. Without --gateway, the
    /// gateway runs in this process and listens on no address. Logs go to standard error.
    Stdio(StdioArgs),
    /// Create configuration files
    #[command(subcommand)]
    Config(ConfigCommand),
}

/// `gateway-agent stdio`.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Bridge")]
pub struct StdioArgs {
    /// URL of a running gateway [default: run a gateway in this process]
    #[arg(long, value_name = "URL", env = "GATEWAY_URL")]
    pub gateway: Option<String>,
    /// Bearer token for the gateway; --token-file is the alternative
    #[arg(
        long,
        value_name = "TOKEN",
        hide = true,
        env = "GATEWAY_TOKEN",
        hide_env_values = true,
        conflicts_with = "token_file"
    )]
    pub token: Option<Secret>,
    /// File with the bearer token for the gateway, unless `GATEWAY_TOKEN` is set
    #[arg(long, value_name = "FILE", env = "GATEWAY_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Send the token over unencrypted connections to other hosts
    #[arg(long, env = "GATEWAY_ALLOW_INSECURE_TOKEN", requires = "gateway")]
    pub allow_insecure_token: bool,
    /// Agent name to send, for a gateway that trusts X-Agent-Name
    #[arg(long, value_name = "NAME[@VERSION]", env = "GATEWAY_AGENT")]
    pub agent: Option<String>,
    /// CA bundle (PEM) for the gateway's certificate [default: the CAs of the system]
    #[arg(long, value_name = "FILE", env = "GATEWAY_CA", requires = "gateway")]
    pub gateway_ca: Option<PathBuf>,
    /// Client certificate chain (PEM), if the gateway requires one
    #[arg(long, value_name = "FILE", env = "GATEWAY_CLIENT_CERT", requires = "client_key")]
    pub client_cert: Option<PathBuf>,
    /// Private key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", env = "GATEWAY_CLIENT_KEY", requires = "client_cert")]
    pub client_key: Option<PathBuf>,
}

/// `gateway-agent config`.
#[derive(Debug, Clone, Subcommand)]
pub enum ConfigCommand {
    /// Write a commented configuration file with every option and its default
    Init(InitArgs),
}

/// `gateway-agent config init`.
#[derive(Debug, Clone, clap::Args)]
pub struct InitArgs {
    /// File to write; `-` is standard output
    #[arg(default_value = DEFAULT_FILE)]
    pub path: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
}

impl Args {
    /// Parses the command line. Invalid arguments end the process with exit code 2.
    pub fn parse_process() -> Self {
        command_line::parse(Self::parser())
    }

    /// The parser. `config init` hides the flags of the gateway.
    fn parser() -> clap::Command {
        let mut command = Self::command();
        command.build();
        let is_gateway_flag =
            |arg: &Arg| !matches!(arg.get_id().as_str(), "path" | "force" | "help");
        command.mut_subcommand("config", |config| {
            let config = config.mut_args(|arg| {
                let is_hidden = is_gateway_flag(&arg);
                arg.hide(is_hidden)
            });
            config.mut_subcommand("init", |init| {
                init.mut_args(|arg| {
                    let is_hidden = is_gateway_flag(&arg);
                    arg.hide(is_hidden)
                })
            })
        })
    }

    /// The path of the configuration file.
    pub fn file(&self) -> PathBuf {
        self.config.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_FILE))
    }

    /// The directory of the discovered registry file.
    pub fn data(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DATA))
    }
}

/// The calls that need an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Approve {
    /// Calls of tools with the hint destructive or open-world, and of tools without annotations.
    Destructive,
}

impl Approve {
    /// The policy that demands the approval.
    pub fn policy(self) -> Arc<Document> {
        let Self::Destructive = self;
        let policy = json!({
            "name": "gateway-approve-destructive", "version": "1.0.0",
            "approval": { "when": "destructive" },
        });
        let parsed = Document::parse(Kind::Policy, &policy);
        Arc::new(parsed.expect("the policy is valid, as a test shows"))
    }
}

/// When discovered tool names have the server's name as prefix.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ToolPrefix {
    /// The tool `search` is named `search`. If several servers have it, the first one is served.
    #[default]
    Never,
    /// `search` of the server `docs` becomes `docs_search`.
    Always,
}

/// The format of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human-readable lines.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}
