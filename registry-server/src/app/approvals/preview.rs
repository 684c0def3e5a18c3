//! Encryption of the arguments that approvers see (AES-256-GCM).

use approval::RequestId;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD as BASE64};

/// Maximum length of a preview in bytes. Encrypted, it is not longer than the crate `approval` allows.
pub const MAX_PREVIEW_BYTES: usize = 48_000;

/// The key of previews.
pub(super) struct PreviewKey([u8; 32]);

impl PreviewKey {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// Encrypts the preview of a request. `None`: there are no random bytes.
    pub(super) fn seal(&self, id: RequestId, preview: &str) -> Option<String> {
        let mut text = preview.as_bytes().to_vec();
        let id = id.to_string();
        let nonce = self.cipher()?.seal_in_place_append_tag(Aad::from(id.as_bytes()), &mut text);
        Some(encoded(nonce.ok()?.as_ref(), &text))
    }

    /// Decrypts the preview of a request. `None`: another key or another request.
    pub(super) fn open(&self, id: RequestId, sealed: &str) -> Option<String> {
        let whole = BASE64.decode(sealed).ok()?;
        let (nonce, text) = whole.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let (id, mut text) = (id.to_string(), text.to_vec());
        let opened = self.cipher()?.open_in_place(nonce, Aad::from(id.as_bytes()), &mut text);
        String::from_utf8(opened.ok()?.to_vec()).ok()
    }

    /// The length of the key fits, so that this does not fail.
    fn cipher(&self) -> Option<RandomizedNonceKey> {
        RandomizedNonceKey::new(&AES_256_GCM, &self.0).ok()
    }
}

fn encoded(nonce: &[u8], sealed: &[u8]) -> String {
    BASE64.encode([nonce, sealed].concat())
}

#[cfg(test)]
mod tests {
    use approval::limits::PREVIEW_BYTES;

    use super::*;

    #[test]
    fn preview_opens_with_its_key_and_request() {
        let (key, id) = (PreviewKey::new([1; 32]), RequestId::new(1));
        let preview = "\"".repeat(MAX_PREVIEW_BYTES);
        let sealed = key.seal(id, &preview).unwrap();
        assert!(sealed.len() <= PREVIEW_BYTES && !sealed.contains('"'));
        assert_eq!(key.open(id, &sealed), Some(preview));
        assert_eq!(key.open(RequestId::new(2), &sealed), None);
        assert_eq!(PreviewKey::new([2; 32]).open(id, &sealed), None);
        for bad in ["", "?", "AAAA"] {
            assert_eq!(key.open(id, bad), None);
        }
    }
}
