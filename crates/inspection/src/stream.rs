//! Texts that arrive in pieces.

use crate::{
    detect::{email, private_key},
    finding::Finding,
};

/// The bytes at the end of a text that further text can change: the words around a value, and values
/// with spaces.
const OPEN_BYTES: usize = 256;
/// The longest run without spaces that is kept together: a JSON web token.
const RUN_BYTES: usize = 16 << 10;
/// The longest end of a text that has the beginning of a value and its context: a private key.
pub const MAX_OPEN_BYTES: usize = private_key::MAX_BYTES + OPEN_BYTES;
/// A longer word can be the beginning of a value. In characters.
const WORD_LENGTH: usize = 32;
/// Fewer digits at the end of a late text are sent: they disclose too little of a value.
const MIN_DIGITS: usize = 6;

/// How a text ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextEnd {
    /// Further text can follow.
    Open,
    /// Further text arrived shortly before, but the text has waited for the maximum time.
    Growing,
    /// No further text arrived for a time.
    Late,
    /// Further text is not expected.
    Stalled,
    /// Nothing follows.
    Final,
}

/// The length of the beginning of a text whose findings stay if further text follows. The findings are
/// of this text, ordered by their start. For a text whose values are replaced, the rest is the context
/// of further text.
pub fn settled_bytes(text: &str, findings: &[Finding]) -> usize {
    let most = text.floor_char_boundary(text.len().saturating_sub(OPEN_BYTES));
    before_value(text, run_start(text, before_key(text, most)), findings)
}

/// The length of the beginning of a text that its receiver can have. Of a growing text, the word that
/// is being written is held back. Of a growing or late text, numbers, addresses and long words at the
/// end are held back, but a short number only while the text grows. An incomplete private key is held
/// back unless the text is final. The findings are of this text, ordered by their start.
pub fn complete_bytes(text: &str, findings: &[Finding], end: TextEnd) -> usize {
    let most = match end {
        TextEnd::Open => 0,
        TextEnd::Growing => words_start(text.trim_end_matches(|char| !ends_word(char))),
        TextEnd::Late => late_start(text),
        TextEnd::Stalled => text.len(),
        TextEnd::Final => return text.len(),
    };
    let complete = before_value(text, before_key(text, most), findings);
    complete.max(settled_bytes(text, findings))
}

/// The start of a private key that further text can end, if it is before a position.
fn before_key(text: &str, at: usize) -> usize {
    private_key::open_start(text).map_or(at, |start| at.min(start))
}

/// The start of the run with a finding around a position. Otherwise, the position.
fn before_value(text: &str, mut at: usize, findings: &[Finding]) -> usize {
    for finding in findings.iter().rev() {
        if finding.span.start < at && at < finding.span.end {
            at = run_start(text, finding.span.start);
        }
    }
    at
}

/// The start of the words at the end of a text that can be the beginning of a value: numbers, addresses
/// and long words.
fn words_start(text: &str) -> usize {
    let begins_value =
        |word: &&str| is_address_or_long(word) || word.bytes().any(|byte| byte.is_ascii_digit());
    let words = text.split_inclusive(ends_word).rev();
    text.len() - words.take_while(begins_value).map(str::len).sum::<usize>()
}

/// The start of these words, except for a short number.
fn late_start(text: &str) -> usize {
    let start = words_start(text);
    let end = &text[start..];
    let digits = end.bytes().filter(u8::is_ascii_digit).count();
    let is_open = digits >= MIN_DIGITS || end.split_inclusive(ends_word).any(is_address_or_long);
    if is_open { start } else { text.len() }
}

fn is_address_or_long(word: &str) -> bool {
    word.contains('@') || word.chars().count() > WORD_LENGTH
}

/// Whether a character ends a word: white space, or a letter outside of the scripts of addresses. Most
/// other scripts have no spaces.
fn ends_word(char: char) -> bool {
    let is_other_letter = char.is_alphanumeric() && !email::is_letter_or_digit(char);
    char.is_whitespace() || char.is_control() || is_other_letter
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
    fn incomplete_value_at_the_end_is_not_complete() {
        let inspector = Inspector::new(Selection::all(), DigestKey::new(&[3; 32]));
        let complete = |text: &str| complete_bytes(text, &inspector.text(text).list, TextEnd::Late);
        for (text, open) in [
            ("step is done.", ""),
            ("step is done. ", ""),
            ("card 4539 5787", "4539 5787"),
            ("card 4539 5787 6362 1486", "4539 5787 6362 1486"),
            ("é 4539\u{a0}5787 ", "4539\u{a0}5787 "),
            ("mail jane.doe@acme", "jane.doe@acme"),
            ("почта иван.петров@почт", "иван.петров@почт"),
            ("mail x.mueller@fürst", "x.mueller@fürst"),
            ("邮箱jane.doe@acme", "jane.doe@acme"),
            ("step is достопримечательность.", ""),
            ("the total is 42", ""),
            ("as of 31 12 2", ""),
            ("code 12 34 56", "12 34 56"),
            ("mail jane@acme 42", "jane@acme 42"),
            ("这是一个测试句子这是一个测试句子", ""),
            ("card 4539 5787 is", ""),
        ] {
            assert_eq!(&text[complete(text)..], open, "{text}");
        }
        let token = format!("token {}", "x".repeat(2 * OPEN_BYTES));
        assert_eq!(complete(&token), "token ".len());
        let key = format!("key: -----BEGIN {} KEY-----\nMIIEow", "PRIVATE");
        assert_eq!(complete(&key), "key: ".len());
        let numbers = "1 ".repeat(OPEN_BYTES);
        assert_eq!(complete(&numbers), OPEN_BYTES);
    }

    #[test]
    fn written_word_of_growing_text_is_not_complete() {
        let inspector = Inspector::new(Selection::all(), DigestKey::new(&[3; 32]));
        let complete =
            |text: &str| complete_bytes(text, &inspector.text(text).list, TextEnd::Growing);
        for (text, open) in [
            ("mail jane.doe", "jane.doe"),
            ("почта иван.васи", "иван.васи"),
            ("mail jane.doe ", ""),
            ("card 4539 57", "4539 57"),
            ("iban GB82 WEST", "GB82 WEST"),
            ("这是一个测试句子", ""),
            ("密码是pass", "pass"),
        ] {
            assert_eq!(&text[complete(text)..], open, "{text}");
        }
        let word = "÷".repeat(OPEN_BYTES);
        assert_eq!(complete(&word), OPEN_BYTES);
    }

    #[test]
    fn stalled_text_has_only_an_open_private_key() {
        let inspector = Inspector::new(Selection::all(), DigestKey::new(&[3; 32]));
        let complete =
            |text: &str| complete_bytes(text, &inspector.text(text).list, TextEnd::Stalled);
        for text in ["card 4539 5787 6362 1486", "mail jane.doe@acme", &"x".repeat(OPEN_BYTES)] {
            assert_eq!(complete(text), text.len(), "{text}");
        }
        let key = format!("key: -----BEGIN {} KEY-----\nMIIEow", "PRIVATE");
        assert_eq!(complete(&key), "key: ".len());
    }

    #[test]
    fn private_key_without_end_is_open() {
        // Parts, so that scanners of source code find no key.
        let header = format!("-----BEGIN {} KEY-----\nProc-Type: 4,ENCRYPTED\n\n", "PRIVATE");
        let lines = "> MIIEowIBAAKCAQEA0Z3VS5JJcds3xfnPh7TqUuN8aGb5LwYc\n".repeat(30);
        let key = format!("key: {header}{lines}");
        assert_eq!(settled(&key), "key: ");
        let rest = "x ".repeat(OPEN_BYTES);
        let ended = format!("{key}-----END PRIVATE KEY-----\n{rest}");
        assert!(settled(&ended).len() > key.len());
        let too_long = format!("{header}{}", lines.repeat(40));
        assert!(settled(&too_long).len() > header.len());
        let mention = format!("key: {} is the header. {rest}", header.lines().next().unwrap());
        assert!(settled(&mention).len() > header.len(), "a sentence is no key");
    }
}
