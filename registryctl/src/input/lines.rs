//! The lines of a text, indexed once, so that many positions are found fast in a big file.
//!
//! Deliberately absent: the text itself.

use super::Position;

/// Where each line of a text begins.
#[derive(Debug)]
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(after_breaks).collect())
    }

    /// The position of a byte of the text.
    pub(super) fn position(&self, text: &str, byte: usize) -> Position {
        let line = self.0.partition_point(|start| *start <= byte).max(1);
        let column = text[self.0[line - 1]..byte].chars().count() + 1;
        Position { line, column }
    }

    /// A line of the text, without its end; counted from 1.
    pub(super) fn line<'t>(&self, text: &'t str, line: usize) -> Option<&'t str> {
        let start = *self.0.get(line.checked_sub(1)?)?;
        text[start..].split('\n').next().map(|line| line.strip_suffix('\r').unwrap_or(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_positions_and_lines_become_texts() {
        let text = "äb\r\n\nc";
        let lines = Lines::of(text);
        let at = |byte| {
            let Position { line, column } = lines.position(text, byte);
            (line, column)
        };
        assert_eq!([at(0), at(2), at(5), at(6), at(7)], [(1, 1), (1, 2), (2, 1), (3, 1), (3, 2)]);
        assert_eq!(lines.line(text, 1), Some("äb"));
        assert_eq!(lines.line(text, 2), Some(""));
        assert_eq!(lines.line(text, 3), Some("c"));
        assert_eq!(lines.line(text, 4), None);
        assert_eq!(lines.line(text, 0), None);
    }
}
