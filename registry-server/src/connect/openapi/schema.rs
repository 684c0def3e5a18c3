//! JSON schemas of messages and enums.

use std::collections::BTreeMap;

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::{Comments, PACKAGE, local, reference};

/// The schemas of these messages, and of the enums in them.
pub(super) fn all(
    messages: &BTreeMap<String, MessageDescriptor>,
    comments: &Comments,
) -> Map<String, Value> {
    let mut schemas = Map::new();
    for message in messages.values() {
        schemas.insert(local(message.full_name()).to_owned(), object(message, comments));
        for field in message.fields() {
            if let Some(values) = field.kind().as_enum().filter(|e| e.package_name() == PACKAGE) {
                let name = local(values.full_name()).to_owned();
                schemas.entry(name).or_insert_with(|| enumeration(values, comments));
            }
        }
    }
    schemas
}

fn object(message: &MessageDescriptor, comments: &Comments) -> Value {
    let file = message.parent_file();
    let properties = message.fields().map(|field| {
        let mut schema = property(&field);
        let mut text = comments.get(&file, field.path()).to_owned();
        if let Some(group) = field.containing_oneof().filter(|group| !group.is_synthetic()) {
            text = format!("{text} At most one member of `{}` is present.", group.name());
        }
        schema["description"] = text.trim().into();
        (field.json_name().to_owned(), schema)
    });
    json!({
        "type": "object",
        "description": comments.get(&file, message.path()),
        "properties": properties.collect::<Map<_, _>>(),
    })
}

fn enumeration(values: &EnumDescriptor, comments: &Comments) -> Value {
    let file = values.parent_file();
    let lines = values
        .values()
        .map(|value| format!("- `{}`: {}", value.name(), comments.get(&file, value.path())));
    let text = comments.get(&file, values.path());
    let text = format!("{text}\n\n{}", lines.collect::<Vec<_>>().join("\n"));
    let names: Vec<_> = values.values().map(|value| value.name().to_owned()).collect();
    json!({ "type": "string", "description": text, "enum": names })
}

fn property(field: &FieldDescriptor) -> Value {
    let schema = single(&field.kind());
    if field.is_list() { json!({ "type": "array", "items": schema }) } else { schema }
}

/// The schema of one value.
fn single(kind: &Kind) -> Value {
    match kind {
        Kind::Double | Kind::Float => json!({
            "anyOf": [{ "type": "number" }, { "enum": ["NaN", "Infinity", "-Infinity"] }],
        }),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            json!({ "type": "integer", "format": "int32" })
        }
        Kind::Uint32 | Kind::Fixed32 => {
            json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX })
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            json!({ "type": "string", "format": "int64", "pattern": "^-?[0-9]+$" })
        }
        Kind::Uint64 | Kind::Fixed64 => {
            json!({ "type": "string", "format": "uint64", "pattern": "^[0-9]+$" })
        }
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::String => json!({ "type": "string" }),
        Kind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
        Kind::Enum(values) => reference(local(values.full_name())),
        Kind::Message(message) => match message.full_name() {
            "google.protobuf.Timestamp" => json!({ "type": "string", "format": "date-time" }),
            "google.protobuf.Duration" => {
                json!({ "type": "string", "pattern": "^-?[0-9]+(\\.[0-9]{1,9})?s$" })
            }
            name => reference(local(name)),
        },
    }
}
