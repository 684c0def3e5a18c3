//! JSON: parsed strictly by the core, and once more with positions when something must be shown.
//!
//! Comments and other extensions of JSONC are not supported: the parser for JSONC is used because
//! its values have positions.

use jsonc_parser::{CollectOptions, ParseOptions, ast, common::Ranged as _, parse_to_ast};
use registry_core::document::{InvalidJson, parse_json};
use serde_json::Value;

use super::{Position, SyntaxError, segments};

pub(super) fn parse(text: &str) -> Result<Value, SyntaxError> {
    parse_json(text.as_bytes()).map_err(|InvalidJson { reason, line, column }| SyntaxError {
        position: Some(character_position(text, line, column)),
        message: reason,
    })
}

/// `serde_json` counts bytes, and after a line break from 0; people count characters from 1.
fn character_position(text: &str, line: usize, bytes: usize) -> Position {
    let text_of = |line: usize| text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    if bytes == 0 && line > 1 {
        let line = line - 1;
        return Position { line, column: text_of(line).chars().count().max(1) };
    }
    let before = text_of(line).char_indices().take_while(|(at, _)| *at + 1 < bytes).count();
    Position { line: line.max(1), column: before + 1 }
}

/// The byte at which each value begins; nothing if the text is not JSON.
pub(super) fn locate(text: &str, pointers: &[&str]) -> Option<Vec<usize>> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default());
    let root = parsed.ok()?.value?;
    Some(pointers.iter().map(|pointer| start_of(&root, pointer)).collect())
}

/// The byte at which the value at a pointer begins.
fn start_of(root: &ast::Value<'_>, pointer: &str) -> usize {
    let mut value = root;
    for segment in segments(pointer) {
        match child(value, &segment) {
            Some(inner) => value = inner,
            None => break,
        }
    }
    value.range().start
}

fn child<'v, 'a>(value: &'v ast::Value<'a>, segment: &str) -> Option<&'v ast::Value<'a>> {
    match value {
        // Of equal names the last one counts, as it does for serde_json.
        ast::Value::Object(object) => {
            let found = object.properties.iter().rfind(|p| p.name.as_str() == segment);
            found.map(|property| &property.value)
        }
        ast::Value::Array(array) => array.elements.get(segment.parse::<usize>().ok()?),
        _ => None,
    }
}
