//! The text of an API token: `rgy_`, its id, and 256 random bits with a checksum.
//!
//! The id is public. The response that creates the token is the only one with the secret. Secret scanners
//! match `rgy_[0-9a-f]{12}_[0-9a-f]{72}` and verify the checksum locally.

use std::fmt::{self, Write as _};

use registry_core::Digest;
use rustls::crypto::{GetRandomFailed, aws_lc_rs};
use subtle::ConstantTimeEq as _;

/// Prefix of every token.
pub(super) const PREFIX: &str = "rgy_";
const ID: usize = 12;
const RANDOM: usize = 64;
const CHECK: usize = 8;

/// Secret text of an API token.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret(String);

/// A text that is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSecret {
    /// A text in another format.
    #[error("invalid token format")]
    Form,
    /// A mistyped or truncated token.
    #[error("invalid token checksum")]
    Checksum,
}

impl TokenSecret {
    /// Creates a random token.
    pub fn generate() -> Result<Self, GetRandomFailed> {
        let mut random = [0; ID / 2 + RANDOM / 2];
        aws_lc_rs::default_provider().secure_random.fill(&mut random)?;
        let (id, rest) = random.split_at(ID / 2);
        let body = format!("{PREFIX}{}_{}", hex(id), hex(rest));
        let check = checksum(&body);
        Ok(Self(body + &check))
    }

    /// Parses a token and verifies its checksum.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let rest = text.strip_prefix(PREFIX).ok_or(InvalidSecret::Form)?;
        let is_hex = |part: &str, length| {
            part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let (id, random) = rest.split_once('_').ok_or(InvalidSecret::Form)?;
        if !is_hex(id, ID) || !is_hex(random, RANDOM + CHECK) {
            return Err(InvalidSecret::Form);
        }
        let (body, check) = text.split_at(text.len() - CHECK);
        if checksum(body) == check {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidSecret::Checksum)
        }
    }

    /// Public id.
    pub fn id(&self) -> &str {
        &self.0[PREFIX.len()..PREFIX.len() + ID]
    }

    /// Digest stored in the database.
    pub fn digest(&self) -> Digest {
        Digest::compute(self.0.as_bytes())
    }

    /// Whether the digest matches, compared in constant time.
    pub fn matches(&self, digest: &Digest) -> bool {
        self.digest().as_bytes().ct_eq(digest.as_bytes()).into()
    }

    /// Secret text, for the response that creates the token.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}_…", self.id())
    }
}

fn checksum(body: &str) -> String {
    hex(&Digest::compute(body.as_bytes()).as_bytes()[..CHECK / 2])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn generated_token_parses_and_hides_its_secret() {
        let secret = TokenSecret::generate().unwrap();
        let text = secret.expose();
        assert_eq!(text.len(), 89);
        assert_eq!(TokenSecret::parse(text).as_ref(), Ok(&secret));
        assert_eq!(secret.id(), &text[4..16]);
        assert_ne!(secret, TokenSecret::generate().unwrap());
        assert!(!format!("{secret:?}").contains(&text[17..]));
        assert!(secret.matches(&Digest::compute(text.as_bytes())));
        assert!(!secret.matches(&Digest::compute(b"another")));
    }

    #[test]
    fn checksum_detects_every_single_character_change() {
        let text = TokenSecret::generate().unwrap().expose().to_owned();
        for at in 0..text.len() {
            let other = if text.as_bytes()[at] == b'0' { "1" } else { "0" };
            let mut changed = text.clone();
            changed.replace_range(at..=at, other);
            assert!(TokenSecret::parse(&changed).is_err(), "{at}");
        }
        assert_eq!(TokenSecret::parse(&text[..88]), Err(InvalidSecret::Form));
        assert_eq!(TokenSecret::parse(&text.to_uppercase()), Err(InvalidSecret::Form));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", tail in "(rgy_)?[0-9a-f_é]{0,100}") {
            prop_assert!(TokenSecret::parse(&text).is_err());
            prop_assert!(TokenSecret::parse(&tail).is_err());
        }
    }
}
