//! Findings, and the keyed digest of their values.

use std::{fmt, ops::Range, sync::Arc};

use hmac::{Hmac, KeyInit as _, Mac as _};
use registry_core::entity::policy::DataClass;
use sha2::Sha256;

use crate::detector::Detector;

/// Maximum findings of one text. With more, [`Findings::is_truncated`] is set.
pub const MAX_FINDINGS: usize = 10_000;

/// The key of value digests. Equal values have equal digests under one key only.
#[derive(Clone)]
pub struct DigestKey(Hmac<Sha256>);

impl DigestKey {
    /// A key of 32 random bytes.
    pub fn new(key: &[u8; 32]) -> Self {
        // HMAC fills a short key with zeros up to its block.
        let mut block = [0; 64];
        block[..key.len()].copy_from_slice(key);
        Self(Hmac::new(&block.into()))
    }

    /// The digest of a value, which [`normalized`] has prepared.
    pub(crate) fn digest(&self, detector: &Detector, value: &[u8]) -> ValueDigest {
        let mut mac = self.0.clone();
        mac.update(detector.name().as_bytes());
        mac.update(&[0]);
        mac.update(value);
        let mut digest = [0; 16];
        digest.copy_from_slice(&mac.finalize().into_bytes()[..16]);
        ValueDigest(digest)
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}

/// The first 128 bits of the HMAC-SHA-256 of detector and value. Spaces and dashes of numbers and the
/// case of addresses do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueDigest([u8; 16]);

impl fmt::Display for ValueDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The spelling of a value that does not depend on its format.
pub(crate) fn normalized(class: DataClass, value: &str) -> Vec<u8> {
    let bytes = value.bytes();
    match class {
        DataClass::Credential => bytes.collect(),
        DataClass::Contact if value.contains('@') => {
            bytes.map(|b| b.to_ascii_lowercase()).collect()
        }
        DataClass::Network => bytes.map(|b| b.to_ascii_lowercase()).collect(),
        DataClass::Financial | DataClass::GovernmentId | DataClass::Contact => {
            bytes.filter(u8::is_ascii_alphanumeric).map(|b| b.to_ascii_lowercase()).collect()
        }
    }
}

/// The part of a JSON member that has the finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The name of an object's member. It cannot be replaced.
    Key,
    /// A string or a number.
    Value,
}

/// The encoding of a value inside of its string. The span covers the encoded text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encoding {
    /// Standard or URL-safe base64. The span covers the whole base64 text.
    Base64,
    /// Percent-encoding.
    Percent,
}

/// A sensitive value in a text or JSON document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The detector, which has the class.
    pub detector: &'static Detector,
    /// JSON pointer of the value, or of the member whose key has the finding; empty in a text. A key
    /// with a finding is redacted. After 1,024 bytes the pointer ends with `…`.
    pub pointer: Arc<str>,
    /// Key or value.
    pub part: Part,
    /// The bytes of the inspected text that hold the string (with quotes) or the number; in a text,
    /// all bytes.
    pub token: Range<usize>,
    /// If the unescaped string is a JSON object or array: its bytes that hold the inner string (with
    /// quotes) or number. `span` is of the inner string or number.
    pub inner: Option<Range<usize>>,
    /// The bytes of the value: in the unescaped string, in the number, or in the text. Both ends are
    /// character boundaries.
    pub span: Range<usize>,
    /// The encoding of the bytes in `span`.
    pub encoding: Option<Encoding>,
    /// The keyed digest of the value, without its encoding.
    pub digest: ValueDigest,
}

impl Finding {
    /// The class of the detector.
    pub fn class(&self) -> DataClass {
        self.detector.class()
    }
}

/// The findings of one text, ordered by token and span.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// At most [`MAX_FINDINGS`].
    pub list: Vec<Finding>,
    /// There are more findings than the list has. A rewritten text would still contain them.
    pub is_truncated: bool,
}

impl Findings {
    /// Whether the text has no finding.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds the findings of a later part of the text.
    pub(crate) fn add(&mut self, other: Self) {
        let room = MAX_FINDINGS - self.list.len();
        self.is_truncated |= other.is_truncated || other.list.len() > room;
        self.list.extend(other.list.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_key_is_not_printed() {
        assert_eq!(format!("{:?}", DigestKey::new(&[7; 32])), "DigestKey");
    }

    #[test]
    fn formats_of_one_number_are_equal() {
        let spaced = normalized(DataClass::Financial, "DE89 3704 0044 0532 0130 00");
        assert_eq!(spaced, normalized(DataClass::Financial, "de89370400440532013000"));
        let mail = normalized(DataClass::Contact, "A.B@Mail.Org");
        assert_eq!(mail, normalized(DataClass::Contact, "a.b@mail.org"));
        assert_ne!(
            normalized(DataClass::Credential, "aB"),
            normalized(DataClass::Credential, "ab")
        );
    }
}
