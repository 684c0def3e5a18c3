//! How the user proves who they are, and how the registry does.
//!
//! Login is not supported: tokens come from an administrator or an identity provider.

use std::{fs, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use registry_core::Secret;
use registry_proto::v1;

use crate::failure::Failure;

/// What every command may show to the registry.
#[derive(Debug, Args)]
pub(crate) struct AccessArgs {
    /// The token to show; better by `REGISTRY_TOKEN` or --token-file, which `ps` does not see
    #[arg(
        long,
        global = true,
        env = "REGISTRY_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    token: Option<Secret>,
    /// A file with the token to show
    #[arg(
        long,
        global = true,
        env = "REGISTRY_TOKEN_FILE",
        value_name = "FILE",
        conflicts_with = "token"
    )]
    token_file: Option<PathBuf>,
    /// Show the token in plain text, also to another machine; whoever listens on the way has it
    #[arg(long, global = true, env = "REGISTRY_PLAINTEXT_TOKEN")]
    pub(crate) plaintext_token: bool,
    /// The certificates (PEM) that the registry's must lead to [default: those of this system]
    #[arg(long, global = true, env = "REGISTRY_CA_CERT", value_name = "FILE")]
    pub(crate) ca_cert: Option<PathBuf>,
    /// The certificate (PEM) to show
    #[arg(
        long,
        global = true,
        env = "REGISTRY_CLIENT_CERT",
        value_name = "FILE",
        requires = "client_key"
    )]
    pub(crate) client_cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(
        long,
        global = true,
        env = "REGISTRY_CLIENT_KEY",
        value_name = "FILE",
        requires = "client_cert"
    )]
    pub(crate) client_key: Option<PathBuf>,
}

impl AccessArgs {
    /// The token, if there is one.
    pub(crate) fn token(&self) -> Result<Option<Secret>, Failure> {
        let token = match (&self.token, &self.token_file) {
            (Some(token), _) => token.clone(),
            (None, Some(path)) => {
                fs::read_to_string(path).map_err(|e| Failure::unreadable(path, e))?.into()
            }
            (None, None) => return Ok(None),
        };
        let token = token.expose().trim().to_owned();
        Ok(Some(token).filter(|token| !token.is_empty()).map(Secret::from))
    }

    /// Whether the registry will know who is calling.
    pub(crate) fn is_somebody(&self) -> bool {
        self.token.is_some() || self.token_file.is_some() || self.client_cert.is_some()
    }
}

/// What to do about tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token, and print its text, which cannot be read again
    Create(CreateTokenArgs),
    /// List the tokens
    List {
        /// Also those that were revoked or have expired
        #[arg(long)]
        all: bool,
    },
    /// End a token; every server refuses it within seconds
    Revoke {
        /// Its id, as `list` shows it: the first part of its text
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateTokenArgs {
    /// Who will hold it; commits get this name as their author
    #[arg(long)]
    pub(crate) name: String,
    /// The team that owns what it registers [default: as the name]
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) team: String,
    /// What it may do; may be given several times
    #[arg(long = "role", value_name = "ROLE", required = true)]
    pub(crate) roles: Vec<Role>,
    /// What it may write: `team/*`, `com.example.*`, `tool/fetch`; may be given several times
    /// [default: all that its team may]
    #[arg(long = "scope", value_name = "SELECTOR")]
    pub(crate) scopes: Vec<String>,
    /// Until when: 12h, 90d, a time like 2027-01-31T00:00:00Z, or never
    #[arg(long, value_name = "WHEN", default_value = "90d")]
    pub(crate) expires: String,
}

/// What a token may do.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Role {
    /// Reads what is registered, and its history
    Reader,
    /// Also registers and changes what its team owns
    Publisher,
    /// Reads, and sees who follows and who did what
    Auditor,
    /// Follows the registry to serve agents
    Gateway,
    /// Everything, also tokens
    Admin,
}

impl From<Role> for v1::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Reader => Self::Reader,
            Role::Publisher => Self::Publisher,
            Role::Auditor => Self::Auditor,
            Role::Gateway => Self::Gateway,
            Role::Admin => Self::Admin,
        }
    }
}
