//! Authenticated callers.

use std::{fmt, net::SocketAddr, sync::Arc};

use registry_core::{Timestamp, commit::Origin, rules::WritePermissions};

use crate::store::NewAccessEvent;

use super::{QuotaKey, Role, Roles, Scopes, failures::network, name::ANONYMOUS};

/// Authentication method of a principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// None: authentication is disabled.
    Open,
    /// API token with this id.
    Token(Arc<str>),
    /// Client certificate.
    Certificate,
    /// Token of the identity provider with this issuer.
    Oidc(Arc<str>),
    /// Access to the database: an administrative command on the server's host.
    Local,
}

impl Method {
    fn word(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Token(_) => "token",
            Self::Certificate => "certificate",
            Self::Oidc(_) => "oidc",
            Self::Local => "local",
        }
    }
}

impl fmt::Display for Method {
    /// Formats the method with its id, for example `token 3f9a12c04b7d` or `certificate`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(id) => write!(f, "token {id}"),
            Self::Oidc(issuer) => write!(f, "oidc {issuer}"),
            _ => f.write_str(self.word()),
        }
    }
}

/// An authenticated caller, or the anonymous one if authentication is disabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Name, recorded as the author of commits.
    pub name: Arc<str>,
    /// Team that owns the registered entities.
    pub team: Arc<str>,
    /// Granted roles.
    pub roles: Roles,
    /// Names that the principal may write, within those of its team.
    pub scopes: Scopes,
    /// Authentication method.
    pub method: Method,
    /// Account at the identity provider: the claim `sub`. `None` without a provider or without a valid claim.
    pub subject: Option<Arc<str>>,
    /// Human behind the account, if the identity provider names one.
    pub person: Option<Arc<str>>,
    /// Whether a claim must name the human, but does not.
    pub lacks_person: bool,
    /// Client address.
    pub address: Option<SocketAddr>,
    /// Expiry of the credential; `None` if only revocation ends it.
    pub until: Option<Timestamp>,
}

impl Principal {
    /// Principal of every caller if authentication is disabled.
    pub fn anonymous(address: Option<SocketAddr>) -> Self {
        Self { roles: Roles::ALL, address, ..Self::plain(ANONYMOUS, Method::Open) }
    }

    /// Principal of an administrative command.
    pub fn local(user: &str) -> Self {
        Self { roles: Roles::ALL, ..Self::plain(user, Method::Local) }
    }

    fn plain(name: &str, method: Method) -> Self {
        let name: Arc<str> = name.into();
        let (roles, scopes, team) = (Roles::NONE, Scopes::default(), name.clone());
        let (subject, person, address, until) = (None, None, None, None);
        let lacks_person = false;
        Self { name, team, roles, scopes, method, subject, person, lacks_person, address, until }
    }

    /// Key of the rate limit.
    pub fn rate_key(&self) -> QuotaKey {
        (self.method.word(), self.name.clone())
    }

    /// Key of the scope quota: the principal, or the client's network if authentication is disabled.
    pub fn scope_quota_key(&self) -> QuotaKey {
        if self.is_authenticated() {
            return self.rate_key();
        }
        (self.method.word(), network(self.address).to_string().into())
    }

    /// Whether the principal has the admin role.
    pub fn is_admin(&self) -> bool {
        self.roles.has(Role::Admin)
    }

    /// Whether the principal was authenticated.
    pub fn is_authenticated(&self) -> bool {
        self.method != Method::Open
    }

    /// Origin to record in commits; `None` without authentication. It has no address, because the log is
    /// immutable.
    pub fn origin(&self) -> Option<Origin> {
        let method = self.is_authenticated().then(|| self.method.to_string())?;
        Some(Origin { method, team: Some(self.team.to_string()), address: None })
    }

    /// Write permissions; `None` without authentication.
    pub fn permissions(&self) -> Option<WritePermissions> {
        self.is_authenticated().then(|| WritePermissions {
            team: self.team.clone(),
            scopes: self.scopes.selectors().clone(),
            is_publisher: self.roles.has(Role::Publisher),
            is_governor: self.roles.has(Role::Governor),
            is_admin: self.is_admin(),
        })
    }

    /// Client address without its port; empty if unknown.
    pub fn address_text(&self) -> String {
        self.address.map(|address| address.ip().to_canonical().to_string()).unwrap_or_default()
    }

    /// Access event of this principal.
    pub fn access_event(&self, at: Timestamp, detail: String) -> NewAccessEvent {
        let (principal, method) = (self.name.to_string(), self.method.to_string());
        NewAccessEvent { at, principal, method, address: self.address_text(), detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_key_separates_authentication_methods() {
        let by = |method| Principal::plain("rd", method).rate_key();
        let token = by(Method::Token("3f9a12c04b7d".into()));
        assert_eq!(token, by(Method::Token("000000000000".into())), "a second token of its own");
        assert_ne!(token, by(Method::Oidc("https://id.example".into())));
        assert_ne!(by(Method::Certificate), by(Method::Oidc("https://id.example".into())));
    }
}
