//! Evaluation of projections, which build an object from parts of a value.
//!
//! In `template` and `concat` strings are used directly, and other values as JSON. Missing and
//! null values are empty in a template and omitted in a `concat`. `array[*].field` builds one
//! object per item of the selection of `array` and reads its paths from the item. The items are
//! those of a single selected array, else the selected values.

use std::{borrow::Cow, collections::BTreeMap};

use schema_compat::pointer::Location;
use serde_json::{Map, Value};

use super::{Budget, Error, Reason, binding::selected, predicate::field};
use crate::spec::{
    FieldPath, FieldSource, Mappings, Path,
    mapping::{Piece, pieces},
};

/// A location in the spec and a depth in the output.
type Place<'a> = (Location<'a>, usize);

impl Mappings {
    /// Applies the projection to a value. JSON pointers of errors are relative to the object with
    /// `mappings`.
    pub fn apply(&self, input: &Value, budget: &mut Budget) -> Result<Value, Error> {
        self.project(input, (Location::ROOT, 0), budget).map(Value::Object)
    }

    fn project(
        &self,
        input: &Value,
        (at, depth): Place<'_>,
        budget: &mut Budget,
    ) -> Result<Map<String, Value>, Error> {
        budget.produce(depth, 1).map_err(|reason| reason.at(at))?;
        let mut object = Map::new();
        let at = at.member("mappings");
        let items = self.items();
        for mapping in &self.0 {
            let FieldPath::Field(name) = &mapping.field else { continue };
            let at = at.member(name);
            budget.text(name.len() + 1).map_err(|reason| reason.at(at))?;
            let value = match items.get(name.as_str()) {
                Some(fields) => each(&mapping.source, fields, input, (at, depth + 1), budget)?,
                None => mapping.source.evaluate(input, (at, depth + 1), budget)?,
            };
            object.insert(name.clone(), value);
        }
        Ok(object)
    }

    /// The item fields by array.
    fn items(&self) -> BTreeMap<&str, Vec<ItemField<'_>>> {
        let mut items = BTreeMap::<_, Vec<_>>::new();
        for mapping in &self.0 {
            if let FieldPath::EachItem { array, field } = &mapping.field {
                let name = format!("{array}[*].{field}");
                items.entry(array.as_str()).or_default().push(ItemField {
                    name,
                    field,
                    source: &mapping.source,
                });
            }
        }
        items
    }
}

/// A field of the items of an array.
struct ItemField<'m> {
    /// The name as written in the mappings.
    name: String,
    field: &'m str,
    source: &'m FieldSource,
}

/// Builds one object per item.
fn each(
    source: &FieldSource,
    fields: &[ItemField<'_>],
    input: &Value,
    (at, depth): Place<'_>,
    budget: &mut Budget,
) -> Result<Value, Error> {
    let array = source.items(input, (at, depth), budget)?;
    let mut objects = Vec::new();
    for item in &*array {
        budget.produce(depth + 1, 1).map_err(|reason| reason.at(at))?;
        let mut object = Map::new();
        for ItemField { name, field, source } in fields {
            // The pointer of an error names the mapping instead of the item.
            let at = at.sibling(name);
            budget.text(field.len() + 1).map_err(|reason| reason.at(at))?;
            object.insert((*field).to_owned(), source.evaluate(item, (at, depth + 2), budget)?);
        }
        objects.push(Value::Object(object));
    }
    Ok(Value::Array(objects))
}

impl FieldSource {
    fn evaluate(
        &self,
        input: &Value,
        (at, depth): Place<'_>,
        budget: &mut Budget,
    ) -> Result<Value, Error> {
        let found = match self {
            Self::Nested(mappings) => {
                let at = at.member("nested");
                return mappings.project(input, (at, depth), budget).map(Value::Object);
            }
            Self::Path(path) => selected(path, input, depth, budget).map(Option::unwrap_or_default),
            Self::Literal(value) => budget.copy(value, depth),
            Self::Coalesce(paths) => coalesce(paths, input, depth, budget),
            Self::Template { template, vars } => fill((template, vars), input, budget),
            Self::Concat { paths, separator } => join((paths, separator), input, budget),
        };
        found.map_err(|reason| reason.at(at.member(self.name())))
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Path(_) => "path",
            Self::Literal(_) => "literal",
            Self::Coalesce(_) => "coalesce",
            Self::Template { .. } => "template",
            Self::Concat { .. } => "concat",
            Self::Nested(_) => "nested",
        }
    }

    /// The items that `[*]` iterates over.
    fn items<'v>(
        &self,
        input: &'v Value,
        place: Place<'_>,
        budget: &mut Budget,
    ) -> Result<Cow<'v, [Value]>, Error> {
        if let Self::Path(path) = self {
            let found = path.select(input, budget);
            let found = found.map_err(|reason| reason.at(place.0.member("path")))?;
            if let [Value::Array(items)] = found.as_slice() {
                return Ok(Cow::Borrowed(items));
            }
        }
        Ok(match self.evaluate(input, place, budget)? {
            Value::Array(items) => items.into(),
            Value::Null => Cow::Borrowed(&[]),
            other => vec![other].into(),
        })
    }
}

/// The first selected value that is neither missing nor null.
fn coalesce(
    paths: &[Path],
    input: &Value,
    depth: usize,
    budget: &mut Budget,
) -> Result<Value, Reason> {
    for path in paths {
        let found = selected(path, input, depth, budget)?;
        if let Some(value) = found.filter(|value| !value.is_null()) {
            return Ok(value);
        }
    }
    Ok(Value::Null)
}

/// Replaces the placeholders of a template, each once.
fn fill(
    (template, vars): (&str, &[(String, Path)]),
    input: &Value,
    budget: &mut Budget,
) -> Result<Value, Reason> {
    let mut values = BTreeMap::new();
    for (name, path) in vars {
        values.insert(name.as_str(), text(path, input, budget)?.unwrap_or_default());
    }
    let mut filled = String::new();
    for piece in pieces(template) {
        let part = match piece {
            Piece::Text(text) => text,
            Piece::Place(name) => values.get(name).map_or("", |value| value),
        };
        budget.text(part.len())?;
        filled.push_str(part);
    }
    Ok(filled.into())
}

/// Joins the selected values as strings with the separator.
fn join(
    (paths, separator): (&[Path], &str),
    input: &Value,
    budget: &mut Budget,
) -> Result<Value, Reason> {
    let mut parts = Vec::new();
    for path in paths {
        if let Some(part) = text(path, input, budget)? {
            budget.text(part.len() + separator.len())?;
            parts.push(part);
        }
    }
    Ok(parts.join(separator).into())
}

/// The selection of a path as a string; `None` if it is missing or null.
fn text<'v>(
    path: &Path,
    input: &'v Value,
    budget: &mut Budget,
) -> Result<Option<Cow<'v, str>>, Reason> {
    Ok(match field(path, input, budget)? {
        None => None,
        Some(Cow::Borrowed(value)) => match value {
            Value::Null => None,
            Value::String(text) => Some(text.into()),
            other => {
                budget.charge(other, 0)?;
                Some(other.to_string().into())
            }
        },
        Some(Cow::Owned(several)) => Some(several.to_string().into()),
    })
}
