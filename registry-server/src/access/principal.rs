//! Who is calling, once that is proved.

use std::{fmt, net::SocketAddr, sync::Arc};

use registry_core::{Timestamp, commit::Origin, rules::Author};

use super::{Caller, Role, Roles, Scopes, failures::network, name::ANONYMOUS};

/// How a principal was authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// Not at all: the server is open.
    Open,
    /// By the API token with this id.
    Token(Arc<str>),
    /// By a client certificate.
    Certificate,
    /// By a token of the identity provider with this issuer.
    Oidc(Arc<str>),
    /// By having the database: the `token` command on the server's machine.
    Local,
}

impl Method {
    /// One word for it, without the token's id.
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
    /// `token 3f9a12c04b7d`, `certificate` …
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(id) => write!(f, "token {id}"),
            Self::Oidc(issuer) => write!(f, "oidc {issuer}"),
            _ => f.write_str(self.word()),
        }
    }
}

/// Somebody who may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The name that commits get as their author.
    pub name: Arc<str>,
    /// The team that owns what it registers.
    pub team: Arc<str>,
    /// What it may do.
    pub roles: Roles,
    /// What it may write, within what its team owns.
    pub scopes: Scopes,
    /// How it was authenticated.
    pub method: Method,
    /// From where.
    pub address: Option<SocketAddr>,
    /// Until when that is proved; none: until it is revoked.
    pub until: Option<Timestamp>,
}

impl Principal {
    /// Whoever calls an open server.
    pub fn anonymous(address: Option<SocketAddr>) -> Self {
        Self { roles: Roles::ALL, address, ..Self::plain(ANONYMOUS, Method::Open) }
    }

    /// Whoever runs a command on the server's own database.
    pub fn local(user: &str) -> Self {
        Self { roles: Roles::ALL, ..Self::plain(user, Method::Local) }
    }

    fn plain(name: &str, method: Method) -> Self {
        let name: Arc<str> = name.into();
        let (roles, scopes, team) = (Roles::NONE, Scopes::default(), name.clone());
        Self { name, team, roles, scopes, method, address: None, until: None }
    }

    /// Whose requests its own are counted with.
    pub fn caller(&self) -> Caller {
        (self.method.word(), self.name.clone())
    }

    /// Whose scopes its own are counted with: where nobody is told apart, those of its network.
    pub fn holder(&self) -> Caller {
        if self.is_authenticated() {
            return self.caller();
        }
        (self.method.word(), network(self.address).to_string().into())
    }

    /// Whether it may do everything.
    pub fn is_admin(&self) -> bool {
        self.roles.has(Role::Admin)
    }

    /// Whether the server knows who it is.
    pub fn is_authenticated(&self) -> bool {
        self.method != Method::Open
    }

    /// The origin that commits seal; none without authentication. The log is immutable, so it contains no
    /// address.
    pub fn origin(&self) -> Option<Origin> {
        let method = self.is_authenticated().then(|| self.method.to_string())?;
        Some(Origin { method, team: Some(self.team.to_string()), address: None })
    }

    /// Under which rights it writes; none where nobody is told apart.
    pub fn claimant(&self) -> Option<Author> {
        self.is_authenticated().then(|| Author {
            team: self.team.clone(),
            scopes: self.scopes.selectors().clone(),
            is_admin: self.is_admin(),
        })
    }

    /// The address as text, without its port; empty where there is none.
    pub fn address_text(&self) -> String {
        self.address.map(|address| address.ip().to_canonical().to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_called_alike_elsewhere_is_another_caller() {
        let by = |method| Principal::plain("rd", method).caller();
        let token = by(Method::Token("3f9a12c04b7d".into()));
        assert_eq!(token, by(Method::Token("000000000000".into())), "a second token of its own");
        assert_ne!(token, by(Method::Oidc("https://id.example".into())));
        assert_ne!(by(Method::Certificate), by(Method::Oidc("https://id.example".into())));
    }
}
