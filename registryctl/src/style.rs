//! Colors, and escapes for untrusted texts.

use std::{
    borrow::Cow,
    fmt,
    io::{IsTerminal as _, stderr, stdout},
};

use registry_core::text::is_hidden;

/// Whether a stream gets colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Colored,
    Plain,
}

/// The meaning of a color.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Paint {
    /// Errors and removals.
    Bad,
    /// Warnings and changes.
    Careful,
    /// Additions.
    Good,
    /// Line numbers and arrows.
    Frame,
    /// Headings.
    Strong,
    /// Secondary text.
    Dim,
    /// The match of a search.
    Match,
}

impl Style {
    pub(crate) fn for_stdout(is_plain: bool) -> Self {
        if stdout().is_terminal() && !is_plain { Self::Colored } else { Self::Plain }
    }

    pub(crate) fn for_stderr(is_plain: bool) -> Self {
        if stderr().is_terminal() && !is_plain { Self::Colored } else { Self::Plain }
    }

    pub(crate) fn paint(self, paint: Paint, text: impl fmt::Display) -> String {
        let code = match paint {
            Paint::Bad => "1;31",
            Paint::Careful => "1;33",
            Paint::Good => "32",
            Paint::Frame => "1;34",
            Paint::Strong => "1",
            Paint::Dim => "2",
            Paint::Match => "1;36",
        };
        match self {
            Self::Colored => format!("\x1b[{code}m{text}\x1b[0m"),
            Self::Plain => text.to_string(),
        }
    }
}

/// The text with escapes such as `\u{200b}` for control characters and invisible characters. Registered
/// texts are untrusted: they must not control the terminal or look like other texts.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_visible = |c: char| !c.is_control() && !is_hidden(c);
    if text.chars().all(is_visible) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => escaped.push(' '),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            c if is_visible(c) => escaped.push(c),
            c => escaped.extend(c.escape_unicode()),
        }
    }
    escaped.into()
}

/// The lines of a text, each without control characters and invisible characters.
pub(crate) fn printable_lines(text: &str) -> String {
    text.lines().map(printable).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_invisible_characters_are_escaped() {
        assert_eq!(printable("plain größe"), "plain größe");
        let text = "a\x1b[2Jb\tc\u{202e}d\u{200b}e\nf";
        assert_eq!(printable(text), r"a\u{1b}[2Jb c\u{202e}d\u{200b}e\nf");
        assert_eq!(printable_lines("a\n  b\x1bc\r\n"), "a\n  b\\u{1b}c");
    }

    #[test]
    fn plain_style_has_no_escape_sequences() {
        assert_eq!(Style::Plain.paint(Paint::Bad, "x"), "x");
        assert_eq!(Style::Colored.paint(Paint::Dim, "x"), "\x1b[2mx\x1b[0m");
    }
}
