//! The access tokens for one upstream: the gateway's own, or one per caller.
//!
//! With token exchange, requests of the gateway itself (listing, listening, health checks) use the
//! gateway's own token from the same client. A caller's token is sent only to the token endpoint.

mod cache;
mod endpoint;
mod issued;

use gateway_policy::SubjectToken;
use http::HeaderValue;

use self::{
    cache::{Tokens, Whose},
    endpoint::TokenEndpoint,
};
use super::{Client, Error, client::InvalidAddress};
use crate::{AuthConfig, Grant, TargetId, error::MissingToken};

/// Maximum number of cached tokens of one target.
const TOKENS: usize = 10_000;

/// The token source and the cached tokens of one target.
#[derive(Debug)]
pub(super) struct Auth {
    server: TargetId,
    grant: Grant,
    endpoint: TokenEndpoint,
    tokens: Tokens,
}

impl Auth {
    /// Must be called inside a Tokio runtime.
    pub(super) fn open(
        server: &TargetId,
        config: &AuthConfig,
        shared: &Client,
    ) -> Result<Self, InvalidAddress> {
        Ok(Self {
            server: server.clone(),
            grant: config.grant,
            endpoint: TokenEndpoint::open(server, config, shared)?,
            tokens: Tokens::new(TOKENS),
        })
    }

    /// Whether tokens of callers are exchanged.
    pub(super) fn exchanges(&self) -> bool {
        self.grant == Grant::TokenExchange
    }

    /// The `Authorization` value for requests of this caller, or of the gateway itself.
    pub(super) async fn token(&self, subject: Option<&SubjectToken>) -> Result<HeaderValue, Error> {
        let subject = subject.filter(|_| self.exchanges());
        let fetch = self.endpoint.fetch(subject);
        self.tokens.get(whose(subject), fetch).await.map_err(|why| {
            let (target, endpoint) = (self.server.clone(), self.endpoint.shown().into());
            Error::MissingToken(Box::new(MissingToken { target, endpoint, why }))
        })
    }

    /// Drops a token that the upstream rejected.
    pub(super) fn forget(&self, subject: Option<&SubjectToken>, token: &HeaderValue) {
        self.tokens.forget(&whose(subject.filter(|_| self.exchanges())), token);
    }
}

fn whose(subject: Option<&SubjectToken>) -> Whose {
    match subject {
        None => Whose::Gateway,
        Some(subject) => {
            Whose::Caller { principal: subject.principal().into(), token: subject.digest() }
        }
    }
}
