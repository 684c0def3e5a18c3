//! A live tool's JSON Schema: whether it is of a size to look at, and what is hidden in its texts.
//!
//! Deliberately absent: the rules of the registry; `refused` asks them.

use serde_json::{Map, Value};

use crate::{
    document::canonical_bytes,
    import::{
        Repairs,
        repair::quoted,
        text::{Sign, clean, is_hidden, signs},
    },
    json_schema::map_objects,
    limits,
};

/// The members of a schema that are texts for people and models.
const TEXTS: [&str; 3] = ["$comment", "description", "title"];

/// What happens to a schema that the registry would refuse.
pub(super) const LEFT_OUT: &str = "the schema was left out; mend it and add it";

/// The schema with cleaned texts, if it can be used.
pub(super) fn usable(said: &Value, pointer: &str, repairs: &mut Repairs) -> Option<Value> {
    if !said.is_object() {
        repairs.needed(pointer, "a tool's schema must be an object", LEFT_OUT);
        return None;
    }
    if depth(said) > limits::DOCUMENT_DEPTH || canonical_bytes(said).len() > limits::DOCUMENT_BYTES
    {
        repairs.needed(pointer, "the schema is too deep or too big", LEFT_OUT);
        return None;
    }
    let (schema, seen) = cleaned(said);
    seen.report(pointer, repairs);
    if let Some(text) = hidden_text(&schema) {
        let what = format!("hidden characters in {}, which is no description", quoted(text));
        repairs.needed(pointer, what, "it was kept; ask its makers why they are there");
    }
    Some(schema)
}

/// What the texts of a schema had.
#[derive(Default)]
struct Seen {
    hidden: usize,
    speaks: bool,
}

impl Seen {
    fn report(&self, pointer: &str, repairs: &mut Repairs) {
        if self.hidden > 0 {
            let what = format!("{} hidden characters or terminal escapes", self.hidden);
            let how = "they were removed; ask its makers why they are there";
            repairs.needed(pointer, what, how);
        }
        if self.speaks {
            let what = format!("a description in it {}", Sign::Imperative.explain());
            repairs.needed(pointer, what, "read it before you register it");
        }
    }
}

fn cleaned(schema: &Value) -> (Value, Seen) {
    let mut seen = Seen::default();
    let copy = map_objects(schema, &mut |map: &mut Map<String, Value>| {
        for name in TEXTS {
            if let Some(Value::String(text)) = map.get_mut(name) {
                let cleaned = clean(text);
                seen.hidden += cleaned.removed;
                seen.speaks |= signs(&cleaned.text, []).contains(&Sign::Imperative);
                *text = cleaned.text;
            }
        }
    });
    (copy, seen)
}

fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(map) => map.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or_default()
}

/// A text or a member's name with something hidden in it.
fn hidden_text(value: &Value) -> Option<&str> {
    let hidden = |text: &str| text.chars().any(is_hidden);
    match value {
        Value::String(text) => hidden(text).then_some(text),
        Value::Array(items) => items.iter().find_map(hidden_text),
        Value::Object(map) => {
            map.iter().find_map(
                |(name, value)| {
                    if hidden(name) { Some(name.as_str()) } else { hidden_text(value) }
                },
            )
        }
        _ => None,
    }
}
