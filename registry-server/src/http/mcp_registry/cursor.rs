//! Cursors: where a page ended, and the filters of its list.
//!
//! VS Code asks for the second page with the bare cursor in the URL and without the words that were
//! searched for, so a cursor is safe in URLs and carries the filters. A digest tells a cursor that
//! was changed; it holds no secret and grants nothing. Cursors do not expire.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use mcp_registry::{Cursor, Filter};
use registry_core::{Digest, Version};
use serde::{Deserialize, Serialize};

const LONGEST: usize = 4_096;
const MARK: usize = 8;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CursorContent {
    name: String,
    version: String,
    filter: Filter,
}

/// The text of a cursor.
pub(super) fn write(place: Cursor, filter: Filter) -> String {
    let cursor = CursorContent { name: place.name, version: place.version.to_string(), filter };
    // Texts, times and booleans always serialize.
    let json = serde_json::to_vec(&cursor).unwrap_or_default();
    URL_SAFE_NO_PAD.encode([&mark(&json), &json[..]].concat())
}

/// What a cursor stands for; nothing, if it was not given out here.
pub(super) fn read(text: &str) -> Option<(Cursor, Filter)> {
    let bytes = URL_SAFE_NO_PAD.decode(Some(text).filter(|text| text.len() <= LONGEST)?).ok()?;
    let (found, json) = bytes.split_at_checked(MARK)?;
    let CursorContent { name, version, filter } =
        serde_json::from_slice(Some(json).filter(|json| found == mark(json))?).ok()?;
    Some((Cursor { name, version: Version::parse(&version).ok()? }, filter))
}

fn mark(json: &[u8]) -> [u8; MARK] {
    let mut mark = [0; MARK];
    mark.copy_from_slice(&Digest::compute(json).as_bytes()[..MARK]);
    mark
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn only_what_was_given_out_is_a_cursor(text in "\\PC*|[A-Za-z0-9_-]{0,200}", json: String) {
            prop_assert_eq!(read(&text), None);
            // Also with the right mark, which is no secret: what is in it is read strictly.
            let json = json.as_bytes();
            let marked = [&mark(json), json].concat();
            prop_assert_eq!(read(&URL_SAFE_NO_PAD.encode(marked)), None);
        }
    }

    #[test]
    fn a_cursor_is_safe_in_urls_and_tells_when_it_was_changed() {
        let version = Version::parse("1.0.0-a+b").unwrap();
        let place = Cursor { name: "a/b".to_owned(), version };
        let filter = Filter { search: Some("größe ?&/".to_owned()), ..Filter::default() };
        let text = write(place.clone(), filter.clone());
        assert!(
            text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')),
            "{text}"
        );
        assert_eq!(read(&text), Some((place, filter)));
        for i in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[i] = if changed[i] == b'A' { b'B' } else { b'A' };
            assert_eq!(read(&String::from_utf8(changed).unwrap()), None, "{i}");
        }
        for bad in
            ["", "x", &text[1..], &format!("{text}A"), &format!("{text}="), &"A".repeat(9_000)]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
