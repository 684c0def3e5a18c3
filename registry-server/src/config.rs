//! Parses flags and environment variables into the settings of the modules.
//!
//! Only this module reads the environment. Each flag has a default and an environment variable. A
//! configuration file and changes at runtime are not supported.

mod authentication;
mod command;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::Parser;
use mcp_registry::Namespace;
use registry_core::Secret;

pub use authentication::Authentication;
pub use command::{CheckpointKeyCommand, Command, TokenCommand};

use crate::{
    access::{AccessConfig, OidcConfig},
    connections::{ServeConfig, TlsConfig},
    feed::FeedConfig,
    registrar::RegistrarConfig,
    relay::RelayConfig,
    store::{DatabaseUrl, InvalidDatabaseUrl},
    telemetry::LogFormat,
};

/// The default database, in the data directory.
const DATABASE: &str = "registry.db";
/// The default key that signs checkpoints, in the data directory.
const CHECKPOINT_KEY: &str = "checkpoint.key";

/// The registry service: one log, validated writes, a stream of every change.
///
/// Serves gRPC (with health and reflection) and HTTP (/livez, /readyz, /registry.json, and the API of
/// MCP registries below /v0.1) on one port, and /metrics on the admin address. Ends with exit code 0 after a drain, 1 when it fails while serving, 2 for wrong
/// usage, 3 when the database cannot be used.
#[derive(Debug, Clone, Parser)]
#[command(name = "registry-server", version)]
pub struct Config {
    /// What to do instead of serving.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// The address to serve on; port 0 takes a free one.
    #[arg(long, env = "REGISTRY_LISTEN", default_value = "127.0.0.1:7070")]
    pub listen: SocketAddr,

    /// Ask nobody who they are, on whatever address: whoever reaches it may do everything.
    #[arg(long, env = "REGISTRY_INSECURE")]
    pub insecure: bool,

    /// The database: `sqlite:PATH` or `postgres://…`, of which several servers may be named with
    /// commas between. Default: registry.db in the data directory.
    #[arg(
        long,
        global = true,
        env = "REGISTRY_DATABASE",
        value_name = "URL",
        hide_env_values = true
    )]
    pub database: Option<Secret>,

    /// Where the embedded database lives.
    #[arg(
        long,
        global = true,
        env = "REGISTRY_DATA_DIR",
        default_value = "./data",
        value_name = "DIR"
    )]
    pub data_dir: PathBuf,

    /// Create a new, empty SQLite database although its directory already has a checkpoint key.
    /// Without this flag a missing database beside a key is an error, because the database was
    /// probably lost or is not mounted.
    #[arg(long, global = true, env = "REGISTRY_ALLOW_NEW_DATABASE")]
    pub allow_new_database: bool,

    /// The key that signs checkpoints (Ed25519, PKCS #8 PEM), made at the first start. Servers of one
    /// database share it. Default: checkpoint.key in the data directory.
    #[arg(long, global = true, env = "REGISTRY_CHECKPOINT_KEY", value_name = "FILE")]
    pub checkpoint_key: Option<PathBuf>,

    /// How log lines are written, on standard error.
    #[arg(long, global = true, env = "REGISTRY_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,

    /// What is logged: a level, or `target=level,…`.
    #[arg(
        long,
        global = true,
        env = "REGISTRY_LOG",
        default_value = "info,sqlx=error",
        value_name = "FILTER"
    )]
    pub log: String,

    /// Who runs a command, for the trail.
    #[arg(long, global = true, hide = true, env = "USER", default_value = "local")]
    pub user: String,

    /// Authentication.
    #[command(flatten)]
    pub access: AccessConfig,

    /// TLS on the port.
    #[command(flatten)]
    pub tls: TlsConfig,

    /// The identity provider.
    #[command(flatten)]
    pub oidc: OidcConfig,

    /// The namespace under which the MCP registry API serves servers that have none: a domain of
    /// yours, backwards, like com.example.
    #[arg(
        long,
        env = "REGISTRY_MCP_NAMESPACE",
        default_value = "local.registry",
        value_name = "NAMESPACE",
        help_heading = "MCP registry API"
    )]
    pub mcp_namespace: Namespace,

    /// The registry to follow.
    #[command(flatten)]
    pub relay: RelayConfig,

    /// Sockets.
    #[command(flatten)]
    pub serve: ServeConfig,

    /// Writes.
    #[command(flatten)]
    pub registrar: RegistrarConfig,

    /// Sync streams.
    #[command(flatten)]
    pub feed: FeedConfig,
}

/// Whether two paths name one directory. The empty path is the current one.
fn is_same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| Path::new(".").join(path).canonicalize().ok();
    real(a).is_some_and(|a| Some(a) == real(b))
}

/// Why settings do not go together.
#[derive(Debug, thiserror::Error)]
pub enum InvalidConfig {
    /// Without authentication, the network must not reach the server by accident.
    #[error(
        "refusing to listen on {0}: nobody could prove who they are, so nobody or everybody could \
         change the registry; make a first token with `registry-server token create --name NAME \
         --role admin`, configure certificates (--tls-client-ca) or an identity provider \
         (--oidc-issuer), or pass --insecure where something else guards the port"
    )]
    Exposed(SocketAddr),
    /// Whoever listens on the way would learn the credentials.
    #[error(
        "refusing to listen on {0} in plain text: credentials could be read on the way; give \
         --tls-cert and --tls-key, or --plaintext where a proxy or a mesh before it speaks TLS"
    )]
    PlainText(SocketAddr),
    /// The URL names no database; it is not repeated, because it may hold a password.
    #[error("{0}")]
    Database(#[from] InvalidDatabaseUrl),
    /// The database is missing where its key still is.
    #[error(
        "refusing to create the new, empty database {database}: {key:?} beside it was made for an \
         earlier one. Mount or restore that database, or name its place (--database, --data-dir); \
         to start a new registry with this key, pass --allow-new-database once"
    )]
    LostDatabase {
        /// The database.
        database: DatabaseUrl,
        /// The key that signed for it.
        key: PathBuf,
    },
    /// The default database has no path that can be a URL.
    #[error("the data directory {path:?} cannot be used: {reason}")]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl Config {
    /// The database to open. Creates the data directory where it is needed and missing. Refuses to
    /// create a database beside the key of an earlier one.
    pub fn database(&self) -> Result<DatabaseUrl, InvalidConfig> {
        if self.database.is_none() {
            self.in_data_dir(DATABASE)?;
        }
        let database = self.database_url()?;
        match self.orphaned_key(&database) {
            Some(key) if !self.allow_new_database => {
                Err(InvalidConfig::LostDatabase { database, key })
            }
            _ => Ok(database),
        }
    }

    /// The checkpoint key in the directory of a SQLite database that is missing.
    fn orphaned_key(&self, database: &DatabaseUrl) -> Option<PathBuf> {
        let directory = database.missing_from()?;
        let key = match &self.checkpoint_key {
            Some(key) => key.clone(),
            None => self.data_dir.join(CHECKPOINT_KEY),
        };
        let is_beside = key.exists() && key.parent().is_some_and(|of| is_same(of, directory));
        is_beside.then_some(key)
    }

    /// The database to use, wherever it is, if it is.
    pub fn database_url(&self) -> Result<DatabaseUrl, InvalidConfig> {
        if let Some(url) = &self.database {
            return Ok(url.expose().parse()?);
        }
        let url = format!("sqlite:{}", self.data_dir.join(DATABASE).display());
        url.parse::<DatabaseUrl>().map_err(|e| self.unusable_data_dir(&e))
    }

    /// The file of the key that signs checkpoints.
    pub fn checkpoint_key(&self) -> Result<PathBuf, InvalidConfig> {
        match &self.checkpoint_key {
            Some(path) => Ok(path.clone()),
            None => self.in_data_dir(CHECKPOINT_KEY),
        }
    }

    /// A file in the data directory, which is made where it is missing.
    fn in_data_dir(&self, file: &str) -> Result<PathBuf, InvalidConfig> {
        std::fs::create_dir_all(&self.data_dir).map_err(|e| self.unusable_data_dir(&e))?;
        Ok(self.data_dir.join(file))
    }

    fn unusable_data_dir(&self, reason: &dyn ToString) -> InvalidConfig {
        InvalidConfig::DataDir { path: self.data_dir.clone(), reason: reason.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Config {
        Config::try_parse_from([&["registry-server"], arguments].concat()).unwrap()
    }

    #[test]
    fn no_limit_is_zero_or_without_end_and_nothing_spins() {
        for (flag, bad) in [
            ("--write-group", "0"),
            ("--write-queue", "18446744073709551615"),
            ("--max-connections", "0"),
            ("--max-message-bytes", "0"),
            ("--write-attempts", "0"),
            ("--poll-interval", "0s"),
            ("--keepalive", "0ms"),
        ] {
            let refused = Config::try_parse_from(["registry-server", flag, bad]).unwrap_err();
            assert!(refused.to_string().contains(flag), "{refused}");
        }
    }

    #[test]
    fn a_flag_is_listed_where_it_belongs() {
        let command = <Config as clap::CommandFactory>::command();
        let heading = |id: &str| {
            let flag = command.get_arguments().find(|flag| flag.get_id() == id);
            flag.and_then(clap::Arg::get_help_heading).unwrap_or_default().to_owned()
        };
        assert_eq!(heading("mcp_namespace"), "MCP registry API");
        assert_eq!(heading("oidc_issuer"), "Identity provider (OIDC)");
    }

    #[test]
    fn a_password_is_never_repeated() {
        let config = parse(&["--database", "mysql://ann:s3cret@db/registry"]);
        let refused = config.database().unwrap_err();
        for text in [refused.to_string(), format!("{refused:?}"), format!("{config:?}")] {
            assert!(!text.contains("s3cret"), "{text}");
        }
        assert!(parse(&["--database", "postgres://ann:s3cret@db/registry"]).database().is_ok());
    }
}
