//! Authentication and authorization of requests.
//!
//! `gate` runs before every gRPC and HTTP route: it authenticates the caller, checks the required role and
//! the rate limit, and passes the [`Principal`] to the handlers.

mod certificates;
mod denied;
mod failures;
mod name;
mod oidc;
mod principal;
mod rate;
pub(crate) mod requirements;
mod role;
mod scope;
mod secret;
mod settings;
mod token;
mod tokens;

use std::{
    future::pending,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use self::{failures::Lookup, secret::PREFIX};
use crate::clock::Clock;
use http::{HeaderMap, header::AUTHORIZATION};
use tokio::time::sleep;

pub use certificates::{Certificates, ClientRule, InvalidClientRule};
pub use denied::Denied;
pub use failures::Failures;
pub use name::is_personal;
pub use oidc::{Oidc, OidcConfig, RoleRule};
pub use principal::{Method, Principal};
pub use rate::RateLimit;
pub use requirements::{Requirement, known_path};
pub use role::{InvalidRole, Role, Roles};
pub use scope::{MAX_SCOPES, Scopes};
pub use secret::TokenSecret;
pub use settings::AccessConfig;
pub use token::{InvalidToken, NewToken};
pub use tokens::{Issued, MAX_ACTIVE_TOKENS, Tokens};

/// Authenticates and authorizes requests.
pub struct Access {
    /// Whether authentication is disabled.
    pub is_open: bool,
    /// Whether reads of the MCP registry API requirement no authentication.
    pub is_mcp_public: bool,
    /// API tokens.
    pub tokens: Arc<Tokens>,
    /// Certificates of clients.
    pub certificates: Certificates,
    /// Verifier for tokens of the identity provider.
    pub oidc: Option<Arc<Oidc>>,
    /// Rate limit of each caller; `None` disables it.
    pub rate: Option<RateLimit<QuotaKey>>,
    /// Rate limit of failed authentication attempts of each address.
    pub failures: Failures,
    /// Clock for expiry times.
    pub clock: Arc<dyn Clock>,
}

/// Key of quotas: the authentication method and the name of the principal.
pub type QuotaKey = (&'static str, Arc<str>);

/// Credentials of a request, before verification.
pub(crate) struct PresentedCredentials<'a> {
    pub(crate) headers: &'a HeaderMap,
    /// Client certificate (DER), verified by TLS.
    pub(crate) certificate: Option<&'a [u8]>,
    pub(crate) address: Option<SocketAddr>,
}

impl Access {
    /// Authenticates and authorizes a request. Returns `None` if the route is public.
    pub(crate) async fn admit(
        &self,
        requirement: Option<Requirement>,
        credentials: &PresentedCredentials<'_>,
    ) -> Result<Option<Principal>, Denied> {
        if self.is_open {
            return Ok(Some(Principal::anonymous(credentials.address)));
        }
        let requirement = requirement.ok_or(Denied::UnknownRoute)?;
        if requirement == Requirement::None {
            return Ok(None);
        }
        let lookup = self.failures.lookup(credentials.address, Instant::now());
        let failed = |denied| self.failures.record(credentials.address, denied, Instant::now());
        let principal = self.authenticate(credentials, lookup).await.map_err(failed)?;
        // A relay forwards the requests of many gateways, and limits each of them.
        if let Some(rate) = &self.rate
            && !principal.roles.has(Role::Relay)
        {
            rate.take(&principal.rate_key(), Instant::now()).map_err(Denied::RateLimited)?;
        }
        if let Requirement::AnyRole(roles) = requirement
            && !principal.roles.intersects(roles)
        {
            let name = principal.name.to_string();
            return Err(Denied::Forbidden { name, has: principal.roles, needs: roles });
        }
        Ok(Some(principal))
    }

    /// Authenticates the API token that a person exchanges for a session.
    pub(crate) async fn exchange(
        &self,
        token: &str,
        address: Option<SocketAddr>,
    ) -> Result<Principal, Denied> {
        let lookup = self.failures.lookup(address, Instant::now());
        let failed = |denied| self.failures.record(address, denied, Instant::now());
        let token = self.tokens.find(token, lookup).await.map_err(failed)?;
        Ok(token.principal(address))
    }

    /// Completes when the credential of the principal expires or is revoked.
    pub async fn ended(&self, principal: &Principal) {
        let expiry = async {
            match principal.until {
                Some(until) => {
                    let left = until.as_millis().saturating_sub(self.clock.now().as_millis());
                    sleep(Duration::from_millis(left.try_into().unwrap_or(0))).await;
                }
                None => pending().await,
            }
        };
        match &principal.method {
            Method::Token(id) => tokio::select! {
                () = expiry => {}
                () = self.tokens.ended(id) => {}
            },
            Method::Open | Method::Certificate | Method::Oidc(_) | Method::Local => expiry.await,
        }
    }

    /// Authenticates a request. An invalid token is never ignored in favor of a client certificate.
    async fn authenticate(
        &self,
        credentials: &PresentedCredentials<'_>,
        lookup: Lookup,
    ) -> Result<Principal, Denied> {
        let mut headers = credentials.headers.get_all(AUTHORIZATION).iter();
        let Some(header) = headers.next() else {
            let certificate = credentials.certificate.ok_or(Denied::Missing)?;
            let now = self.clock.now();
            return self.certificates.principal(certificate, credentials.address, now);
        };
        let invalid = |reason: &str| Denied::Invalid(reason.to_owned());
        if headers.next().is_some() {
            return Err(invalid("there are several authorization headers"));
        }
        let header = header.to_str().map_err(|_| invalid("the header is not text"))?;
        let (scheme, token) = header.split_once(' ').ok_or_else(|| invalid("no scheme"))?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(invalid("the scheme is not Bearer"));
        }
        let token = token.trim();
        match &self.oidc {
            Some(oidc) if !token.starts_with(PREFIX) => {
                oidc.principal(token, credentials.address, lookup).await
            }
            _ => Ok(self.tokens.find(token, lookup).await?.principal(credentials.address)),
        }
    }
}
