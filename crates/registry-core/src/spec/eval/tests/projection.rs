//! Tests of projections.

use serde_json::{Value, json};

use super::{budget, told};
use crate::spec::Mappings;

fn apply(mappings: &Value, input: &Value) -> Result<Value, String> {
    let mappings = Mappings::parse(&json!({ "mappings": mappings }));
    told(mappings.expect("the mappings are good").apply(input, &mut budget()))
}

/// Evaluates a projection with one field.
fn field(source: &Value, input: &Value) -> Value {
    apply(&json!({ "f": source }), input).unwrap()["f"].take()
}

fn order() -> Value {
    json!({
        "id": 7, "big": 18_446_744_073_709_551_615_u64, "name": "Ada", "last": "Lovelace", "none": null, "ok": true,
        "tags": ["a", "b"], "lines": [{ "sku": "x", "n": 1 }, { "sku": "y", "n": 2 }], "one": [{ "sku": "z" }],
        "deep": { "er": { "title": "T{name}" } }, "pairs": [[1, 2], [3]],
    })
}

#[test]
fn path_selects_nothing_one_or_several() {
    let rows = [
        ("$.nowhere", json!(null)),
        ("$.none", json!(null)),
        ("$.id", json!(7)),
        ("$.big", json!(18_446_744_073_709_551_615_u64)),
        ("$.tags", json!(["a", "b"])),
        ("$.tags[*]", json!(["a", "b"])),
        ("$.lines[*].sku", json!(["x", "y"])),
        ("$.one[*].sku", json!("z")),
        ("$.lines[?@.n > 1].sku", json!("y")),
        ("$..title", json!("T{name}")),
        ("$", order()),
    ];
    for (path, expected) in rows {
        assert_eq!(field(&json!({ "path": path }), &order()), expected, "{path}");
    }
}

#[test]
fn each_field_source_evaluates() {
    let template = |text: &str| {
        let vars = json!({ "name": "$.name", "id": "$.id", "none": "$.none", "tags": "$.tags",
            "title": "$.deep.er.title" });
        json!({ "template": { "template": text, "vars": vars } })
    };
    let concat = |paths: &[&str], separator: &str| json!({ "concat": { "paths": paths, "separator": separator } });
    let coalesce = |paths: &[&str]| json!({ "coalesce": { "paths": paths } });
    let rows = [
        (json!({ "literal": { "stringValue": "x" } }), json!("x")),
        (json!({ "literal": { "a": [1] } }), json!({ "a": [1] })),
        (json!({ "literal": null }), json!(null)),
        (coalesce(&["$.nowhere", "$.none", "$.name", "$.id"]), json!("Ada")),
        (coalesce(&["$.nowhere", "$.none"]), json!(null)),
        (coalesce(&["$.tags[*]", "$.name"]), json!(["a", "b"])),
        (template("{name} #{id}"), json!("Ada #7")),
        (
            template("{none}|{tags}|{not a place}|{{id}}|{"),
            json!(r#"|["a","b"]|{not a place}|{7}|{"#),
        ),
        // Inserted text is not expanded again.
        (template("{title}"), json!("T{name}")),
        (concat(&["$.name", "$.last"], " "), json!("Ada Lovelace")),
        (concat(&["$.name", "$.none", "$.nowhere", "$.ok", "$.id"], ", "), json!("Ada, true, 7")),
        (concat(&["$.tags"], "-"), json!(r#"["a","b"]"#)),
        (concat(&["$.nowhere"], "-"), json!("")),
        (
            json!({ "nested": { "mappings": { "x": { "path": "$.id" }, "y": { "literal": 1 } } } }),
            json!({ "x": 7, "y": 1 }),
        ),
    ];
    for (source, expected) in rows {
        assert_eq!(field(&source, &order()), expected, "{source}");
    }
    // The default separator is empty.
    let source = json!({ "concat": { "paths": ["$.name", "$.last"] } });
    assert_eq!(field(&source, &order()), "AdaLovelace");
}

#[test]
fn each_item_mapping_builds_one_object_per_item() {
    let of = |array: Value| {
        let mappings = json!({
            "l": array,
            "l[*].code": { "path": "$.sku" },
            "l[*].text": { "template": { "template": "{n}x{s}", "vars": { "n": "$.n", "s": "$.sku" } } },
        });
        apply(&mappings, &order()).unwrap()["l"].take()
    };
    let both = json!([{ "code": "x", "text": "1xx" }, { "code": "y", "text": "2xy" }]);
    assert_eq!(of(json!({ "path": "$.lines" })), both);
    assert_eq!(of(json!({ "path": "$.lines[*]" })), both);
    assert_eq!(of(json!({ "coalesce": { "paths": ["$.nowhere", "$.lines"] } })), both);
    // A single item is treated as an item, however it is selected.
    let one = json!([{ "code": "z", "text": "xz" }]);
    assert_eq!(of(json!({ "path": "$.one" })), one);
    assert_eq!(of(json!({ "path": "$.one[*]" })), one);
    for nothing in ["$.nowhere", "$.none", "$.lines[?@.n > 9]"] {
        assert_eq!(of(json!({ "path": nothing })), json!([]), "{nothing}");
    }
    let nested = json!({
        "orders": { "literal": [{ "lines": [{ "n": 1 }, { "n": 2 }] }, { "lines": [] }] },
        "orders[*].rows": { "nested": { "mappings": {
            "all": { "path": "$.lines" }, "all[*].count": { "path": "$.n" } } } },
    });
    let expected = json!({ "orders": [
        { "rows": { "all": [{ "count": 1 }, { "count": 2 }] } }, { "rows": { "all": [] } }] });
    assert_eq!(apply(&nested, &json!({})).unwrap(), expected);
}

#[test]
fn projection_always_returns_object() {
    for input in [json!(null), json!(3), json!("text"), json!([1]), json!({})] {
        let mappings = json!({ "a": { "path": "$.a" }, "b": { "path": "$" } });
        assert_eq!(apply(&mappings, &input).unwrap(), json!({ "a": null, "b": input }));
    }
}
