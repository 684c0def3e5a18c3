//! A text under inspection, with the words around a candidate.

use std::ops::Range;

use memchr::memrchr_iter;

use crate::placeholder::ends_with_marker;

/// Distance in bytes of context words before a candidate.
const CONTEXT_BYTES: usize = 48;
/// Bytes of a key that are read for context words.
const KEY_BYTES: usize = 64;
/// Words between the name of a number and its digits.
const NUMBER: [&str; 5] = ["number", "no", "nr", "num", "nummer"];
/// Maximum zeros after a decimal point.
const FRACTION_BYTES: usize = 8;
/// Maximum backslashes before a letter that are counted.
const ESCAPES: usize = 64;

/// A text, and the name of the JSON member that holds it.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(crate) text: &'a str,
    /// Empty without a member.
    pub(crate) key: &'a str,
}

/// A character between groups of digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Separator {
    /// The ASCII character of the same meaning.
    pub(crate) byte: u8,
    pub(crate) end: usize,
}

impl Separator {
    pub(crate) fn is_space_or_dash(self) -> bool {
        matches!(self.byte, b' ' | b'-')
    }
}

impl<'a> Text<'a> {
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.text.as_bytes()
    }

    pub(crate) fn len(self) -> usize {
        self.text.len()
    }

    pub(crate) fn byte(self, at: usize) -> Option<u8> {
        self.bytes().get(at).copied()
    }

    /// The byte before a position. The letter of an escape is a line break.
    pub(crate) fn byte_before(self, at: usize) -> Option<u8> {
        let last = at.checked_sub(1)?;
        if self.is_escape(last) {
            return Some(b'\n');
        }
        self.byte(last)
    }

    /// The separator of groups of digits at a position.
    pub(crate) fn separator(self, at: usize) -> Option<Separator> {
        let rest = self.bytes().get(at..)?;
        let (byte, length) = match rest {
            [byte @ (b' ' | b'-' | b'.' | b'(' | b')' | b'/'), ..] => (*byte, 1),
            // No-break space, and narrow no-break space.
            [0xC2, 0xA0, ..] => (b' ', 2),
            [0xE2, 0x80, 0xAF, ..] => (b' ', 3),
            // U+2010 to U+2013: hyphen, non-breaking hyphen, figure dash, en dash.
            [0xE2, 0x80, 0x90..=0x93, ..] => (b'-', 3),
            _ => return None,
        };
        Some(Separator { byte, end: at + length })
    }

    /// Whether the byte is the letter of an escape such as `\n`, in JSON or source code.
    pub(crate) fn is_escape(self, at: usize) -> bool {
        let is_letter = self.bytes().get(at).is_some_and(|byte| b"nrt".contains(byte));
        is_letter && (at - self.run_start(at, ESCAPES, |byte| byte == b'\\')) % 2 == 1
    }

    /// The text of a span whose ends are ASCII.
    pub(crate) fn slice(self, span: Range<usize>) -> &'a str {
        self.text.get(span).unwrap_or_default()
    }

    /// The end of the run of these bytes from `start`, at most `limit` bytes later.
    pub(crate) fn run_end(self, start: usize, limit: usize, belongs: impl Fn(u8) -> bool) -> usize {
        let end = self.len().min(start.saturating_add(limit));
        let run = self.bytes().get(start..end).unwrap_or_default();
        start + run.iter().position(|byte| !belongs(*byte)).unwrap_or(run.len())
    }

    /// The start of the run of these bytes before `end`, at most `limit` bytes earlier.
    pub(crate) fn run_start(self, end: usize, limit: usize, belongs: impl Fn(u8) -> bool) -> usize {
        let start = end.saturating_sub(limit);
        let run = self.bytes().get(start..end).unwrap_or_default();
        run.iter().rposition(|byte| !belongs(*byte)).map_or(start, |at| start + at + 1)
    }

    /// Whether the span is not a part of a longer word.
    pub(crate) fn is_word(self, span: &Range<usize>) -> bool {
        !self.byte_before(span.start).is_some_and(is_word_byte)
            && !self.byte(span.end).is_some_and(is_word_byte)
    }

    /// Whether the span is not a part of a longer number, identifier, decimal, path or date.
    pub(crate) fn is_number(self, span: &Range<usize>) -> bool {
        self.starts_number(span.start) && self.ends_number(span.end)
    }

    /// Whether the span is a number, a segment of a path, or follows `#`.
    pub(crate) fn is_segment(self, span: &Range<usize>) -> bool {
        let starts = matches!(self.byte_before(span.start), Some(b'/' | b'#'));
        let ends = self.byte(span.end) == Some(b'/');
        (starts || self.starts_number(span.start)) && (ends || self.ends_number(span.end))
    }

    fn starts_number(self, start: usize) -> bool {
        let precedes = self.byte_before(start.saturating_sub(1)).is_some_and(is_word_byte);
        match self.byte_before(start) {
            Some(b'.' | b'-' | b'/') => start < 2 || !precedes,
            Some(b'#' | b'+' | b'%' | b'$') => false,
            before => !before.is_some_and(is_word_byte),
        }
    }

    fn ends_number(self, end: usize) -> bool {
        let follows = |at: usize| self.byte(at).is_some_and(is_word_byte);
        match self.byte(end) {
            Some(b'.') => !follows(end + 1) || self.is_zero_fraction(end + 1),
            Some(b'-' | b'/') => !follows(end + 1),
            after => !after.is_some_and(is_word_byte),
        }
    }

    /// Whether only zeros follow, as in `4111111111111111.0` of a table with missing numbers.
    fn is_zero_fraction(self, start: usize) -> bool {
        let end = self.run_end(start, FRACTION_BYTES, |byte| byte == b'0');
        let is_next = |at: usize| self.byte(at).is_some_and(is_word_byte);
        let continues = self.byte(end).is_some_and(|byte| b".-/".contains(&byte));
        !(is_next(end) || continues && is_next(end + 1))
    }

    /// Whether one of these lower-case words is in the key, or in the text shortly before `at`.
    pub(crate) fn has_context(self, at: usize, wanted: &[&str]) -> bool {
        self.key_has(wanted) || self.text_has(at, wanted)
    }

    /// Whether one of these lower-case words is in the key.
    pub(crate) fn key_has(self, wanted: &[&str]) -> bool {
        words(self.key_start()).any(|word| is_one_of(word, wanted))
    }

    fn key_start(self) -> &'a [u8] {
        &self.key.as_bytes()[..self.key.len().min(KEY_BYTES)]
    }

    fn text_has(self, at: usize, wanted: &[&str]) -> bool {
        let before = &self.bytes()[at.saturating_sub(CONTEXT_BYTES)..at];
        if !before.iter().any(u8::is_ascii_alphabetic) {
            return false;
        }
        // The words before a placeholder or redaction belong to its value.
        let mut ends = memrchr_iter(b']', before).map(|last| last + 1);
        let end = ends.find(|end| ends_with_marker(&self.bytes()[..at - before.len() + end]));
        words(&before[end.unwrap_or_default()..]).any(|word| is_one_of(word, wanted))
    }

    /// Whether one of these lower-case words is among the last two words before `at` and after the
    /// last other number, or in the key.
    pub(crate) fn has_label(self, at: usize, wanted: &[&str]) -> bool {
        self.last_words(at).iter().any(|word| is_one_of(word, wanted)) || self.key_has(wanted)
    }

    /// Whether the last word before a number, or of the key if the number is the whole text, is one of
    /// these names, or `number` after one of these owners.
    pub(crate) fn is_named(self, span: &Range<usize>, names: &[&str], owners: &[&str]) -> bool {
        let is_name = |[before, last]: [&[u8]; 2]| {
            is_one_of(last, names) || is_one_of(last, &NUMBER) && is_one_of(before, owners)
        };
        let is_whole = *span == (0..self.len());
        is_name(self.last_words(span.start)) || is_whole && is_name(last_two(self.key_start()))
    }

    /// The last two words before `at` and after the last other number.
    fn last_words(self, at: usize) -> [&'a [u8]; 2] {
        let before = self.run_start(at, CONTEXT_BYTES, |byte| !byte.is_ascii_digit());
        last_two(&self.bytes()[before..at])
    }
}

pub(crate) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_one_of(word: &[u8], wanted: &[&str]) -> bool {
    wanted.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

/// The runs of ASCII letters. `cardNumber` has the words `card` and `Number`.
fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_break = |a: &u8, b: &u8| {
        !(a.is_ascii_alphabetic() && b.is_ascii_alphabetic())
            || a.is_ascii_lowercase() && b.is_ascii_uppercase()
    };
    let runs = bytes.chunk_by(move |a, b| !is_break(a, b));
    runs.filter(|run| run[0].is_ascii_alphabetic())
}

/// The last two words. A missing word is empty.
fn last_two(bytes: &[u8]) -> [&[u8]; 2] {
    words(bytes).fold([&[]; 2], |[_, last], word| [last, word])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_case_and_punctuation() {
        let found: Vec<_> = words(b"cardNumber: my_PAN2x").collect();
        assert_eq!(found, [&b"card"[..], b"Number", b"my", b"PAN", b"x"]);
    }

    #[test]
    fn context_is_in_key_or_shortly_before() {
        let text = Text { text: "my card is 4111", key: "" };
        assert!(text.has_context(11, &["card"]));
        assert!(!text.has_context(11, &["car"]));
        assert!(Text { text: "4111", key: "cardNumber" }.has_context(0, &["card"]));
        let far = format!("card {}", " ".repeat(CONTEXT_BYTES));
        assert!(!Text { text: &far, key: "" }.has_context(far.len(), &["card"]));
        let redacted = Text { text: "card [redacted:financial] 4111", key: "" };
        assert!(!redacted.has_context(26, &["card"]));
        let word = Text { text: "card (name redacted) 4111", key: "" };
        assert!(word.has_context(21, &["card"]));
    }

    #[test]
    fn escapes_are_boundaries_of_words() {
        for (text, expected) in [
            (r"\n41", true),
            (r"\\n41", false),
            (r"\\\t41", true),
            ("n41", false),
            (r"\q41", false),
        ] {
            let start = text.len() - 2;
            assert_eq!(Text { text, key: "" }.is_number(&(start..text.len())), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_no_parts_of_identifiers() {
        for (text, expected) in [
            ("4111", true),
            ("(4111)", true),
            ("is 4111.", true),
            ("is -4111-", true),
            ("a-4111", false),
            ("3.4111", false),
            ("4111.5", false),
            ("4111.00,", true),
            ("4111.01", false),
            ("4111.0.1", false),
            ("x4111", false),
            ("#4111", false),
            ("/users/4111", false),
            ("card:4111", true),
        ] {
            let start = text.find("4111").unwrap();
            let found = Text { text, key: "" }.is_number(&(start..start + 4));
            assert_eq!(found, expected, "{text}");
        }
    }
}
