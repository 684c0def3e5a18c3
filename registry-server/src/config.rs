//! The server's settings: flags, each with an environment variable, all with defaults.
//!
//! The only place where the environment is read. Deliberately absent: a configuration file, and
//! settings that change while the server runs.

mod duration;
mod secret;
mod tuning;

use std::{net::SocketAddr, path::PathBuf};

use clap::{Parser, ValueEnum, builder::RangedU64ValueParser};

pub use duration::{parse_duration, parse_wait};
pub use secret::Secret;
pub use tuning::{FeedConfig, RegistrarConfig, ServeConfig};

use crate::store::{DatabaseUrl, InvalidDatabaseUrl};

/// The registry service: one log, validated writes, a stream of every change.
///
/// Serves gRPC (with health and reflection) and HTTP (/livez, /readyz, /metrics, /registry.json)
/// on one port. Ends with exit code 0 after a drain, 1 when it fails while serving, 2 for wrong
/// usage, 3 when the database cannot be used.
#[derive(Debug, Clone, Parser)]
#[command(name = "registry-server", version)]
pub struct Config {
    /// The address to serve on; port 0 takes a free one.
    #[arg(long, env = "REGISTRY_LISTEN", default_value = "127.0.0.1:7070")]
    pub listen: SocketAddr,

    /// Serve beyond the loopback interface although nobody is authenticated yet.
    #[arg(long, env = "REGISTRY_INSECURE")]
    pub insecure: bool,

    /// The database: `sqlite:PATH` or `postgres://…`. Default: registry.db in the data directory.
    #[arg(long, env = "REGISTRY_DATABASE", value_name = "URL", hide_env_values = true)]
    pub database: Option<Secret>,

    /// Where the embedded database lives.
    #[arg(long, env = "REGISTRY_DATA_DIR", default_value = "./data", value_name = "DIR")]
    pub data_dir: PathBuf,

    /// The key that signs checkpoints (Ed25519, PKCS #8 PEM), made at the first start. Servers of one
    /// database share it. Default: checkpoint.key in the data directory.
    #[arg(long, env = "REGISTRY_CHECKPOINT_KEY", value_name = "FILE")]
    pub checkpoint_key: Option<PathBuf>,

    /// How log lines are written, on standard error.
    #[arg(long, env = "REGISTRY_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,

    /// What is logged: a level, or `target=level,…`.
    #[arg(long, env = "REGISTRY_LOG", default_value = "info,sqlx=error", value_name = "FILTER")]
    pub log: String,

    /// How requests are served.
    #[command(flatten)]
    pub serve: ServeConfig,

    /// How writes are batched.
    #[command(flatten)]
    pub registrar: RegistrarConfig,

    /// How followers are served.
    #[command(flatten)]
    pub feed: FeedConfig,
}

/// Takes a number from 1 to `most`.
fn at_least_one(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

/// Takes a number up to `most`.
fn at_most(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(..=most)
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Why settings do not go together.
#[derive(Debug, thiserror::Error)]
pub enum InvalidConfig {
    /// Without authentication, the network must not reach the server by accident.
    #[error(
        "refusing to listen on {0}: callers are not authenticated yet, so everybody who reaches \
         this address may change the registry; listen on 127.0.0.1, or pass --insecure where \
         something else guards the port"
    )]
    Exposed(SocketAddr),
    /// The URL names no database; it is not repeated, because it may hold a password.
    #[error("{0}")]
    Database(#[from] InvalidDatabaseUrl),
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
    /// Checks what no single flag can.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        if self.listen.ip().is_loopback() || self.insecure {
            return Ok(());
        }
        Err(InvalidConfig::Exposed(self.listen))
    }

    /// Whether the server can be reached from other machines.
    pub fn is_exposed(&self) -> bool {
        !self.listen.ip().is_loopback()
    }

    /// The database to use.
    pub fn database(&self) -> Result<DatabaseUrl, InvalidConfig> {
        if let Some(url) = &self.database {
            return Ok(url.expose().parse()?);
        }
        let path = self.in_data_dir("registry.db")?;
        let url = format!("sqlite:{}", path.display());
        url.parse::<DatabaseUrl>().map_err(|e| self.unusable_data_dir(&e))
    }

    /// The file of the key that signs checkpoints.
    pub fn checkpoint_key(&self) -> Result<PathBuf, InvalidConfig> {
        match &self.checkpoint_key {
            Some(path) => Ok(path.clone()),
            None => self.in_data_dir("checkpoint.key"),
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
    fn other_machines_need_a_deliberate_flag() {
        assert!(parse(&["--listen", "127.0.0.1:0"]).check().is_ok());
        assert!(parse(&["--listen", "[::1]:0"]).check().is_ok());
        let refused = parse(&["--listen", "0.0.0.0:7070"]).check().unwrap_err().to_string();
        assert!(refused.contains("0.0.0.0:7070") && refused.contains("--insecure"), "{refused}");
        assert!(parse(&["--listen", "0.0.0.0:7070", "--insecure"]).check().is_ok());
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
    fn a_password_is_never_repeated() {
        let config = parse(&["--database", "mysql://ann:s3cret@db/registry"]);
        let refused = config.database().unwrap_err();
        for text in [refused.to_string(), format!("{refused:?}"), format!("{config:?}")] {
            assert!(!text.contains("s3cret"), "{text}");
        }
        assert!(parse(&["--database", "postgres://ann:s3cret@db/registry"]).database().is_ok());
    }
}
