//! Evaluation of predicates and filters.
//!
//! `eq` and `ne` compare any two values and are opposites. The other comparisons apply to two
//! numbers or two strings and are false for any other pair. A field that selects nothing satisfies
//! only `ne`. A field that selects several values is compared as their array.

use std::{borrow::Cow, cmp::Ordering};

use schema_compat::pointer::Location;
use serde_json::Value;

use super::{Budget, Error, Reason, compare, is_same};
use crate::spec::{Filter, Path, Predicate, PredicateOp};

impl Predicate {
    /// Whether a value satisfies the predicate. JSON pointers of errors are relative to it.
    pub fn is_met(&self, value: &Value, budget: &mut Budget) -> Result<bool, Error> {
        self.decide(value, budget).map_err(|reason| reason.at(Location::ROOT.member("field")))
    }

    fn decide(&self, value: &Value, budget: &mut Budget) -> Result<bool, Reason> {
        let Some(found) = field(&self.field, value, budget)? else {
            return Ok(self.op == PredicateOp::Ne);
        };
        // Comparing visits at most as many values as the smaller side has.
        budget.measure(&self.value)?;
        Ok(self.op.holds(&found, &self.value))
    }
}

impl PredicateOp {
    fn holds(self, found: &Value, value: &Value) -> bool {
        let is_ordered = |wanted: &[Ordering]| {
            order(found, value).is_some_and(|ordering| wanted.contains(&ordering))
        };
        match self {
            Self::Eq => is_same(found, value),
            Self::Ne => !is_same(found, value),
            Self::Gt => is_ordered(&[Ordering::Greater]),
            Self::Gte => is_ordered(&[Ordering::Greater, Ordering::Equal]),
            Self::Lt => is_ordered(&[Ordering::Less]),
            Self::Lte => is_ordered(&[Ordering::Less, Ordering::Equal]),
            Self::Contains => contains(found, value),
            Self::In => value.is_array() && contains(value, found),
        }
    }
}

/// The order of two numbers or two strings; `None` for any other pair.
fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) | (Value::String(_), Value::String(_)) => {
            Some(compare(a, b))
        }
        _ => None,
    }
}

/// Whether a string contains a substring, or an array an item.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::String(whole), Value::String(part)) => whole.contains(part.as_str()),
        (Value::Array(items), part) => items.iter().any(|item| is_same(item, part)),
        _ => false,
    }
}

/// The value of a field; `None` if the path selects nothing.
pub(super) fn field<'v>(
    path: &Path,
    value: &'v Value,
    budget: &mut Budget,
) -> Result<Option<Cow<'v, Value>>, Reason> {
    Ok(match path.select(value, budget)?.as_slice() {
        [] => None,
        [one] => Some(Cow::Borrowed(*one)),
        several => {
            let items =
                several.iter().map(|item| budget.copy(item, 1)).collect::<Result<_, _>>()?;
            Some(Cow::Owned(Value::Array(items)))
        }
    })
}

impl Filter {
    /// The items of an array that satisfy the predicate, in order.
    pub fn apply(&self, input: Value, budget: &mut Budget) -> Result<Value, Error> {
        let Value::Array(items) = input else {
            return Err(Reason::not_an_array(&input).at(Location::ROOT));
        };
        let at = Location::ROOT.member("predicate");
        let mut kept = Vec::new();
        for item in items {
            let is_met = self.predicate.decide(&item, budget);
            if is_met.map_err(|reason| reason.at(at.member("field")))? {
                kept.push(item);
            }
        }
        Ok(Value::Array(kept))
    }
}
