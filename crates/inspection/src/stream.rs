//! Texts that arrive in pieces.

use crate::{detect::private_key, finding::Finding};

/// The bytes at the end of a text that further text can change: the words around a value, and values
/// with spaces.
const OPEN_BYTES: usize = 256;
/// The longest run without spaces that is kept together: a JSON web token.
const RUN_BYTES: usize = 16 << 10;
/// The longest end of a text that has the beginning of a value and its context: a private key.
pub const MAX_OPEN_BYTES: usize = private_key::MAX_BYTES + OPEN_BYTES;

/// The length of the beginning of a text whose findings stay if further text follows. The findings are
/// of this text, ordered by their start. For a text whose values are replaced, the rest is the context
/// of further text.
pub fn settled_bytes(text: &str, findings: &[Finding]) -> usize {
    let most = text.len().saturating_sub(OPEN_BYTES);
    let most = private_key::open_start(text).map_or(most, |start| most.min(start));
    let mut end = run_start(text, text.floor_char_boundary(most));
    for finding in findings.iter().rev() {
        if finding.span.start < end && end < finding.span.end {
            end = run_start(text, finding.span.start);
        }
    }
    end
}

/// The start of the run around a position that has no spaces, quotes and brackets of documents.
fn run_start(text: &str, at: usize) -> usize {
    let belongs = |byte: &u8| byte.is_ascii_graphic() && !b"\"<>{}".contains(byte);
    let from = at.saturating_sub(RUN_BYTES);
    let before = &text.as_bytes()[from..at];
    match before.iter().rposition(|byte| !belongs(byte)) {
        Some(last) => from + last + 1,
        None if from == 0 => 0,
        None => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DigestKey, Inspector, Selection};

    fn settled(text: &str) -> &str {
        let inspector = Inspector::new(Selection::all(), DigestKey::new(&[3; 32]));
        &text[..settled_bytes(text, &inspector.text(text).list)]
    }

    #[test]
    fn end_of_text_is_open() {
        let text = "é word ".repeat(100) + "x";
        assert_eq!(settled(&text).len(), 544);
        assert_eq!(settled("card 4539 5787"), "");
    }

    #[test]
    fn values_are_not_cut() {
        let rest = " x".repeat(OPEN_BYTES / 2 - 4);
        assert_eq!(settled(&format!("card 4539 5787 6362 1486{rest}")), "card ");
        let run = "x".repeat(2 * OPEN_BYTES);
        assert_eq!(settled(&format!("a {run}")), "a ");
        let longer = "x".repeat(RUN_BYTES + 2 * OPEN_BYTES);
        assert_eq!(settled(&longer).len(), RUN_BYTES + OPEN_BYTES);
    }

    #[test]
    fn private_key_without_end_is_open() {
        // Parts, so that scanners of source code find no key.
        let header = format!("-----BEGIN {} KEY-----\nProc-Type: 4,ENCRYPTED\n\n", "PRIVATE");
        let lines = "MIIEowIBAAKCAQEA0Z3VS5JJcds3xfn\n".repeat(40);
        let key = format!("key: {header}{lines}");
        assert_eq!(settled(&key), "key: ");
        let rest = "x ".repeat(OPEN_BYTES);
        let ended = format!("{key}-----END PRIVATE KEY-----\n{rest}");
        assert!(settled(&ended).len() > key.len());
        let too_long = format!("{header}{}", lines.repeat(40));
        assert!(settled(&too_long).len() > header.len());
    }
}
