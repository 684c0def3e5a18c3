//! Settings of the identity provider. OIDC discovery is not supported: the settings contain the address
//! of the keys.

use std::{path::PathBuf, str::FromStr};

use clap::Args;

use crate::access::{InvalidRole, Role};

/// The identity provider.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Identity provider (OIDC)")]
pub struct OidcConfig {
    /// The `iss` of its tokens.
    #[arg(long, env = "REGISTRY_OIDC_ISSUER", value_name = "URL", requires_all = ["oidc_audience", "keys"])]
    pub oidc_issuer: Option<String>,

    /// The `aud` that its tokens must have: the name of this registry there.
    #[arg(long, env = "REGISTRY_OIDC_AUDIENCE", value_name = "NAME", requires = "oidc_issuer")]
    pub oidc_audience: Option<String>,

    /// Its keys (JWKS), in a file; read again when it changes.
    #[arg(
        long,
        env = "REGISTRY_OIDC_JWKS_FILE",
        value_name = "FILE",
        group = "keys",
        requires = "oidc_issuer"
    )]
    pub oidc_jwks_file: Option<PathBuf>,

    /// Its keys (JWKS), at this address and no other.
    #[arg(long, env = "REGISTRY_OIDC_JWKS_URL", value_name = "URL", group = "keys", requires = "oidc_issuer", value_parser = parse_url)]
    pub oidc_jwks_url: Option<String>,

    /// The claim with the principal's name; a claim within others as a JSON pointer.
    #[arg(long, env = "REGISTRY_OIDC_NAME_CLAIM", value_name = "CLAIM", default_value = "sub")]
    pub oidc_name_claim: String,

    /// The claim with its team; without it, `user:` and the name, a team that nobody else can be in.
    #[arg(long, env = "REGISTRY_OIDC_TEAM_CLAIM", value_name = "CLAIM", default_value = "team")]
    pub oidc_team_claim: String,

    /// The claim with its roles: a list, or words with spaces between.
    #[arg(long, env = "REGISTRY_OIDC_ROLES_CLAIM", value_name = "CLAIM", default_value = "roles")]
    pub oidc_roles_claim: String,

    /// What a value of that claim means: `VALUE=ROLE`. Without any, the values are the roles' own
    /// names. May be given several times.
    #[arg(
        long = "oidc-role",
        env = "REGISTRY_OIDC_ROLES",
        value_name = "RULE",
        value_delimiter = ';',
        requires = "oidc_issuer"
    )]
    pub oidc_roles: Vec<RoleRule>,
}

/// What a value of the claim with the roles means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleRule {
    /// The value.
    pub value: String,
    /// The role.
    pub role: Role,
}

impl FromStr for RoleRule {
    type Err = InvalidRole;

    fn from_str(text: &str) -> Result<Self, InvalidRole> {
        let (value, role) = text.rsplit_once('=').unwrap_or((text, ""));
        Ok(Self { value: value.to_owned(), role: role.parse()? })
    }
}

/// Keys that somebody on the way could exchange are worth nothing.
fn parse_url(text: &str) -> Result<String, String> {
    let url: http::Uri = text.parse().map_err(|_| format!("`{text}` is not a URL"))?;
    let is_local = matches!(url.host(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match url.scheme_str() {
        Some("https") => Ok(text.to_owned()),
        Some("http") if is_local => Ok(text.to_owned()),
        _ => Err(format!("`{text}` is not an https:// URL")),
    }
}
