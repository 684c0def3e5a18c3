//! Session ids and task ids: encrypted and authenticated texts (AES-256-GCM) that only this gateway
//! and its replicas can read or make, so no store is needed.
//!
//! Each text is sealed for a purpose and an owner, and opens for nothing else. The keys come from a file
//! (`seal/key_file.rs`), because clients keep ids over a restart.

mod key_file;

use crate::random::NoRandomness;
use arc_swap::ArcSwap;
use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey},
    rand,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

pub(crate) use self::key_file::{KeyFile, check as check_key_file};

/// Longest sealed text that is looked at, in bytes.
const LONGEST: usize = 16 * 1024;

/// The bytes of a key.
pub(crate) type Key = [u8; 32];

/// Seals with the first key, and opens with all. The keys change while it is in use.
#[derive(Debug)]
pub(crate) struct Sealer(ArcSwap<Vec<RandomizedNonceKey>>);

impl Sealer {
    /// With a key of its own, which ends with the process. Without random bytes it seals nothing.
    pub(crate) fn random() -> Self {
        let key = random_key().ok();
        Self::with(key.as_slice())
    }

    /// With keys that other gateways may have too.
    pub(crate) fn with(keys: &[Key]) -> Self {
        Self(ArcSwap::from_pointee(usable(keys)))
    }

    /// Uses these keys from now on.
    pub(crate) fn replace(&self, keys: &[Key]) {
        self.0.store(usable(keys).into());
    }

    /// Visible ASCII that only these keys open, and only for the same.
    pub(crate) fn seal(&self, what_for: &[u8], content: &[u8]) -> Result<String, NoRandomness> {
        let keys = self.0.load();
        let key = keys.first().ok_or(NoRandomness)?;
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
        self.0.load().iter().find_map(|key| {
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let mut content = sealed.to_vec();
            let opened = key.open_in_place(nonce, Aad::from(what_for), &mut content);
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
    fn only_the_same_key_opens_for_the_same_and_nothing_may_change() {
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
    fn earlier_keys_open_and_the_first_seals() {
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
