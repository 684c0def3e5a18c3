//! Principals of tokens from an identity provider.

mod claims;
mod settings;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use registry_core::Timestamp;
use registry_jwt::{ASYMMETRIC, InvalidFile, Settings, Source, UnknownKey, Verifier};
use serde_json::Value;

use self::claims::Claims;
use super::{Denied, Principal, failures::Lookup};
pub use settings::{OidcConfig, RoleRule};

/// Tolerated difference between the clocks.
const SKEW: Duration = Duration::from_secs(30);

/// Verifier of tokens from an identity provider.
pub struct Oidc {
    claims: Claims,
    verifier: Arc<Verifier>,
}

impl Oidc {
    /// Creates the verifier of access tokens; `None` without a configured issuer.
    pub async fn open(config: &OidcConfig) -> Result<Option<Arc<Self>>, InvalidFile> {
        Self::for_audience(config, config.oidc_audience.as_deref().unwrap_or_default()).await
    }

    /// Creates the verifier of tokens for another audience; `None` without a configured issuer.
    pub async fn for_audience(
        config: &OidcConfig,
        audience: &str,
    ) -> Result<Option<Arc<Self>>, InvalidFile> {
        let Some(issuer) = config.oidc_issuer.clone() else { return Ok(None) };
        let file = config.oidc_jwks_file.clone().map(Source::File);
        let source = file.or_else(|| config.oidc_jwks_url.clone().map(Source::Url));
        let Some(source) = source else { return Ok(None) };
        let settings = Settings {
            issuer,
            audience: audience.to_owned(),
            source,
            algorithms: ASYMMETRIC.to_vec(),
            skew: SKEW,
        };
        let verifier = Verifier::open(settings).await?;
        Ok(Some(Arc::new(Self { claims: Claims::new(config), verifier })))
    }

    /// Verifies a token. The log has the details of a failure.
    pub(super) async fn principal(
        &self,
        token: &str,
        address: Option<SocketAddr>,
        lookup: Lookup,
    ) -> Result<Principal, Denied> {
        let invalid = |reason: String| Denied::Invalid(format!("jwt: {reason}"));
        let unknown =
            if lookup == Lookup::Allowed { UnknownKey::Refetch } else { UnknownKey::Reject };
        let claims = self.verifier.verify(token, unknown).await.map_err(invalid)?;
        let principal = self.claims.principal(&claims, address).map_err(invalid)?;
        Ok(Principal { until: end(&claims), ..principal })
    }

    /// Verifies the ID token of a sign-in (`OpenID` Connect Core 1.0, section 3.1.3.7). The audience is the client. An
    /// error is the reason for the log.
    pub(crate) async fn id_token(
        &self,
        token: &str,
        nonce: &str,
        address: Option<SocketAddr>,
    ) -> Result<Principal, String> {
        let claims = self.verifier.verify(token, UnknownKey::Refetch).await?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("nonce") != Some(nonce) {
            return Err("the ID token belongs to another sign-in (`nonce`)".to_owned());
        }
        let is_shared = claims["aud"].as_array().is_some_and(|audiences| audiences.len() > 1);
        let has_party = claims.get("azp").is_some() || is_shared;
        if has_party && text("azp") != Some(self.verifier.settings().audience.as_str()) {
            return Err("the ID token was issued to another client (`azp`)".to_owned());
        }
        // It has no expiry: an ID token proves a sign-in, not a session.
        let principal = self.claims.principal(&claims, address)?;
        if principal.subject.is_none() {
            return Err("the ID token has no valid account (`sub`)".to_owned());
        }
        Ok(principal)
    }
}

/// Expiry of a token, including the tolerated clock difference.
#[expect(clippy::cast_possible_truncation, reason = "a later time saturates")]
fn end(claims: &Value) -> Option<Timestamp> {
    let expires = claims.get("exp").and_then(Value::as_f64)?;
    Some(Timestamp::from_millis(((expires + SKEW.as_secs_f64()) * 1000.0) as i64))
}
