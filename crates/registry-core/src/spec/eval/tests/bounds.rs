//! Tests of the bounds of an evaluation.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{budget, data::bound_in};
use crate::{
    limits,
    spec::{
        Mappings, Path,
        eval::{Budget, Reason},
    },
};

fn refused(source: &Value, input: &Value, budget: &mut Budget) -> (String, Reason) {
    let mappings = Mappings::parse(&json!({ "mappings": { "f": source } })).unwrap();
    let error = mappings.apply(input, budget).unwrap_err();
    (error.pointer, error.reason)
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!({ "a": inner, "b": [] }))
}

fn list(length: usize) -> Value {
    let item = |i: usize| json!({ "id": i, "text": "some words", "tags": [i, i + 1] });
    json!({ "items": (0..length).map(item).collect::<Vec<_>>() })
}

#[test]
fn multiplicative_paths_are_rejected_before_evaluation() {
    let input = json!([nested(60), list(2_000)]);
    let many = format!("${}", "[*,*]".repeat(40));
    let descents = format!("${}", "..*".repeat(12));
    let paths = [
        many.as_str(),
        descents.as_str(),
        "$..[?count($..*) > 1]",
        "$..[?@.id == $[0].a && @.text == $[0].b]",
        "$..[?count(@..*) > 1 && count($..*) > count(@..*)]",
        "$..[?search(@.text, '(a|b)*c')]",
        "$[1].items[?length($[1].items) > 1]",
    ];
    for path in paths {
        let began = Instant::now();
        let (pointer, reason) = refused(&json!({ "path": path }), &input, &mut budget());
        assert_eq!((pointer.as_str(), reason), ("/mappings/f/path", Reason::TooMuchWork), "{path}");
        assert!(began.elapsed() < Duration::from_secs(1), "{path}");
    }
}

#[test]
fn typical_paths_evaluate_on_long_lists() {
    let input = list(5_000);
    let paths = [
        "$.items[*].id",
        "$..id",
        "$.items[?@.id > 4990].tags[0]",
        "$.items[?@.id == $.items[7].id].text",
        "$.items[?@.tags[?@ == 12]].id",
        "$.items[10:20:2]['id','text']",
        "$['items'][-1]",
    ];
    for path in paths {
        let path = Path::parse(path).unwrap();
        let began = Instant::now();
        let found = path.select(&input, &mut Budget::new(1 << 24));
        assert!(found.is_ok_and(|found| !found.is_empty()), "{path}");
        assert!(began.elapsed() < Duration::from_secs(2), "{path}");
    }
    let short = list(100);
    let path = Path::parse("$.items[?match(@.text, 'some.*')].id").unwrap();
    assert_eq!(path.select(&short, &mut budget()).unwrap().len(), 100);
}

#[test]
fn output_is_limited_in_bytes_values_and_depth() {
    let long = json!({ "a": "x".repeat(1_000), "list": vec![0; 1_000] });
    let max_bytes = 10_000;
    let small = || Budget::new(max_bytes);
    let twenty = vec!["$.a"; 20];
    let concat = json!({ "concat": { "paths": twenty } });
    let template = json!({ "template": { "template": "{a}".repeat(20), "vars": { "a": "$.a" } } });
    let copies = json!({ "path": "$['a','a','a','a','a','a','a','a','a','a']" });
    let each = json!({ "nested": { "mappings": {
        "l": { "path": "$.list" }, "l[*].x": { "path": "$" } } } });
    let rows = [
        (concat, "/mappings/f/concat"),
        (template, "/mappings/f/template"),
        (copies, "/mappings/f/path"),
        (each, "/mappings/f/nested/mappings/l[*].x/path"),
    ];
    for (source, at) in rows {
        let found = refused(&source, &long, &mut small());
        assert_eq!(found, (at.to_owned(), Reason::TooLarge { max_bytes }), "{source}");
    }
    let nulls = json!({ "list": vec![Value::Null; 300_000] });
    let four = json!({ "path": "$['list','list','list','list']" });
    let found = refused(&four, &nulls, &mut Budget::new(usize::MAX));
    assert_eq!(found, ("/mappings/f/path".to_owned(), Reason::TooMany));
    let deep = json!({ "path": "$" });
    let fits = Mappings::parse(&json!({ "mappings": { "f": deep } })).unwrap();
    assert!(fits.apply(&nested(limits::EVAL_DEPTH - 1), &mut budget()).is_ok());
    let found = refused(&deep, &nested(limits::EVAL_DEPTH), &mut budget());
    assert_eq!(found, ("/mappings/f/path".to_owned(), Reason::TooDeep));
}

#[test]
fn constructed_output_is_limited_like_copied_output() {
    let most = limits::EVAL_DEPTH;
    let construct = json!({ "construct": { "fields": { "ab": { "path": "$" } } } });
    let twice = json!({ "construct": { "fields": { "c": construct } } });
    for (binding, around) in [(&construct, 1), (&twice, 2)] {
        let outcome = |depth: usize| bound_in(binding, &nested(depth), &mut budget());
        assert!(outcome(most - around).is_ok());
        assert!(outcome(most - around + 1).unwrap_err().contains("nest"), "{around}");
    }
    let several = |depth: usize| json!({ "a": nested(depth) });
    let path = json!({ "path": "$['a','a']" });
    let fits = Mappings::parse(&json!({ "mappings": { "f": path } })).unwrap();
    assert!(fits.apply(&several(most - 2), &mut budget()).is_ok());
    let found = refused(&path, &several(most - 1), &mut budget());
    assert_eq!(found, ("/mappings/f/path".to_owned(), Reason::TooDeep));
    let lists = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    let whole = json!({ "path": "$" });
    assert!(bound_in(&whole, &lists(most), &mut budget()).is_ok());
    assert!(bound_in(&whole, &lists(most + 1), &mut budget()).is_err());
    // Two brackets and a comma, the quoted name with a colon, and `null` with its syntax.
    let bytes = 3 + 3 + 7;
    for (binding, input) in [(construct, Value::Null), (whole, json!({ "ab": null }))] {
        assert!(bound_in(&binding, &input, &mut Budget::new(bytes)).is_ok(), "{binding}");
        assert!(bound_in(&binding, &input, &mut Budget::new(bytes - 1)).is_err(), "{binding}");
    }
}

/// The smallest sufficient budget of a projection in bytes.
fn least(mappings: &Value, input: &Value) -> usize {
    let mappings = Mappings::parse(&json!({ "mappings": mappings })).unwrap();
    let fits = |bytes: &usize| mappings.apply(input, &mut Budget::new(*bytes)).is_ok();
    (0..1_000).find(fits).expect("it is small")
}

#[test]
fn projection_charges_for_names_and_values() {
    // Each value costs 3 bytes of syntax, each name one byte more than its length.
    let (object, null) = (3, 3 + 4);
    assert_eq!(least(&json!({ "ab": { "literal": null } }), &Value::Null), object + 3 + null);
    let each = json!({ "l": { "path": "$" }, "l[*].xy": { "path": "$" } });
    let items = json!([null, null]);
    assert_eq!(least(&each, &items), object + 2 + 2 * (object + 3 + null));
    let deep = |depth: usize| json!([nested(depth)]);
    let mappings = Mappings::parse(&json!({ "mappings": each })).unwrap();
    assert!(mappings.apply(&deep(limits::EVAL_DEPTH - 3), &mut budget()).is_ok());
    let error = mappings.apply(&deep(limits::EVAL_DEPTH - 2), &mut budget()).unwrap_err();
    assert_eq!((error.pointer.as_str(), error.reason), ("/mappings/l[*].xy/path", Reason::TooDeep));
}
