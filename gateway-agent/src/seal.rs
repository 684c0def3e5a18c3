//! Sealed session and task ids: encrypted and authenticated (AES-256-GCM), so that only this
//! gateway and its replicas can create or read them, without a store.
//!
//! Associated data binds each text to a purpose and an owner. The keys come from a file
//! (`seal/key_file.rs`), because clients keep ids over restarts.

mod key_file;

use crate::random::NoRandomness;
use arc_swap::ArcSwap;
use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, RandomizedNonceKey, UnboundKey},
    hmac, rand,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

pub(crate) use self::key_file::{KeyFile, check as check_key_file};

/// Maximum length of a sealed text, in bytes.
const MAX_BYTES: usize = 16 * 1024;
/// The purpose of the key that derives nonces from contents.
const NONCES: &[u8] = b"nonces of equal sealed texts";

pub(crate) type Key = [u8; 32];

/// Encrypts with the first key, and decrypts with all. Keys can be replaced at run time.
#[derive(Debug)]
pub(crate) struct Sealer(ArcSwap<Vec<SealKey>>);

/// One key in its two uses.
#[derive(Debug)]
struct SealKey {
    /// For random nonces.
    random: RandomizedNonceKey,
    /// For nonces that are derived from the content.
    derived: LessSafeKey,
    nonces: hmac::Key,
    secrets: hmac::Key,
}

impl Sealer {
    /// Creates a sealer with a temporary key. Without random bytes it cannot seal.
    pub(crate) fn random() -> Self {
        let key = random_key().ok();
        Self::with(key.as_slice())
    }

    pub(crate) fn with(keys: &[Key]) -> Self {
        Self(ArcSwap::from_pointee(usable(keys)))
    }

    pub(crate) fn replace(&self, keys: &[Key]) {
        self.0.store(usable(keys).into());
    }

    /// Encrypts content as visible ASCII. `associated_data` is the associated data.
    pub(crate) fn seal(
        &self,
        associated_data: &[u8],
        content: &[u8],
    ) -> Result<String, NoRandomness> {
        let keys = self.0.load();
        let key = keys.first().ok_or(NoRandomness)?;
        let mut sealed = content.to_vec();
        let nonce = key
            .random
            .seal_in_place_append_tag(Aad::from(associated_data), &mut sealed)
            .map_err(|_| NoRandomness)?;
        Ok(encoded(nonce.as_ref(), &sealed))
    }

    /// Encrypts content so that equal contents have equal texts, until the key is rotated.
    ///
    /// AES-GCM is broken by two contents with one nonce. The nonce here is a pseudorandom function
    /// of the associated data and the content, as in synthetic IVs (RFC 5297): 96 bits of an
    /// HMAC-SHA256 whose key is derived from the encryption key. A nonce repeats only with the same
    /// content, whose text then is the same, or by a collision of 96 bits, which random nonces risk
    /// as well. An observer learns only that two contents are equal.
    pub(crate) fn seal_equally(
        &self,
        associated_data: &[u8],
        content: &[u8],
    ) -> Result<String, NoRandomness> {
        let keys = self.0.load();
        let key = keys.first().ok_or(NoRandomness)?;
        let nonce = key.nonce(associated_data, content);
        let mut sealed = content.to_vec();
        key.derived
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(associated_data),
                &mut sealed,
            )
            .map_err(|_| NoRandomness)?;
        Ok(encoded(&nonce, &sealed))
    }

    /// The secrets for another purpose, one per key, the current one first. Gateways with the same
    /// keys have the same secrets.
    pub(crate) fn secrets(&self, purpose: &[u8]) -> Vec<Key> {
        self.0.load().iter().filter_map(|key| key.secret(purpose)).collect()
    }

    /// Decrypts a text with the same associated data. `None` if it is invalid.
    pub(crate) fn open(&self, associated_data: &[u8], text: &str) -> Option<Vec<u8>> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let whole = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = whole.split_at_checked(NONCE_LEN)?;
        self.0.load().iter().find_map(|key| {
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let mut content = sealed.to_vec();
            let opened = key.random.open_in_place(nonce, Aad::from(associated_data), &mut content);
            let length = opened.ok()?.len();
            content.truncate(length);
            Some(content)
        })
    }
}

fn random_key() -> Result<Key, NoRandomness> {
    let mut key = [0; 32];
    rand::fill(&mut key).map_err(|_| NoRandomness)?;
    Ok(key)
}

fn usable(keys: &[Key]) -> Vec<SealKey> {
    keys.iter().filter_map(SealKey::new).collect()
}

fn encoded(nonce: &[u8], sealed: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode([nonce, sealed].concat())
}

impl SealKey {
    fn new(key: &Key) -> Option<Self> {
        let secrets = hmac::Key::new(hmac::HMAC_SHA256, key);
        let nonces = hmac::sign(&secrets, NONCES);
        Some(Self {
            random: RandomizedNonceKey::new(&AES_256_GCM, key).ok()?,
            derived: LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?),
            nonces: hmac::Key::new(hmac::HMAC_SHA256, nonces.as_ref()),
            secrets,
        })
    }

    fn secret(&self, purpose: &[u8]) -> Option<Key> {
        hmac::sign(&self.secrets, purpose).as_ref().try_into().ok()
    }

    fn nonce(&self, associated_data: &[u8], content: &[u8]) -> [u8; NONCE_LEN] {
        let mut mac = hmac::Context::with_key(&self.nonces);
        // The length separates the two parts.
        mac.update(&(associated_data.len() as u64).to_be_bytes());
        mac.update(associated_data);
        mac.update(content);
        let tag = mac.sign();
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&tag.as_ref()[..NONCE_LEN]);
        nonce
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seal_rejects_other_key_purpose_and_content() {
        let (one, other) = (Sealer::random(), Sealer::with(&[[7; 32]]));
        let sealed = one.seal(b"a", b"content").unwrap();
        assert_eq!(one.open(b"a", &sealed).unwrap(), b"content");
        assert_eq!(one.open(b"b", &sealed), None);
        assert_ne!(one.seal(b"a", b"content").unwrap(), sealed);
        assert_eq!(other.open(b"a", &sealed), None);
        let same = Sealer::with(&[[7; 32]]);
        assert_eq!(same.open(b"a", &other.seal(b"a", b"x").unwrap()).unwrap(), b"x");
        for index in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
            assert_eq!(one.open(b"a", &String::from_utf8(changed).unwrap()), None, "{index}");
        }
        for bad in ["", "AAAA", "=", "ä"] {
            assert_eq!(one.open(b"a", bad), None);
        }
    }

    #[test]
    fn equal_contents_seal_equally_for_one_purpose() {
        let (one, other) = (Sealer::with(&[[7; 32]]), Sealer::with(&[[8; 32]]));
        let sealed = one.seal_equally(b"a", b"content").unwrap();
        assert_eq!(one.seal_equally(b"a", b"content").unwrap(), sealed);
        assert_eq!(one.open(b"a", &sealed).unwrap(), b"content");
        assert_eq!((one.open(b"b", &sealed), other.open(b"a", &sealed)), (None, None));
        let nonces = [
            one.seal_equally(b"a", b"contents").unwrap(),
            one.seal_equally(b"ac", b"ontent").unwrap(),
            other.seal_equally(b"a", b"content").unwrap(),
        ]
        .map(|text| text[..16].to_owned());
        assert!(nonces.iter().all(|nonce| *nonce != sealed[..16]), "{nonces:?}");
    }

    #[test]
    fn secrets_differ_by_key_and_purpose() {
        let [one, other] = [Sealer::with(&[[7; 32], [8; 32]]), Sealer::with(&[[8; 32]])];
        let secrets = one.secrets(b"a");
        assert_eq!((secrets.len(), secrets[1]), (2, other.secrets(b"a")[0]));
        assert!(secrets[0] != secrets[1] && secrets[0] != one.secrets(b"b")[0]);
        assert!(!secrets.contains(&[7; 32]));
    }

    #[test]
    fn sealer_encrypts_with_first_key_and_decrypts_all() {
        let (old, new) = ([1; 32], [2; 32]);
        let sealer = Sealer::with(&[old]);
        let before = sealer.seal(b"a", b"before").unwrap();
        sealer.replace(&[new, old]);
        assert_eq!(sealer.open(b"a", &before).unwrap(), b"before");
        let after = sealer.seal(b"a", b"after").unwrap();
        assert_eq!(Sealer::with(&[new]).open(b"a", &after).unwrap(), b"after");
        sealer.replace(&[new]);
        assert_eq!(sealer.open(b"a", &before), None, "a key that is gone opens nothing");
    }
}
