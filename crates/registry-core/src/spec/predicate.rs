//! Comparisons of one field, for filters and conditions.

use schema_compat::pointer::Location;
use serde_json::Value;

use super::{
    Path,
    read::{Reader, plain},
};

/// A comparison of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicate {
    /// The compared field.
    pub field: Path,
    /// The comparison operator.
    pub op: PredicateOp,
    /// The value to compare with.
    pub value: Value,
}

/// Comparison operators. A comparison of different types is false, and a missing field satisfies
/// only `ne`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PredicateOp {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Greater than.
    Gt,
    /// Greater than or equal.
    Gte,
    /// Less than.
    Lt,
    /// Less than or equal.
    Lte,
    /// The field, a string or array, contains the value.
    Contains,
    /// The value, an array, contains the field.
    In,
}

const OPS: [(&str, PredicateOp); 8] = [
    ("eq", PredicateOp::Eq),
    ("ne", PredicateOp::Ne),
    ("gt", PredicateOp::Gt),
    ("gte", PredicateOp::Gte),
    ("lt", PredicateOp::Lt),
    ("lte", PredicateOp::Lte),
    ("contains", PredicateOp::Contains),
    ("in", PredicateOp::In),
];

impl Predicate {
    pub(super) fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let field = reader.required_path(&fields, "field");
        let op = fields
            .require("op")
            .and_then(|value| PredicateOp::read(reader, value, fields.at("op")));
        // `null` is a valid value, so its presence must be checked explicitly.
        let compared = fields.raw("value").map(plain);
        match (&compared, op) {
            (None, _) => {
                let message = "the required field `value` is missing";
                reader.problems.invalid(at, message, "add `value`");
            }
            (Some(value), Some(PredicateOp::In)) if !value.is_array() => {
                reader.problems.wrong_type(value, fields.at("value"), "an array");
            }
            _ => {}
        }
        fields.finish();
        Some(Self { field: field?, op: op?, value: compared? })
    }
}

impl PredicateOp {
    fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        let found = OPS.iter().find(|(name, _)| value.as_str() == Some(*name));
        if found.is_none() {
            let names: Vec<_> = OPS.iter().map(|(name, _)| *name).collect();
            reader.problems.wrong_type(value, at, &format!("one of {}", names.join(", ")));
        }
        found.map(|(_, op)| *op)
    }
}
