//! Signatures of cards, and tokens with the same key.
//!
//! Signatures of cards: JWS (RFC 7515) over the canonical form (RFC 8785) without `signatures`.
//!
//! Section 8.4.1 keeps required members with default values, sections 8.4.2 and 8.4.3 remove all
//! default values, and the SDKs differ. A signature is verified in each [`Variant`]. The gateway
//! signs cards whose variants all have the same bytes, or names the members that prevent it.

#[cfg(test)]
mod tests;
mod variant;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
pub use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey, EncodingKey, crypto,
    jwk::{Jwk, PublicKeyUse, ThumbprintHash},
};
use registry_core::document::{canonical_bytes, parse_json};
use serde_json::{Value, json};

pub use self::variant::Variant;
use crate::json::{Object, items, text};

/// Algorithms that prove the origin of a card: those with public keys.
const ALGORITHMS: [(&str, Algorithm); 9] = [
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
];

/// Maximum signatures that are verified, and keys that are tried for one without a key id.
const MAX_TRIES: usize = 8;
/// Maximum number of keys of a key set.
const MAX_KEYS: usize = 64;
/// Maximum length of a protected header, in bytes.
const MAX_HEADER_BYTES: usize = 8192;

/// The protected header of a signature, unverified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The id of the key.
    pub kid: Option<String>,
    /// The URL of the key set. A verifier decides whether it trusts the URL before it fetches it.
    pub jku: Option<String>,
}

/// A verified signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The id of the key.
    pub kid: Option<String>,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The first variant that matches.
    pub variant: Variant,
}

/// A card without a valid signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The card is not signed.
    #[error("the agent card is not signed")]
    Unsigned,
    /// No header is valid and has an algorithm with public keys.
    #[error("the agent card has no signature with a valid header and a supported algorithm")]
    Header,
    /// The key set lacks the keys of all signatures.
    #[error("no trusted key has the key id of a signature of the agent card")]
    UnknownKey,
    /// No signature matches the card.
    #[error("invalid signature of the agent card: the card was changed or another key signed it")]
    Invalid,
}

/// A document that is not a usable key set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeySet {
    /// The document is not JSON.
    #[error("the key set is not valid JSON: {0}")]
    Json(String),
    /// The document has no public key for signatures.
    #[error("the key set has no public key for signatures in `keys`")]
    NoKey,
}

/// Parses a key set (RFC 7517). Keys of unknown types and keys for other purposes are skipped.
pub fn key_set(bytes: &[u8]) -> Result<JwkSet, InvalidKeySet> {
    let set = parse_json(bytes).map_err(|error| InvalidKeySet::Json(error.to_string()))?;
    let keys = set.get("keys").and_then(Value::as_array).into_iter().flatten();
    let keys = keys.filter_map(|key| serde_json::from_value::<Jwk>(key.clone()).ok());
    let keys: Vec<_> = keys.filter(is_usable).take(MAX_KEYS).collect();
    if keys.is_empty() { Err(InvalidKeySet::NoKey) } else { Ok(JwkSet { keys }) }
}

/// Whether a key is a public key for signatures.
fn is_usable(key: &Jwk) -> bool {
    matches!(key.common.public_key_use, None | Some(PublicKeyUse::Signature))
        && DecodingKey::from_jwk(key).is_ok_and(|key| key.family() != AlgorithmFamily::Hmac)
}

/// Whether a card has signatures, valid or not.
pub fn is_signed(card: &Value) -> bool {
    card.get("signatures").is_some_and(|found| !found.is_null() && *found != json!([]))
}

/// The headers of a card's signatures that can be verified.
pub fn headers(card: &Value) -> Vec<Header> {
    signatures(card).filter_map(|signature| header(text(signature, "protected")?)).collect()
}

fn signatures(card: &Value) -> impl Iterator<Item = &Object> {
    let all = card.as_object().map(|card| items(card, "signatures")).unwrap_or_default();
    all.iter().take(MAX_TRIES).filter_map(Value::as_object)
}

fn header(protected: &str) -> Option<Header> {
    if protected.len() > MAX_HEADER_BYTES {
        return None;
    }
    let header = parse_json(&BASE64.decode(protected).ok()?).ok()?;
    let header = header.as_object()?;
    // Critical extensions must be understood (RFC 7515, section 4.1.11).
    if header.contains_key("crit") {
        return None;
    }
    let name = text(header, "alg")?;
    let (_, algorithm) = ALGORITHMS.into_iter().find(|(known, _)| *known == name)?;
    let member = |name| text(header, name).map(str::to_owned);
    Some(Header { algorithm, kid: member("kid"), jku: member("jku") })
}

/// Verifies a card as received with trusted keys. One valid signature is enough.
pub fn verify(card: &Value, keys: &JwkSet) -> Result<Verified, SignatureError> {
    let mut error = SignatureError::Unsigned;
    let mut payloads: Vec<(Variant, String)> = Vec::new();
    for signature in signatures(card) {
        let (protected, signature) = (text(signature, "protected"), text(signature, "signature"));
        let (Some(protected), Some(signature)) = (protected, signature) else {
            error = error.max_of(SignatureError::Header);
            continue;
        };
        let Some(Header { algorithm, kid, .. }) = header(protected) else {
            error = error.max_of(SignatureError::Header);
            continue;
        };
        let fits = |key: &&Jwk| kid.is_none() || key.common.key_id == kid;
        let candidates = keys.keys.iter().filter(fits).take(MAX_TRIES);
        let candidates = candidates.filter_map(|key| DecodingKey::from_jwk(key).ok());
        let candidates: Vec<_> =
            candidates.filter(|key| key.family() == algorithm.family()).collect();
        if candidates.is_empty() {
            error = error.max_of(SignatureError::UnknownKey);
            continue;
        }
        if payloads.is_empty() {
            payloads =
                Variant::ALL.map(|variant| (variant, BASE64.encode(variant.payload(card)))).into();
            // Most cards have the same bytes in several variants.
            payloads.dedup_by(|a, b| a.1 == b.1);
        }
        for (variant, payload) in &payloads {
            let message = format!("{protected}.{payload}");
            let is_valid = |key| {
                crypto::verify(signature, message.as_bytes(), key, algorithm).unwrap_or_default()
            };
            if candidates.iter().any(is_valid) {
                return Ok(Verified { kid, algorithm, variant: *variant });
            }
        }
        error = SignatureError::Invalid;
    }
    Err(error)
}

impl SignatureError {
    /// The error that is closer to a verification.
    fn max_of(self, other: Self) -> Self {
        let rank = |error| match error {
            Self::Unsigned => 0,
            Self::Header => 1,
            Self::UnknownKey => 2,
            Self::Invalid => 3,
        };
        if rank(self) > rank(other) { self } else { other }
    }
}

/// The key is not a usable private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key for agent cards is not a PKCS#8 key of Ed25519 (version 1) or of P-256")]
pub struct InvalidSigningKey;

/// Signs cards with ES256 or `EdDSA`.
pub struct Signer {
    key: EncodingKey,
    algorithm: Algorithm,
    public: Jwk,
    kid: String,
    jku: Option<String>,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("kid", &self.kid).finish_non_exhaustive()
    }
}

/// A signed card.
#[derive(Debug, Clone, PartialEq)]
pub struct Signed {
    /// The card with its signature.
    pub card: Value,
    /// JSON pointers of members with default values, whose signature some verifiers reject.
    pub ambiguous: Vec<String>,
}

impl Signer {
    /// Creates a signer from a private key, DER of PKCS#8. `jku` is the URL of the key set that
    /// [`Self::key_set`] returns. The key id is the thumbprint of the key (RFC 7638).
    pub fn new(pkcs8: &[u8], jku: Option<String>) -> Result<Self, InvalidSigningKey> {
        let candidates = [
            (EncodingKey::from_ec_der(pkcs8), Algorithm::ES256),
            (EncodingKey::from_ed_der(pkcs8), Algorithm::EdDSA),
        ];
        let usable = |(key, algorithm): (EncodingKey, Algorithm)| {
            let public = Jwk::from_encoding_key(&key, algorithm).ok()?;
            crypto::sign(b"probe", &key, algorithm).ok()?;
            Some((key, algorithm, public))
        };
        let (key, algorithm, mut public) =
            candidates.into_iter().find_map(usable).ok_or(InvalidSigningKey)?;
        let kid = public.thumbprint(ThumbprintHash::SHA256).map_err(|_| InvalidSigningKey)?;
        public.common.key_id = Some(kid.clone());
        public.common.public_key_use = Some(PublicKeyUse::Signature);
        Ok(Self { key, algorithm, public, kid, jku })
    }

    /// The id of the key.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The key set with the public key (RFC 7517).
    pub fn key_set(&self) -> JwkSet {
        JwkSet { keys: vec![self.public.clone()] }
    }

    /// Signs claims as a JSON Web Token (RFC 7519).
    pub fn sign_token(&self, claims: &Value) -> Result<String, InvalidSigningKey> {
        let payload = BASE64.encode(canonical_bytes(claims));
        let (protected, signature) = self.signature("JWT", &payload)?;
        Ok(format!("{protected}.{payload}.{signature}"))
    }

    /// Signs a card in place of its signatures.
    pub fn sign(&self, mut card: Value) -> Result<Signed, InvalidSigningKey> {
        if let Some(members) = card.as_object_mut() {
            members.remove("signatures");
        }
        let payload = BASE64.encode(Variant::RequiredKept.payload(&card));
        let mut ambiguous = variant::default_values(&card);
        ambiguous.sort_unstable();
        let (protected, signature) = self.signature("JOSE", &payload)?;
        if let Some(members) = card.as_object_mut() {
            let signature = json!({ "protected": protected, "signature": signature });
            members.insert("signatures".to_owned(), json!([signature]));
        }
        Ok(Signed { card, ambiguous })
    }

    /// The protected header and the signature over an encoded payload.
    fn signature(
        &self,
        media_type: &str,
        payload: &str,
    ) -> Result<(String, String), InvalidSigningKey> {
        let algorithm = match self.algorithm {
            Algorithm::EdDSA => "EdDSA",
            _ => "ES256",
        };
        let mut header = json!({ "alg": algorithm, "typ": media_type, "kid": self.kid });
        if let Some(jku) = &self.jku {
            header["jku"] = jku.as_str().into();
        }
        let protected = BASE64.encode(canonical_bytes(&header));
        let signature =
            crypto::sign(format!("{protected}.{payload}").as_bytes(), &self.key, self.algorithm);
        Ok((protected, signature.map_err(|_| InvalidSigningKey)?))
    }
}
