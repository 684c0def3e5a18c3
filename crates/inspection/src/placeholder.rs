//! The texts that replace values: placeholders, which are restored in later arguments, and redactions.

use std::{fmt, ops::Range, str::FromStr};

use memchr::memmem;
use registry_core::entity::policy::DataClass;

/// Crockford's base 32, without the letters I, L, O and U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const CODE_CHARACTERS: usize = 6;
const OPEN: &str = "[[";
const CLOSE: &str = "]]";

/// A placeholder such as `[[contact:K7QX2M]]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Placeholder {
    /// The class of the value.
    pub class: DataClass,
    code: [u8; CODE_CHARACTERS],
}

/// Not the text of a placeholder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a placeholder such as [[contact:K7QX2M]]")]
pub struct InvalidPlaceholder;

impl Placeholder {
    /// The placeholder of 30 random bits; higher bits are ignored.
    pub fn from_random(class: DataClass, random: u32) -> Self {
        let digit = |i: usize| ALPHABET[(random >> (5 * i)) as usize & 31];
        Self { class, code: std::array::from_fn(digit) }
    }
}

impl fmt::Display for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = str::from_utf8(&self.code).unwrap_or_default();
        write!(f, "{OPEN}{}:{code}{CLOSE}", self.class)
    }
}

impl FromStr for Placeholder {
    type Err = InvalidPlaceholder;

    /// Parses exactly one placeholder. The case of letters does not count.
    fn from_str(text: &str) -> Result<Self, InvalidPlaceholder> {
        let inner = text.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE));
        let (class, code) =
            inner.and_then(|inner| inner.split_once(':')).ok_or(InvalidPlaceholder)?;
        let mut classes = DataClass::ALL.into_iter();
        let class = classes.find(|known| known.as_str().eq_ignore_ascii_case(class));
        let code: [u8; CODE_CHARACTERS] =
            code.to_ascii_uppercase().into_bytes().try_into().map_err(|_| InvalidPlaceholder)?;
        let is_known = code.iter().all(|byte| ALPHABET.contains(byte));
        class.filter(|_| is_known).map(|class| Self { class, code }).ok_or(InvalidPlaceholder)
    }
}

/// The placeholders in a text, with their bytes. JSON escapes are not read: use
/// [`map_strings`](crate::map_strings) for JSON.
pub fn find_placeholders(text: &str) -> impl Iterator<Item = (Range<usize>, Placeholder)> + '_ {
    let bytes = text.as_bytes();
    // A link or list can add a bracket before the two of the placeholder.
    let is_last = move |start: &usize| {
        let rest = &bytes[*start..];
        rest.starts_with(OPEN.as_bytes()) && rest.get(OPEN.len()) != Some(&b'[')
    };
    memchr::memchr_iter(b'[', bytes).filter(is_last).filter_map(move |start| {
        let window = &bytes[start..text.len().min(start + MARKER_BYTES)];
        let length = memmem::find(window, CLOSE.as_bytes())? + CLOSE.len();
        let span = start..start + length;
        let placeholder = text.get(span.clone())?.parse().ok()?;
        Some((span, placeholder))
    })
}

/// `[[governmentId:K7QX2M]]`, the longest placeholder.
const MARKER_BYTES: usize = 24;

/// The text that replaces a value which is not restored.
pub fn redaction(class: DataClass) -> String {
    format!("[redacted:{class}]")
}

/// Whether a text ends with a placeholder or a redaction.
pub(crate) fn ends_with_marker(text: &[u8]) -> bool {
    let last = &text[text.len().saturating_sub(MARKER_BYTES)..];
    last.ends_with(b"]") && memchr::memchr_iter(b'[', last).any(|at| is_marker(&last[at..]))
}

fn is_marker(text: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(text) else { return false };
    text.parse::<Placeholder>().is_ok() || DataClass::ALL.into_iter().any(|c| redaction(c) == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_found_again() {
        for class in DataClass::ALL {
            let placeholder = Placeholder::from_random(class, 0x2AF3_7C19);
            let text = format!("é [[x]] {placeholder}{placeholder}.");
            let found: Vec<_> = find_placeholders(&text).collect();
            assert_eq!(found.len(), 2, "{text}");
            for (span, parsed) in found {
                assert_eq!((&text[span], parsed), (&*placeholder.to_string(), placeholder));
            }
        }
    }

    #[test]
    fn placeholders_in_other_brackets_are_found() {
        let placeholder = Placeholder::from_random(DataClass::Financial, 77);
        for (before, after) in [("[", "](u)"), ("[[", "]]"), ("[[[", "]"), ("[[x]] [", "]")] {
            let text = format!("{before}{placeholder}{after}");
            let end = text.len() - after.len();
            let found: Vec<_> = find_placeholders(&text).collect();
            assert_eq!(found, [(before.len()..end, placeholder)], "{text}");
        }
    }

    #[test]
    fn markers_are_recognized_at_the_end() {
        for class in DataClass::ALL {
            for marker in [redaction(class), Placeholder::from_random(class, 9).to_string()] {
                assert!(ends_with_marker(format!("é[x] {marker}").as_bytes()), "{marker}");
            }
        }
        assert!(!ends_with_marker(b"[x]") && !ends_with_marker(b""));
    }

    #[test]
    fn case_does_not_change_a_placeholder() {
        let placeholder = Placeholder::from_random(DataClass::GovernmentId, 77);
        let written = placeholder.to_string().to_ascii_lowercase();
        assert_eq!(written.parse(), Ok(placeholder));
    }

    #[test]
    fn other_brackets_are_no_placeholders() {
        for text in
            ["[[contact:K7QX2]]", "[[contact:K7QX2U]]", "[[name:K7QX2M]]", "[contact:K7QX2M]"]
        {
            assert_eq!(find_placeholders(text).count(), 0, "{text}");
        }
    }
}
