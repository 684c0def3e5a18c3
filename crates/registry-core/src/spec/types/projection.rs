//! Projections: whether their paths select parts of the projected value.
//!
//! Only paths that select nothing of any described value, or an undeclared member next to declared
//! ones, are reported.

use schema_compat::{json_schema::each_object, pointer::Location, schema_compile::patterns};
use serde_json::Value;

use super::{
    label::segment,
    patterns::{each_item, source},
    schema::{self, Kinds},
    select::{Presence, Undeclared, select, undeclared},
    shape::Shape,
};
use crate::{
    spec::{FieldPath, FieldSource, Mapping, Mappings, Path},
    suggest::closest,
};

/// Bytes of a schema that are searched in one step.
const STEP_BYTES: usize = 1024;
/// Maximum number of declared names that a remedy lists.
const LISTED: usize = 10;

/// A path of a projection that no schema declares.
pub(crate) struct UndeclaredPath {
    /// JSON pointer inside of the projection.
    pub(crate) pointer: String,
    /// The path as written.
    pub(crate) path: String,
    /// The remedy.
    pub(crate) help: String,
}

/// Keywords whose schemas apply to some values only, so that another member may be declared.
const ALTERNATIVES: [&str; 7] =
    ["anyOf", "dependencies", "dependentSchemas", "if", "not", "oneOf", "unevaluatedProperties"];

/// The undeclared paths of a projection of values with this self-contained schema. A path takes
/// one step, one per regular expression of the schema, and one per KiB of the schema. The first path
/// that exceeds the steps ends the check. Schemas with alternatives are not checked.
pub(crate) fn undeclared_paths(
    mappings: &Mappings,
    schema: &Value,
    steps: &mut usize,
) -> Vec<UndeclaredPath> {
    let schema = schema::modern(schema).filter(|schema| !has_alternatives(schema));
    let Some(schema) = schema else { return Vec::new() };
    let cost = 1 + patterns(&schema) + schema.to_string().len() / STEP_BYTES;
    let mut search = Search { cost, steps, found: Vec::new() };
    search.mappings(mappings, &Shape::schema(schema), Location::ROOT);
    search.found
}

struct Search<'s> {
    /// The steps of one path.
    cost: usize,
    steps: &'s mut usize,
    found: Vec<UndeclaredPath>,
}

impl Search<'_> {
    fn mappings(&mut self, mappings: &Mappings, from: &Shape, at: Location<'_>) {
        let at = at.member("mappings");
        for Mapping { field, source } in &mappings.0 {
            match field {
                FieldPath::Field(name) => self.source(source, from, at.member(name)),
                FieldPath::EachItem { array, field } => {
                    let name = format!("{array}[*].{field}");
                    if let Some(item) = self.item(mappings, array, from) {
                        self.source(source, &item, at.member(&name));
                    }
                }
            }
        }
    }

    /// The item that the mappings of `array[*]` read; `None` if the array has none.
    fn item(&mut self, mappings: &Mappings, array: &str, from: &Shape) -> Option<Shape> {
        let name = FieldPath::Field(array.to_owned());
        let array = mappings.0.iter().find(|mapping| mapping.field == name)?;
        if !self.take() {
            return None;
        }
        let items = source(&array.source, from);
        // The path to the array selects nothing, which is reported once.
        (items.kinds() != Kinds::NULL).then(|| each_item(&items))
    }

    fn source(&mut self, source: &FieldSource, from: &Shape, at: Location<'_>) {
        match source {
            FieldSource::Path(path) => self.path(path, from, at.member("path")),
            FieldSource::Literal(_) => {}
            FieldSource::Coalesce(paths) => self.paths(paths, from, at.member("coalesce")),
            FieldSource::Concat { paths, .. } => self.paths(paths, from, at.member("concat")),
            FieldSource::Template { vars, .. } => {
                let at = at.member("template");
                let at = at.member("vars");
                for (name, path) in vars {
                    self.path(path, from, at.member(name));
                }
            }
            FieldSource::Nested(mappings) => self.mappings(mappings, from, at.member("nested")),
        }
    }

    fn paths(&mut self, paths: &[Path], from: &Shape, at: Location<'_>) {
        let at = at.member("paths");
        for (i, path) in paths.iter().enumerate() {
            self.path(path, from, at.index(i));
        }
    }

    fn path(&mut self, path: &Path, from: &Shape, at: Location<'_>) {
        if !self.take() {
            return;
        }
        let selected = select(path, from);
        let is_never = selected.presence == Presence::Never;
        if selected.is_declared && !is_never {
            return;
        }
        let Some(Undeclared { name, at: place, has }) = undeclared(path, from) else { return };
        let is_unlisted = name.as_ref().is_some_and(|name| !has.is_empty() && !has.contains(name));
        if !is_never && !is_unlisted {
            return;
        }
        let near = name.and_then(|name| closest(&name, has.iter().map(String::as_str)));
        let help = match near {
            Some(near) => format!("did you mean `{}`?", segment(&place, near)),
            None if has.is_empty() => format!("select a declared part of {place}"),
            None => format!("{place} has {}", listed(&has)),
        };
        let (pointer, path) = (at.to_string(), path.as_str().to_owned());
        self.found.push(UndeclaredPath { pointer, path, help });
    }

    /// Deducts the steps of one path, or returns false if they do not suffice.
    fn take(&mut self) -> bool {
        let left = self.steps.checked_sub(self.cost);
        *self.steps = left.unwrap_or(0);
        left.is_some()
    }
}

/// Whether a schema has one of the [`ALTERNATIVES`], or allows any other member explicitly.
fn has_alternatives(schema: &Value) -> bool {
    let mut has = false;
    each_object(schema, &mut |map| {
        has |= map.get("additionalProperties") == Some(&Value::Bool(true))
            || ALTERNATIVES.iter().any(|keyword| map.contains_key(*keyword));
    });
    has
}

fn listed(names: &[String]) -> String {
    let shown = names[..names.len().min(LISTED)].join(", ");
    match names.len().checked_sub(LISTED) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}
