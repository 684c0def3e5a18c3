//! Keys of entities, and the shorthand `#Name:1.0.0` for references inside of schemas.

use std::{fmt, str::FromStr};

use schema_compat::{json_schema::each_object_at, name::SchemaName, pointer::Location};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use crate::{
    kind::{InvalidKind, Kind},
    name::{InvalidName, Name},
    version::{InvalidVersion, Version},
    visible::escape_invisible,
};

/// The identity of an entity: kind, name and exact version, ordered in this sequence.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The kind of entity.
    pub kind: Kind,
    /// The name of the entity.
    pub name: Name,
    /// The exact version.
    pub version: Version,
}

/// A text is not a valid key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// It is not of the form `kind/name@version`.
    #[error("`{0}` is not of the form kind/name@version, like tool/fetch@1.2.3")]
    Form(String),
    /// The kind is invalid.
    #[error(transparent)]
    Kind(#[from] InvalidKind),
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The version is invalid.
    #[error(transparent)]
    Version(#[from] InvalidVersion),
}

impl Key {
    /// A key of parsed parts.
    pub fn new(kind: Kind, name: Name, version: Version) -> Self {
        Self { kind, name, version }
    }

    /// The lower bound of all keys, for range queries only.
    pub(crate) fn lowest() -> Self {
        Self::new(Kind::Schema, Name::lowest(), Version::lowest())
    }

    /// The name of a schema as used in JSON Schemas.
    pub(crate) fn schema_name(&self) -> SchemaName {
        SchemaName::new(self.name.as_str(), self.version.to_string())
    }

    /// The key of a schema named in a JSON Schema; `None` if the name or version is invalid.
    pub fn for_schema(name: &SchemaName) -> Option<Self> {
        Self::parse(Kind::Schema, name.name(), name.version()).ok()
    }

    /// Parses the parts of a key.
    pub fn parse(kind: Kind, name: &str, version: &str) -> Result<Self, InvalidKey> {
        Ok(Self::new(kind, Name::parse(kind, name)?, Version::parse(version)?))
    }
}

impl FromStr for Key {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || InvalidKey::Form(escape_invisible(text));
        let (kind, rest) = text.split_once('/').ok_or_else(form)?;
        let (name, version) = rest.rsplit_once('@').ok_or_else(form)?;
        Self::parse(kind.parse()?, name, version)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.kind, self.name, self.version)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A reference to a registered schema inside of a JSON Schema: `{"$ref": "#SearchQuery:1.0.0"}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaRef(Key);

impl SchemaRef {
    /// Parses a `$ref` value. `None` means an ordinary JSON Schema reference (`#/$defs/x`,
    /// `#anchor`). `Some(Err)` means an invalid reference to a registered schema.
    pub fn parse(reference: &str) -> Option<Result<Self, InvalidKey>> {
        let name = SchemaName::parse(reference)?;
        Some(Key::parse(Kind::Schema, name.name(), name.version()).map(Self))
    }

    /// The key of the referenced schema.
    pub fn key(&self) -> &Key {
        &self.0
    }

    /// The `$ref` value for this schema.
    pub(crate) fn text_of(key: &Key) -> String {
        format!("#{}:{}", key.name, key.version)
    }
}

impl fmt::Display for SchemaRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Self::text_of(&self.0))
    }
}

/// Receives the key of a reference, its text and its location.
type VisitReference<'f> = &'f mut dyn FnMut(Result<&Key, InvalidKey>, &str, Location<'_>);

/// Calls `found` for every reference to a registered schema with the location of the `$ref`.
pub(crate) fn each_reference(schema: &Value, at: Location<'_>, found: VisitReference<'_>) {
    each_object_at(schema, at, &mut |map, at| {
        if let Some(Value::String(text)) = map.get("$ref") {
            match SchemaRef::parse(text) {
                Some(Ok(reference)) => found(Ok(reference.key()), text, at.member("$ref")),
                Some(Err(e)) => found(Err(e), text, at.member("$ref")),
                None => {}
            }
        }
    });
}

/// The key of a schema that consists of nothing but a reference to a registered schema.
pub fn pure_reference(schema: &Value) -> Option<Key> {
    let map = schema.as_object()?;
    let text = map.get("$ref")?.as_str()?;
    let bare = map.keys().all(|name| name == "$ref" || name == "$comment");
    let reference = SchemaRef::parse(text)?.ok()?;
    bare.then(|| reference.key().clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn key_round_trips_through_text() {
        for text in ["tool/fetch@1.2.3", "server/acme/docs@1.0.0-rc.1", "schema/A@0.0.1"] {
            assert_eq!(text.parse::<Key>().unwrap().to_string(), text);
        }
        assert_eq!("tools".parse::<Kind>().unwrap(), Kind::Tool);
        for bad in ["tool/fetch", "fetch@1.2.3", "gadget/x@1.0.0", "tool/x@1", "tool/a/b@1.0.0"] {
            assert!(bad.parse::<Key>().is_err(), "{bad}");
        }
    }

    #[test]
    fn schema_ref_ignores_ordinary_references() {
        assert_eq!(SchemaRef::parse("#A:1.0.0").unwrap().unwrap().to_string(), "#A:1.0.0");
        assert!(SchemaRef::parse("#/$defs/a:b").is_none());
        assert!(SchemaRef::parse("#anchor").is_none());
        assert!(SchemaRef::parse("https://example.com/x").is_none());
        assert!(SchemaRef::parse("#A:1").unwrap().is_err());
    }

    #[test]
    fn pure_reference_requires_bare_ref() {
        assert!(pure_reference(&json!({ "$ref": "#A:1.0.0", "$comment": "x" })).is_some());
        assert!(pure_reference(&json!({ "$ref": "#A:1.0.0", "title": "x" })).is_none());
        assert!(pure_reference(&json!({ "$ref": "#/$defs/a" })).is_none());
        assert!(pure_reference(&json!(true)).is_none());
    }
}
