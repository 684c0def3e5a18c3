//! Session ids that carry what a session is: encrypted and authenticated (AES-256-GCM), so that no
//! store is needed and nobody can make one up.
//!
//! Deliberately absent: what is in them.

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey},
    rand,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

/// What is sealed is for this purpose only.
const PURPOSE: &[u8] = b"mcp-session-1";
/// Longest sealed text that is looked at, in bytes.
const LONGEST: usize = 16 * 1024;

/// Seals and opens.
#[derive(Debug)]
pub(super) struct Sealer(RandomizedNonceKey);

/// The operating system gave no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are no random bytes")]
pub(super) struct NoRandomness;

impl Sealer {
    /// With a key of its own, which ends with the process.
    pub(super) fn random() -> Result<Self, NoRandomness> {
        let mut key = [0; 32];
        rand::fill(&mut key).map_err(|_| NoRandomness)?;
        Self::with(&key)
    }

    /// With a key that other gateways may have too.
    pub(super) fn with(key: &[u8; 32]) -> Result<Self, NoRandomness> {
        RandomizedNonceKey::new(&AES_256_GCM, key).map(Self).map_err(|_| NoRandomness)
    }

    /// Visible ASCII that only this key opens.
    pub(super) fn seal(&self, content: &[u8]) -> Result<String, NoRandomness> {
        let mut sealed = content.to_vec();
        let nonce = self
            .0
            .seal_in_place_append_tag(Aad::from(PURPOSE), &mut sealed)
            .map_err(|_| NoRandomness)?;
        let mut whole = nonce.as_ref().to_vec();
        whole.append(&mut sealed);
        Ok(URL_SAFE_NO_PAD.encode(whole))
    }

    /// What was sealed; `None` for anything else.
    pub(super) fn open(&self, text: &str) -> Option<Vec<u8>> {
        if text.len() > LONGEST {
            return None;
        }
        let whole = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = whole.split_at_checked(12)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut content = sealed.to_vec();
        let length = self.0.open_in_place(nonce, Aad::from(PURPOSE), &mut content).ok()?.len();
        content.truncate(length);
        Some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_opens_and_nothing_may_change() {
        let (one, other) = (Sealer::random().unwrap(), Sealer::with(&[7; 32]).unwrap());
        let sealed = one.seal(b"content").unwrap();
        assert_eq!(one.open(&sealed).unwrap(), b"content");
        assert_ne!(one.seal(b"content").unwrap(), sealed);
        assert_eq!(other.open(&sealed), None);
        assert_eq!(Sealer::with(&[7; 32]).unwrap().open(&other.seal(b"x").unwrap()).unwrap(), b"x");
        for index in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
            assert_eq!(one.open(&String::from_utf8(changed).unwrap()), None, "{index}");
        }
        for bad in ["", "AAAA", "=", "ä"] {
            assert_eq!(one.open(bad), None);
        }
    }
}
