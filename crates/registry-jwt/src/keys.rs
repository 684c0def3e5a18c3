//! The identity provider's keys (JWKS): a bounded number, each with the algorithms that fit it.

use std::{path::PathBuf, time::Duration};

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyOperations, PublicKeyUse},
};
use reqwest::{Client, redirect::Policy};
use tokio::io::AsyncReadExt as _;

/// Largest set of keys, in bytes.
const BYTES: u64 = 1 << 20;
/// Most keys.
const KEYS: usize = 64;
/// Longest that the provider may take.
const PATIENCE: Duration = Duration::from_secs(5);

const RSA: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// Where the keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In a file.
    File(PathBuf),
    /// At an address; no other is ever asked.
    Url(String),
}

impl Source {
    /// Reads the keys; why not, in words.
    pub(crate) async fn read(&self) -> Result<Keys, String> {
        let bytes = match self {
            Self::File(path) => {
                let mut bytes = Vec::new();
                let file = tokio::fs::File::open(path).await.map_err(|e| e.to_string())?;
                let read = file.take(BYTES + 1).read_to_end(&mut bytes).await;
                read.map_err(|e| e.to_string())?;
                bytes
            }
            Self::Url(url) => fetch(url).await.map_err(|e| e.without_url().to_string())?,
        };
        if bytes.len() as u64 > BYTES {
            return Err(format!("the keys have more than {BYTES} bytes"));
        }
        let set: JwkSet = serde_json::from_slice(&bytes).map_err(|e| format!("no JWKS: {e}"))?;
        Ok(Keys(set.keys.iter().filter_map(Key::of).take(KEYS).collect()))
    }
}

/// Follows no redirect: the operator has said where the keys are.
async fn fetch(url: &str) -> reqwest::Result<Vec<u8>> {
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

/// The keys that can be used.
#[derive(Default)]
pub(crate) struct Keys(Vec<Key>);

struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    decoding: DecodingKey,
}

impl Key {
    fn of(jwk: &Jwk) -> Option<Self> {
        if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
            return None;
        }
        // Where the key says what it is for, it is for nothing else.
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
        // Where the key says which algorithm it is for, it is for no other.
        let said = jwk.common.key_algorithm.map(|said| said.to_string());
        let is_meant = |algorithm: &&Algorithm| {
            said.as_ref().is_none_or(|said| *said == format!("{algorithm:?}"))
        };
        let algorithms: Vec<_> = fitting.iter().filter(is_meant).copied().collect();
        let decoding = DecodingKey::from_jwk(jwk).ok()?;
        Some(Self { id: jwk.common.key_id.clone(), algorithms, decoding })
    }
}

impl Keys {
    /// Whether there is a key of this id.
    pub(crate) fn knows(&self, id: Option<&str>) -> bool {
        id.is_none() || self.0.iter().any(|key| key.id.as_deref() == id)
    }

    /// The key of this id for this algorithm; without an id, the only one that fits.
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
            (Some(_), Some(_)) => Err("several keys fit; it must name one"),
            (None, _) => Err("no key of the identity provider fits its key id and algorithm"),
        }
    }
}
