//! Identifiers required by the formats, derived deterministically from the content.

use std::fmt::Write as _;

use registry_core::{document::Digest, reference::Key, timestamp::Timestamp};

use crate::{bill::Bill, format::Format};

/// The UUID of a bill in a format: version 8 (RFC 9562), from a SHA-256 over the registry, the
/// revision with its chain hash, the root and the format.
pub(super) fn uuid(bill: &Bill, format: Format) -> String {
    let Bill { catalog, .. } = bill;
    let (registry, revision, chain) = (catalog.registry(), catalog.revision(), catalog.chain());
    let root = bill.root.as_ref().map(ToString::to_string).unwrap_or_default();
    let digest = Digest::compute(
        format!("sbom\n{registry}\n{revision}\n{chain}\n{root}\n{format}").as_bytes(),
    );
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_bytes()[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// 16 hex digits of the hash of a text.
pub(super) fn short_hash(text: &str) -> String {
    let digest = Digest::compute(text.as_bytes()).to_string();
    digest.trim_start_matches("sha256:").chars().take(16).collect()
}

/// The SHA-256 of an entity's document as hex digits.
pub(super) fn hex(digest: Digest) -> String {
    digest.to_string().trim_start_matches("sha256:").to_owned()
}

/// A time in whole seconds, as SPDX requires.
pub(super) fn seconds(time: Timestamp) -> String {
    let text = time.to_string();
    format!("{}Z", text.split('.').next().unwrap_or_default())
}

/// The prefix of every SPDX 2.3 identifier.
const SPDX_REF: &str = "SPDXRef-";

/// The SPDX 2.3 identifier of an entity. Only letters, digits, `.` and `-` are allowed, so `-` is
/// doubled, and any other character is encoded as `-` and two hex digits.
pub(super) fn spdx_ref(key: &Key) -> String {
    let mut id = SPDX_REF.to_owned();
    for character in key.to_string().chars() {
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' => id.push(character),
            '-' => id.push_str("--"),
            // Keys are ASCII.
            other => {
                let _ = write!(id, "-{:02X}", u32::from(other));
            }
        }
    }
    id
}

/// Decodes the result of [`spdx_ref`].
pub(super) fn read_spdx_ref(id: &str) -> Option<Key> {
    let mut rest = id.strip_prefix(SPDX_REF)?;
    let mut text = String::new();
    while let Some(at) = rest.find('-') {
        text.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 2)?;
        if code == "-" {
            text.push('-');
            rest = &rest[at + 2..];
        } else {
            let code = rest.get(at + 1..at + 3)?;
            text.push(char::from(u8::from_str_radix(code, 16).ok()?));
            rest = &rest[at + 3..];
        }
    }
    text.push_str(rest);
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spdx_identifier_is_valid_and_round_trips() {
        for text in ["tool/a_b@1.0.0-rc.1+x", "server/io.acme/do-cs@1.2.3", "schema/-2F@0.0.1"] {
            let key: Key = text.parse().unwrap();
            let id = spdx_ref(&key);
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
            assert!(id["SPDXRef-".len()..].chars().all(is_allowed), "{id}");
            assert_eq!(read_spdx_ref(&id), Some(key), "{id}");
        }
        assert_eq!(spdx_ref(&"tool/fetch@1.2.3".parse().unwrap()), "SPDXRef-tool-2Ffetch-401.2.3");
        for foreign in ["SPDXRef-Package", "SPDXRef-a-", "SPDXRef-a-2", "x", "SPDXRef-ö-ö"] {
            assert_eq!(read_spdx_ref(foreign), None, "{foreign}");
        }
    }
}
