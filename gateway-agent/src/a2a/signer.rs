//! The keys that sign agent cards.
//!
//! They are derived from the keys of task ids (`sessionKeyFile`), so that replicas sign with the
//! same keys without another file. Signatures of Ed25519 are deterministic: equal cards have equal
//! bytes.

use std::sync::{Arc, Mutex, PoisonError};

use a2a::signature::Signer;
use serde_json::{Value, json};

use crate::seal::{Key, Sealer};

/// The purpose of the derived keys.
const PURPOSE: &[u8] = b"a2a-card-signatures-1";
/// PKCS #8 of an Ed25519 key (RFC 8410, section 7), before its 32 bytes.
const PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// The signer that was used last. Creating one costs more than a signature.
#[derive(Debug, Default)]
pub(super) struct CardSigners(Mutex<Option<Cached>>);

#[derive(Debug)]
struct Cached {
    key: Key,
    keys_url: String,
    signer: Arc<Signer>,
}

impl CardSigners {
    /// The signer with the current key. `keys_url`: the URL of [`key_set`]. `None` without a key.
    pub(super) fn current(&self, sealer: &Sealer, keys_url: &str) -> Option<Arc<Signer>> {
        let key = sealer.secrets(PURPOSE).into_iter().next()?;
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = cached.as_ref().filter(|c| c.key == key && c.keys_url == keys_url) {
            return Some(Arc::clone(&known.signer));
        }
        let signer = Arc::new(signer(&key, Some(keys_url.to_owned()))?);
        *cached = Some(Cached { key, keys_url: keys_url.to_owned(), signer: Arc::clone(&signer) });
        Some(signer)
    }
}

/// The public keys of all signatures that are still valid, as a JSON Web Key Set.
pub(super) fn key_set(sealer: &Sealer) -> Value {
    let signers = sealer.secrets(PURPOSE).into_iter().filter_map(|key| signer(&key, None));
    let keys: Vec<_> = signers.flat_map(|signer| signer.key_set().keys).collect();
    json!({ "keys": keys })
}

fn signer(key: &Key, keys_url: Option<String>) -> Option<Signer> {
    Signer::new(&[&PKCS8[..], key].concat(), keys_url).ok()
}

#[cfg(test)]
mod tests {
    use a2a::signature;

    use super::*;

    #[test]
    fn key_set_verifies_cards_of_all_keys() {
        let old = Sealer::with(&[[1; 32]]);
        let signers = CardSigners::default();
        let card = json!({ "name": "a" });
        let sign = |sealer: &Sealer| {
            let signer = signers.current(sealer, "https://gateway.example/keys").unwrap();
            signer.sign(card.clone()).unwrap().card
        };
        let signed = sign(&old);
        assert_eq!(sign(&old), signed, "equal cards have equal signatures");
        let rotated = Sealer::with(&[[2; 32], [1; 32]]);
        let keys = serde_json::from_value(key_set(&rotated)).unwrap();
        for card in [signed.clone(), sign(&rotated)] {
            signature::verify(&card, &keys).unwrap();
        }
        let replaced = Sealer::with(&[[2; 32]]);
        let keys = serde_json::from_value(key_set(&replaced)).unwrap();
        assert!(signature::verify(&signed, &keys).is_err());
    }
}
