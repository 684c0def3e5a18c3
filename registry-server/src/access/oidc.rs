//! Tokens of an identity provider: a JWT is believed if its signature is by one of the provider's
//! keys, by an algorithm that fits that key, and if it is for us, by it, and not over.
//!
//! Algorithms are listed, not taken from the token: `none` and the symmetric ones are not among
//! them. Deliberately absent: discovery, and tokens that are no JWT.

mod claims;
mod keys;

use std::{
    net::SocketAddr,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use jsonwebtoken::{Validation, decode, decode_header};
use serde_json::{Map, Value};
use tokio::{sync::Mutex, time::sleep};

use self::{
    claims::Claims,
    keys::{Keys, Source},
};
use super::{Denied, Principal, failures::Ask};
use crate::config::{InvalidConfig, OidcConfig};

/// How far clocks may be apart, in seconds.
const SKEW: u64 = 30;
/// How often the keys are read.
const FRESH: Duration = Duration::from_mins(5);
/// How often a key that is not known may make the server look.
const LOOK: Duration = Duration::from_secs(10);

/// An identity provider.
pub struct Oidc {
    issuer: String,
    audience: String,
    claims: Claims,
    source: Source,
    keys: ArcSwap<Keys>,
    /// When somebody last looked; none: the keys were not had yet. Held while looking.
    looked: Mutex<Option<Instant>>,
}

impl Oidc {
    /// By these settings; `None` where they name no issuer. A file must be readable now; what is
    /// elsewhere may come later.
    pub async fn open(config: &OidcConfig) -> Result<Option<Arc<Self>>, InvalidConfig> {
        let Some(issuer) = config.oidc_issuer.clone() else { return Ok(None) };
        let Some(source) = Source::of(config) else { return Ok(None) };
        let (keys, looked) = match (source.read().await, &source) {
            (Ok(keys), _) => (keys, Some(Instant::now())),
            (Err(reason), Source::File(path)) => {
                return Err(InvalidConfig::File { path: path.clone(), reason });
            }
            (Err(reason), Source::Url(_)) => {
                tracing::warn!(reason, "the identity provider's keys cannot be had yet");
                (Keys::default(), None)
            }
        };
        let oidc = Arc::new(Self {
            issuer,
            audience: config.oidc_audience.clone().unwrap_or_default(),
            claims: Claims::of(config),
            source,
            keys: ArcSwap::from_pointee(keys),
            looked: Mutex::new(looked),
        });
        tokio::spawn(keep_fresh(Arc::downgrade(&oidc)));
        Ok(Some(oidc))
    }

    /// Whoever this token is for. What is wrong with it is for the log only.
    pub(super) async fn principal(
        &self,
        token: &str,
        address: Option<SocketAddr>,
        ask: Ask,
    ) -> Result<Principal, Denied> {
        let invalid = |why: String| Denied::Invalid(format!("jwt: {why}"));
        let header = decode_header(token).map_err(|e| invalid(e.to_string()))?;
        if header.crit.is_some() {
            return Err(invalid("it has critical extensions, and none is known here".to_owned()));
        }
        let (algorithm, id) = (header.alg, header.kid.as_deref());
        if ask == Ask::Yes && !self.keys.load().knows(id) {
            self.look().await;
        }
        let keys = self.keys.load();
        let key = keys.find(id, algorithm).map_err(|why| invalid(why.to_owned()))?;
        let mut validation = Validation::new(algorithm);
        validation.leeway = SKEW;
        validation.validate_nbf = true;
        validation.set_audience(&[&self.audience]);
        validation.set_issuer(&[&self.issuer]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let decoded = decode::<Map<String, Value>>(token, key, &validation);
        let claims = decoded.map_err(|e| invalid(e.to_string()))?.claims;
        self.claims.principal(&Value::Object(claims), address).map_err(invalid)
    }

    /// Reads the keys, unless somebody has done so a short while ago.
    async fn look(&self) {
        let mut looked = self.looked.lock().await;
        if looked.is_none_or(|looked| looked.elapsed() > LOOK) {
            self.refresh().await;
            *looked = Some(Instant::now());
        }
    }

    async fn refresh(&self) {
        match self.source.read().await {
            Ok(keys) => self.keys.store(Arc::new(keys)),
            Err(reason) => {
                tracing::warn!(
                    reason,
                    "the identity provider's keys were not read; the known go on"
                );
            }
        }
    }
}

async fn keep_fresh(oidc: Weak<Oidc>) {
    loop {
        sleep(FRESH).await;
        let Some(oidc) = oidc.upgrade() else { return };
        oidc.refresh().await;
    }
}
