//! Settings of a relay: the registry that it follows, and its credentials there.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use registry_core::checkpoint::VerifierKey;
use registry_follow::{Credentials, Follower, Timing, Token, addresses};

use super::Error;
use crate::{flags::at_least_one, host::host_name};

/// The registry to follow.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Relay")]
pub struct RelayConfig {
    /// Be a relay of this registry: `grpc(s)://host:port`, several of its servers with commas
    /// between. It serves reads and streams from a copy of its own, and takes no writes.
    #[arg(long, env = "REGISTRY_FOLLOW", value_name = "URL")]
    pub follow: Option<String>,

    /// The key that must have signed what the registry says, as `registryctl audit key` prints it.
    /// Default: the one that it shows at the first start.
    #[arg(long, env = "REGISTRY_FOLLOW_KEY", value_name = "KEY", requires = "follow")]
    pub follow_key: Option<VerifierKey>,

    /// What the registry calls this relay in its list of gateways. Default: the host name.
    #[arg(long, env = "REGISTRY_FOLLOW_NAME", value_name = "NAME", requires = "follow", value_parser = relay_name)]
    pub follow_name: Option<String>,

    /// A file with the API token for the registry.
    #[arg(long, env = "REGISTRY_FOLLOW_TOKEN_FILE", value_name = "FILE", requires = "follow")]
    pub follow_token_file: Option<PathBuf>,

    /// CA bundle (PEM) used to verify the registry's certificate. Default: the system's.
    #[arg(long, env = "REGISTRY_FOLLOW_CA", value_name = "FILE", requires = "follow")]
    pub follow_ca: Option<PathBuf>,

    /// The client certificate (PEM) for the registry.
    #[arg(long, env = "REGISTRY_FOLLOW_CERT", value_name = "FILE", requires = "follow_cert_key")]
    pub follow_cert: Option<PathBuf>,

    /// Its key (PEM).
    #[arg(long, env = "REGISTRY_FOLLOW_CERT_KEY", value_name = "FILE", requires = "follow_cert")]
    pub follow_cert_key: Option<PathBuf>,

    /// Most bytes of commits that wait, in memory and in a temporary file, for the registry's
    /// signature on a state that they lead to; a new relay needs as many as the log has.
    #[arg(long, env = "REGISTRY_MAX_UNSIGNED_BYTES", default_value_t = 64 << 30, requires = "follow", value_parser = at_least_one(1 << 50))]
    pub max_unsigned_bytes: usize,
}

impl RelayConfig {
    /// The connection to the registry; `None` if this server is not a relay.
    pub fn follower(&self) -> Result<Option<Follower>, Error> {
        let Some(url) = &self.follow else { return Ok(None) };
        let addresses = addresses(url).map_err(|_| Error::Address(without_user(url).to_owned()))?;
        let credentials = Credentials {
            token: self.follow_token_file.clone().map(Token::File),
            ca: self.follow_ca.clone(),
            identity: self.follow_cert.clone().zip(self.follow_cert_key.clone()),
        };
        self.check_files(&credentials)?;
        let is_private = addresses.iter().all(|address| Credentials::is_private(address));
        if credentials.token.is_some() && !is_private {
            return Err(Error::PlainToken(url.clone()));
        }
        let agent = concat!("registry-server/", env!("CARGO_PKG_VERSION"));
        Ok(Some(Follower { addresses, credentials, timing: Timing::default(), agent }))
    }

    /// What the registry calls this relay.
    pub fn name(&self) -> String {
        self.follow_name.clone().unwrap_or_else(host_name)
    }

    /// The files are read again for each connection. This check reports errors at the start.
    fn check_files(&self, credentials: &Credentials) -> Result<(), Error> {
        let unusable = |path: &Path, reason: &io::Error| Error::File {
            path: path.to_owned(),
            reason: reason.to_string(),
        };
        let Self { follow_token_file, follow_ca, follow_cert, follow_cert_key, .. } = self;
        let files = [follow_token_file, follow_ca, follow_cert, follow_cert_key];
        for path in files.into_iter().flatten() {
            fs::read(path).map_err(|e| unusable(path, &e))?;
        }
        if let Some(path) = follow_token_file {
            credentials.authorization().map_err(|e| unusable(path, &e))?;
        }
        Ok(())
    }
}

/// A name that any registry takes.
fn relay_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 128 || text.chars().any(char::is_control) {
        return Err("a name has 1 to 128 bytes and no control characters".to_owned());
    }
    Ok(text.to_owned())
}

/// What comes after a user and a password, which are not repeated.
fn without_user(url: &str) -> &str {
    url.rsplit_once('@').map_or(url, |(_, rest)| rest)
}
