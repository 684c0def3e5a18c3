//! Random values that browsers and the identity provider receive.

use aws_lc_rs::rand;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

/// The random number generator of the system failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the random number generator of the system failed")]
pub struct RandomFailed;

/// 256 random bits.
pub(super) fn random() -> Result<[u8; 32], RandomFailed> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).map_err(|_| RandomFailed)?;
    Ok(bytes)
}

/// 256 random bits in the characters of URLs and cookies. This is also a valid PKCE verifier.
pub(super) fn random_text() -> Result<String, RandomFailed> {
    random().map(|bytes| URL_SAFE_NO_PAD.encode(bytes))
}
