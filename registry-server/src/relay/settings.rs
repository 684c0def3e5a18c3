//! Settings of a relay: its upstream registry and the credentials for it.

use std::path::PathBuf;

use clap::Args;
use registry_core::checkpoint::VerifierKey;
use registry_follow::{Credentials, Follower, Timing, Token, addresses};
use registry_tls::ClientFiles;

use super::Error;
use crate::{flags::at_least_one, host::host_name};

/// Upstream registry of a relay.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Relay")]
pub struct RelayConfig {
    /// Run as a read-only relay of the registry at this URL: grpc(s)://HOST:PORT
    ///
    /// Several servers of the same registry may be listed, separated by commas. The relay serves reads and
    /// streams from its own copy of the log.
    #[arg(long, env = "REGISTRY_FOLLOW", value_name = "URL")]
    pub follow: Option<String>,

    /// Public key of the registry, as printed by `registryctl audit key`
    ///
    /// Default: the key that the registry presents at the first start.
    #[arg(
        long,
        env = "REGISTRY_FOLLOW_KEY",
        value_name = "KEY",
        requires = "follow",
        hide_short_help = true
    )]
    pub follow_key: Option<VerifierKey>,

    /// Name of this relay in the registry's list of gateways
    ///
    /// Default: the host name.
    #[arg(long, env = "REGISTRY_FOLLOW_NAME", value_name = "NAME", requires = "follow", hide_short_help = true, value_parser = relay_name)]
    pub follow_name: Option<String>,

    /// File with the API token for the registry
    #[arg(
        long,
        env = "REGISTRY_FOLLOW_TOKEN_FILE",
        value_name = "FILE",
        requires = "follow",
        hide_short_help = true
    )]
    pub follow_token_file: Option<PathBuf>,

    /// CA bundle (PEM) used to verify the registry's certificate
    ///
    /// Default: the CA certificates of the operating system.
    #[arg(
        long,
        env = "REGISTRY_FOLLOW_CA",
        value_name = "FILE",
        requires = "follow",
        hide_short_help = true
    )]
    pub follow_ca: Option<PathBuf>,

    /// Client certificate (PEM) for the registry
    #[arg(
        long,
        env = "REGISTRY_FOLLOW_CERT",
        value_name = "FILE",
        requires = "follow_cert_key",
        hide_short_help = true
    )]
    pub follow_cert: Option<PathBuf>,

    /// Private key of the client certificate (PEM)
    #[arg(
        long,
        env = "REGISTRY_FOLLOW_CERT_KEY",
        value_name = "FILE",
        requires = "follow_cert",
        hide_short_help = true
    )]
    pub follow_cert_key: Option<PathBuf>,

    /// Maximum bytes of received commits without a signed state, in memory and in a temporary file
    ///
    /// A new relay needs room for the whole log. The default is 64 GiB.
    #[arg(long, env = "REGISTRY_RELAY_BUFFER_BYTES", default_value_t = 64 << 30, value_name = "BYTES", requires = "follow", hide_short_help = true, value_parser = at_least_one(1 << 50))]
    pub relay_buffer_bytes: usize,
}

impl RelayConfig {
    /// Connection settings of the upstream registry; `None` if this server is not a relay.
    pub fn follower(&self) -> Result<Option<Follower>, Error> {
        let Some(url) = &self.follow else { return Ok(None) };
        let addresses = addresses(url).map_err(|_| Error::Address(without_user(url).to_owned()))?;
        let credentials = Credentials {
            token: self.follow_token_file.clone().map(Token::File),
            tls: ClientFiles {
                ca: self.follow_ca.clone(),
                identity: self.follow_cert.clone().zip(self.follow_cert_key.clone()),
            },
        };
        Self::check_files(&credentials)?;
        let is_private = addresses.iter().all(|address| Credentials::is_private(address));
        if credentials.token.is_some() && !is_private {
            return Err(Error::PlainToken(url.clone()));
        }
        let agent = concat!("registry-server/", env!("CARGO_PKG_VERSION"));
        let (timing, ca_setting) = (Timing::default(), "--follow-ca");
        Ok(Some(Follower { addresses, credentials, timing, ca_setting, agent }))
    }

    /// Whether this relay authenticates at its registry.
    pub fn has_credential(&self) -> bool {
        self.follow_token_file.is_some() || self.follow_cert.is_some()
    }

    /// Name of this relay in the list of gateways of the registry.
    pub fn name(&self) -> String {
        self.follow_name.clone().unwrap_or_else(host_name)
    }

    /// Reports unusable files at startup. Each connection reads the files again.
    fn check_files(credentials: &Credentials) -> Result<(), Error> {
        credentials.authorization().map_err(Error::Token)?;
        credentials.tls.read_pem()?;
        Ok(())
    }
}

/// Parses a gateway name within the limits of the Sync API.
fn relay_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 128 || text.chars().any(char::is_control) {
        return Err("use 1 to 128 bytes without control characters".to_owned());
    }
    Ok(text.to_owned())
}

/// Removes the user and the password.
fn without_user(url: &str) -> &str {
    url.rsplit_once('@').map_or(url, |(_, rest)| rest)
}
