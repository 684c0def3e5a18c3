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
    /// Creates the verifier; `None` without a configured issuer.
    pub async fn open(config: &OidcConfig) -> Result<Option<Arc<Self>>, InvalidFile> {
        let Some(issuer) = config.oidc_issuer.clone() else { return Ok(None) };
        let file = config.oidc_jwks_file.clone().map(Source::File);
        let source = file.or_else(|| config.oidc_jwks_url.clone().map(Source::Url));
        let Some(source) = source else { return Ok(None) };
        let settings = Settings {
            issuer,
            audience: config.oidc_audience.clone().unwrap_or_default(),
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
}

/// Expiry of a token, including the tolerated clock difference.
#[expect(clippy::cast_possible_truncation, reason = "a later time saturates")]
fn end(claims: &Value) -> Option<Timestamp> {
    let expires = claims.get("exp").and_then(Value::as_f64)?;
    Some(Timestamp::from_millis(((expires + SKEW.as_secs_f64()) * 1000.0) as i64))
}
