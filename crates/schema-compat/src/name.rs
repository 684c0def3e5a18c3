//! Names of schemas in other documents.

use std::fmt;

/// The name of a schema that a `$ref` of the form `#Name:1.0.0` refers to.
///
/// Any name and version are accepted here; the caller, who resolves names, decides which are valid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchemaName {
    name: String,
    version: String,
}

impl SchemaName {
    /// A name from its parts.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into() }
    }

    /// Parses the value of a `$ref`. Returns `None` for an ordinary reference (`#/$defs/x`,
    /// `#anchor`).
    pub fn parse(reference: &str) -> Option<Self> {
        let body = reference.strip_prefix('#')?;
        if body.starts_with('/') {
            return None;
        }
        let (name, version) = body.split_once(':')?;
        Some(Self::new(name, version))
    }

    /// The name without its version.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The value of a `$ref`: `#Name:1.0.0`.
    pub fn reference(&self) -> String {
        format!("#{}:{}", self.name, self.version)
    }

    /// The absolute URI of a compiled schema without `$id`. A relative `$id` is resolved against
    /// it, so versions do not share URIs.
    pub fn uri(&self) -> String {
        format!("registry:/{}/{}/", self.name, self.version)
    }
}

/// Formats as `schema/Name@1.0.0` for messages.
impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "schema/{}@{}", self.name, self.version)
    }
}

/// A named schema.
#[derive(Debug, Clone, Copy)]
pub struct Definition<'a> {
    /// The schema.
    pub schema: &'a serde_json::Value,
    /// JSON pointer of the schema in its document.
    pub pointer: &'static str,
}
