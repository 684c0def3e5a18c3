//! JSON: parsed strictly by the core, and once more with positions when something must be shown.
//!
//! Deliberately absent: comments and the other liberties of JSONC; the parser of that name is used
//! because its values know where they stand.

use jsonc_parser::{CollectOptions, ParseOptions, ast, common::Ranged as _, parse_to_ast};
use registry_core::document::parse_json;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{Position, SyntaxError, segments};

pub(super) fn parse(text: &str) -> Result<Value, SyntaxError> {
    parse_json(text.as_bytes()).map_err(|found| {
        let error = serde_json::from_str::<IgnoredAny>(text).err();
        let position = error.map(|e| character_position(text, e.line(), e.column()));
        // The position is shown by itself.
        let message = found.message.split(" at line ").next().unwrap_or_default().to_owned();
        SyntaxError { position, message }
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

/// The byte at which each value begins.
pub(super) fn locate(text: &str, pointers: &[&str]) -> Vec<Option<usize>> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default());
    let Some(root) = parsed.ok().and_then(|parsed| parsed.value) else {
        return vec![None; pointers.len()];
    };
    pointers.iter().map(|pointer| Some(start_of(&root, pointer))).collect()
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
