//! Projections: how an object is built from parts of another.
//!
//! Used by `schemaMap` and by a tool's `outputTransform`. Deliberately absent: applying them.

use serde_json::Value;

use super::Path;

/// Fields and where each comes from, in the order of their names.
#[derive(Debug, Clone, PartialEq)]
pub struct Mappings(pub Vec<Mapping>);

/// One field of a projection.
#[derive(Debug, Clone, PartialEq)]
pub struct Mapping {
    /// The field that is built.
    pub field: FieldPath,
    /// From what.
    pub source: FieldSource,
}

/// The left side of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldPath {
    /// A field: `name`.
    Field(String),
    /// A field of each item of an array that another mapping builds: `array[*].name`.
    EachItem {
        /// The array.
        array: String,
        /// The field of its items.
        field: String,
    },
}

/// The right side of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldSource {
    /// What a path selects.
    Path(Path),
    /// This value.
    Literal(Value),
    /// What the first path selects that is neither missing nor null.
    Coalesce(Vec<Path>),
    /// A text with `{name}` places.
    Template {
        /// The text.
        template: String,
        /// What the names stand for.
        vars: Vec<(String, Path)>,
    },
    /// The selected values as texts, joined.
    Concat {
        /// In this order.
        paths: Vec<Path>,
        /// Between them.
        separator: String,
    },
    /// An object of its own.
    Nested(Mappings),
}
