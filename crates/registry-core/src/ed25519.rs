//! Ed25519 signatures.
//!
//! `aws-lc` does not compile for WebAssembly, where the rules also run. A module for it cannot sign,
//! because the key type has no values, and rejects all signatures.

#[cfg(not(target_family = "wasm"))]
mod library {
    pub(crate) use aws_lc_rs::signature::Ed25519KeyPair;
    use aws_lc_rs::signature::{ED25519, KeyPair as _, UnparsedPublicKey};

    pub(crate) fn public_key(pair: &Ed25519KeyPair) -> &[u8] {
        pair.public_key().as_ref()
    }

    pub(crate) fn sign(pair: &Ed25519KeyPair, text: &[u8]) -> [u8; 64] {
        let mut bytes = [0; 64];
        // A signature has 64 bytes (RFC 8032, section 5.1.6).
        bytes.copy_from_slice(pair.sign(text).as_ref());
        bytes
    }

    pub(crate) fn is_valid(public_key: &[u8], text: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, public_key).verify(text, signature).is_ok()
    }
}

#[cfg(target_family = "wasm")]
mod library {
    /// No key pair.
    #[derive(Debug)]
    pub enum Ed25519KeyPair {}

    pub(crate) fn public_key(pair: &Ed25519KeyPair) -> &[u8] {
        match *pair {}
    }

    pub(crate) fn sign(pair: &Ed25519KeyPair, _text: &[u8]) -> [u8; 64] {
        match *pair {}
    }

    pub(crate) fn is_valid(_public_key: &[u8], _text: &[u8], _signature: &[u8]) -> bool {
        false
    }
}

pub(crate) use library::{Ed25519KeyPair, is_valid, public_key, sign};
