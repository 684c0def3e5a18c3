//! The key set (JWKS) of the identity provider: a bounded number of keys, each with its algorithms.

use std::{error::Error, iter::successors, path::PathBuf, time::Duration};

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyOperations, PublicKeyUse},
};
use reqwest::{Client, Url, redirect::Policy};
use tokio::io::AsyncReadExt as _;

/// Maximum size of a key set, in bytes.
const BYTES: u64 = 1 << 20;
/// Maximum number of keys.
const KEYS: usize = 64;
/// Time limit for a request to the provider.
const PATIENCE: Duration = Duration::from_secs(5);

const RSA: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// The source of the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// A URL. Redirects are not followed.
    Url(String),
}

impl Source {
    /// Reads the key set.
    pub(crate) async fn read(&self) -> Result<Keys, String> {
        let bytes = match self {
            Self::File(path) => {
                let mut bytes = Vec::new();
                let file = tokio::fs::File::open(path).await.map_err(|e| e.to_string())?;
                let read = file.take(BYTES + 1).read_to_end(&mut bytes).await;
                read.map_err(|e| e.to_string())?;
                bytes
            }
            Self::Url(url) => {
                let url = url.parse::<Url>().map_err(|e| format!("invalid URL: {e}"))?;
                fetch(url.clone()).await.map_err(|e| request_failure(url, e))?
            }
        };
        if bytes.len() as u64 > BYTES {
            return Err(format!("the key set exceeds {BYTES} bytes"));
        }
        let set: JwkSet = serde_json::from_slice(&bytes).map_err(|e| format!("no JWKS: {e}"))?;
        Ok(Keys(set.keys.iter().filter_map(Key::parse).take(KEYS).collect()))
    }
}

/// The operator configured this URL, so redirects are not followed.
async fn fetch(url: Url) -> reqwest::Result<Vec<u8>> {
    let client = Client::builder().redirect(Policy::none()).timeout(PATIENCE).build()?;
    let mut response = client.get(url).send().await?.error_for_status()?;
    let mut bytes = Vec::new();
    while let Some(part) = response.chunk().await? {
        bytes.extend_from_slice(&part);
        if bytes.len() as u64 > BYTES {
            break;
        }
    }
    Ok(bytes)
}

/// A failed request for the log: the URL and the innermost cause.
pub fn request_failure(url: Url, error: reqwest::Error) -> String {
    let error = error.without_url();
    let causes = successors(Some(&error as &(dyn Error + 'static)), |cause| (*cause).source());
    let cause = causes.last().map(ToString::to_string).unwrap_or_default();
    format!("{}: {cause}", without_secrets(url))
}

/// The URL without credentials and query.
pub fn without_secrets(mut url: Url) -> Url {
    // A URL that cannot have credentials has none.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// The usable keys.
#[derive(Default)]
pub(crate) struct Keys(Vec<Key>);

struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    decoding: DecodingKey,
}

impl Key {
    fn parse(jwk: &Jwk) -> Option<Self> {
        if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
            return None;
        }
        // A key with `use` or `key_ops` is used for nothing else.
        if jwk
            .common
            .key_operations
            .as_ref()
            .is_some_and(|all| !all.contains(&KeyOperations::Verify))
        {
            return None;
        }
        let fitting: &[Algorithm] = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => RSA,
            AlgorithmParameters::EllipticCurve(key) => match key.curve {
                EllipticCurve::P256 => &[Algorithm::ES256],
                EllipticCurve::P384 => &[Algorithm::ES384],
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(key) => match key.curve {
                EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
                _ => return None,
            },
            _ => return None,
        };
        // A key with `alg` is used for that algorithm only.
        let named = jwk.common.key_algorithm.map(|named| named.to_string());
        let is_meant = |algorithm: &&Algorithm| {
            named.as_ref().is_none_or(|named| *named == format!("{algorithm:?}"))
        };
        let algorithms: Vec<_> = fitting.iter().filter(is_meant).copied().collect();
        let decoding = DecodingKey::from_jwk(jwk).ok()?;
        Some(Self { id: jwk.common.key_id.clone(), algorithms, decoding })
    }
}

impl Keys {
    /// Whether a key has this id.
    pub(crate) fn knows(&self, id: Option<&str>) -> bool {
        id.is_none() || self.0.iter().any(|key| key.id.as_deref() == id)
    }

    /// Returns the key with this id for this algorithm; without an id, the only key for the
    /// algorithm.
    pub(crate) fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<&DecodingKey, &'static str> {
        let fits = |key: &&Key| {
            (id.is_none() || key.id.as_deref() == id) && key.algorithms.contains(&algorithm)
        };
        let mut fitting = self.0.iter().filter(fits);
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Ok(&key.decoding),
            (Some(_), Some(_)) => {
                Err("the token has no `kid` and several keys match its algorithm")
            }
            (None, _) => {
                Err("no key of the identity provider matches the key id and algorithm of the token")
            }
        }
    }
}
