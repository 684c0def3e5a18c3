//! Credentials of the caller and trust in the registry, and the arguments of `token`.
//!
//! Login is not supported: tokens come from an administrator or an identity provider.

use std::{fs, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use registry_core::Secret;
use registry_proto::v1;
use registry_tls::ClientFiles;

use super::{CONNECTION, CREDENTIALS, ConfirmArgs};
use crate::failure::Failure;

/// Credentials, and trust in the registry's certificate.
#[derive(Debug, Args)]
pub(crate) struct AccessArgs {
    /// API token
    ///
    /// Other users of this machine can see arguments. Prefer `REGISTRY_TOKEN` or `--token-file`.
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        help_heading = CREDENTIALS,
        env = "REGISTRY_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    token: Option<Secret>,
    /// File with the API token
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        help_heading = CREDENTIALS,
        env = "REGISTRY_TOKEN_FILE",
        value_name = "FILE"
    )]
    token_file: Option<PathBuf>,
    /// Send the token over unencrypted connections to other hosts
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        help_heading = CREDENTIALS,
        env = "REGISTRY_ALLOW_INSECURE_TOKEN"
    )]
    pub(crate) allow_insecure_token: bool,
    /// CA bundle (PEM) used to verify the registry's certificate [default: the system's CAs]
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        help_heading = CONNECTION,
        env = "REGISTRY_CA_CERT",
        value_name = "FILE"
    )]
    ca_cert: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        help_heading = CREDENTIALS,
        env = "REGISTRY_CLIENT_CERT",
        value_name = "FILE",
        requires = "client_key"
    )]
    client_cert: Option<PathBuf>,
    /// Private key (PEM) of the client certificate
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        help_heading = CREDENTIALS,
        env = "REGISTRY_CLIENT_KEY",
        value_name = "FILE",
        requires = "client_cert"
    )]
    client_key: Option<PathBuf>,
}

impl AccessArgs {
    /// Reads the token.
    pub(crate) fn token(&self) -> Result<Option<Secret>, Failure> {
        let token = match (&self.token, &self.token_file) {
            (Some(_), Some(path)) => {
                return Err(Failure::Usage(format!(
                    "there are two tokens: that of --token or REGISTRY_TOKEN, and the file `{}` of \
                     --token-file or REGISTRY_TOKEN_FILE; omit one, or unset its variable",
                    path.display()
                )));
            }
            (Some(token), None) => token.clone(),
            (None, Some(path)) => {
                let text = fs::read_to_string(path).map_err(|e| Failure::unreadable(path, e))?;
                if text.trim().is_empty() {
                    let help = "write the token into it, or set REGISTRY_TOKEN";
                    return Err(
                        Failure::unreadable(path, "the file is empty").with_help(help.to_owned())
                    );
                }
                text.into()
            }
            (None, None) => return Ok(None),
        };
        let token = token.expose().trim().to_owned();
        Ok(Some(token).filter(|token| !token.is_empty()).map(Secret::from))
    }

    pub(crate) fn tls_files(&self) -> ClientFiles {
        let identity = self.client_cert.clone().zip(self.client_key.clone());
        ClientFiles { ca: self.ca_cert.clone(), identity }
    }

    pub(crate) fn has_credentials(&self) -> bool {
        self.token.is_some() || self.token_file.is_some() || self.client_cert.is_some()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print its secret once
    Create(CreateTokenArgs),
    /// List tokens
    List {
        /// Include revoked and expired tokens
        #[arg(long)]
        all: bool,
    },
    /// Revoke a token; every server rejects it within seconds
    Revoke(RevokeTokenArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RevokeTokenArgs {
    /// Id of the token, as `token list` prints it
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CreateTokenArgs {
    /// Name of the token's owner; recorded as the author of its commits
    #[arg(long)]
    pub(crate) name: String,
    /// Team that owns the entities registered with the token [default: the name]
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) team: String,
    /// reader, publisher, auditor, gateway, relay, governor, approver or admin
    ///
    /// May be repeated.
    #[arg(long = "role", value_name = "ROLE", required = true, hide_possible_values = true)]
    pub(crate) roles: Vec<Role>,
    /// Names that the token may write; may be repeated
    ///
    /// `team/*`, `com.example.*` or `tool/fetch`. Default: every name that the team may write.
    #[arg(long = "scope", value_name = "SELECTOR")]
    pub(crate) scopes: Vec<String>,
    /// Expiry: 12h, 90d, 2027-01-31T00:00:00Z or never
    #[arg(long, value_name = "WHEN", default_value = "90d")]
    pub(crate) expires: String,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// A role of a token.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Role {
    /// Read entities and their history
    Reader,
    /// Read, and register and change entities of the team
    Publisher,
    /// Read, and read the fleet and the access log
    Auditor,
    /// Follow the registry as a gateway
    Gateway,
    /// Follow the registry as a relay, and forward the reports of gateways
    Relay,
    /// Read, and change policies about names of any team
    Governor,
    /// Read; reserved for approvals
    Approver,
    /// Full access, including tokens
    Admin,
}

impl From<Role> for v1::AccessRole {
    fn from(role: Role) -> Self {
        match role {
            Role::Reader => Self::Reader,
            Role::Publisher => Self::Publisher,
            Role::Auditor => Self::Auditor,
            Role::Gateway => Self::Gateway,
            Role::Relay => Self::Relay,
            Role::Governor => Self::Governor,
            Role::Approver => Self::Approver,
            Role::Admin => Self::Admin,
        }
    }
}
