//! Renders one finding as rustc does.
//!
//! ```text
//! error[provision-unknown]: server documents@1.2.0 provides get_user@1.0.0, which is not registered
//!    --> examples/registry-v2.json:231:19
//!     |
//! 231 |         { "tool": "get_user", "version": "1.0.0" },
//!     |                   ^^^^^^^^^^
//!     = help: register the tool, or remove it from `provides`
//! ```

use std::fmt::Write as _;

use super::{Finding, Level, Location};
use crate::style::{Paint, Style, printable};

/// Maximum printed part of a line, in characters.
const WIDTH: usize = 100;
/// The part of it before the location.
const BEFORE: usize = 40;

pub(super) fn finding(found: &Finding, style: Style) -> String {
    let paint = match found.severity {
        Level::Error => Paint::Bad,
        Level::Warning => Paint::Careful,
    };
    let word = match found.severity {
        Level::Error => "error",
        Level::Warning => "warning",
    };
    let head = style.paint(paint, format!("{word}[{}]", printable(&found.code)));
    let mut text = format!("{head}: {}\n", printable(&found.message));
    let line = found.location.as_ref().and_then(|location| location.line);
    let gutter = line.map_or(1, |line| line.to_string().len());
    let frame = |mark: &str| style.paint(Paint::Frame, mark);
    // Writing into a string cannot fail.
    let _ = writeln!(text, "{:gutter$}{} {}", "", frame("-->"), location(found));
    if let Some((location, column)) =
        found.location.as_ref().zip(found.location.as_ref().and_then(|at| at.column))
    {
        text += &snippet(location, column, (gutter, paint), style);
    }
    if let Some(help) = &found.help {
        let _ = writeln!(text, "{:gutter$} {} help: {}", "", frame("="), printable(help));
    }
    text.push('\n');
    text
}

/// The location in a file, or else the entity.
fn location(found: &Finding) -> String {
    let place = match &found.location {
        Some(Location { file, line: Some(line), column: Some(column), .. }) => {
            return format!("{}:{line}:{column}", printable(file));
        }
        Some(Location { file, .. }) => printable(file).into_owned(),
        None => found
            .entity
            .as_deref()
            .map_or_else(|| "the batch".to_owned(), |entity| printable(entity).into_owned()),
    };
    if found.pointer.is_empty() { place } else { format!("{place} {}", printable(&found.pointer)) }
}

fn snippet(
    location: &Location,
    column: usize,
    (gutter, paint): (usize, Paint),
    style: Style,
) -> String {
    let Some((line, text)) = location.line.zip(location.text()) else { return String::new() };
    let bar = style.paint(Paint::Frame, "|");
    let number = style.paint(Paint::Frame, format!("{line:>gutter$}"));
    let (shown, before) = window(text, column);
    let carets = "^".repeat(token_width(text, column).min(WIDTH + 1 - before.min(WIDTH)));
    let carets = style.paint(paint, carets);
    format!(
        "{:gutter$} {bar}\n{number} {bar} {shown}\n{:gutter$} {bar} {:before$}{carets}\n",
        "", "", ""
    )
}

/// The part of a line around a column, and the number of its characters before the column.
fn window(text: &str, column: usize) -> (String, usize) {
    // A file may be one line of many megabytes: only the text near the column is copied.
    let skipped = (column - 1).saturating_sub(WIDTH);
    let near: Vec<char> = text.chars().skip(skipped).take(2 * WIDTH + 1).collect();
    let at = (column - 1 - skipped).min(near.len());
    let from = at.saturating_sub(BEFORE).min(near.len().saturating_sub(WIDTH));
    let to = (from + WIDTH).min(near.len());
    let head = if skipped + from > 0 { "…" } else { "" };
    let tail = if to < near.len() { "…" } else { "" };
    // Escapes are longer than the characters that they replace.
    let text = |range: &[char]| printable(&range.iter().collect::<String>()).into_owned();
    let before = text(&near[from..at]);
    let column = head.chars().count() + before.chars().count();
    let shown = format!("{head}{before}{}{tail}", text(&near[at..to]).trim_end());
    (shown, column)
}

/// The number of characters of the key or scalar at a column; 1 for objects, arrays and flow mappings.
pub(super) fn token_width(text: &str, column: usize) -> usize {
    let mut token = text.chars().skip(column - 1).take(WIDTH).peekable();
    let Some(first) = token.next() else { return 1 };
    match first {
        '{' | '[' | '-' if token.peek().is_none_or(|next| !next.is_ascii_digit()) => 1,
        quote @ ('"' | '\'') => {
            let mut width = 1;
            let mut is_escaped = false;
            for c in token {
                width += 1;
                if c == quote && !is_escaped {
                    break;
                }
                is_escaped = c == '\\' && !is_escaped;
            }
            width
        }
        _ => {
            let is_end = |c: &char| matches!(c, ',' | ':' | '}' | ']' | '#') || c.is_whitespace();
            1 + token.take_while(|c| !is_end(c)).count()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(location: Option<Location>) -> Finding {
        Finding {
            code: "source-unknown".to_owned(),
            severity: Level::Error,
            entity: Some("tool/find@1.0.0".to_owned()),
            pointer: "/source/server".to_owned(),
            message: "no \x1bserver".to_owned(),
            help: Some("register it".to_owned()),
            location,
            change: Some(0),
        }
    }

    #[test]
    fn findings_without_file_name_the_entity() {
        insta::assert_snapshot!(finding(&found(None), Style::Plain), @r"
        error[source-unknown]: no \u{1b}server
         --> tool/find@1.0.0 /source/server
          = help: register it
        ");
    }

    #[test]
    fn long_lines_are_cut_around_the_column() {
        let line = "x".repeat(300);
        let (shown, before) = window(&line, 1);
        assert_eq!((shown.chars().count(), before), (WIDTH + 1, 0));
        let (shown, before) = window(&line, 200);
        assert_eq!((shown.chars().count(), before), (WIDTH + 2, BEFORE + 1));
        let (_, before) = window(&line, 301);
        assert_eq!(before, WIDTH + 1);
        assert_eq!(window("ab", 9), ("ab".to_owned(), 2));
    }

    #[test]
    fn carets_cover_keys_and_scalars() {
        for (text, column, width) in [
            (r#"{ "na\"me": 1 }"#, 3, 8),
            ("  nme: x", 3, 3),
            ("version: 1.0", 10, 3),
            ("  - { a: 1 }", 5, 1),
            ("", 1, 1),
        ] {
            assert_eq!(token_width(text, column), width, "{text}");
        }
    }
}
