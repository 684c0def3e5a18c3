//! Random identifiers.

use aws_lc_rs::rand;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

/// The operating system returned no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no random bytes available")]
pub(crate) struct NoRandomness;

/// Returns 128 random bits as visible ASCII.
pub(crate) fn random_text() -> Result<String, NoRandomness> {
    random_bytes().map(|bytes| URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns 128 random bits.
pub(crate) fn random_bits() -> Result<u128, NoRandomness> {
    random_bytes().map(u128::from_le_bytes)
}

fn random_bytes() -> Result<[u8; 16], NoRandomness> {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}
