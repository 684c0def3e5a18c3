//! Screens external texts before they go into a document.

use registry_core::{
    limits,
    text::{Sign, clean, each_text, signs},
};
use schema_compat::{json_schema::map_objects, pointer::pointer_join};
use serde_json::{Map, Value};

use super::{Repairs, repair::quoted};

/// The repair of a suspicious text.
const READ_IT: &str = "read it before you register it";
/// The repair of hidden characters.
const REMOVED: &str = "they were removed; ask its authors about them";

/// The members of a schema that are texts for people and models.
const TEXTS: [&str; 3] = ["$comment", "description", "title"];

/// A text without hidden characters, shortened to its limit. Instructions to the model are
/// reported. `others` are the names of other tools.
pub(super) fn screen_text<'a>(
    repairs: &mut Repairs,
    text: &str,
    pointer: &str,
    others: impl IntoIterator<Item = &'a str>,
) -> String {
    let mut text = remove_hidden(repairs, text, pointer);
    for sign in signs(&text, others) {
        if matches!(sign, Sign::Secret | Sign::OtherTool) {
            repairs.needed(pointer, format!("the text {}", sign.explain()), READ_IT);
        }
    }
    let bytes = text.len();
    if bytes > limits::TEXT_BYTES {
        let limit = limits::TEXT_BYTES;
        let end = (0..=limit).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or_default());
        let what = format!("{bytes} bytes of text exceed the limit of {limit}");
        repairs.needed(pointer, what, "it was cut; shorten it");
    }
    text
}

/// A text without hidden characters. Instructions to the model are reported.
fn remove_hidden(repairs: &mut Repairs, text: &str, pointer: &str) -> String {
    let cleaned = clean(text);
    if cleaned.removed > 0 {
        let what = format!("{} hidden characters or terminal escapes", cleaned.removed);
        repairs.needed(pointer, what, REMOVED);
    }
    if signs(&cleaned.text, []).contains(&Sign::Imperative) {
        repairs.needed(pointer, format!("the text {}", Sign::Imperative.explain()), READ_IT);
    }
    cleaned.text
}

/// Screens the members of an entity or card according to their types.
pub(super) fn screen_members(
    repairs: &mut Repairs,
    map: &Map<String, Value>,
    pointer: &str,
) -> Map<String, Value> {
    let mut copy = screened_members(repairs, map, pointer, &OWN);
    for name in OWN {
        let Some(value) = copy.get_mut(name) else { continue };
        let at = pointer_join(pointer, name);
        *value = match (name, &*value) {
            ("skills", skills) => screen_skills(repairs, skills, &at),
            ("title" | "description", Value::String(text)) => {
                screen_text(repairs, text, &at, []).into()
            }
            ("title" | "description", other) => screened(repairs, other, &at),
            (_, schema) => screen_schema(repairs, schema, &at),
        };
    }
    copy
}

/// Members with their own screening; the others are texts or contain texts.
const OWN: [&str; 6] = ["title", "description", "schema", "inputSchema", "outputSchema", "skills"];

/// Skills as a list or as a map by name.
fn screen_skills(repairs: &mut Repairs, skills: &Value, pointer: &str) -> Value {
    match skills {
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.map(|(i, item)| screen_skill(repairs, item, &format!("{pointer}/{i}"))).collect()
        }
        Value::Object(named) => {
            let mut copy = Map::new();
            for (name, item) in named {
                let name = remove_hidden(repairs, name, pointer);
                let item = screen_skill(repairs, item, &pointer_join(pointer, &name));
                copy.entry(name).or_insert(item);
            }
            copy.into()
        }
        other => screened(repairs, other, pointer),
    }
}

fn screen_skill(repairs: &mut Repairs, said: &Value, pointer: &str) -> Value {
    match said {
        Value::Object(map) => screen_members(repairs, map, pointer).into(),
        other => screened(repairs, other, pointer),
    }
}

/// Screens all texts and member names of a value.
fn screened(repairs: &mut Repairs, value: &Value, pointer: &str) -> Value {
    match value {
        Value::String(text) => remove_hidden(repairs, text, pointer).into(),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.map(|(i, item)| screened(repairs, item, &format!("{pointer}/{i}"))).collect()
        }
        Value::Object(map) => screened_members(repairs, map, pointer, &[]).into(),
        other => other.clone(),
    }
}

/// Screens the members of an object, except those that the caller screens itself.
pub(super) fn screened_members(
    repairs: &mut Repairs,
    map: &Map<String, Value>,
    pointer: &str,
    own: &[&str],
) -> Map<String, Value> {
    let mut copy = Map::new();
    for (name, value) in map {
        if own.contains(&name.as_str()) {
            copy.insert(name.clone(), value.clone());
            continue;
        }
        let name = remove_hidden(repairs, name, pointer);
        let value = screened(repairs, value, &pointer_join(pointer, &name));
        copy.entry(name).or_insert(value);
    }
    copy
}

/// A schema with screened texts. Hidden characters in its names and values are only reported,
/// because removing them would change the schema.
pub(super) fn screen_schema(repairs: &mut Repairs, schema: &Value, pointer: &str) -> Value {
    let (mut removed, mut has_secrets, mut speaks, mut kept) = (0, false, false, None);
    let copy = map_objects(schema, &mut |map: &mut Map<String, Value>| {
        for name in TEXTS {
            if let Some(Value::String(text)) = map.get_mut(name) {
                let cleaned = clean(text);
                removed += cleaned.removed;
                has_secrets |= signs(&cleaned.text, []).contains(&Sign::Secret);
                *text = cleaned.text;
            }
        }
    });
    each_text(&copy, &mut |text| {
        let found = signs(text, []);
        speaks |= found.contains(&Sign::Imperative);
        if found.contains(&Sign::Hidden) {
            kept.get_or_insert_with(|| quoted(text));
        }
    });
    if removed > 0 {
        repairs.needed(
            pointer,
            format!("{removed} hidden characters or terminal escapes"),
            REMOVED,
        );
    }
    for (sign, is_there) in [(Sign::Imperative, speaks), (Sign::Secret, has_secrets)] {
        if is_there {
            repairs.needed(pointer, format!("a text in it {}", sign.explain()), READ_IT);
        }
    }
    if let Some(text) = kept {
        let what = format!("hidden characters in {text}, which is not a description");
        repairs.needed(pointer, what, "it was kept; ask its authors about them");
    }
    copy
}
