//! The command line; each flag has an environment variable and goes before the file.
//!
//! The source is parsed later: an error of the flag parser would repeat the source's password.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use registry_core::Secret;

const DEFAULT_FILE: &str = "./gateway.yaml";
const DEFAULT_DATA: &str = "./data";

/// The gateway between agents and tools.
///
/// Serves MCP at /mcp, and /livez, /readyz and /metrics, from a verified local copy of the
/// registry that it follows and survives without.
#[derive(Debug, Clone, Default, Parser)]
#[command(version, max_term_width = 100)]
pub struct Args {
    /// The configuration file [default: ./gateway.yaml]
    #[arg(long, value_name = "FILE", env = "GATEWAY_CONFIG", global = true)]
    pub config: Option<PathBuf>,
    /// Where to listen; overrides `listen` [default: 127.0.0.1:7080]
    #[arg(long, value_name = "ADDRESS:PORT", env = "GATEWAY_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// The certificate that callers are shown, and those that it leads to (PEM); overrides
    /// `tls.certFile`
    #[arg(long, value_name = "FILE", env = "GATEWAY_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its key (PEM); overrides `tls.keyFile`
    #[arg(long, value_name = "FILE", env = "GATEWAY_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// The certificates (PEM) that a caller's must lead to; without one nobody gets a connection;
    /// overrides `tls.clientCaFile`
    #[arg(long, value_name = "FILE", env = "GATEWAY_TLS_CLIENT_CA")]
    pub tls_client_ca: Option<PathBuf>,
    /// Which certificates those have revoked: their lists (CRL, PEM), one of each at least; overrides
    /// `tls.clientCrlFile`
    #[arg(long, value_name = "FILE", env = "GATEWAY_TLS_CLIENT_CRL")]
    pub tls_client_crl: Option<PathBuf>,
    /// Where the registry is: `grpc(s)://host:port` (several servers: `grpc://a:7070,b:7070`),
    /// `http(s)://host/registry.json` or `file://path`; overrides `registry.source`
    #[arg(
        long,
        value_name = "SOURCE",
        env = "GATEWAY_REGISTRY",
        hide_env_values = true,
        global = true
    )]
    pub registry: Option<String>,
    /// The MCP servers, in the file format of Claude Desktop, Cursor or VS Code; without a registry, the
    /// gateway serves the tools that it discovers there; overrides `mcpServers.file`
    #[arg(long, value_name = "FILE", env = "GATEWAY_MCP_SERVERS", global = true)]
    pub mcp_servers: Option<PathBuf>,
    /// Whether names of discovered tools begin with their server's name; overrides `mcpServers.prefix`
    #[arg(long, value_name = "WHEN", env = "GATEWAY_TOOL_PREFIX", global = true)]
    pub tool_prefix: Option<ToolPrefix>,
    /// The directory of the discovered registry file and of its cache [default: ./data]
    #[arg(long, value_name = "DIR", env = "GATEWAY_DATA", global = true)]
    pub data: Option<PathBuf>,
    /// Follow only this and what it needs: `agent/planner@1.2.0`, `agent/planner@*`, `team/*` or
    /// `tag:finance`; may be repeated; overrides `registry.scope` and
    /// `registry.scopeFile`
    #[arg(long, value_name = "ROOT", env = "GATEWAY_SCOPE", value_delimiter = ',', global = true)]
    pub scope: Vec<String>,
    /// The key that must have signed whatever is served, as `registryctl audit key` prints it; overrides
    /// `registry.key`
    #[arg(long, value_name = "KEY", env = "GATEWAY_REGISTRY_KEY", global = true)]
    pub registry_key: Option<String>,
    /// The token that the registry is shown; `registry.tokenFile` names a file with one instead
    #[arg(
        long,
        value_name = "TOKEN",
        hide = true,
        env = "GATEWAY_REGISTRY_TOKEN",
        hide_env_values = true,
        global = true
    )]
    pub registry_token: Option<Secret>,
    /// The verified copy on disk; overrides `registry.cache` [default: ./cache/registry-v2.json]
    #[arg(long, value_name = "FILE", env = "GATEWAY_CACHE", global = true)]
    pub cache: Option<PathBuf>,
    /// What the registry calls this gateway [default: the host's name]
    #[arg(long, value_name = "NAME", env = "GATEWAY_NAME", global = true)]
    pub name: Option<String>,
    /// Listen on other addresses than loopback although callers need no certificate
    #[arg(long, env = "GATEWAY_INSECURE")]
    pub insecure: bool,
    /// What to log: error, warn, info, debug, trace, or per module `gateway_agent::sync=debug`
    #[arg(long, value_name = "FILTER", env = "GATEWAY_LOG", default_value = "info", global = true)]
    pub log: String,
    /// How to log, on standard error
    #[arg(
        long,
        value_name = "FORMAT",
        env = "GATEWAY_LOG_FORMAT",
        default_value = "text",
        global = true
    )]
    pub log_format: LogFormat,
    /// Check the configuration, and its targets against the registry file or the cache, and exit
    #[arg(long)]
    pub check: bool,
    /// The cache if neither the flag nor the file names one. `None`: the default.
    #[arg(skip)]
    pub default_cache: Option<PathBuf>,
    /// The subcommand. `None`: serve callers over HTTP.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Another way to run.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Serve one MCP client over standard input and output
    ///
    /// For clients that only speak stdio, of both protocol eras. Without --gateway, the gateway runs
    /// in this process and listens on no address. Log lines go to standard error.
    Stdio(StdioArgs),
    /// Work with configuration files
    #[command(subcommand)]
    Config(ConfigCommand),
}

/// `gateway-agent stdio`.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Options of the bridge")]
pub struct StdioArgs {
    /// The URL of a running gateway [default: a gateway in this process]
    #[arg(long, value_name = "URL", env = "GATEWAY_URL")]
    pub gateway: Option<String>,
    /// The bearer token for the gateway; --token-file names a file with one instead
    #[arg(
        long,
        value_name = "TOKEN",
        hide = true,
        env = "GATEWAY_TOKEN",
        hide_env_values = true,
        conflicts_with = "token_file"
    )]
    pub token: Option<Secret>,
    /// A file with the bearer token for the gateway, unless `GATEWAY_TOKEN` is set
    #[arg(long, value_name = "FILE", env = "GATEWAY_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Send the token in plain text to another machine
    #[arg(long, env = "GATEWAY_PLAINTEXT_TOKEN", requires = "gateway")]
    pub plaintext_token: bool,
    /// The agent that the client is, for a gateway that trusts X-Agent-Name
    #[arg(long, value_name = "NAME[@VERSION]", env = "GATEWAY_AGENT")]
    pub agent: Option<String>,
    /// CA bundle (PEM) for the certificate of the gateway [default: the CAs of the system]
    #[arg(long, value_name = "FILE", env = "GATEWAY_CA", requires = "gateway")]
    pub gateway_ca: Option<PathBuf>,
    /// Client certificate (PEM) for a gateway that requires one
    #[arg(long, value_name = "FILE", env = "GATEWAY_CLIENT_CERT", requires = "client_key")]
    pub client_cert: Option<PathBuf>,
    /// The key of the client certificate (PEM)
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
    /// The file to write; `-` is standard output
    #[arg(default_value = DEFAULT_FILE)]
    pub path: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
}

impl Args {
    /// Reads the command line. An invalid one ends the process with exit code 2.
    pub fn of_process() -> Self {
        let parsed = Self::from_arg_matches(&Self::shown().get_matches());
        parsed.unwrap_or_else(|e| e.exit())
    }

    /// The command line. `config init` does not show the flags of the gateway.
    fn shown() -> clap::Command {
        let mut command = Self::command();
        command.build();
        let is_of_gateway = |arg: &Arg| !matches!(arg.get_id().as_str(), "path" | "force" | "help");
        command.mut_subcommand("config", |config| {
            let config = config.mut_args(|arg| {
                let is_hidden = is_of_gateway(&arg);
                arg.hide(is_hidden)
            });
            config.mut_subcommand("init", |init| {
                init.mut_args(|arg| {
                    let is_hidden = is_of_gateway(&arg);
                    arg.hide(is_hidden)
                })
            })
        })
    }

    /// The configuration file.
    pub fn file(&self) -> PathBuf {
        self.config.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_FILE))
    }

    /// The directory of the discovered registry file and of its cache.
    pub fn data(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DATA))
    }
}

/// When the names of discovered tools begin with their server's name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ToolPrefix {
    /// `search` is the tool `search`. Of two tools with this name, the first server's is served.
    #[default]
    Never,
    /// `search` of the server `docs` is the tool `docs_search`.
    Always,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}
