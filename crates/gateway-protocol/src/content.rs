//! What a tool's result says, for whoever has to understand it or to write one: projections,
//! compositions, agents, the gateway's own words.
//!
//! Results that are only forwarded are not parsed.

use serde_json::{Value, value::RawValue};

use crate::jsonrpc::{Object, ObjectWriter};

/// The structured content. Some write null for what is not there.
pub fn structured<'a>(result: &Object<'a>) -> Option<&'a RawValue> {
    result.find("structuredContent").filter(|raw| raw.get() != "null")
}

/// The first block of text.
pub fn first_text(result: &Object<'_>) -> Option<String> {
    blocks(result)?.iter().find_map(text_of)
}

/// The blocks of text as content, and nothing else of them.
pub fn texts(result: &Object<'_>) -> String {
    let blocks = blocks(result).unwrap_or_default();
    let texts: Vec<_> = blocks.iter().filter_map(text_of).map(|text| block(&text)).collect();
    format!("[{}]", texts.join(","))
}

/// The members of a result that says a value: structured, and the same as text.
pub fn say(value: &Value, out: &mut ObjectWriter) {
    say_json(&value.to_string(), out);
}

/// The same of a value that is JSON text already.
pub fn say_json(value: &str, out: &mut ObjectWriter) {
    out.raw("content", &of_text(value)).raw("structuredContent", value);
}

/// Content that is one block of text.
pub fn of_text(text: &str) -> String {
    format!("[{}]", block(text))
}

/// Estimates of the memory of a tree of values: as measured, 32 to 64 bytes for an item of an array,
/// and a node of 632 bytes for up to 11 members of an object.
const ITEM: usize = 64;
const MEMBER: usize = 120;
const NODE: usize = 640;

/// An estimate of the memory that a JSON text takes as a tree of values.
pub fn tree_bytes(text: &str) -> usize {
    let (mut bytes, mut in_string, mut is_escaped) = (text.len(), false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' => bytes += NODE,
            b':' => bytes += MEMBER,
            b',' | b'[' => bytes += ITEM,
            _ => {}
        }
    }
    bytes
}

/// An estimate of the memory that a tree of values takes.
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
