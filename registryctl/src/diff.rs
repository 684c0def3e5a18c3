//! The structural differences of two JSON values.
//!
//! Added and removed items of an array do not change the others. Moves are not detected.

use std::collections::BTreeSet;

use registry_core::align::Aligner;
use schema_compat::pointer::pointer_join;
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Difference {
    /// JSON pointer into the new value; for removed values, into the old one.
    pub(crate) pointer: String,
    /// The old value; `None`: added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) old: Option<Value>,
    /// The new value; `None`: removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) new: Option<Value>,
}

/// All differences, in the order of their pointers.
pub(crate) fn diff(old: &Value, new: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    let aligner = &mut Aligner::default();
    compare((String::new(), String::new()), (Some(old), Some(new)), aligner, &mut found);
    found
}

/// Compares the values at a pointer into the old value and at one into the new value.
fn compare(
    (was, is): (String, String),
    (old, new): (Option<&Value>, Option<&Value>),
    aligner: &mut Aligner,
    found: &mut Vec<Difference>,
) {
    match (old, new) {
        (Some(old), Some(new)) if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let pointers = (pointer_join(&was, name), pointer_join(&is, name));
                compare(pointers, (old.get(name), new.get(name)), aligner, found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for (i, j) in aligner.align(old, new) {
                let pointer = |to: &str, at: Option<usize>| format!("{to}/{}", at.unwrap_or(0));
                let pointers = (pointer(&was, i), pointer(&is, j));
                compare(pointers, (i.map(|i| &old[i]), j.map(|j| &new[j])), aligner, found);
            }
        }
        (old, new) => {
            let pointer = if new.is_some() { is } else { was };
            let (old, new) = (old.cloned(), new.cloned());
            found.push(Difference { pointer, old, new });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_have_pointers_and_values() {
        let old = json!({ "a/b": 1, "list": [1, 2, 3], "gone": null, "deep": { "same": [] } });
        let new = json!({ "a/b": 2, "list": [1, 4], "new": {}, "deep": { "same": [] } });
        let found: Vec<_> = diff(&old, &new)
            .into_iter()
            .map(|Difference { pointer, old, new }| (pointer, old, new))
            .collect();
        assert_eq!(
            found,
            [
                ("/a~1b".to_owned(), Some(json!(1)), Some(json!(2))),
                ("/gone".to_owned(), Some(json!(null)), None),
                ("/list/1".to_owned(), Some(json!(2)), Some(json!(4))),
                ("/list/2".to_owned(), Some(json!(3)), None),
                ("/new".to_owned(), None, Some(json!({}))),
            ]
        );
        assert!(diff(&old, &old).is_empty());
        let old = json!({ "enum": ["x", "y", "z"], "steps": [{ "uses": ["a", "b"] }, 1] });
        let new = json!({ "enum": ["w", "x", "y"], "steps": [0, { "uses": ["a", "b"] }, 1] });
        let found = diff(&old, &new).into_iter();
        let found: Vec<_> = found.map(|at| (at.pointer, at.old, at.new)).collect();
        assert_eq!(
            found,
            [
                ("/enum/0".to_owned(), None, Some(json!("w"))),
                ("/enum/2".to_owned(), Some(json!("z")), None),
                ("/steps/0".to_owned(), None, Some(json!(0))),
            ]
        );
        assert_eq!(diff(&json!(1), &json!([1])).len(), 1);
    }
}
