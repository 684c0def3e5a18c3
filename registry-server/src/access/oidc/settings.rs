//! Settings of the identity provider. OIDC discovery is not supported: the settings contain the URL of
//! the keys.

use std::{path::PathBuf, str::FromStr};

use clap::Args;

use crate::{
    access::{InvalidRole, Role},
    flags::https_url,
};

/// Identity provider.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Authentication")]
pub struct OidcConfig {
    /// Issuer (`iss` claim) of tokens from an identity provider (OIDC)
    #[arg(long, env = "REGISTRY_OIDC_ISSUER", value_name = "URL", requires_all = ["oidc_audience", "keys"])]
    pub oidc_issuer: Option<String>,

    /// Audience (`aud` claim) that tokens must have
    #[arg(
        long,
        env = "REGISTRY_OIDC_AUDIENCE",
        value_name = "NAME",
        requires = "oidc_issuer",
        hide_short_help = true
    )]
    pub oidc_audience: Option<String>,

    /// File with the public keys (JWKS) of the identity provider, reloaded when it changes
    #[arg(
        long,
        env = "REGISTRY_OIDC_JWKS_FILE",
        value_name = "FILE",
        group = "keys",
        requires = "oidc_issuer",
        hide_short_help = true
    )]
    pub oidc_jwks_file: Option<PathBuf>,

    /// URL of the public keys (JWKS) of the identity provider
    ///
    /// Requires HTTPS, except on localhost. OIDC discovery is not supported.
    #[arg(
        long,
        env = "REGISTRY_OIDC_JWKS_URL",
        value_name = "URL",
        group = "keys",
        requires = "oidc_issuer",
        hide_short_help = true,
        // An attacker on the network could replace the keys.
        value_parser = https_url
    )]
    pub oidc_jwks_url: Option<String>,

    /// Claim with the name of the principal; a JSON pointer selects a nested claim
    #[arg(
        long,
        env = "REGISTRY_OIDC_NAME_CLAIM",
        value_name = "CLAIM",
        default_value = "sub",
        hide_short_help = true
    )]
    pub oidc_name_claim: String,

    /// Claim with the human behind an account, such as an employee number
    ///
    /// Two accounts of one human count as one person in approvals. Without it, each account is one.
    #[arg(
        long,
        env = "REGISTRY_OIDC_PERSON_CLAIM",
        value_name = "CLAIM",
        requires = "oidc_issuer",
        hide_short_help = true
    )]
    pub oidc_person_claim: Option<String>,

    /// Claim with the team of the principal
    ///
    /// A principal without this claim gets the personal team `user:NAME`.
    #[arg(
        long,
        env = "REGISTRY_OIDC_TEAM_CLAIM",
        value_name = "CLAIM",
        default_value = "team",
        hide_short_help = true
    )]
    pub oidc_team_claim: String,

    /// Claim with the roles of the principal: a list, or a string with spaces
    #[arg(
        long,
        env = "REGISTRY_OIDC_ROLES_CLAIM",
        value_name = "CLAIM",
        default_value = "roles",
        hide_short_help = true
    )]
    pub oidc_roles_claim: String,

    /// Mapping of a value of the roles claim to a role: VALUE=ROLE; may be repeated
    ///
    /// Without any mapping, the values are role names. The environment variable separates mappings with
    /// semicolons.
    #[arg(
        long = "oidc-role",
        env = "REGISTRY_OIDC_ROLES",
        value_name = "MAPPING",
        value_delimiter = ';',
        requires = "oidc_issuer",
        hide_short_help = true
    )]
    pub oidc_roles: Vec<RoleRule>,
}

/// Mapping of a value of the roles claim to a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleRule {
    /// Value of the claim.
    pub value: String,
    /// Granted role.
    pub role: Role,
}

impl FromStr for RoleRule {
    type Err = InvalidRole;

    fn from_str(text: &str) -> Result<Self, InvalidRole> {
        let (value, role) = text.rsplit_once('=').unwrap_or((text, ""));
        Ok(Self { value: value.to_owned(), role: role.parse()? })
    }
}
