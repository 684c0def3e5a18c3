//! Reads and writes the content of tool results, for projections, compositions, agents and the
//! gateway's own messages.
//!
//! Results that are only forwarded are not parsed.

use serde_json::{Value, value::RawValue};

use crate::jsonrpc::{Object, ObjectWriter};

/// The structured content. Some servers write `null` for a missing one.
pub fn structured<'a>(result: &Object<'a>) -> Option<&'a RawValue> {
    result.find("structuredContent").filter(|raw| raw.get() != "null")
}

/// The text of the first text block.
pub fn first_text(result: &Object<'_>) -> Option<String> {
    blocks(result)?.iter().find_map(text_of)
}

/// The text blocks as JSON content, without other blocks.
pub fn text_blocks(result: &Object<'_>) -> String {
    let blocks = blocks(result).unwrap_or_default();
    let texts: Vec<_> = blocks.iter().filter_map(text_of).map(|text| block(&text)).collect();
    format!("[{}]", texts.join(","))
}

/// Writes the members of a result with this value, as structured content and as text.
pub fn write_value(value: &Value, out: &mut ObjectWriter) {
    write_json_value(&value.to_string(), out);
}

/// Writes the members of a result with this value, given as JSON text.
pub fn write_json_value(value: &str, out: &mut ObjectWriter) {
    out.raw("content", &text_content(value)).raw("structuredContent", value);
}

/// JSON content with one text block.
pub fn text_content(text: &str) -> String {
    format!("[{}]", block(text))
}

/// Estimates of the memory of parsed values. Measurements show 32 to 64 bytes for an array item,
/// and a node of 632 bytes for up to 11 members of an object.
const ITEM: usize = 64;
const MEMBER: usize = 120;
const NODE: usize = 640;

/// Estimates the memory of a JSON text after parsing, in bytes.
pub fn tree_bytes(text: &str) -> usize {
    let (mut bytes, mut rest) = (text.len(), text.as_bytes());
    // Most bytes are in strings, which are skipped.
    while let Some(quote) = memchr::memchr(b'"', rest) {
        bytes += structure_bytes(&rest[..quote]);
        rest = after_string(&rest[quote + 1..]);
    }
    bytes + structure_bytes(rest)
}

/// The memory of nodes, members and items, in bytes.
fn structure_bytes(outside_strings: &[u8]) -> usize {
    let of = |byte: &u8| match byte {
        b'{' => NODE,
        b':' => MEMBER,
        b',' | b'[' => ITEM,
        _ => 0,
    };
    outside_strings.iter().map(of).sum()
}

/// The text after the end of a string.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        if rest[at] == b'"' {
            return &rest[at + 1..];
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    &[]
}

/// Estimates the memory of a parsed value, in bytes.
pub fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| ITEM + value_bytes(item)).sum(),
        Value::Object(members) => {
            let bytes = |(name, value): (&String, _)| MEMBER + name.len() + value_bytes(value);
            NODE + members.iter().map(bytes).sum::<usize>()
        }
    }
}

fn block(text: &str) -> String {
    let mut block = ObjectWriter::with_capacity(text.len() + 32);
    block.raw("type", r#""text""#).string("text", text);
    block.finish_string()
}

fn blocks<'a>(result: &Object<'a>) -> Option<Vec<Object<'a>>> {
    serde_json::from_str(result.find("content")?.get()).ok()
}

fn text_of(block: &Object<'_>) -> Option<String> {
    block.find("type").filter(|kind| kind.get() == r#""text""#)?;
    serde_json::from_str(block.find("text")?.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_bytes_counts_structure_outside_strings() {
        let text = r#"{"a\\":[1,"{[:,\"{"]}"#;
        assert_eq!(tree_bytes(text), text.len() + NODE + MEMBER + 2 * ITEM);
        for open in [r#"["{"#, r#"["{\"#] {
            assert_eq!(tree_bytes(open), open.len() + ITEM);
        }
    }
}
