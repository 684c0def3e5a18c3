//! Sealed session and task ids: encrypted and authenticated (AES-256-GCM), so that only this
//! gateway and its replicas can create or read them, without a store.
//!
//! Associated data binds each text to a purpose and an owner. The keys come from a file
//! (`seal/key_file.rs`), because clients keep ids over restarts.

mod key_file;

use crate::random::NoRandomness;
use arc_swap::ArcSwap;
use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey},
    rand,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

pub(crate) use self::key_file::{KeyFile, check as check_key_file};

/// Maximum length of a sealed text, in bytes.
const MAX_BYTES: usize = 16 * 1024;

pub(crate) type Key = [u8; 32];

/// Encrypts with the first key, and decrypts with all. Keys can be replaced at run time.
#[derive(Debug)]
pub(crate) struct Sealer(ArcSwap<Vec<RandomizedNonceKey>>);

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
            .seal_in_place_append_tag(Aad::from(associated_data), &mut sealed)
            .map_err(|_| NoRandomness)?;
        let mut whole = nonce.as_ref().to_vec();
        whole.append(&mut sealed);
        Ok(URL_SAFE_NO_PAD.encode(whole))
    }

    /// Decrypts a text with the same associated data. `None` if it is invalid.
    pub(crate) fn open(&self, associated_data: &[u8], text: &str) -> Option<Vec<u8>> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let whole = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = whole.split_at_checked(12)?;
        self.0.load().iter().find_map(|key| {
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let mut content = sealed.to_vec();
            let opened = key.open_in_place(nonce, Aad::from(associated_data), &mut content);
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

fn usable(keys: &[Key]) -> Vec<RandomizedNonceKey> {
    keys.iter().filter_map(|key| RandomizedNonceKey::new(&AES_256_GCM, key).ok()).collect()
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
