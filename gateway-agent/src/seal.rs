//! Texts that say something to this gateway only: encrypted and authenticated (AES-256-GCM), so that no
//! store is needed and nobody can make one up. Session ids and task ids are such texts.
//!
//! Each is sealed for something, a purpose and for whom, and is nothing for anything else. What outlives
//! the process is sealed with a key that is kept (`seal/kept.rs`). Deliberately absent: what is in them.

mod kept;

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey},
    rand,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

/// Longest sealed text that is looked at, in bytes.
const LONGEST: usize = 16 * 1024;

/// Seals and opens.
#[derive(Debug)]
pub(crate) struct Sealer(Option<RandomizedNonceKey>);

/// The operating system gave no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are no random bytes")]
pub(crate) struct NoRandomness;

impl Sealer {
    /// With a key of its own, which ends with the process. Without random bytes it seals nothing.
    pub(crate) fn random() -> Self {
        Self(random_key().ok().and_then(|key| keyed(&key)))
    }

    /// With a key that other gateways may have too.
    pub(crate) fn with(key: &[u8; 32]) -> Self {
        Self(keyed(key))
    }

    /// Visible ASCII that only this key opens, and only for the same.
    pub(crate) fn seal(&self, what_for: &[u8], content: &[u8]) -> Result<String, NoRandomness> {
        let key = self.0.as_ref().ok_or(NoRandomness)?;
        let mut sealed = content.to_vec();
        let nonce = key
            .seal_in_place_append_tag(Aad::from(what_for), &mut sealed)
            .map_err(|_| NoRandomness)?;
        let mut whole = nonce.as_ref().to_vec();
        whole.append(&mut sealed);
        Ok(URL_SAFE_NO_PAD.encode(whole))
    }

    /// What was sealed for this; `None` for anything else.
    pub(crate) fn open(&self, what_for: &[u8], text: &str) -> Option<Vec<u8>> {
        if text.len() > LONGEST {
            return None;
        }
        let whole = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = whole.split_at_checked(12)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut content = sealed.to_vec();
        let opened = self.0.as_ref()?.open_in_place(nonce, Aad::from(what_for), &mut content);
        let length = opened.ok()?.len();
        content.truncate(length);
        Some(content)
    }
}

/// 128 random bits as visible ASCII, which nobody can guess.
pub(crate) fn random_text() -> Result<String, NoRandomness> {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn random_key() -> Result<[u8; 32], NoRandomness> {
    let mut key = [0; 32];
    rand::fill(&mut key).map_err(|_| NoRandomness)?;
    Ok(key)
}

fn keyed(key: &[u8; 32]) -> Option<RandomizedNonceKey> {
    RandomizedNonceKey::new(&AES_256_GCM, key).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_opens_for_the_same_and_nothing_may_change() {
        let (one, other) = (Sealer::random(), Sealer::with(&[7; 32]));
        let sealed = one.seal(b"a", b"content").unwrap();
        assert_eq!(one.open(b"a", &sealed).unwrap(), b"content");
        assert_eq!(one.open(b"b", &sealed), None);
        assert_ne!(one.seal(b"a", b"content").unwrap(), sealed);
        assert_eq!(other.open(b"a", &sealed), None);
        let same = Sealer::with(&[7; 32]);
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
}
