//! Invisible characters: detection in names, so that visually identical names are equal, and
//! escaping in messages, so that a terminal displays user input safely.

use crate::text::is_hidden;

/// Whether part of a text is invisible: control characters, characters without a glyph, formatting
/// characters, and spaces at either end or in a row.
pub fn has_invisible_characters(text: &str) -> bool {
    text.chars().any(is_unseen) || text.trim_matches(' ') != text || text.contains("  ")
}

/// Replaces invisible characters, including line breaks, by their escapes: `\u{200b}`, `\n`.
pub fn escape_invisible(text: impl Into<String>) -> String {
    let text = text.into();
    // Most texts have only these characters, which are found many times faster.
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_plain || !text.chars().any(is_unseen) {
        return text;
    }
    let mut escaped = String::with_capacity(2 * text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => escaped.extend(c.escape_default()),
            c if is_unseen(c) => escaped.extend(c.escape_unicode()),
            c => escaped.push(c),
        }
    }
    escaped
}

fn is_unseen(c: char) -> bool {
    is_hidden(c)
        || c.is_control()
        || (c.is_whitespace() && c != ' ')
        // Variation selectors, and blanks that Unicode classifies as letters or symbols.
        || matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{2800}' | '\u{13441}'..='\u{13442}' | '\u{16fe4}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_detected() {
        for plain in ["docs", "gr\u{f6}\u{df}e", "Ann Smith", "\u{691c}\u{7d22}", "a/b.c-d_e:f@g"] {
            assert!(!has_invisible_characters(plain), "{plain}");
        }
        let unseen = "\u{fe0f}\u{fe00}\u{e0100}\u{2800}\u{200b}\u{3164}\u{ffa0}\u{ad}\u{34f}\u{a0}\
                      \u{3000}\u{180e}\u{2060}\u{202e}\n\t\u{1b}\u{0}";
        for c in unseen.chars() {
            assert!(has_invisible_characters(&format!("docs{c}")), "{c:?}");
            assert!(has_invisible_characters(&format!("{c}docs")), "{c:?}");
        }
        for spaced in [" docs", "docs ", "a  b"] {
            assert!(has_invisible_characters(spaced), "{spaced:?}");
        }
    }

    #[test]
    fn invisible_characters_are_escaped() {
        let escape = |text: &str| escape_invisible(text);
        assert_eq!(escape("größe `a b`"), "größe `a b`");
        assert_eq!(escape("a\u{200b}\u{1b}[1m\n"), "a\\u{200b}\\u{1b}[1m\\n");
    }
}
