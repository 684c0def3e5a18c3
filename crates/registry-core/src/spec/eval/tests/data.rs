//! Tests of evaluation with data.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{budget, told};
use crate::spec::{
    Filter, Path, Predicate, PredicateOp, Spec,
    eval::{BindingContext, Budget, aggregate, keys},
};

fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}

fn is_met(value: &Value, (op, compared): (PredicateOp, &Value)) -> bool {
    let predicate = Predicate { field: path("$.f"), op, value: compared.clone() };
    predicate.is_met(value, &mut budget()).unwrap()
}

#[test]
fn predicates_compare_same_types() {
    use PredicateOp::{Contains, Eq, Gt, Gte, In, Lt, Lte, Ne};
    let rows = [
        (json!(1), Eq, json!(1.0), true),
        (json!(1), Eq, json!("1"), false),
        (json!(null), Eq, json!(null), true),
        (json!({ "a": [1] }), Eq, json!({ "a": [1.0] }), true),
        (json!(1), Ne, json!(2), true),
        (json!(1), Ne, json!(1), false),
        (json!(1), Ne, json!("1"), true),
        (json!(2), Gt, json!(1.5), true),
        (json!(1), Gt, json!(1), false),
        (json!(9_007_199_254_740_993_u64), Gt, json!(9_007_199_254_740_992_u64), true),
        (json!("b"), Gt, json!("a"), true),
        (json!("10"), Gt, json!("9"), false),
        (json!("2"), Gt, json!(1), false),
        (json!(true), Gt, json!(false), false),
        (json!(null), Gte, json!(null), false),
        (json!(1), Gte, json!(1), true),
        (json!("a"), Gte, json!(1), false),
        (json!(1), Lt, json!(2), true),
        (json!(1), Lt, json!("2"), false),
        (json!("a"), Lte, json!("a"), true),
        (json!([1]), Lte, json!([1]), false),
        (json!("a text"), Contains, json!("tex"), true),
        (json!("a text"), Contains, json!(1), false),
        (json!([1, 2.0]), Contains, json!(2), true),
        (json!([[1]]), Contains, json!(1), false),
        (json!({ "a": 1 }), Contains, json!("a"), false),
        (json!(2), In, json!([1, 2.0]), true),
        (json!([1]), In, json!([1]), false),
        (json!("a"), In, json!([]), false),
    ];
    for (field, op, value, expected) in rows {
        let found = is_met(&json!({ "f": field }), (op, &value));
        assert_eq!(found, expected, "{field} {op:?} {value}");
    }
    for op in [Eq, Ne, Gt, Gte, Lt, Lte, Contains] {
        for value in [json!(null), json!(1), json!("")] {
            assert_eq!(is_met(&json!({}), (op, &value)), op == Ne, "missing {op:?} {value}");
        }
    }
    assert!(!is_met(&json!({}), (In, &json!([null]))));
    let several = Predicate { field: path("$.f[*]"), op: Eq, value: json!([1, 2]) };
    assert!(several.is_met(&json!({ "f": [1, 2] }), &mut budget()).unwrap());
}

#[test]
fn filter_keeps_matching_items_in_order() {
    let filter = Filter {
        predicate: Predicate { field: path("$.n"), op: PredicateOp::Gte, value: json!(2) },
    };
    let input = json!([{ "n": 3 }, { "n": 1 }, {}, { "n": "5" }, { "n": 2 }]);
    let kept = filter.apply(input, &mut budget()).unwrap();
    assert_eq!(kept, json!([{ "n": 3 }, { "n": 2 }]));
    let told = told(filter.apply(json!({ "n": 3 }), &mut budget()));
    assert_eq!(told.unwrap_err(), "at the top: expected an array, got an object");
}

fn aggregated(ops: &Value, results: &[Value]) -> Result<Value, String> {
    let spec = json!({ "scatterGather": {
        "targets": [{ "tool": "t" }], "aggregation": { "ops": ops } } });
    let Ok(Spec::ScatterGather(pattern)) = Spec::parse(&spec) else { panic!("{spec} is read") };
    told(aggregate(&pattern.aggregation, results.to_vec(), &mut budget()))
}

fn sort(order: &str) -> Value {
    json!([{ "sort": { "field": "$.k", "order": order } }])
}

#[test]
fn sort_is_stable_with_missing_last() {
    let k = |k: Value| json!({ "k": k });
    let mixed = [
        k(json!("b")),
        json!({ "id": 1 }),
        k(json!(10)),
        k(json!(true)),
        k(json!("a")),
        k(json!(9.5)),
        k(json!(null)),
        json!({ "k": 10, "id": 2 }),
    ];
    let order = |indices: [usize; 8]| Value::from_iter(indices.map(|i| mixed[i].clone()));
    let ascending = aggregated(&sort("asc"), &mixed).unwrap();
    assert_eq!(ascending, order([5, 2, 7, 4, 0, 3, 1, 6]));
    let descending = aggregated(&sort("desc"), &mixed).unwrap();
    assert_eq!(descending, order([2, 7, 5, 0, 4, 3, 1, 6]));
}

#[test]
fn aggregation_applies_operations_in_order() {
    let dedupe = json!([{ "dedupe": { "field": "$.k" } }]);
    let (one, other) = (9_007_199_254_740_993_u64, 9_007_199_254_740_992_u64);
    let rows = [
        (json!([]), json!([1, [2]]), json!([1, [2]])),
        (json!([{ "flatten": true }]), json!([[1, [2]], 3, []]), json!([1, [2], 3])),
        (json!([{ "concat": true }]), json!([[1], 2]), json!([[1], 2])),
        (
            dedupe.clone(),
            json!([{ "k": 1, "a": 1 }, { "k": 1.0 }, {}, { "k": "1" }, { "k": null }, {}]),
            json!([{ "k": 1, "a": 1 }, {}, { "k": "1" }, { "k": null }, {}]),
        ),
        (
            dedupe.clone(),
            json!([{ "k": null, "a": 1 }, {}, { "k": null, "a": 2 }]),
            json!([{ "k": null, "a": 1 }, {}]),
        ),
        (
            json!([{ "dedupe": { "field": "$.k[*]" } }]),
            json!([{ "k": [1, 2] }, { "k": [[1, 2]] }, { "k": [1, 2] }, { "k": [] }, { "k": [] }]),
            json!([{ "k": [1, 2] }, { "k": [[1, 2]] }, { "k": [] }, { "k": [] }]),
        ),
        (dedupe, json!([{ "k": one }, { "k": other }]), json!([{ "k": one }, { "k": other }])),
        (json!([{ "limit": { "count": 2 } }]), json!([1, 2, 3]), json!([1, 2])),
        (json!([{ "limit": { "count": 0 } }]), json!([1]), json!([])),
        (
            json!([{ "merge": true }]),
            json!([{ "a": 1, "b": { "x": 1 } }, { "b": { "y": 2 } }]),
            json!({ "a": 1, "b": { "y": 2 } }),
        ),
        (
            json!([{ "flatten": true }, sort("asc")[0], { "limit": { "count": 2 } }, { "merge": true }]),
            json!([[{ "k": 2, "b": 2 }], [{ "k": 3, "c": 3 }, { "k": 1, "a": 1 }]]),
            json!({ "a": 1, "b": 2, "k": 2 }),
        ),
    ];
    for (ops, results, expected) in rows {
        let results = results.as_array().unwrap();
        assert_eq!(aggregated(&ops, results).unwrap(), expected, "{ops}");
    }
    let late = aggregated(&json!([{ "merge": true }, { "limit": { "count": 1 } }]), &[]);
    assert_eq!(late.unwrap_err(), "at /1: expected an array, got an object");
    let texts = aggregated(&json!([{ "merge": true }]), &[json!({}), json!("secret")]);
    assert_eq!(texts.unwrap_err(), "at /0: expected an array of objects, but it contains a text");
}

/// Evaluates a binding of the compensation of a saga's second step.
fn bound(binding: &Value) -> Result<Value, String> {
    let input = json!({ "user": { "name": "Ada", "none": null }, "tags": ["a", "b"] });
    bound_in(binding, &input, &mut budget())
}

/// Like `bound`, for this input of the saga.
pub(super) fn bound_in(
    binding: &Value,
    input: &Value,
    budget: &mut Budget,
) -> Result<Value, String> {
    let step = |id: &str| json!({ "id": id, "name": id, "action": { "tool": "t" } });
    let mut second = step("two");
    second["compensate"] = json!({ "tool": "t" });
    second["compensateInput"] = binding.clone();
    let spec = json!({ "saga": { "steps": [step("one"), second] } });
    let spec = Spec::parse(&spec).unwrap_or_else(|problems| panic!("{problems:?}"));
    let Spec::Saga(saga) = spec else { panic!("it is a saga") };
    let steps = BTreeMap::from([("one".to_owned(), json!({ "id": 5, "list": [1, 2] }))]);
    let error = json!({ "message": "no" });
    let scope = BindingContext { input, steps: &steps, error: Some(&error) };
    let binding = saga.steps[1].compensate_input.as_ref().expect("it has one");
    told(binding.resolve(scope, budget))
}

#[test]
fn binding_selects_parts_or_reports_nothing() {
    let step = |path: &str| json!({ "step": { "stepId": "one", "path": path } });
    let construct = json!({ "construct": { "fields": {
        "name": { "path": "$.user.name" },
        "null": { "path": "$.user.none" },
        "gone": { "path": "$.nowhere" },
        "later": { "reference": { "step": "two", "path": "$" } },
        "inner": { "construct": { "fields": { "id": step("$.id"), "gone": step("$.gone") } } },
        "fixed": { "constant": { "a": [1] } },
    } } });
    let rows = [
        (json!({ "input": { "path": "$.user.name" } }), json!("Ada")),
        (json!({ "path": "$.user.name" }), json!("Ada")),
        (json!({ "path": "$.tags[*]" }), json!(["a", "b"])),
        (json!({ "path": "$.user.none" }), json!(null)),
        (step("$.list"), json!([1, 2])),
        (json!({ "reference": { "step": "one", "path": "$.id" } }), json!(5)),
        (json!({ "error": { "path": "$.message" } }), json!("no")),
        (json!({ "constant": [null] }), json!([null])),
        (
            construct,
            json!({ "name": "Ada", "null": null, "inner": { "id": 5 }, "fixed": { "a": [1] } }),
        ),
        (json!({ "construct": { "fields": {} } }), json!({})),
    ];
    for (binding, expected) in rows {
        assert_eq!(bound(&binding).unwrap(), expected, "{binding}");
    }
    let refused = [
        (json!({ "path": "$.nowhere" }), "at the top: the binding selects nothing"),
        (step("$.nowhere"), "at the top: the binding selects nothing"),
        (
            json!({ "step": { "stepId": "two", "path": "$" } }),
            "at the top: the referenced step has no result",
        ),
    ];
    for (binding, expected) in refused {
        assert_eq!(bound(&binding).unwrap_err(), expected, "{binding}");
    }
}

#[test]
fn keys_returns_selection_of_each_path() {
    let value = json!({ "id": 7, "tags": ["a", "b"], "none": null });
    let paths = ["$.tags[*]", "$.nowhere", "$.id", "$.none"].map(path);
    let expected = [vec![json!("a"), json!("b")], vec![], vec![json!(7)], vec![json!(null)]];
    assert_eq!(keys(&paths, &value, &mut budget()).unwrap(), expected);
    let error = keys(&paths[1..], &value, &mut Budget::new(0)).unwrap_err();
    assert_eq!(error.pointer, "/1");
}
