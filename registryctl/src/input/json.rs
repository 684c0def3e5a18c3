//! JSON: parsed strictly by the core. To locate findings, a second parser provides positions.
//!
//! The second parser accepts JSONC. Its extensions are not supported: the strict parser rejects them.

use jsonc_parser::{CollectOptions, ParseOptions, ast, common::Ranged as _, parse_to_ast};
use registry_core::document::{InvalidJson, parse_json};
use serde_json::Value;

use super::{Part, Position, SyntaxError, segments};

pub(super) fn parse(text: &str) -> Result<Value, SyntaxError> {
    parse_json(text.as_bytes()).map_err(|InvalidJson { reason, line, column }| SyntaxError {
        position: Some(character_position(text, line, column)),
        message: reason,
    })
}

/// Converts a position of `serde_json`, which counts bytes, and counts from 0 after a line break.
fn character_position(text: &str, line: usize, bytes: usize) -> Position {
    let text_of = |line: usize| text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    if bytes == 0 && line > 1 {
        let line = line - 1;
        return Position { line, column: text_of(line).chars().count().max(1) };
    }
    let before = text_of(line).char_indices().take_while(|(at, _)| *at + 1 < bytes).count();
    Position { line: line.max(1), column: before + 1 }
}

/// The first byte of each key or value. `None`: the text is not JSON.
pub(super) fn locate(text: &str, parts: &[(&str, Part)]) -> Option<Vec<usize>> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default());
    let root = parsed.ok()?.value?;
    Some(parts.iter().map(|(pointer, part)| start(&root, pointer, *part)).collect())
}

/// The first byte of the key or value at a pointer.
fn start(root: &ast::Value<'_>, pointer: &str, part: Part) -> usize {
    let (mut value, mut key) = (root, None);
    for segment in segments(pointer) {
        match child(value, &segment) {
            Some((name, inner)) => (key, value) = (name, inner),
            None => return value.range().start,
        }
    }
    match (part, key) {
        (Part::Key, Some(start)) => start,
        _ => value.range().start,
    }
}

/// The first byte of the key of a member, if there is one, and its value.
fn child<'v, 'a>(
    value: &'v ast::Value<'a>,
    segment: &str,
) -> Option<(Option<usize>, &'v ast::Value<'a>)> {
    match value {
        // Of duplicate keys, `serde_json` uses the last.
        ast::Value::Object(object) => {
            let found = object.properties.iter().rfind(|p| p.name.as_str() == segment);
            found.map(|property| (Some(property.name.range().start), &property.value))
        }
        ast::Value::Array(array) => {
            array.elements.get(segment.parse::<usize>().ok()?).map(|value| (None, value))
        }
        _ => None,
    }
}
