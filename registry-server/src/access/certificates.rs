//! Principals of client certificates: maps a SPIFFE id or a common name to a team and roles.
//!
//! TLS has verified the certificate and its revocation status before.

use std::{net::SocketAddr, str::FromStr};

use registry_core::Timestamp;
use registry_tls::{Holder, SPIFFE, is_like_spiffe};

use super::{
    Denied, InvalidRole, Method, Principal, Role, Roles, Scopes,
    name::{invalid_reason, is_personal},
};

/// Maximum bytes of a name.
const NAME_BYTES: usize = 256;

/// Rules for client certificates.
#[derive(Debug, Clone, Default)]
pub struct Certificates(Vec<ClientRule>);

impl Certificates {
    /// Creates the set from the configured rules.
    pub fn new(rules: Vec<ClientRule>) -> Self {
        Self(rules)
    }

    /// Returns the principal of a certificate (DER). Checks the expiry, because a connection may outlive its
    /// certificate.
    pub(super) fn principal(
        &self,
        certificate: &[u8],
        address: Option<SocketAddr>,
        now: Timestamp,
    ) -> Result<Principal, Denied> {
        let shown = read(certificate)
            .map_err(|reason| Denied::Invalid(format!("certificate: {reason}")))?;
        let Holder { name, is_spiffe, until_seconds } = shown;
        let until = Timestamp::from_millis(until_seconds.saturating_mul(1000));
        if until <= now {
            return Err(Denied::Invalid(format!("the certificate of `{name}` has expired")));
        }
        let fits = |rule: &&ClientRule| {
            if rule.is_spiffe() != is_spiffe {
                false
            } else if rule.is_prefix {
                name.starts_with(&rule.name)
            } else {
                name == rule.name
            }
        };
        let rule = self.0.iter().filter(fits).max_by_key(|rule| (rule.name.len(), !rule.is_prefix));
        let rule =
            rule.ok_or_else(|| Denied::Invalid(format!("no rule for certificate `{name}`")))?;
        Ok(Principal {
            name: name.into(),
            team: rule.team.as_str().into(),
            roles: rule.roles,
            scopes: Scopes::default(),
            method: Method::Certificate,
            subject: None,
            person: None,
            lacks_person: false,
            address,
            until: Some(until),
        })
    }
}

fn read(certificate: &[u8]) -> Result<Holder, String> {
    let holder = Holder::read(certificate)?;
    match invalid_reason(&holder.name, NAME_BYTES) {
        Some(reason) => Err(format!("its name {reason}")),
        None => Ok(holder),
    }
}

/// The rights of certificates with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRule {
    /// The name, without the `*` at its end.
    pub name: String,
    /// Whether `name` is a prefix.
    pub is_prefix: bool,
    /// The team that owns the registered entities.
    pub team: String,
    /// The granted roles.
    pub roles: Roles,
}

impl ClientRule {
    /// Whether the name is a SPIFFE id, not a common name.
    pub fn is_spiffe(&self) -> bool {
        self.name.starts_with(SPIFFE)
    }
}

/// An invalid [`ClientRule`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidClientRule {
    /// A part is missing.
    #[error("invalid rule `{0}`: use NAME=TEAM:ROLE[,ROLE…]")]
    Form(String),
    /// A SPIFFE id with an invalid or incomplete scheme.
    #[error("invalid SPIFFE id in `{0}`: it must start with {SPIFFE}")]
    Scheme(String),
    /// A team name reserved for a single person.
    #[error("invalid team `{0}`: the prefix `user:` is reserved for personal teams")]
    Personal(String),
    /// An unknown role.
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
    fn client_rule_parses_or_is_rejected() {
        let rule: ClientRule = "spiffe://prod/gateways/*=platform:gateway,reader".parse().unwrap();
        assert_eq!((&*rule.name, rule.is_prefix), ("spiffe://prod/gateways/", true));
        assert_eq!(
            (&*rule.team, rule.roles),
            ("platform", Roles::new(&[Role::Gateway, Role::Reader]))
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
