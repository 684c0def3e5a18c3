//! Colors, and texts that are safe to print.

use std::{
    borrow::Cow,
    fmt,
    io::{IsTerminal as _, stderr, stdout},
};

/// Whether a stream gets colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// A terminal, and the user did not object.
    Coloured,
    /// Anything else.
    Plain,
}

/// What a colour is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Paint {
    /// Errors, removals.
    Bad,
    /// Warnings, changes.
    Careful,
    /// Additions.
    Good,
    /// Line numbers, arrows.
    Frame,
    /// Headings.
    Strong,
    /// What matters less.
    Dim,
    /// What a search has found in a text.
    Match,
}

impl Style {
    pub(crate) fn for_stdout(no_color: bool) -> Self {
        if stdout().is_terminal() && !no_color { Self::Coloured } else { Self::Plain }
    }

    pub(crate) fn for_stderr(no_color: bool) -> Self {
        if stderr().is_terminal() && !no_color { Self::Coloured } else { Self::Plain }
    }

    /// The text in a colour, or as it is.
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
            Self::Coloured => format!("\x1b[{code}m{text}\x1b[0m"),
            Self::Plain => text.to_string(),
        }
    }
}

/// The text without control characters, so that what others registered cannot steer a terminal.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| !c.is_control() && !is_bidi_control(c);
    if text.chars().all(harmless) {
        return text.into();
    }
    text.chars()
        .map(|c| {
            if c == '\t' {
                ' '
            } else if harmless(c) {
                c
            } else {
                '\u{fffd}'
            }
        })
        .collect()
}

/// The lines of a text, each without control characters.
pub(crate) fn printable_lines(text: &str) -> String {
    text.lines().map(printable).collect::<Vec<_>>().join("\n")
}

/// Characters that change the order in which a line is shown.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_printed_can_steer_the_terminal() {
        assert_eq!(printable("plain größe"), "plain größe");
        assert_eq!(printable("a\x1b[2Jb\tc\u{202e}d"), "a\u{fffd}[2Jb c\u{fffd}d");
        assert_eq!(printable_lines("a\n  b\x1bc\r\n"), "a\n  b\u{fffd}c");
        assert_eq!(Style::Plain.paint(Paint::Bad, "x"), "x");
        assert_eq!(Style::Coloured.paint(Paint::Dim, "x"), "\x1b[2mx\x1b[0m");
    }
}
