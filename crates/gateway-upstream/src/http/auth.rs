//! The tokens that one upstream is shown: the gateway's own, or one for each caller.
//!
//! Where callers are exchanged for tokens, what the gateway does in nobody's name (listing,
//! listening, looking whether the server is there) goes with a token of its own, by the same client.
//! A caller's token goes to the token endpoint and nowhere else.

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
use crate::{AuthConfig, Grant, TargetId, error::NoCredentials};

/// Most tokens that are kept for one target.
const TOKENS: usize = 10_000;

/// Where the tokens for one target come from, and those that are there.
#[derive(Debug)]
pub(super) struct Auth {
    server: TargetId,
    grant: Grant,
    endpoint: TokenEndpoint,
    tokens: Tokens,
}

impl Auth {
    /// Must be called inside a runtime.
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

    /// Whether callers are exchanged for tokens.
    pub(super) fn exchanges(&self) -> bool {
        self.grant == Grant::TokenExchange
    }

    /// The value of `Authorization` for what is done in this caller's name, or in nobody's.
    pub(super) async fn token(&self, subject: Option<&SubjectToken>) -> Result<HeaderValue, Error> {
        let subject = subject.filter(|_| self.exchanges());
        let fetch = self.endpoint.fetch(subject);
        self.tokens.get(whose(subject), fetch).await.map_err(|why| {
            let (target, endpoint) = (self.server.clone(), self.endpoint.shown().into());
            Error::NoCredentials(Box::new(NoCredentials { target, endpoint, why }))
        })
    }

    /// The upstream does not take this token: it is used no more.
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
