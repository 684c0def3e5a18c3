//! Page cursors: the last item of a page and the filters of the list.
//!
//! VS Code requests the second page with the cursor alone, without URL encoding and without the search
//! text. A cursor is therefore URL-safe and contains the filters. Its checksum detects changes; it holds no
//! secret and grants no access. Cursors do not expire.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use mcp_registry::{Cursor, Filter};
use registry_core::{Digest, Version};
use serde::{Deserialize, Serialize};

const MAX_BYTES: usize = 4_096;
const CHECKSUM_BYTES: usize = 8;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CursorContent {
    name: String,
    version: String,
    filter: Filter,
}

/// Encodes a cursor.
pub(super) fn encode(place: Cursor, filter: Filter) -> String {
    let cursor = CursorContent { name: place.name, version: place.version.to_string(), filter };
    // Strings, times and booleans always serialize.
    let json = serde_json::to_vec(&cursor).unwrap_or_default();
    URL_SAFE_NO_PAD.encode([&checksum(&json), &json[..]].concat())
}

/// Decodes a cursor; `None` if it is invalid or was changed.
pub(super) fn decode(text: &str) -> Option<(Cursor, Filter)> {
    let bytes = URL_SAFE_NO_PAD.decode(Some(text).filter(|text| text.len() <= MAX_BYTES)?).ok()?;
    let (found, json) = bytes.split_at_checked(CHECKSUM_BYTES)?;
    let CursorContent { name, version, filter } =
        serde_json::from_slice(Some(json).filter(|json| found == checksum(json))?).ok()?;
    Some((Cursor { name, version: Version::parse(&version).ok()? }, filter))
}

fn checksum(json: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut checksum = [0; CHECKSUM_BYTES];
    checksum.copy_from_slice(&Digest::compute(json).as_bytes()[..CHECKSUM_BYTES]);
    checksum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn arbitrary_text_is_not_a_cursor(text in "\\PC*|[A-Za-z0-9_-]{0,200}", json: String) {
    prop_assert_eq!(decode(&text), None);
    // Also with a correct checksum, because the content is parsed strictly.
    let json = json.as_bytes();
    let marked = [&checksum(json), json].concat();
    prop_assert_eq!(decode(&URL_SAFE_NO_PAD.encode(marked)), None);
        }
    }

    #[test]
    fn cursor_is_url_safe_and_detects_changes() {
        let version = Version::parse("1.0.0-a+b").unwrap();
        let place = Cursor { name: "a/b".to_owned(), version };
        let filter = Filter { search: Some("größe ?&/".to_owned()), ..Filter::default() };
        let text = encode(place.clone(), filter.clone());
        assert!(
            text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')),
            "{text}"
        );
        assert_eq!(decode(&text), Some((place, filter)));
        for i in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[i] = if changed[i] == b'A' { b'B' } else { b'A' };
            assert_eq!(decode(&String::from_utf8(changed).unwrap()), None, "{i}");
        }
        for bad in
            ["", "x", &text[1..], &format!("{text}A"), &format!("{text}="), &"A".repeat(9_000)]
        {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
