//! Verification of JWTs of an identity provider: the signature by one of the provider's keys, an
//! allowed algorithm that matches the key, issuer, audience and lifetime.
//!
//! Algorithms are configured, not taken from the token. `none` and symmetric algorithms cannot be
//! configured.

mod keys;

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
pub use jsonwebtoken::Algorithm;
use jsonwebtoken::{Header, Validation, decode, decode_header, get_current_timestamp};
use registry_core::document::parse_json;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::{sync::Mutex, time::sleep};

use self::keys::Keys;
pub use self::keys::{Source, request_failure, without_secrets};

/// All asymmetric signature algorithms.
pub const ASYMMETRIC: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
/// Interval between refreshes of the key set.
const REFRESH_INTERVAL: Duration = Duration::from_mins(5);
/// Minimum interval between refreshes because of an unknown key id.
const UNKNOWN_KEY_INTERVAL: Duration = Duration::from_secs(10);

/// The settings of a verifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The required `iss`.
    pub issuer: String,
    /// The required `aud`.
    pub audience: String,
    /// The source of the issuer's keys.
    pub source: Source,
    /// The allowed signature algorithms, from [`ASYMMETRIC`].
    pub algorithms: Vec<Algorithm>,
    /// The tolerated clock difference.
    pub skew: Duration,
}

/// A key set file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot use {path:?}: {reason}")]
pub struct InvalidFile {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

/// The response to an unknown key id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownKey {
    /// Refresh the key set, unless that was done within 10 s.
    Refetch,
    /// Reject the token.
    Reject,
}

/// Verifies tokens.
pub struct Verifier {
    settings: Settings,
    keys: ArcSwap<Keys>,
    /// The last refresh because of an unknown key. `None`: the keys were never fetched. Locked
    /// during the refresh.
    last_refresh: Mutex<Option<Instant>>,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Verifier {
    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Creates a verifier and keeps its keys fresh until it is dropped. A file must be readable
    /// now; a URL may become reachable later.
    pub async fn open(settings: Settings) -> Result<Arc<Self>, InvalidFile> {
        let (keys, last_refresh) = match (settings.source.read().await, &settings.source) {
            (Ok(keys), _) => (keys, Some(Instant::now())),
            (Err(reason), Source::File(path)) => {
                return Err(InvalidFile { path: path.clone(), reason });
            }
            (Err(reason), Source::Url(_)) => {
                tracing::warn!(reason, "cannot fetch the keys of the identity provider yet");
                (Keys::default(), None)
            }
        };
        let (keys, last_refresh) = (ArcSwap::from_pointee(keys), Mutex::new(last_refresh));
        let verifier = Arc::new(Self { settings, keys, last_refresh });
        tokio::spawn(keep_fresh(Arc::downgrade(&verifier)));
        Ok(verifier)
    }

    /// Verifies a token and returns its claims. The error is meant for logs only.
    pub async fn verify(&self, token: &str, unknown: UnknownKey) -> Result<Value, String> {
        let header = decode_header(token).map_err(|e| e.to_string())?;
        check_header(&header)?;
        let (algorithm, id) = (header.alg, header.kid.as_deref());
        if !self.settings.algorithms.contains(&algorithm) {
            return Err(format!("the token is signed with {algorithm:?}, which is not allowed"));
        }
        if unknown == UnknownKey::Refetch && !self.keys.load().knows(id) {
            self.refresh_for_unknown_key().await;
        }
        let keys = self.keys.load();
        let key = keys.find(id, algorithm)?;
        let mut validation = Validation::new(algorithm);
        validation.leeway = self.settings.skew.as_secs();
        validation.validate_nbf = true;
        validation.set_audience(&[&self.settings.audience]);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        decode::<IgnoredAny>(token, key, &validation).map_err(|e| e.to_string())?;
        read_claims(token, self.settings.skew)
    }

    /// Refreshes the keys, unless that was done within 10 s.
    async fn refresh_for_unknown_key(&self) {
        let mut last_refresh = self.last_refresh.lock().await;
        if last_refresh.is_none_or(|last_refresh| last_refresh.elapsed() > UNKNOWN_KEY_INTERVAL) {
            self.refresh().await;
            *last_refresh = Some(Instant::now());
        }
    }

    async fn refresh(&self) {
        match self.settings.source.read().await {
            Ok(keys) => self.keys.store(Arc::new(keys)),
            Err(reason) => {
                tracing::warn!(
                    reason,
                    "cannot fetch the keys of the identity provider; the known keys stay in use"
                );
            }
        }
    }
}

/// Returns a claim by its name or JSON Pointer.
pub fn find<'a>(claims: &'a Value, name: &str) -> Option<&'a Value> {
    if name.starts_with('/') { claims.pointer(name) } else { claims.get(name) }
}

fn check_header(header: &Header) -> Result<(), &'static str> {
    if header.crit.is_some() {
        return Err("the token has critical extensions (`crit`), which are not supported");
    }
    let typ = header.typ.as_deref().unwrap_or("JWT");
    let typ = typ.strip_prefix("application/").unwrap_or(typ);
    let is_known = ["JWT", "at+jwt"].iter().any(|known| typ.eq_ignore_ascii_case(known));
    is_known.then_some(()).ok_or("the `typ` of the token is neither JWT nor at+jwt")
}

/// Returns the claims of a verified token. Duplicate claims are rejected, because two parsers could
/// disagree on them.
fn read_claims(token: &str, skew: Duration) -> Result<Value, String> {
    let claims = token.split('.').nth(1).unwrap_or_default();
    let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|e| e.to_string())?;
    let claims = parse_json(&claims).map_err(|e| e.to_string())?;
    // RFC 7519, section 4.1.1. The library also accepts a list.
    if !claims.get("iss").is_some_and(Value::is_string) {
        return Err("the claim `iss` is not a string".to_owned());
    }
    let latest = get_current_timestamp() + skew.as_secs();
    match claims.get("iat").map(Value::as_f64) {
        Some(None) => Err("the claim `iat` is not a number".to_owned()),
        Some(Some(made)) if made > seconds(latest) => {
            Err("the token was issued in the future (`iat`)".to_owned())
        }
        _ => Ok(claims),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a time has far fewer than 2^53 seconds")]
fn seconds(whole: u64) -> f64 {
    whole as f64
}

async fn keep_fresh(verifier: Weak<Verifier>) {
    loop {
        sleep(REFRESH_INTERVAL).await;
        let Some(verifier) = verifier.upgrade() else { return };
        verifier.refresh().await;
    }
}
