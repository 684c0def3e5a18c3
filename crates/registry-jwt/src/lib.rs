//! Tokens of an identity provider: a JWT is believed if its signature is by one of the provider's
//! keys, by an algorithm that is allowed and fits that key, and if it is for us, by it, and not over.
//!
//! Algorithms are listed, not taken from the token: `none` and the symmetric ones cannot be among
//! them.

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
pub use self::keys::Source;

/// Every algorithm that a key of a provider can be for.
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
/// How often the keys are read.
const FRESH: Duration = Duration::from_mins(5);
/// How often a key that is not known may make the program look.
const LOOK: Duration = Duration::from_secs(10);

/// Which tokens are believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Who must have issued them.
    pub issuer: String,
    /// For whom they must be.
    pub audience: String,
    /// Where the issuer's keys are.
    pub source: Source,
    /// How they may be signed; of [`ASYMMETRIC`].
    pub algorithms: Vec<Algorithm>,
    /// How far clocks may be apart.
    pub skew: Duration,
}

/// A file of keys that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} cannot be used: {reason}")]
pub struct InvalidFile {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// What to do about a key that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownKey {
    /// Read the keys again, unless that was done a short while ago.
    Look,
    /// Refuse the token.
    Refuse,
}

/// What tells good tokens from others.
pub struct Verifier {
    settings: Settings,
    keys: ArcSwap<Keys>,
    /// When somebody last looked; none: the keys were not had yet. Held while looking.
    looked: Mutex<Option<Instant>>,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Verifier {
    /// What it was opened by.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// By these settings. A file must be readable now; what is elsewhere may come later. Keeps
    /// reading the keys for as long as it is used.
    pub async fn open(settings: Settings) -> Result<Arc<Self>, InvalidFile> {
        let (keys, looked) = match (settings.source.read().await, &settings.source) {
            (Ok(keys), _) => (keys, Some(Instant::now())),
            (Err(reason), Source::File(path)) => {
                return Err(InvalidFile { path: path.clone(), reason });
            }
            (Err(reason), Source::Url(_)) => {
                tracing::warn!(reason, "the identity provider's keys cannot be had yet");
                (Keys::default(), None)
            }
        };
        let (keys, looked) = (ArcSwap::from_pointee(keys), Mutex::new(looked));
        let verifier = Arc::new(Self { settings, keys, looked });
        tokio::spawn(keep_fresh(Arc::downgrade(&verifier)));
        Ok(verifier)
    }

    /// The claims of a good token. What is wrong with another is for the log only.
    pub async fn verify(&self, token: &str, unknown: UnknownKey) -> Result<Value, String> {
        let header = decode_header(token).map_err(|e| e.to_string())?;
        check_header(&header)?;
        let (algorithm, id) = (header.alg, header.kid.as_deref());
        if !self.settings.algorithms.contains(&algorithm) {
            return Err(format!("it is signed with {algorithm:?}, which is not allowed"));
        }
        if unknown == UnknownKey::Look && !self.keys.load().knows(id) {
            self.look().await;
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

    /// Reads the keys, unless somebody has done so a short while ago.
    async fn look(&self) {
        let mut looked = self.looked.lock().await;
        if looked.is_none_or(|looked| looked.elapsed() > LOOK) {
            self.refresh().await;
            *looked = Some(Instant::now());
        }
    }

    async fn refresh(&self) {
        match self.settings.source.read().await {
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

/// A claim by its name, or by a JSON pointer.
pub fn find<'a>(claims: &'a Value, name: &str) -> Option<&'a Value> {
    if name.starts_with('/') { claims.pointer(name) } else { claims.get(name) }
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
fn read_claims(token: &str, skew: Duration) -> Result<Value, String> {
    let claims = token.split('.').nth(1).unwrap_or_default();
    let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|e| e.to_string())?;
    let claims = parse_json(&claims).map_err(|e| e.to_string())?;
    // RFC 7519, section 4.1.1; the library takes a list of them too.
    if !claims.get("iss").is_some_and(Value::is_string) {
        return Err("the claim `iss` is not a text".to_owned());
    }
    let latest = get_current_timestamp() + skew.as_secs();
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

async fn keep_fresh(verifier: Weak<Verifier>) {
    loop {
        sleep(FRESH).await;
        let Some(verifier) = verifier.upgrade() else { return };
        verifier.refresh().await;
    }
}
