//! Projections: construction of an object from parts of another, for `schemaMap` and
//! `outputTransform`.

use schema_compat::pointer::Location;
use serde_json::{Map, Value};

use super::{
    Path,
    read::{Reader, plain},
};

/// Fields with their sources, ordered by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Mappings(pub Vec<Mapping>);

/// One field of a projection.
#[derive(Debug, Clone, PartialEq)]
pub struct Mapping {
    /// The field to build.
    pub field: FieldPath,
    /// The source of its value.
    pub source: FieldSource,
}

/// The left-hand side of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldPath {
    /// A field: `name`.
    Field(String),
    /// A field of each item of an array that another mapping builds: `array[*].name`.
    EachItem {
        /// The name of the array.
        array: String,
        /// The name of the field.
        field: String,
    },
}

/// The right-hand side of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldSource {
    /// The selection of a path.
    Path(Path),
    /// A literal value.
    Literal(Value),
    /// The first selection that is neither missing nor null.
    Coalesce(Vec<Path>),
    /// A text with `{name}` placeholders.
    Template {
        /// The text.
        template: String,
        /// The paths of the placeholders.
        vars: Vec<(String, Path)>,
    },
    /// The selected values as strings, joined.
    Concat {
        /// The paths in order.
        paths: Vec<Path>,
        /// The text between values.
        separator: String,
    },
    /// A nested object.
    Nested(Mappings),
}

impl Mappings {
    /// Parses `{ "mappings": { field: source } }`.
    pub(super) fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let list = fields.require("mappings");
        let at = fields.at("mappings");
        let mappings = list.and_then(|list| match list {
            Value::Object(map) => Some(read_fields(reader, map, at)),
            other => {
                reader.problems.wrong_type(other, at, "an object of mappings");
                None
            }
        });
        fields.finish();
        mappings.map(Self)
    }
}

fn read_fields(reader: &Reader, map: &Map<String, Value>, at: Location<'_>) -> Vec<Mapping> {
    let members: Vec<_> = map.iter().filter(|(name, _)| *name != "$comment").collect();
    if members.is_empty() {
        reader.problems.invalid(at, "`mappings` is empty", "add at least one field");
    }
    let read = |(name, value): (&String, &Value)| {
        let at = at.member(name);
        let field = FieldPath::read(reader, name, at);
        if let Some(FieldPath::EachItem { array, .. }) = &field
            && !map.contains_key(array)
        {
            let message = format!("`{name}` maps items of `{array}`, which is not mapped");
            reader.problems.invalid(at, message, format!("add a mapping for `{array}`"));
        }
        let source = FieldSource::read(reader, value, at);
        Some(Mapping { field: field?, source: source? })
    };
    members.into_iter().filter_map(read).collect()
}

impl FieldPath {
    fn read(reader: &Reader, text: &str, at: Location<'_>) -> Option<Self> {
        let plain = |name: &str| !name.is_empty() && !name.contains(['[', ']']);
        match text.split_once("[*].") {
            None if plain(text) => Some(Self::Field(text.to_owned())),
            Some((array, field)) if plain(array) && plain(field) => {
                Some(Self::EachItem { array: array.to_owned(), field: field.to_owned() })
            }
            _ => {
                let message = format!("`{text}` is not a field");
                reader.problems.invalid(at, message, "write `field` or `array[*].field`");
                None
            }
        }
    }
}

impl FieldSource {
    fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        let names = &["path", "literal", "coalesce", "template", "concat", "nested"];
        let (name, body) = reader.variant(value, at, "source of a field", names)?;
        let at = at.member(name);
        match name {
            "path" => reader.path(body, at).map(Self::Path),
            "literal" => Some(Self::Literal(plain(body))),
            "nested" => Mappings::read(reader, body, at).map(Self::Nested),
            "template" => Self::read_template(reader, body, at),
            _ => {
                let fields = reader.problems.object(body, at)?;
                let paths = reader.paths(&fields, "paths");
                let source = if name == "coalesce" {
                    Self::Coalesce(paths)
                } else {
                    let separator = fields.optional_string("separator").unwrap_or_default();
                    Self::Concat { paths, separator }
                };
                fields.finish();
                Some(source)
            }
        }
    }

    fn read_template(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let template = fields.required_string("template");
        let vars = fields.require("vars").and_then(|vars| match vars {
            Value::Object(map) => Some(map),
            other => {
                reader.problems.wrong_type(other, fields.at("vars"), "an object of JSONPaths");
                None
            }
        });
        if let (Some(template), Some(vars)) = (&template, vars) {
            let places = pieces(template).filter_map(|piece| match piece {
                Piece::Place(name) => Some(name),
                Piece::Text(_) => None,
            });
            for name in places.filter(|name| !vars.contains_key(*name)) {
                let message = format!("the template uses `{{{name}}}`, which is missing in `vars`");
                reader.problems.invalid(fields.at("template"), message, "add it to `vars`");
            }
        }
        let at = fields.at("vars");
        let read = |(name, value): (&String, &Value)| {
            Some((name.clone(), reader.path(value, at.member(name))?))
        };
        let vars = vars.map(|map| map.iter().filter_map(read).collect());
        fields.finish();
        Some(Self::Template { template: template?, vars: vars? })
    }
}

/// A part of a template.
pub(super) enum Piece<'t> {
    /// Literal text.
    Text(&'t str),
    /// The placeholder `{name}`.
    Place(&'t str),
}

/// The parts of a template. Braces around anything but a name are text.
pub(super) fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if let Some(name) = place(rest) {
            rest = &rest[name.len() + 2..];
            return Some(Piece::Place(name));
        }
        // A brace that starts no placeholder is text, so at least one character is consumed.
        let next = rest.match_indices('{').map(|(i, _)| i).find(|i| place(&rest[*i..]).is_some());
        let (text, after) = rest.split_at(next.unwrap_or(rest.len()));
        rest = after;
        (!text.is_empty()).then_some(Piece::Text(text))
    })
}

/// The name of a placeholder at the start of a text.
fn place(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('{')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (name, after) = rest.split_at(rest.find(|c| !is_name(c))?);
    (!name.is_empty() && after.starts_with('}')).then_some(name)
}
