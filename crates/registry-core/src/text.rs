//! Inspection of texts for models and terminals: hidden characters, and phrases that instruct the
//! model instead of describing a tool.
//!
//! The signs are heuristics for English. They call for a review and prove nothing.

mod signs;

use serde_json::Value;

pub use signs::{Sign, mentioned, phrases, signs};

/// A text without invisible characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaned {
    /// The visible text.
    pub text: String,
    /// The number of removed hidden characters and escape sequences.
    pub removed: usize,
}

/// Removes terminal escape sequences, control characters, and characters that have no width or
/// change the direction of a line.
pub fn clean(text: &str) -> Cleaned {
    let (mut kept, mut removed) = (String::with_capacity(text.len()), 0);
    let mut rest = text.chars();
    let mut before = None;
    while let Some(character) = rest.next() {
        if matches!(character, '\u{1b}' | '\u{9b}') {
            removed += 1;
            rest = after_escape(character, rest.as_str()).chars();
        } else if is_joiner_in_script(before, character, rest.as_str()) || !is_hidden(character) {
            kept.push(character);
            before = Some(character);
        } else {
            removed += 1;
        }
    }
    Cleaned { text: kept, removed }
}

/// Skips a terminal escape sequence (ECMA-48) whose first character has been read.
fn after_escape(introducer: char, rest: &str) -> &str {
    let body = match (introducer, rest.strip_prefix('[')) {
        ('\u{9b}', _) => rest,
        (_, Some(body)) => body,
        (_, None) => {
            // A command string ends with BEL or ESC \; any other sequence has one more character.
            let Some(string) = rest.strip_prefix([']', 'P', '_', '^', 'X']) else {
                return rest.strip_prefix(|c: char| c.is_ascii()).unwrap_or(rest);
            };
            let end = string.find(['\u{7}', '\u{1b}']).unwrap_or(string.len());
            let after = &string[end..];
            let after = after.strip_prefix("\u{1b}\\").unwrap_or(after);
            return after.strip_prefix('\u{7}').unwrap_or(after);
        }
    };
    let end = body.find(|c: char| !matches!(c, ' '..='?')).unwrap_or(body.len());
    body[end..].strip_prefix(|c: char| matches!(c, '@'..='~')).unwrap_or(&body[end..])
}

/// Whether this is a joiner that is part of the spelling, as in some scripts and emoji.
fn is_joiner_in_script(before: Option<char>, character: char, rest: &str) -> bool {
    let other = |c: char| !c.is_ascii() && !is_hidden(c);
    matches!(character, '\u{200c}' | '\u{200d}')
        && before.is_some_and(other)
        && rest.chars().next().is_some_and(other)
}

/// Visits every string of a value, including member names.
pub fn each_text(value: &Value, visit: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, visit)),
        Value::Object(map) => {
            for (name, value) in map {
                visit(name);
                each_text(value, visit);
            }
        }
        _ => {}
    }
}

/// Whether a character is invisible or changes the display of others.
pub fn is_hidden(character: char) -> bool {
    if matches!(character, '\n' | '\r' | '\t') {
        return false;
    }
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &str) -> (String, usize) {
        let Cleaned { text, removed } = clean(text);
        (text, removed)
    }

    #[test]
    fn clean_keeps_visible_text() {
        for plain in ["", "Reads a file.\n\tThen more.", "größe 検索 👩‍💻 می‌خواهم ✔️"]
        {
            assert_eq!(cleaned(plain), (plain.to_owned(), 0), "{plain:?}");
        }
    }

    #[test]
    fn clean_removes_hidden_characters() {
        for (text, kept, removed) in [
            ("a\u{1b}[31mred\u{1b}[0m", "ared", 2),
            ("a\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{1b}\\", "alink", 2),
            ("a\u{9b}2Jb\u{1b}c\u{1b}", "ab", 3),
            ("zero\u{200b}width\u{feff}", "zerowidth", 2),
            ("a\u{200d}b", "ab", 1),
            ("right\u{202e}left\u{2066}", "rightleft", 2),
            ("tags\u{e0041}\u{e0042}\u{e007f}", "tags", 3),
            ("nul\0bell\u{7}", "nulbell", 2),
            ("soft\u{ad}hyphen\u{3164}", "softhyphen", 2),
        ] {
            assert_eq!(cleaned(text), (kept.to_owned(), removed), "{text:?}");
        }
    }
}
