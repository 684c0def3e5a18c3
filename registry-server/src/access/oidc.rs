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
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Header, Validation, decode, decode_header, get_current_timestamp};
use registry_core::{Timestamp, document::parse_json};
use serde::de::IgnoredAny;
use serde_json::Value;
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
        check_header(&header).map_err(|why| invalid(why.to_owned()))?;
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
        decode::<IgnoredAny>(token, key, &validation).map_err(|e| invalid(e.to_string()))?;
        let claims = read_claims(token).map_err(invalid)?;
        let principal = self.claims.principal(&claims, address).map_err(invalid)?;
        Ok(Principal { until: end(&claims), ..principal })
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

/// What the header must not say.
fn check_header(header: &Header) -> Result<(), &'static str> {
    if header.crit.is_some() {
        return Err("it has critical extensions, and none is known here");
    }
    let typ = header.typ.as_deref().unwrap_or("JWT");
    let typ = typ.strip_prefix("application/").unwrap_or(typ);
    let is_known = ["JWT", "at+jwt"].iter().any(|known| typ.eq_ignore_ascii_case(known));
    is_known.then_some(()).ok_or("its `typ` is neither JWT nor at+jwt: it is for something else")
}

/// The claims of a proven token. A claim that is written twice is none that two readers agree on.
fn read_claims(token: &str) -> Result<Value, String> {
    let claims = token.split('.').nth(1).unwrap_or_default();
    let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|e| e.to_string())?;
    let claims = parse_json(&claims).map_err(|e| e.to_string())?;
    // RFC 7519, section 4.1.1; the library takes a list of them too.
    if !claims.get("iss").is_some_and(Value::is_string) {
        return Err("the claim `iss` is not a text".to_owned());
    }
    let latest = get_current_timestamp() + SKEW;
    match claims.get("iat").map(Value::as_f64) {
        Some(None) => Err("the claim `iat` is not a number".to_owned()),
        Some(Some(made)) if made > seconds(latest) => Err("it is from the future (iat)".to_owned()),
        _ => Ok(claims),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a time has far fewer than 2^53 seconds")]
fn seconds(whole: u64) -> f64 {
    whole as f64
}

/// Until when a token is taken.
#[expect(clippy::cast_possible_truncation, reason = "a time past all others is the last there is")]
fn end(claims: &Value) -> Option<Timestamp> {
    let expires = claims.get("exp").and_then(Value::as_f64)?;
    Some(Timestamp::from_millis(((expires + seconds(SKEW)) * 1000.0) as i64))
}

async fn keep_fresh(oidc: Weak<Oidc>) {
    loop {
        sleep(FRESH).await;
        let Some(oidc) = oidc.upgrade() else { return };
        oidc.refresh().await;
    }
}
