//! Aggregation of several results, operation by operation.
//!
//! The initial value is the array of results in target order.

use std::{cmp::Ordering, collections::BTreeSet};

use schema_compat::pointer::Location;
use serde_json::{Map, Value};

use super::{Budget, Error, Reason, compare, predicate::field};
use crate::{
    decode::describe_kind,
    spec::{AggregationOp, Order, Path},
};

/// Applies the operations to results. JSON pointers of errors are relative to the list of
/// operations.
pub fn aggregate(
    ops: &[AggregationOp],
    results: Vec<Value>,
    budget: &mut Budget,
) -> Result<Value, Error> {
    let mut value = Value::Array(results);
    for (i, op) in ops.iter().enumerate() {
        value = op.apply(value, budget).map_err(|reason| reason.at(Location::ROOT.index(i)))?;
    }
    Ok(value)
}

impl AggregationOp {
    fn apply(&self, value: Value, budget: &mut Budget) -> Result<Value, Reason> {
        let items = match value {
            Value::Array(items) => items,
            other => return Err(Reason::not_an_array(&other)),
        };
        Ok(match self {
            Self::Flatten => flattened(items).into(),
            // One item per result; only `flatten` merges them.
            Self::Concat => items.into(),
            Self::Sort { field, order } => sorted(items, (field, *order), budget)?.into(),
            Self::Dedupe { field } => deduped(items, field, budget)?.into(),
            Self::Limit { count } => {
                let count = usize::try_from(*count).unwrap_or(usize::MAX);
                items.into_iter().take(count).collect()
            }
            Self::Merge => Value::Object(merged(items)?),
        })
    }
}

fn flattened(items: Vec<Value>) -> Vec<Value> {
    let level = |item| match item {
        Value::Array(inner) => inner,
        other => vec![other],
    };
    items.into_iter().flat_map(level).collect()
}

/// The sort key of an item; null counts as missing.
fn sort_key(path: &Path, item: &Value, budget: &mut Budget) -> Result<Option<Value>, Reason> {
    let found = field(path, item, budget)?.filter(|found| !found.is_null());
    found.map(|found| budget.copy(&found, 1)).transpose()
}

fn sorted(
    items: Vec<Value>,
    (field, order): (&Path, Order),
    budget: &mut Budget,
) -> Result<Vec<Value>, Reason> {
    let keyed = items.into_iter().map(|item| Ok((sort_key(field, &item, budget)?, item)));
    let mut keyed: Vec<_> = keyed.collect::<Result<_, Reason>>()?;
    keyed.sort_by(|(a, _), (b, _)| ordered(a.as_ref(), b.as_ref(), order));
    Ok(keyed.into_iter().map(|(_, item)| item).collect())
}

/// Numbers, strings, other values, missing values: in this sequence for both directions.
fn ordered(a: Option<&Value>, b: Option<&Value>, order: Order) -> Ordering {
    let rank = |key: Option<&Value>| match key {
        Some(Value::Number(_)) => 0,
        Some(Value::String(_)) => 1,
        Some(_) => 2,
        None => 3,
    };
    let within = || match (a, b) {
        (Some(a), Some(b)) if rank(Some(a)) < 2 => match order {
            Order::Ascending => compare(a, b),
            Order::Descending => compare(b, a),
        },
        _ => Ordering::Equal,
    };
    rank(a).cmp(&rank(b)).then_with(within)
}

/// Keeps the first item of each key. Null is a key. Items without the field are kept.
fn deduped(items: Vec<Value>, field: &Path, budget: &mut Budget) -> Result<Vec<Value>, Reason> {
    let (mut seen, mut kept) = (BTreeSet::new(), Vec::new());
    for item in items {
        let key = field.select_copies(&item, budget)?;
        if key.is_empty() || seen.insert(Ordered(Value::Array(key))) {
            kept.push(item);
        }
    }
    Ok(kept)
}

/// A value with the total order of `order.rs`.
struct Ordered(Value);

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

fn merged(items: Vec<Value>) -> Result<Map<String, Value>, Reason> {
    let mut all = Map::new();
    for item in items {
        match item {
            Value::Object(members) => all.extend(members),
            other => return Err(Reason::NotAnObject { found: describe_kind(&other) }),
        }
    }
    Ok(all)
}
