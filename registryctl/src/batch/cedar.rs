//! The position in a file of a problem in a Cedar text, whose message has the line and column in the text.

use serde_json::Value;

use crate::{
    input::{Position, Source},
    report::Finding,
};

/// The pointer of the Cedar text in a policy.
const CEDAR: &str = "/authorization/cedar";

/// Replaces the positions of Cedar texts by those of the problems in them. A text with other lines or
/// columns in the file, such as one with escapes, keeps its position.
pub(super) fn refine(
    source: &Source,
    findings: &[Finding],
    positions: Vec<Option<Position>>,
) -> Vec<Option<Position>> {
    let mut cedar = findings.iter().filter(|found| found.pointer.ends_with(CEDAR));
    let Some(value) = cedar.next().and_then(|_| source.value().ok()) else { return positions };
    let refined = |(found, start): (&Finding, Option<Position>)| {
        start.map(|start| inner(source, &value, found, start).unwrap_or(start))
    };
    findings.iter().zip(positions).map(refined).collect()
}

fn inner(source: &Source, file: &Value, found: &Finding, start: Position) -> Option<Position> {
    if !found.pointer.ends_with(CEDAR) {
        return None;
    }
    let text = file.pointer(&found.pointer)?.as_str()?;
    let problem = place(&found.message)?;
    in_block(source, text, start, problem).or_else(|| in_line(source, text, start, problem))
}

/// The place in `Cedar line 2, column 40: …`.
fn place(message: &str) -> Option<Position> {
    let (place, _) = message.strip_prefix("Cedar line ")?.split_once(':')?;
    let (line, column) = place.split_once(", column ").unwrap_or((place, "1"));
    Some(Position { line: line.parse().ok()?, column: column.parse().ok()? })
}

/// A YAML block has the lines of the text with an indentation. It starts at its first line or at the
/// indicator before that.
fn in_block(source: &Source, text: &str, start: Position, problem: Position) -> Option<Position> {
    let indentation = |line: usize, written: &str| {
        let before = source.line(line)?.strip_suffix(written)?;
        before.trim().is_empty().then(|| before.chars().count())
    };
    let is_written_at = |first: &usize| {
        let mut lines = text.lines().take(problem.line).enumerate();
        lines.all(|(i, written)| indentation(first + i, written).is_some())
    };
    let last = text.lines().nth(problem.line.checked_sub(1)?)?;
    let line = [start.line, start.line + 1].into_iter().find(is_written_at)? + problem.line - 1;
    Some(Position { line, column: indentation(line, last)? + problem.column })
}

/// A text on the line of its start, plain or in quotes, without escapes before the problem.
fn in_line(source: &Source, text: &str, start: Position, problem: Position) -> Option<Position> {
    let before = problem.column.checked_sub(1).filter(|_| problem.line == 1)?;
    let mut written =
        source.line(start.line)?.chars().skip(start.column.checked_sub(1)?).peekable();
    let is_quoted = written.next_if(|c| matches!(c, '"' | '\'')).is_some();
    let is_same = text.chars().take(before).eq(written.take(before));
    let column = start.column + usize::from(is_quoted) + before;
    is_same.then_some(Position { line: start.line, column })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use registry_core::{Code, Diagnostic};

    use super::*;
    use crate::input::Part;

    /// The position of a problem at this place of the Cedar text of the only policy.
    fn refined(name: &str, file: &str, place: &str) -> Option<(usize, usize)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::write(&path, file).unwrap();
        let source = Source::read(&path).unwrap();
        let message = format!("Cedar line {place}: invalid");
        let pointer = format!("/policies/0{CEDAR}");
        let found = Finding::from(&Diagnostic::error(Code::PolicyInvalid, &*pointer, message));
        let positions = source.locate(&[(pointer.as_str(), Part::Value)]);
        let position = refine(&source, &[found], positions).remove(0)?;
        Some((position.line, position.column))
    }

    #[test]
    fn problem_in_a_block_has_its_line() {
        let file = "policies:\n- name: p\n  authorization:\n    cedar: |\n      \
                    forbid (principal, action, resource)\n      when { context.x };\n";
        assert_eq!(refined("p.yaml", file, "1, column 9"), Some((5, 15)));
        assert_eq!(refined("p.yaml", file, "2, column 8"), Some((6, 14)));
        assert_eq!(refined("p.yaml", file, "2"), Some((6, 7)));
    }

    #[test]
    fn problem_on_one_line_has_its_column() {
        let json = r#"{ "policies": [{ "authorization": { "cedar": "forbid (x);" } }] }"#;
        assert_eq!(refined("p.json", json, "1, column 9"), Some((1, 55)));
        let yaml = "policies:\n- authorization: { cedar: forbid x }\n";
        assert_eq!(refined("p.yaml", yaml, "1, column 8"), Some((2, 34)));
    }

    #[test]
    fn problem_in_an_escaped_text_has_the_start_of_the_text() {
        let json = r#"{ "policies": [{ "authorization": { "cedar": "forbid\n\"x\"" } }] }"#;
        assert_eq!(refined("p.json", json, "2, column 2"), Some((1, 46)));
        assert_eq!(refined("p.json", json, "9, column 9"), Some((1, 46)));
        let folded = "policies:\n- authorization:\n    cedar: >\n      forbid\n      x\n";
        let start = refined("p.yaml", folded, "9, column 1");
        assert_eq!(refined("p.yaml", folded, "1, column 8"), start);
    }
}
