//! Access: who is calling, whether that is so, and what they may do.
//!
//! `gate` stands before every route of gRPC and HTTP: it authenticates, asks the table in `needs`,
//! limits the rate, and hands the [`Principal`] to the handlers.

mod certificates;
mod denied;
mod failures;
mod name;
pub(crate) mod needs;
mod oidc;
mod principal;
mod rate;
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

use self::{failures::Ask, secret::PREFIX};
use crate::clock::Clock;
use http::{HeaderMap, header::AUTHORIZATION};
use tokio::time::sleep;

pub use certificates::{Certificates, ClientRule, InvalidClientRule};
pub use denied::Denied;
pub use failures::Failures;
pub use name::is_personal;
pub use needs::{Need, known_path};
pub use oidc::{Oidc, OidcConfig, RoleRule};
pub use principal::{Method, Principal};
pub use rate::RateLimit;
pub use role::{InvalidRole, Role, Roles};
pub use scope::{SCOPES, Scopes};
pub use secret::TokenSecret;
pub use settings::AccessConfig;
pub use token::{InvalidToken, NewToken};
pub use tokens::{Issued, LIVE, Tokens};

/// Decides who may call what.
pub struct Access {
    /// Whether nobody is asked who they are.
    pub is_open: bool,
    /// Whether reads of the MCP registry API need nothing.
    pub is_mcp_public: bool,
    /// API tokens.
    pub tokens: Arc<Tokens>,
    /// Certificates of clients.
    pub certificates: Certificates,
    /// Tokens of the identity provider.
    pub oidc: Option<Arc<Oidc>>,
    /// How much a principal may ask; none: as much as it likes.
    pub rate: Option<RateLimit<Caller>>,
    /// How often each address may fail to prove who it is.
    pub failures: Failures,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
}

/// Whose requests are counted together: by how it is authenticated, and its name.
pub type Caller = (&'static str, Arc<str>);

/// What a call shows of its caller.
pub(crate) struct Shown<'a> {
    pub(crate) headers: &'a HeaderMap,
    /// The certificate (DER) that TLS has proved.
    pub(crate) certificate: Option<&'a [u8]>,
    pub(crate) address: Option<SocketAddr>,
}

impl Access {
    /// Lets a call in, or not. `None`: nobody had to be anybody.
    pub(crate) async fn admit(
        &self,
        need: Option<Need>,
        shown: &Shown<'_>,
    ) -> Result<Option<Principal>, Denied> {
        if self.is_open {
            return Ok(Some(Principal::anonymous(shown.address)));
        }
        let need = need.ok_or(Denied::NoRule)?;
        if need == Need::Nothing {
            return Ok(None);
        }
        let ask = self.failures.ask(shown.address, Instant::now());
        let failed = |denied| self.failures.note(shown.address, denied, Instant::now());
        let principal = self.authenticate(shown, ask).await.map_err(failed)?;
        if let Some(rate) = &self.rate {
            rate.take(&principal.caller(), Instant::now()).map_err(Denied::Limited)?;
        }
        if let Need::OneOf(roles) = need
            && !principal.roles.meets(roles)
        {
            let name = principal.name.to_string();
            return Err(Denied::Forbidden { name, has: principal.roles, needs: roles });
        }
        Ok(Some(principal))
    }

    /// Waits until what proved a principal proves nothing any more: it is over, or was revoked.
    pub async fn ended(&self, principal: &Principal) {
        let over = async {
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
                () = over => {}
                () = self.tokens.ended(id) => {}
            },
            Method::Open | Method::Certificate | Method::Oidc(_) | Method::Local => over.await,
        }
    }

    /// A proof that fails is never replaced by a weaker one.
    async fn authenticate(&self, shown: &Shown<'_>, ask: Ask) -> Result<Principal, Denied> {
        let mut proofs = shown.headers.get_all(AUTHORIZATION).iter();
        let Some(proof) = proofs.next() else {
            let certificate = shown.certificate.ok_or(Denied::Missing)?;
            let now = self.clock.now();
            return self.certificates.principal(certificate, shown.address, now);
        };
        let invalid = |why: &str| Denied::Invalid(why.to_owned());
        if proofs.next().is_some() {
            return Err(invalid("there are several authorization headers"));
        }
        let proof = proof.to_str().map_err(|_| invalid("the header is not text"))?;
        let (scheme, token) = proof.split_once(' ').ok_or_else(|| invalid("no scheme"))?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(invalid("the scheme is not Bearer"));
        }
        let token = token.trim();
        match &self.oidc {
            Some(oidc) if !token.starts_with(PREFIX) => {
                oidc.principal(token, shown.address, ask).await
            }
            _ => Ok(self.tokens.find(token, ask).await?.principal(shown.address)),
        }
    }
}
