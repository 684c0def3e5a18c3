//! The types of registrations: `string`, `integer`, `float`, `boolean`, `list[T]`, `dict[K,V]`,
//! `optional[T]` and nested objects, and their JSON Schemas.
//!
//! Objects of inputs are closed and objects of outputs are open, so that an added optional member is
//! a compatible change of both.

use std::{collections::BTreeMap, fmt};

use registry_core::{limits, visible::has_invisible_characters};
use schema_compat::pointer::Location;
use serde_json::{Map, Value, json};

use crate::failure::{Failure, shown};

/// Maximum nesting of types. A level takes up to two levels of the schema.
const DEPTH: usize = 16;
/// Maximum types in one structure.
const TYPES: usize = 1_000;
/// Maximum bytes of a member name.
const NAME_BYTES: usize = 128;
/// The texts of integers, for the keys of a `dict`.
const INTEGER_KEY: &str = "^-?(0|[1-9][0-9]*)$";
const HELP: &str = "use string, integer, float, boolean, list[T], dict[string,T], dict[integer,T], \
                    optional[T] or an object of types";

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LooseType {
    /// `string`.
    String,
    /// `integer`.
    Integer,
    /// `float`.
    Float,
    /// `boolean`.
    Boolean,
    /// `list[T]`.
    List(Box<LooseType>),
    /// `dict[K,V]`.
    Dict(Key, Box<LooseType>),
    /// `optional[T]`: absent or null, or a `T`.
    Optional(Box<LooseType>),
    /// A nested object.
    Object(Structure),
}

/// The type of the keys of a `dict`. JSON has only texts as keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Any text.
    String,
    /// The decimal text of an integer.
    Integer,
}

/// The members of an object and their types.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Structure(pub BTreeMap<String, LooseType>);

/// The direction of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Arguments of a function.
    Input,
    /// A result of a function.
    Output,
}

impl Structure {
    /// Reads an object of types. The pointer of an error begins with the one of the object.
    pub fn read(value: &Value, pointer: &str) -> Result<Self, Failure> {
        Reader { pointer, types: 0 }.structure(value, &Location::ROOT, 0)
    }

    /// The JSON Schema of the object.
    pub fn to_schema(&self, direction: Direction) -> Value {
        let is_required = |field: &&LooseType| !matches!(field, LooseType::Optional(_));
        let required: Vec<_> =
            self.0.iter().filter(|(_, field)| is_required(field)).map(|(name, _)| name).collect();
        let properties: Map<String, Value> =
            self.0.iter().map(|(name, t)| (name.clone(), t.to_schema(direction))).collect();
        let mut schema = json!({ "type": "object", "properties": properties });
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if direction == Direction::Input {
            schema["additionalProperties"] = false.into();
        }
        schema
    }
}

impl LooseType {
    fn to_schema(&self, direction: Direction) -> Value {
        match self {
            Self::String => json!({ "type": "string" }),
            Self::Integer => json!({ "type": "integer" }),
            Self::Float => json!({ "type": "number" }),
            Self::Boolean => json!({ "type": "boolean" }),
            Self::List(item) => json!({ "type": "array", "items": item.to_schema(direction) }),
            Self::Dict(key, value) => {
                let values = value.to_schema(direction);
                let mut schema = json!({ "type": "object", "additionalProperties": values });
                if *key == Key::Integer {
                    schema["propertyNames"] = json!({ "pattern": INTEGER_KEY });
                }
                schema
            }
            // Other keywords of a schema do not apply to null.
            Self::Optional(inner) => {
                let mut schema = inner.to_schema(direction);
                if schema["type"].is_string() {
                    schema["type"] = json!([schema["type"], "null"]);
                }
                schema
            }
            Self::Object(structure) => structure.to_schema(direction),
        }
    }
}

/// Formats the type as a registration writes it; objects have a placeholder.
impl fmt::Display for LooseType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String => f.write_str("string"),
            Self::Integer => f.write_str("integer"),
            Self::Float => f.write_str("float"),
            Self::Boolean => f.write_str("boolean"),
            Self::List(item) => write!(f, "list[{item}]"),
            Self::Dict(Key::String, value) => write!(f, "dict[string,{value}]"),
            Self::Dict(Key::Integer, value) => write!(f, "dict[integer,{value}]"),
            Self::Optional(inner) => write!(f, "optional[{inner}]"),
            Self::Object(_) => f.write_str("object"),
        }
    }
}

/// Reads one structure and counts its types.
struct Reader<'a> {
    /// The pointer of the structure.
    pointer: &'a str,
    types: usize,
}

impl Reader<'_> {
    fn structure(
        &mut self,
        value: &Value,
        at: &Location<'_>,
        depth: usize,
    ) -> Result<Structure, Failure> {
        let Value::Object(members) = value else {
            return Err(self.invalid(at, "an object of types is required"));
        };
        let mut structure = Structure::default();
        for (name, value) in members {
            if name.is_empty() || name.len() > NAME_BYTES || has_invisible_characters(name) {
                let problem = format!(
                    "the member name {:?} is not 1 to {NAME_BYTES} bytes of printable characters",
                    shown(name)
                );
                return Err(self.invalid(at, problem));
            }
            let read = self.value(value, &at.member(name), depth + 1)?;
            structure.0.insert(name.clone(), read);
        }
        Ok(structure)
    }

    fn value(
        &mut self,
        value: &Value,
        at: &Location<'_>,
        depth: usize,
    ) -> Result<LooseType, Failure> {
        match value {
            Value::Object(_) => {
                self.count(at, depth)?;
                self.structure(value, at, depth).map(LooseType::Object)
            }
            Value::String(text) if text.len() <= limits::TEXT_BYTES => self.text(text, at, depth),
            _ => Err(self.invalid(at, HELP)),
        }
    }

    fn text(&mut self, text: &str, at: &Location<'_>, depth: usize) -> Result<LooseType, Failure> {
        self.count(at, depth)?;
        let text = text.trim_matches(' ');
        let Some((name, rest)) = text.split_once('[') else {
            return match text {
                "string" => Ok(LooseType::String),
                "integer" => Ok(LooseType::Integer),
                "float" => Ok(LooseType::Float),
                "boolean" => Ok(LooseType::Boolean),
                _ => Err(self.unknown(text, at)),
            };
        };
        let inner = rest.strip_suffix(']').ok_or_else(|| self.unknown(text, at))?;
        match name.trim_end_matches(' ') {
            "list" => Ok(LooseType::List(self.inner(inner, at, depth)?)),
            "optional" => Ok(LooseType::Optional(self.inner(inner, at, depth)?)),
            "dict" => {
                let (key, value) = inner.split_once(',').ok_or_else(|| self.unknown(text, at))?;
                let key = match key.trim_matches(' ') {
                    "string" => Key::String,
                    "integer" => Key::Integer,
                    _ => return Err(self.unknown(text, at)),
                };
                Ok(LooseType::Dict(key, self.inner(value, at, depth)?))
            }
            _ => Err(self.unknown(text, at)),
        }
    }

    fn inner(
        &mut self,
        text: &str,
        at: &Location<'_>,
        depth: usize,
    ) -> Result<Box<LooseType>, Failure> {
        self.text(text, at, depth + 1).map(Box::new)
    }

    fn count(&mut self, at: &Location<'_>, depth: usize) -> Result<(), Failure> {
        self.types += 1;
        if depth > DEPTH {
            return Err(self.invalid(at, format!("types are nested deeper than {DEPTH} levels")));
        }
        if self.types > TYPES {
            return Err(self.invalid(at, format!("the structure has more than {TYPES} types")));
        }
        Ok(())
    }

    fn unknown(&self, text: &str, at: &Location<'_>) -> Failure {
        self.invalid(at, format!("`{}` is not a type; {HELP}", shown(text)))
    }

    fn invalid(&self, at: &Location<'_>, problem: impl fmt::Display) -> Failure {
        Failure::invalid_params(&format!("{}{at}", self.pointer), problem)
    }
}

#[cfg(test)]
mod tests;
