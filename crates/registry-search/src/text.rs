//! The searchable texts of an entity by field.
//!
//! They are read from the canonical JSON instead of the parsed entity, which documents would cache.

use registry_core::reference::Key;
use serde_json::Value;

/// A searchable field of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// The name.
    Name,
    /// The title of a tool.
    Title,
    /// A tag of the metadata or of a skill.
    Tag,
    /// The id or name of an agent's skill.
    Skill,
    /// The description.
    Description,
    /// The name of a property in a JSON Schema.
    Property,
    /// The description or an example of a skill, or the description of a property.
    Detail,
    /// A related name: a provided tool, the server of a tool, the provider of an agent, or a selector
    /// of a policy; and the kind itself.
    Related,
}

impl Field {
    /// All fields, most significant first.
    pub const ALL: [Self; 8] = [
        Self::Name,
        Self::Title,
        Self::Tag,
        Self::Skill,
        Self::Description,
        Self::Property,
        Self::Detail,
        Self::Related,
    ];

    /// The name in lower case: `name`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Title => "title",
            Self::Tag => "tag",
            Self::Skill => "skill",
            Self::Description => "description",
            Self::Property => "property",
            Self::Detail => "detail",
            Self::Related => "related",
        }
    }
}

type Visit<'f> = &'f mut dyn FnMut(Field, &str);

/// Calls `found` with each text of the entity, most significant fields first.
pub(super) fn each(key: &Key, document: &Value, found: Visit<'_>) {
    found(Field::Name, key.name.as_str());
    string(&document["title"], Field::Title, found);
    strings(&document["metadata"]["tags"], Field::Tag, found);
    for skill in list(&document["skills"]) {
        string(&skill["id"], Field::Skill, found);
        string(&skill["name"], Field::Skill, found);
        strings(&skill["tags"], Field::Tag, found);
    }
    string(&document["description"], Field::Description, found);
    for name in ["schema", "inputSchema", "outputSchema"] {
        in_schema(&document[name], found);
    }
    for skill in list(&document["skills"]) {
        string(&skill["description"], Field::Detail, found);
        strings(&skill["examples"], Field::Detail, found);
        in_schema(&skill["inputSchema"], found);
        in_schema(&skill["outputSchema"], found);
    }
    found(Field::Related, key.kind.as_str());
    string(&document["source"]["server"], Field::Related, found);
    string(&document["source"]["tool"], Field::Related, found);
    string(&document["provider"]["organization"], Field::Related, found);
    for selector in ["callers", "tools", "skills", "servers"] {
        strings(&document["appliesTo"][selector], Field::Related, found);
    }
    for provision in list(&document["provides"]) {
        string(&provision["tool"], Field::Related, found);
    }
}

fn string(value: &Value, field: Field, found: Visit<'_>) {
    if let Value::String(text) = value {
        found(field, text);
    }
}

fn strings(value: &Value, field: Field, found: Visit<'_>) {
    for item in list(value) {
        string(item, field, found);
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The names and descriptions of all nested properties of a schema. Documents have limited depth.
fn in_schema(schema: &Value, found: Visit<'_>) {
    match schema {
        Value::Object(members) => {
            for (name, member) in members {
                match (name.as_str(), member) {
                    ("properties", Value::Object(properties)) => {
                        for (name, property) in properties {
                            found(Field::Property, name);
                            in_schema(property, found);
                        }
                    }
                    ("description" | "title", Value::String(text)) => found(Field::Detail, text),
                    ("const" | "enum" | "default" | "examples", _) => {}
                    _ => in_schema(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| in_schema(item, found)),
        _ => {}
    }
}
