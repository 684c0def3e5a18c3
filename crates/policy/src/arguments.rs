//! The types of a tool's arguments in conditions.

use std::collections::BTreeMap;

use registry_core::{
    entity::Tool,
    schema_inline::{InlineBudget, Resolve, inlined},
};
use schema_compat::pointer::Location;
use serde_json::{Map, Value};

use crate::catalog::Find;

/// Maximum nesting of the types of arguments.
const DEPTH: usize = 16;

/// The type of a value in conditions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ArgumentType {
    /// `integer`: a `Long`.
    Long,
    /// `number`: a `decimal`.
    Decimal,
    /// `string`.
    String,
    /// `boolean`.
    Bool,
    /// `object`: a record.
    Record(BTreeMap<String, Attribute>),
    /// `array`: a `Set`.
    Set(Box<Self>),
    /// Conditions cannot read it.
    Unreadable {
        /// The pointer of the schema.
        pointer: String,
        /// The reason.
        reason: &'static str,
    },
}

/// A member of a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Attribute {
    /// Its type.
    pub value: ArgumentType,
    /// Whether it is always present.
    pub is_required: bool,
}

impl ArgumentType {
    /// Whether a value can have the member at a path. A part that conditions cannot read can have any.
    pub(crate) fn can_have(&self, path: &[String]) -> bool {
        match (self, path) {
            (Self::Record(members), [first, rest @ ..]) => {
                members.get(first).is_some_and(|member| member.value.can_have(rest))
            }
            _ => true,
        }
    }

    /// The names of the members of a record.
    pub(crate) fn member_names(&self) -> impl Iterator<Item = &str> {
        let members = match self {
            Self::Record(members) => Some(members),
            _ => None,
        };
        members.into_iter().flat_map(BTreeMap::keys).map(String::as_str)
    }

    /// The type of the arguments of a registered tool.
    pub fn of_tool(find: Find<'_>, tool: &Tool) -> Self {
        Self::of_schema(tool.input_schema.as_ref(), &|key| find(key)?.entity().as_schema())
    }

    /// The type of arguments with this schema.
    pub fn of_schema(schema: Option<&Value>, resolve: Resolve<'_>) -> Self {
        let Some(schema) = schema else {
            return unreadable(Location::ROOT, "the tool has no input schema");
        };
        match inlined(schema, resolve, &mut InlineBudget::for_server()) {
            Some(schema) => read_object(&schema, Location::ROOT.member("inputSchema"), DEPTH),
            None => unreadable(
                Location::ROOT.member("inputSchema"),
                "a reference is unresolved, or the schema is too large",
            ),
        }
    }
}

fn unreadable(at: Location<'_>, reason: &'static str) -> ArgumentType {
    ArgumentType::Unreadable { pointer: at.to_string(), reason }
}

/// Reads the schema of the arguments, which are always an object.
fn read_object(schema: &Value, at: Location<'_>, depth: usize) -> ArgumentType {
    match schema {
        Value::Object(map) if map.get("type").is_none_or(|name| name == "object") => {
            read_record(map, at, depth)
        }
        _ => unreadable(at, "the schema is not that of an object"),
    }
}

fn read_type(schema: &Value, at: Location<'_>, depth: usize) -> ArgumentType {
    let Value::Object(map) = schema else { return unreadable(at, "any value is allowed") };
    if depth == 0 {
        return unreadable(at, "the schema is nested too deeply");
    }
    if map.contains_key("$ref") || map.contains_key("$dynamicRef") {
        return unreadable(at, "the schema is recursive");
    }
    if ["anyOf", "oneOf", "allOf", "not", "if"].iter().any(|keyword| map.contains_key(*keyword)) {
        return unreadable(at, "the schema combines other schemas");
    }
    match map.get("type") {
        Some(Value::String(name)) => match name.as_str() {
            "integer" => ArgumentType::Long,
            "number" => ArgumentType::Decimal,
            "string" => ArgumentType::String,
            "boolean" => ArgumentType::Bool,
            "object" => read_record(map, at, depth),
            "array" => match map.get("items") {
                Some(items) => match read_type(items, at.member("items"), depth - 1) {
                    unreadable @ ArgumentType::Unreadable { .. } => unreadable,
                    item => ArgumentType::Set(Box::new(item)),
                },
                None => unreadable(at, "the schema does not describe the items"),
            },
            _ => unreadable(at, "the type is `null`"),
        },
        Some(_) => unreadable(at, "the type is a union"),
        None => match map.get("enum") {
            Some(Value::Array(values)) if values.iter().all(Value::is_string) => {
                ArgumentType::String
            }
            _ => unreadable(at, "the schema has no type"),
        },
    }
}

fn read_record(map: &Map<String, Value>, at: Location<'_>, depth: usize) -> ArgumentType {
    let required: Vec<&str> = map
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = map.get("properties").and_then(Value::as_object);
    let at = at.member("properties");
    let attribute = |(name, schema): (&String, &Value)| {
        let value = read_type(schema, at.member(name), depth - 1);
        (name.clone(), Attribute { value, is_required: required.contains(&name.as_str()) })
    };
    ArgumentType::Record(properties.into_iter().flatten().map(attribute).collect())
}

impl ArgumentType {
    /// Finds the first unreadable part of a path of members.
    pub fn find_unreadable(&self, path: &[String]) -> Option<(&str, &'static str)> {
        match (self, path) {
            (Self::Unreadable { pointer, reason }, _) => Some((pointer, reason)),
            (Self::Record(members), [first, rest @ ..]) => {
                members.get(first)?.value.find_unreadable(rest)
            }
            _ => None,
        }
    }
}
