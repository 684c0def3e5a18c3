//! One finding as text, in the manner of rustc.
//!
//! ```text
//! error[provision-unknown]: server documents@1.2.0 provides get_user@1.0.0, which is not registered
//! --> examples/registry-v2.json:231:9
//! |
//! 231 |         { "tool": "get_user", "version": "1.0.0" },
//! |         ^
//! = help: register the tool, or remove it from `provides`
//! ```
//!
//! Several places for one finding are not supported.

use std::fmt::Write as _;

use super::{Finding, Level, Place};
use crate::style::{Paint, Style, printable};

/// How much of a long line is shown, in characters.
const WIDTH: usize = 100;
/// How much of that lies before the place.
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
    let line = found.place.as_ref().and_then(|place| place.line);
    let gutter = line.map_or(1, |line| line.to_string().len());
    let frame = |mark: &str| style.paint(Paint::Frame, mark);
    // Writing into a string cannot fail.
    let _ = writeln!(text, "{:gutter$}{} {}", "", frame("-->"), location(found));
    if let Some((place, column)) =
        found.place.as_ref().zip(found.place.as_ref().and_then(|p| p.column))
    {
        text += &snippet(place, column, (gutter, paint), style);
    }
    if let Some(help) = &found.help {
        let _ = writeln!(text, "{:gutter$} {} help: {}", "", frame("="), printable(help));
    }
    text.push('\n');
    text
}

/// Where it is: in a file if one is known, else in an entity.
fn location(found: &Finding) -> String {
    let place = match &found.place {
        Some(Place { file, line: Some(line), column: Some(column), .. }) => {
            return format!("{}:{line}:{column}", printable(file));
        }
        Some(Place { file, .. }) => printable(file).into_owned(),
        None => found
            .entity
            .as_deref()
            .map_or_else(|| "the batch".to_owned(), |entity| printable(entity).into_owned()),
    };
    if found.pointer.is_empty() { place } else { format!("{place} {}", printable(&found.pointer)) }
}

fn snippet(place: &Place, column: usize, (gutter, paint): (usize, Paint), style: Style) -> String {
    let Some((line, text)) = place.line.zip(place.text()) else { return String::new() };
    let bar = style.paint(Paint::Frame, "|");
    let number = style.paint(Paint::Frame, format!("{line:>gutter$}"));
    let (shown, before) = window(text, column);
    let caret = style.paint(paint, "^");
    format!(
        "{:gutter$} {bar}\n{number} {bar} {shown}\n{:gutter$} {bar} {:before$}{caret}\n",
        "", "", ""
    )
}

/// The part of a line around a column, and how many characters of it lie before the column.
fn window(text: &str, column: usize) -> (String, usize) {
    // A file may be one line of many megabytes: only what is near the place is copied.
    let skipped = (column - 1).saturating_sub(WIDTH);
    let near: Vec<char> = text.chars().skip(skipped).take(2 * WIDTH + 1).collect();
    let at = (column - 1 - skipped).min(near.len());
    let from = at.saturating_sub(BEFORE).min(near.len().saturating_sub(WIDTH));
    let to = (from + WIDTH).min(near.len());
    let head = if skipped + from > 0 { "…" } else { "" };
    let tail = if to < near.len() { "…" } else { "" };
    let shown: String = near[from..to].iter().collect();
    let shown = format!("{head}{}{tail}", printable(&shown).trim_end());
    (shown, at - from + head.chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(place: Option<Place>) -> Finding {
        Finding {
            code: "source-unknown".to_owned(),
            severity: Level::Error,
            entity: Some("tool/find@1.0.0".to_owned()),
            pointer: "/source/server".to_owned(),
            message: "no \x1bserver".to_owned(),
            help: Some("register it".to_owned()),
            place,
            change: Some(0),
        }
    }

    #[test]
    fn without_a_file_the_entity_is_named() {
        assert_eq!(
            finding(&found(None), Style::Plain),
            "error[source-unknown]: no \u{fffd}server\n \
             --> tool/find@1.0.0 /source/server\n  = help: register it\n\n"
        );
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let line = "x".repeat(300);
        let (shown, before) = window(&line, 1);
        assert_eq!((shown.chars().count(), before), (WIDTH + 1, 0));
        let (shown, before) = window(&line, 200);
        assert_eq!((shown.chars().count(), before), (WIDTH + 2, BEFORE + 1));
        let (_, before) = window(&line, 301);
        assert_eq!(before, WIDTH + 1);
        assert_eq!(window("ab", 9), ("ab".to_owned(), 2));
    }
}
