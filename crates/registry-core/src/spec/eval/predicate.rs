//! Deciding a predicate, and keeping the items of an array that fulfil one.
//!
//! `eq` and `ne` compare any two values and are each other's opposite. Only two numbers or two texts
//! are one before the other; any other pair is false. A field that selects nothing is only `ne`; one
//! that selects several values is compared as an array of them.

use std::{borrow::Cow, cmp::Ordering};

use schema_compat::pointer::At;
use serde_json::Value;

use super::{Budget, Error, Reason, compare, is_same};
use crate::spec::{Filter, Path, Predicate, PredicateOp};

impl Predicate {
    /// Whether a value fulfils it; a pointer in an error begins at the predicate.
    pub fn is_met(&self, value: &Value, budget: &mut Budget) -> Result<bool, Error> {
        self.decide(value, budget).map_err(|reason| reason.at(At::ROOT.member("field")))
    }

    fn decide(&self, value: &Value, budget: &mut Budget) -> Result<bool, Reason> {
        let Some(found) = field(&self.field, value, budget)? else {
            return Ok(self.op == PredicateOp::Ne);
        };
        // Comparing looks at no more than the smaller of the two.
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

/// Which of two values is first, if they are such that one can be.
fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) | (Value::String(_), Value::String(_)) => {
            Some(compare(a, b))
        }
        _ => None,
    }
}

/// A text has parts, an array has items.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::String(whole), Value::String(part)) => whole.contains(part.as_str()),
        (Value::Array(items), part) => items.iter().any(|item| is_same(item, part)),
        _ => false,
    }
}

/// What a field of a value is; `None` where the path selects nothing.
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
    /// The items of an array that fulfil the predicate, in order.
    pub fn apply(&self, input: Value, budget: &mut Budget) -> Result<Value, Error> {
        let Value::Array(items) = input else {
            return Err(Reason::not_an_array(&input).at(At::ROOT));
        };
        let at = At::ROOT.member("predicate");
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
