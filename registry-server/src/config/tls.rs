//! TLS on the server's port, and whose certificates are known. The files may be replaced while the
//! server runs.
//!
//! Deliberately absent: asking authorities which certificates they have revoked (OCSP).

use std::{path::PathBuf, str::FromStr};

use clap::Args;
use registry_tls::{Acceptor, Clients, Counts, InvalidFile, SPIFFE, ServerFiles, is_like_spiffe};

use super::InvalidConfig;
use crate::{
    access::{InvalidRole, Role, Roles, is_personal},
    metrics,
};

/// TLS on the server's port.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsConfig {
    /// The server's certificate and those that it leads to (PEM).
    #[arg(long, env = "REGISTRY_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Its key (PEM).
    #[arg(long, env = "REGISTRY_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// The certificates (PEM) that a client's must lead to. A client may show none, and a token.
    #[arg(long, env = "REGISTRY_TLS_CLIENT_CA", value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,

    /// Which certificates those have revoked: their lists (CRL, PEM), one of each at least.
    #[arg(long, env = "REGISTRY_TLS_CLIENT_CRL", value_name = "FILE", requires = "tls_client_ca")]
    pub tls_client_crl: Option<PathBuf>,

    /// Who a client's certificate is: `NAME=TEAM:ROLE[,ROLE…]`, where NAME is its SPIFFE id or, if
    /// it has none, the common name of its subject; `*` at the end stands for any rest. The longest
    /// NAME that fits holds. May be given several times.
    #[arg(
        long = "tls-client",
        env = "REGISTRY_TLS_CLIENTS",
        value_name = "RULE",
        value_delimiter = ';',
        requires = "tls_client_ca"
    )]
    pub tls_clients: Vec<ClientRule>,
}

impl TlsConfig {
    /// What accepts TLS, where there is a certificate.
    pub(crate) fn acceptor(&self) -> Result<Option<Acceptor>, InvalidConfig> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let files = ServerFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: self.tls_client_ca.clone(),
            client_crl: self.tls_client_crl.clone(),
            clients: Clients::MayShow,
            protocols: &["h2", "http/1.1"],
        };
        let counts =
            Counts { changed: metrics::tls_changed, refused: metrics::certificate_refused };
        Ok(Some(Acceptor::open(files, counts)?))
    }
}

impl From<InvalidFile> for InvalidConfig {
    fn from(InvalidFile { path, reason }: InvalidFile) -> Self {
        Self::File { path, reason }
    }
}

/// What the holders of certificates with such a name may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRule {
    /// The name, without the `*` at its end.
    pub name: String,
    /// Whether other names may begin so.
    pub is_prefix: bool,
    /// The team that owns what they register.
    pub team: String,
    /// What they may do.
    pub roles: Roles,
}

impl ClientRule {
    /// Whether it is about SPIFFE ids; else it is about common names.
    pub fn is_spiffe(&self) -> bool {
        self.name.starts_with(SPIFFE)
    }
}

/// A text that is no such rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidClientRule {
    /// Its parts.
    #[error("`{0}` is not of the form NAME=TEAM:ROLE[,ROLE…]")]
    Form(String),
    /// A SPIFFE id with no scheme or another one, or cut within it.
    #[error("`{0}` begins like a SPIFFE id, and not with {SPIFFE}")]
    Scheme(String),
    /// The team of a single person.
    #[error("the team `{0}` begins like the teams of persons, which only the server gives")]
    Personal(String),
    /// A role.
    #[error(transparent)]
    Role(#[from] InvalidRole),
}

impl FromStr for ClientRule {
    type Err = InvalidClientRule;

    fn from_str(text: &str) -> Result<Self, InvalidClientRule> {
        let form = || InvalidClientRule::Form(text.to_owned());
        let (name, rest) = text.rsplit_once('=').ok_or_else(form)?;
        let (team, roles) = rest.rsplit_once(':').ok_or_else(form)?;
        let (name, is_prefix) = name.strip_suffix('*').map_or((name, false), |name| (name, true));
        if team.is_empty() || name.is_empty() {
            return Err(form());
        }
        if is_like_spiffe(name) && !name.starts_with(SPIFFE) {
            return Err(InvalidClientRule::Scheme(text.to_owned()));
        }
        if is_personal(team) {
            return Err(InvalidClientRule::Personal(team.to_owned()));
        }
        let roles = roles.split(',').map(Role::from_str).collect::<Result<_, _>>()?;
        Ok(Self { name: name.to_owned(), is_prefix, team: team.to_owned(), roles })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_who_the_team_and_the_roles() {
        let rule: ClientRule = "spiffe://prod/gateways/*=platform:gateway,reader".parse().unwrap();
        assert_eq!((&*rule.name, rule.is_prefix), ("spiffe://prod/gateways/", true));
        assert_eq!(
            (&*rule.team, rule.roles),
            ("platform", Roles::of(&[Role::Gateway, Role::Reader]))
        );
        for bad in [
            "",
            "a",
            "a=b",
            "a=b:",
            "a=:reader",
            "=t:reader",
            "*=t:reader",
            "a=b:root",
            "SPIFFE://x=t:reader",
            "spiffe:*=t:reader",
            "a=user:b:reader",
        ] {
            assert!(bad.parse::<ClientRule>().is_err(), "{bad}");
        }
    }
}
