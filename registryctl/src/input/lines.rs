//! An index of the lines of a text.

use super::Position;

/// The first byte of each line.
#[derive(Debug)]
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(after_breaks).collect())
    }

    /// The positions of bytes of the text, in one pass: a file may be one long line.
    pub(super) fn positions(&self, text: &str, bytes: &[usize]) -> Vec<Position> {
        let mut order: Vec<usize> = (0..bytes.len()).collect();
        order.sort_by_key(|&i| bytes[i]);
        let mut found = vec![Position { line: 1, column: 1 }; bytes.len()];
        let (mut last, mut counted_to) = (Position { line: 1, column: 1 }, 0);
        for i in order {
            let line = self.0.partition_point(|start| *start <= bytes[i]).max(1);
            if line != last.line {
                (last, counted_to) = (Position { line, column: 1 }, self.0[line - 1]);
            }
            last.column += text[counted_to..bytes[i]].chars().count();
            counted_to = bytes[i];
            found[i] = last;
        }
        found
    }

    /// A line without its line break; the first is 1.
    pub(super) fn line<'t>(&self, text: &'t str, line: usize) -> Option<&'t str> {
        let start = *self.0.get(line.checked_sub(1)?)?;
        text[start..].split('\n').next().map(|line| line.strip_suffix('\r').unwrap_or(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_scanned_once() {
        let text = "ä".repeat(1 << 20);
        let bytes: Vec<usize> = (0..text.len()).step_by(2).collect();
        let found = Lines::new(&text).positions(&text, &bytes);
        assert_eq!(found.last(), Some(&Position { line: 1, column: 1 << 20 }));
    }

    #[test]
    fn bytes_have_positions() {
        let text = "äb\r\n\nc";
        let lines = Lines::new(text);
        let found = lines.positions(text, &[7, 0, 2, 6, 5, 7]);
        let found: Vec<_> = found.iter().map(|at| (at.line, at.column)).collect();
        assert_eq!(found, [(3, 2), (1, 1), (1, 2), (3, 1), (2, 1), (3, 2)]);
        assert_eq!(lines.line(text, 1), Some("äb"));
        assert_eq!(lines.line(text, 2), Some(""));
        assert_eq!(lines.line(text, 3), Some("c"));
        assert_eq!(lines.line(text, 4), None);
        assert_eq!(lines.line(text, 0), None);
    }
}
