//! A reusable, versioned JSON Schema.

use schema_compat::pointer::Location;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{decode::Problems, kind::Kind, name::Name, open_json, version::Version};

/// A reusable JSON Schema, referenced as `{"$ref": "#Name:1.0.0"}`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Schema {
    /// The name.
    pub name: Name,
    /// The exact version.
    pub version: Version,
    /// The description for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema (an object or a boolean); draft 2020-12 unless `$schema` names another.
    #[serde(serialize_with = "open_json::serialize")]
    pub schema: Value,
    /// Open metadata: owner, repository …
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "open_json::serialize")]
    pub metadata: Option<Map<String, Value>>,
}

impl Schema {
    pub(crate) fn read(problems: &Problems, value: Value, at: Location<'_>) -> Option<Self> {
        let mut fields = problems.owned_object(value, at)?;
        let (name, version) = (fields.name(Kind::Schema, "name"), fields.version("version"));
        let description = fields.optional_string("description");
        fields.require("schema");
        let schema = fields.json_schema("schema");
        let metadata = fields.open_object("metadata");
        fields.finish();
        Some(Self { name: name?, version: version?, description, schema: schema?, metadata })
    }
}
