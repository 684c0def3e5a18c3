//! Parses flags and environment variables into the settings of the modules.
//!
//! Only this module reads the environment. There is no configuration file, and settings do not change at
//! runtime.

mod authentication;
mod command;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::Parser;
use mcp_registry::Namespace;
use registry_core::{Secret, parse_socket_address};

pub use authentication::Authentication;
pub use command::{CheckpointKeyCommand, Command, LedgerCommand, TokenCommand};

use crate::{
    access::{AccessConfig, OidcConfig},
    app::ledger::LedgerConfig,
    approval_key,
    connections::{ServeConfig, TlsConfig},
    feed::FeedConfig,
    registrar::RegistrarConfig,
    relay::RelayConfig,
    store::{DatabaseUrl, InvalidDatabaseUrl},
    telemetry::LogFormat,
    web::WebConfig,
};

/// File name of the default database in the data directory.
const DATABASE: &str = "registry.db";
/// File name of the default checkpoint key in the data directory.
const CHECKPOINT_KEY: &str = "checkpoint.key";

/// Registry service for MCP servers, tools and A2A agents
///
/// The server keeps an append-only log of validated commits and streams each commit to its followers.
/// One port serves gRPC (with health and reflection), the same API as JSON over HTTP with
/// /openapi.json, /registry.json, /schemas/, /livez, /readyz, and the MCP registry API below /v0.1.
/// The admin address serves /metrics.
///
/// Exit codes: 0 after a drain, 1 for a failure while serving, 2 for invalid options or files, 3 for an
/// unusable database.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "registry-server",
    version,
    after_help = "Use --help for all options, with their limits and defaults."
)]
pub struct Config {
    /// Administrative command to run instead of serving.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Address to serve on; port 0 selects a free port
    #[arg(
        long,
        env = "REGISTRY_LISTEN",
        default_value = "127.0.0.1:7070",
        value_name = "ADDRESS:PORT",
        value_parser = parse_socket_address,
        help_heading = "Listen"
    )]
    pub listen: SocketAddr,

    /// Database URL: `sqlite:PATH` or `postgres://USER@HOST/NAME`
    ///
    /// A Postgres URL may list several hosts, separated by commas; the server uses the primary. Default:
    /// registry.db in the data directory.
    #[arg(
        long,
        global = true,
        env = "REGISTRY_DATABASE",
        value_name = "URL",
        hide_env_values = true,
        help_heading = "Database"
    )]
    pub database: Option<Secret>,

    /// Directory of the SQLite database and of the checkpoint key
    #[arg(
        long,
        global = true,
        env = "REGISTRY_DATA_DIR",
        default_value = "./data",
        value_name = "DIR",
        help_heading = "Database"
    )]
    pub data_dir: PathBuf,

    /// Create a SQLite database in a directory that already has a checkpoint key
    ///
    /// Without this flag, a missing database next to a key is an error, because the database was probably
    /// lost or is not mounted.
    #[arg(
        long,
        global = true,
        env = "REGISTRY_ALLOW_NEW_DATABASE",
        help_heading = "Database",
        hide_short_help = true
    )]
    pub allow_new_database: bool,

    /// Ed25519 private key (PKCS #8, PEM) that signs checkpoints
    ///
    /// The first start creates a missing key. All servers of one database share it. Default:
    /// checkpoint.key in the data directory.
    #[arg(
        long,
        global = true,
        env = "REGISTRY_CHECKPOINT_KEY",
        value_name = "FILE",
        help_heading = "Database"
    )]
    pub checkpoint_key: Option<PathBuf>,

    /// Format of log lines on standard error
    #[arg(
        long,
        global = true,
        env = "REGISTRY_LOG_FORMAT",
        default_value = "text",
        value_name = "FORMAT",
        help_heading = "Logging"
    )]
    pub log_format: LogFormat,

    /// Log filter: a level, or target=level pairs separated by commas
    #[arg(
        long,
        global = true,
        env = "REGISTRY_LOG",
        default_value = "info,sqlx=error",
        value_name = "FILTER",
        help_heading = "Logging"
    )]
    pub log: String,

    /// Operating system user of an administrative command, recorded in access events.
    #[arg(long, global = true, hide = true, env = "USER", default_value = "local")]
    pub user: String,

    /// Authentication, public reads and the rate limit.
    #[command(flatten)]
    pub access: AccessConfig,

    /// TLS on the main port.
    #[command(flatten)]
    pub tls: TlsConfig,

    /// Identity provider (OIDC).
    #[command(flatten)]
    pub oidc: OidcConfig,

    /// Pages for browsers, and their sign-in.
    #[command(flatten)]
    pub web: WebConfig,

    /// Namespace that the MCP registry API adds to servers without one
    ///
    /// Use a reversed domain that you own, for example com.example.
    #[arg(
        long,
        env = "REGISTRY_MCP_NAMESPACE",
        default_value = "local.registry",
        value_name = "NAMESPACE",
        help_heading = "MCP registry API",
        hide_short_help = true
    )]
    pub mcp_namespace: Namespace,

    /// Upstream registry of a relay.
    #[command(flatten)]
    pub relay: RelayConfig,

    /// Limits and timeouts of connections and requests.
    #[command(flatten)]
    pub serve: ServeConfig,

    /// Limits and timeouts of writes.
    #[command(flatten)]
    pub registrar: RegistrarConfig,

    /// Currency, time limits and alerts of budgets.
    #[command(flatten)]
    pub ledger: LedgerConfig,

    /// Limits and timeouts of Sync streams.
    #[command(flatten)]
    pub feed: FeedConfig,
}

/// Whether two paths name the same directory. The empty path is the current directory.
fn is_same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| Path::new(".").join(path).canonicalize().ok();
    real(a).is_some_and(|a| Some(a) == real(b))
}

/// An invalid combination of settings.
#[derive(Debug, thiserror::Error)]
pub enum InvalidConfig {
    /// An address beyond loopback without any way to authenticate.
    #[error(
        "refusing to listen on {address} without authentication: the database {database} has no active \
         token. Create one with `registry-server token create --name NAME --role admin`, configure \
         client certificates (--tls-client-ca) or an identity provider (--oidc-issuer), or pass \
         --insecure if the network restricts access. Name another database with --database"
    )]
    Exposed {
        /// The address.
        address: SocketAddr,
        /// The database in use.
        database: DatabaseUrl,
    },
    /// An address beyond loopback without TLS.
    #[error(
        "refusing to accept credentials on {0} in plain text: pass --tls-cert and --tls-key, or \
         --plaintext if a proxy or a service mesh in front of the server terminates TLS"
    )]
    PlainText(SocketAddr),
    /// An invalid database URL. The message omits the URL, which may contain a password.
    #[error("{0}")]
    Database(#[from] InvalidDatabaseUrl),
    /// A missing SQLite database next to the checkpoint key of an earlier one.
    #[error(
        "refusing to create the empty database {database}: the checkpoint key {key:?} belongs to an \
         earlier database. Mount or restore that database, or pass its location (--database, \
         --data-dir). To start a new registry with this key, pass --allow-new-database once"
    )]
    LostDatabase {
        /// The missing database.
        database: DatabaseUrl,
        /// The checkpoint key of the earlier database.
        key: PathBuf,
    },
    /// An unusable data directory.
    #[error("cannot use the data directory {path:?}: {reason}; choose another one with --data-dir")]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// The failure.
        reason: String,
    },
}

impl Config {
    /// URL of the database. Creates a missing data directory if the database is in it. Rejects a missing
    /// database next to the key of an earlier one.
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

    /// The checkpoint key in the directory of a missing SQLite database.
    fn orphaned_key(&self, database: &DatabaseUrl) -> Option<PathBuf> {
        let directory = database.missing_from()?;
        let key = match &self.checkpoint_key {
            Some(key) => key.clone(),
            None => self.data_dir.join(CHECKPOINT_KEY),
        };
        let is_beside =
            key.exists() && key.parent().is_some_and(|parent| is_same(parent, directory));
        is_beside.then_some(key)
    }

    /// URL of the database, which may be missing.
    pub fn database_url(&self) -> Result<DatabaseUrl, InvalidConfig> {
        if let Some(url) = &self.database {
            return Ok(url.expose().parse()?);
        }
        let url = format!("sqlite:{}", self.data_dir.join(DATABASE).display());
        url.parse::<DatabaseUrl>().map_err(|e| self.unusable_data_dir(&e))
    }

    /// Path of the checkpoint key.
    pub fn checkpoint_key(&self) -> Result<PathBuf, InvalidConfig> {
        match &self.checkpoint_key {
            Some(path) => Ok(path.clone()),
            None => self.in_data_dir(CHECKPOINT_KEY),
        }
    }

    /// Path of the key of approvals, next to the checkpoint key.
    pub fn approval_key(&self) -> Result<PathBuf, InvalidConfig> {
        Ok(self.checkpoint_key()?.with_file_name(approval_key::FILE))
    }

    /// A path in the data directory. Creates the directory if it is missing.
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
    fn limits_and_intervals_reject_zero_and_overflow() {
        for (flag, bad) in [
            ("--write-group", "0"),
            ("--write-queue", "18446744073709551615"),
            ("--max-connections", "0"),
            ("--max-message-bytes", "0"),
            ("--write-attempts", "0"),
            ("--poll-interval", "0s"),
            ("--keepalive-interval", "0ms"),
        ] {
            let error = Config::try_parse_from(["registry-server", flag, bad]).unwrap_err();
            assert!(error.to_string().contains(flag), "{error}");
        }
    }

    #[test]
    fn options_have_heading_environment_variable_and_help() {
        let mut command = <Config as clap::CommandFactory>::command();
        command.build();
        for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
            let id = option.get_id().as_str();
            if matches!(id, "help" | "version") {
                continue;
            }
            assert!(option.get_help_heading().is_some(), "{id} has no heading");
            assert!(option.get_env().is_some(), "{id} has no environment variable");
            let help = option.get_help().expect("a help text").to_string();
            assert!(!help.ends_with('.') && !help.contains('\n'), "{id}: {help}");
        }
    }

    #[test]
    fn short_help_fits_one_screen() {
        let help = <Config as clap::CommandFactory>::command().render_help().to_string();
        assert!(help.lines().count() <= 50, "{help}");
    }

    #[test]
    fn webhook_requires_https_and_secret() {
        let secret = ["--budget-webhook-secret-file", "secret"];
        let parse = |url: &str, more: &[&str]| {
            let arguments = [&["registry-server", "--budget-webhook-url", url], more].concat();
            Config::try_parse_from(arguments)
        };
        assert!(parse("https://hooks.example/alerts", &[]).is_err());
        assert!(parse("http://hooks.example/alerts", &secret).is_err());
        assert!(parse("http://127.0.0.1:9000/alerts", &secret).is_ok());
        let config = parse("https://hooks.example/s3cret", &secret).unwrap();
        assert!(!format!("{config:?}").contains("s3cret"));
    }

    #[test]
    fn database_password_is_never_shown() {
        let config = parse(&["--database", "mysql://ann:s3cret@db/registry"]);
        let error = config.database().unwrap_err();
        for text in [error.to_string(), format!("{error:?}"), format!("{config:?}")] {
            assert!(!text.contains("s3cret"), "{text}");
        }
        assert!(parse(&["--database", "postgres://ann:s3cret@db/registry"]).database().is_ok());
    }
}
