//! Tests of hostile schemas.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json, value::RawValue};

use super::{compile, compile_in, compiled, named, problems};
use crate::{
    limits,
    name::SchemaName,
    schema_compile::{Instance, InvalidSchema, Validator, steps_for},
};

#[test]
fn directly_recursive_schema_terminates() {
    let circle = json!({ "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } });
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "$ref": "#/$defs/a", "$defs": circle }),
        json!({ "$dynamicRef": "#m", "$dynamicAnchor": "m" }),
    ] {
        assert!(compiled(&schema).validate(&json!({ "a": 1 })).is_ok(), "{schema}");
    }
}

#[test]
fn reserved_uri_as_id_is_rejected() {
    let taken = ["/B/1.0.0", "../B/1.0.0/", "../2.0.0/.", ".", "x/../", "//x/y", "/B/1%2E0.0#"];
    for id in taken {
        let found = problems(&json!({ "$defs": { "x": { "$id": id, "type": "string" } } }));
        assert_eq!(
            found,
            [format!("/$defs/x/$id: `{id}` uses the reserved URI scheme of the registry")]
        );
    }
    for id in ["item", "../item/", "/items/item.json", "https://example.com/B/1.0.0", "urn:x:1.0.0"]
    {
        compiled(&json!({ "$defs": { "x": { "$id": id, "type": "string" } } }));
    }
}

#[test]
fn shared_id_is_rejected() {
    let inner = |kind: &str| json!({ "$id": "https://example.com/x#", "type": kind });
    let registered = [named("A", &inner("integer")), named("B", &inner("string"))];
    let to = |names: &[&str]| -> Value {
        names.iter().map(|name| json!({ "$ref": format!("#{name}:1.0.0") })).collect()
    };
    let both = compile_in(&registered, &json!({ "anyOf": to(&["A", "B"]) })).unwrap_err();
    assert_eq!(both[0], InvalidSchema::SameId { uri: "https://example.com/x".to_owned() });
    for same in ["https://example.com/x", "HTTPS://Example.com:443/%78", "https://example.com/./x#"]
    {
        let own = json!({ "$id": same, "anyOf": to(&["A"]) });
        assert!(compile_in(&registered, &own).is_err(), "{same}");
        let part = json!({ "$defs": { "p": { "$id": same } }, "anyOf": to(&["A"]) });
        assert!(compile_in(&registered, &part).is_err(), "{same}");
    }
    let based = json!({ "$id": "https://example.com/y/z", "$defs": { "p": { "$id": "../x" } }, "anyOf": to(&["A"]) });
    assert!(compile_in(&registered, &based).is_err());
    let other = json!({ "$id": "https://example.com/X", "anyOf": to(&["A"]) });
    assert!(compile_in(&registered, &other).is_ok());
    // A member that is not an `$id` in its dialect neither hides one nor counts as one.
    let draft4 = "http://json-schema.org/draft-04/schema#";
    let decoy = json!({ "$schema": draft4, "definitions": {
        "p": { "$id": "http://decoy.example/", "id": "https://example.com/x" },
    } });
    let draft7 = "http://json-schema.org/draft-07/schema#";
    let hidden = json!({ "$schema": draft7, "$id": "https://example.com/y", "definitions": {
        "p": { "$id": "http://decoy.example/", "$ref": "#", "not": { "$id": "x" } },
    } });
    for decoy in [decoy, hidden] {
        let both = [named("A", &inner("integer")), named("B", &decoy)];
        assert!(compile_in(&both, &json!({ "anyOf": to(&["A", "B"]) })).is_err(), "{decoy}");
    }
    let data = json!({ "example": { "id": "https://example.com/x" }, "anyOf": to(&["A"]) });
    assert!(compile_in(&registered, &data).is_ok());
    assert!(compile_in(&registered, &json!({ "anyOf": to(&["A", "A"]) })).is_ok());
}

#[test]
fn versions_with_same_relative_id_are_distinct() {
    let of = |version: &str, kind: &str| {
        (SchemaName::new("A", version), json!({ "$id": "a.json", "type": kind }))
    };
    let registered = [of("1.0.0", "integer"), of("2.0.0", "string")];
    let both = json!({ "items": { "$ref": "#A:1.0.0" }, "contains": { "$ref": "#A:2.0.0" } });
    let validator = compile_in(&registered, &both).unwrap();
    assert!(!validator.is_valid(&json!([1])) && !validator.is_valid(&json!(["a"])));
    let absolute = |version: &str, kind: &str| {
        (SchemaName::new("A", version), json!({ "$id": "/a.json", "type": kind }))
    };
    let registered = [absolute("1.0.0", "integer"), absolute("2.0.0", "string")];
    let found = compile_in(&registered, &both).unwrap_err();
    assert_eq!(found[0], InvalidSchema::SameId { uri: "/a.json".to_owned() });
}

#[test]
fn unknown_dialect_of_subschema_is_rejected() {
    let part = json!({ "$id": "https://example.com/p", "$schema": "https://example.com/d" });
    assert_eq!(
        problems(&json!({ "properties": { "p": part } })),
        ["/properties/p/$schema: the dialect \"https://example.com/d\" is not supported"]
    );
}

/// Maximum time to compile a schema and to validate the worst value of 64 KiB: about a second in a
/// debug build, a tenth of that in a release build, with reserve for a busy machine.
const MOST: Duration = Duration::from_secs(15);

/// The violations of a value, asserting bounded time.
fn said(name: &str, schema: &Value, value: &Value) -> Vec<(String, String)> {
    let start = Instant::now();
    let Ok(validator) = compile(schema, &|_| None) else {
        return vec![(String::new(), "refused".to_owned())];
    };
    let found = validator.validate(value).err().unwrap_or_default();
    let took = start.elapsed();
    assert!(took < MOST, "{name} takes {took:?}");
    found.into_iter().map(|violation| (violation.pointer, violation.message)).collect()
}

/// `{"x": {"x": … leaf}}`.
fn deep(depth: usize, leaf: Value) -> Value {
    (0..depth).fold(leaf, |inner, _| json!({ "x": inner }))
}

/// Alternatives that are recursive and indistinguishable.
fn alternatives(keyword: &str, back: &Value) -> Value {
    let branch = json!({ "type": "object", "properties": { "x": back }, "required": ["x"] });
    json!({ keyword: [branch, branch, branch, branch, { "type": "string" }] })
}

#[test]
fn recursive_alternatives_take_bounded_time() {
    let back = json!({ "$ref": "#/$defs/a" });
    for keyword in ["anyOf", "oneOf"] {
        let schema = json!({ "$defs": { "a": alternatives(keyword, &back) }, "$ref": "#/$defs/a" });
        for depth in [3, 20, 60] {
            assert!(!said(keyword, &schema, &deep(depth, json!(5))).is_empty());
        }
        let wide: Value = (0..600).map(|_| deep(10, json!(5))).collect();
        let list = json!({ "$defs": schema["$defs"], "items": { "$ref": "#/$defs/a" } });
        said("wide", &list, &wide);
    }
    let dynamic = alternatives("anyOf", &json!({ "$dynamicRef": "#a" }));
    let dynamic = json!({ "$defs": { "a": dynamic }, "$dynamicAnchor": "a", "$ref": "#/$defs/a" });
    said("$dynamicRef", &dynamic, &deep(60, json!(5)));
    let not = json!({ "type": "object", "properties": { "x": { "not": { "$ref": "#" } } }, "required": ["x"] });
    said("not", &json!({ "oneOf": [not, not, { "type": "string" }] }), &deep(60, json!(5)));
}

#[test]
fn recursive_unevaluated_properties_take_bounded_time() {
    let back = json!({ "$ref": "#" });
    let branch = json!({ "type": "object", "properties": { "x": back },
        "unevaluatedProperties": false });
    let schema = json!({ "anyOf": [branch, branch, { "type": "string" }],
        "unevaluatedProperties": false });
    said("unevaluatedProperties", &schema, &deep(60, json!(5)));
    let inside = json!({ "properties": { "x": back }, "unevaluatedProperties": back });
    said("unevaluatedProperties of itself", &inside, &deep(60, json!(5)));
    let parts = json!({ "properties": { "x": back, "y": back } });
    let wide: Value = (0..600).map(|i| (i.to_string(), deep(60, json!(5)))).collect();
    let list = (0..60).fold(json!(5), |inner, _| json!([inner]));
    for other in [
        json!({ "anyOf": [parts, { "type": "string" }], "unevaluatedProperties": false }),
        json!({ "oneOf": [{ "type": "string" }, parts], "unevaluatedProperties": back }),
        json!({ "if": parts, "unevaluatedProperties": back }),
        json!({ "allOf": [parts], "unevaluatedProperties": { "type": "object", "properties": parts["properties"] } }),
        json!({ "not": { "not": parts }, "unevaluatedProperties": back }),
        json!({ "dependentSchemas": { "x": parts }, "unevaluatedProperties": back }),
        json!({ "anyOf": [{ "items": back }, { "type": "object" }], "unevaluatedItems": false }),
        json!({ "contains": back, "unevaluatedItems": back }),
    ] {
        for value in [&deep(60, json!(5)), &wide, &list] {
            said(&other.to_string(), &other, value);
        }
    }
}

/// Trees whose nodes allow no additional members or items.
#[test]
fn recursion_with_unevaluated_is_accepted() {
    let back = json!({ "$ref": "#" });
    let node = |depth: usize, more: Value| {
        let leaf = json!({ "name": "n", "extra": more });
        (0..depth).fold(leaf, |inner, _| json!({ "name": "n", "children": [inner] }))
    };
    let name = json!({ "properties": { "name": { "type": "string" } }, "required": ["name"] });
    let children = json!({ "children": { "type": "array", "items": back } });
    let closed = |more: Value| {
        let mut schema =
            json!({ "type": "object", "unevaluatedProperties": { "type": "integer" } });
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        compiled(&schema)
    };
    for tree in [
        closed(
            json!({ "$ref": "#/$defs/name", "$defs": { "name": name }, "properties": children }),
        ),
        closed(json!({ "allOf": [name, { "properties": children }] })),
        closed(json!({ "anyOf": [{ "properties": children, "required": ["children"] }, name],
            "properties": name["properties"] })),
    ] {
        for depth in [0, 1, 10] {
            assert_eq!(tree.validate(&node(depth, json!(1))), Ok(()));
            assert!(!tree.is_valid(&node(depth, json!("no"))), "depth {depth}");
        }
    }
    let list = compiled(&json!({ "anyOf": [{ "prefixItems": [{ "type": "string" }, back] },
        { "type": "null" }], "unevaluatedItems": false }));
    assert!(list.is_valid(&json!(["a", ["b", ["c", null]]])));
    assert!(!list.is_valid(&json!(["a", ["b", ["c", null, 1]]])));
}

#[test]
fn doubling_is_rejected_in_any_keyword() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let mut defs = Map::new();
        for i in 0..40 {
            let next = json!({ "$ref": format!("#/$defs/d{}", i + 1) });
            defs.insert(format!("d{i}"), json!({ keyword: [next, next] }));
        }
        defs.insert("d40".to_owned(), json!({ "type": "object" }));
        let schema = json!({ "$defs": defs, "$ref": "#/$defs/d0" });
        let found = compile(&schema, &|_| None).unwrap_err();
        assert!(matches!(found[0], InvalidSchema::TooManyPaths { .. }), "{found:?}");
    }
    // Also through registered schemas.
    let two = |to: &str| json!({ "allOf": [{ "$ref": to }, { "$ref": to }] });
    let links: Vec<Value> = (0..40).map(|i| two(&format!("#L{}:1.0.0", i + 1))).collect();
    let last = json!({ "type": "null" });
    let resolve = |name: &SchemaName| {
        let at: usize = name.name()[1..].parse().ok()?;
        Some(links.get(at).unwrap_or(&last))
    };
    let found = compile(&links[0], &resolve).unwrap_err();
    assert!(matches!(found[0], InvalidSchema::TooManyPaths { .. }), "{found:?}");
}

#[test]
fn large_lists_take_bounded_time() {
    let long: Vec<Value> = (0..10_000).map(|i| json!(format!("e{i}"))).collect();
    let numbers: Vec<Value> = (0..10_000).map(|i| json!(i)).collect();
    let list = json!(vec!["none"; 8_000]);
    said("enum of texts", &json!({ "items": { "enum": long } }), &list);
    let mixed = [long.clone(), numbers.clone()].concat();
    said("enum of all", &json!({ "items": { "enum": mixed } }), &list);
    let numeric = json!((0..8_000).map(|i| i + 20_000).collect::<Vec<_>>());
    said("enum of numbers", &json!({ "items": { "enum": mixed } }), &numeric);
    let consts = vec![json!({ "$ref": "#/$defs/c" }); 2_000];
    let consts = json!({ "$defs": { "c": { "const": numbers } }, "allOf": consts });
    said("const", &consts, &json!(numbers));
    said("required", &json!({ "items": { "required": long } }), &json!(vec![json!({}); 8_000]));
    let unique = vec![json!({ "uniqueItems": true }); 1_000];
    said("uniqueItems", &json!({ "allOf": unique }), &json!(numbers));
    // Nested lists that a hash of their contents alone does not distinguish.
    let nested =
        |i: usize| {
            (0..16).fold(json!([]), |inner, bit| {
                if i >> bit & 1 == 0 { json!([inner]) } else { json!([[], inner]) }
            })
        };
    let alike: Value = (0..1_500).map(nested).collect();
    assert!(said("uniqueItems alike", &json!({ "uniqueItems": true }), &alike).is_empty());
}

/// Whether validating a text exceeds the step limit.
fn is_too_costly(schema: &Validator, text: &str) -> bool {
    let raw = RawValue::from_string(text.to_owned()).unwrap();
    let instance = Instance::read(&raw).unwrap();
    let found = schema.check(&instance).err().unwrap_or_default();
    let limit = steps_for(&instance).to_string();
    found.iter().any(|violation| violation.message.contains(&limit))
}

#[test]
fn long_numbers_take_proportional_steps() {
    let long = format!("0.{}", "3".repeat(100_000));
    let each = |part: &dyn Fn(i32) -> Value| (0..200).map(part).collect::<Vec<_>>();
    for parts in [
        json!({ "anyOf": each(&|i| json!({ "exclusiveMaximum": -1 - i })) }),
        json!({ "anyOf": each(&|i| json!({ "multipleOf": i + 2 })) }),
        json!({ "anyOf": each(&|i| json!({ "const": i + 2 })) }),
        json!({ "anyOf": each(&|i| json!({ "enum": [i + 2, "x"] })) }),
        json!({ "anyOf": each(&|_| json!({ "type": "integer" })) }),
    ] {
        let schema = compiled(&parts);
        assert!(is_too_costly(&schema, &long), "{parts}");
        assert!(!is_too_costly(&schema, "0.125"), "{parts}");
    }
    let small = compiled(&json!({ "type": "number", "minimum": 0, "maximum": 1 }));
    assert!(!is_too_costly(&small, &long));
    let unique = compiled(&json!({ "anyOf": vec![json!({ "uniqueItems": true }); 200] }));
    assert!(is_too_costly(&unique, &format!("[{long},{long}]")));
}

#[test]
fn long_names_take_proportional_steps() {
    let name = format!("\\n{}", "n".repeat(500_000));
    let object = format!("{{\"{name}\":0}}");
    let wide: Vec<String> = (0..20).map(|i| format!("\"{name}{i}\":0")).collect();
    let required: Vec<_> = (0..200).map(|i| json!({ "required": [format!("x{i}")] })).collect();
    let required = compiled(&json!({ "anyOf": required }));
    assert!(is_too_costly(&required, &object));
    assert!(is_too_costly(&required, &format!("{{{}}}", wide.join(","))));
    assert!(!is_too_costly(&required, r#"{"n": 0}"#));
    let unique = compiled(&json!({ "anyOf": vec![json!({ "uniqueItems": true }); 200] }));
    assert!(is_too_costly(&unique, &format!("[{object},{object}]")));
}

#[test]
fn check_within_stops_at_limit() {
    let parts: Vec<_> = (10..110).map(|most| json!({ "items": { "maximum": most } })).collect();
    let schema = compiled(&json!({ "allOf": parts }));
    let within = |value: &Value, steps| {
        let raw = serde_json::value::to_raw_value(value).unwrap();
        schema.check_within(&Instance::read(&raw).unwrap(), steps)
    };
    let (valid, invalid) = (json!(vec![1; 100]), json!([vec![1; 99], vec![200]].concat()));
    assert_eq!(within(&valid, 1_000), None);
    assert_eq!(within(&valid, 100_000), Some(Ok(())));
    // The first limit detects the violation; the others take too long.
    assert_eq!(within(&invalid, 1_000), None);
    let found = within(&invalid, 100_000).unwrap().unwrap_err();
    assert_eq!((found.len(), &*found[0].pointer), (limits::VIOLATIONS, "/99"));
}

#[test]
fn patterns_take_bounded_time() {
    let text: String = (0..65_536)
        .map(|i: u32| if (i.wrapping_mul(i) / 7).is_multiple_of(3) { 'a' } else { 'b' })
        .collect();
    for pattern in [
        "(a+)+$",
        "(a|aa)+$",
        "(a?){200}c",
        "[ab]*a[ab]{500}c",
        "(.*a){12}c",
        "(x+x+)+y",
        "[ab]{1,2000}c",
    ] {
        said(pattern, &json!({ "pattern": pattern }), &json!(text));
    }
    let all = ["[ab]*a[ab]{500}c"; 20].map(|pattern| json!({ "pattern": pattern }));
    said("many", &json!({ "allOf": all }), &json!(text));
}

#[test]
fn ordinary_recursion_is_accepted() {
    let operator = |name: &str| {
        let back = json!({ "$ref": "#" });
        json!({ "type": "object",
            "properties": { "op": { "const": name }, "l": back, "r": back },
            "required": ["op", "l", "r"] })
    };
    let mut branches: Vec<_> =
        ["and", "or", "eq", "ne", "lt", "gt", "add", "sub", "mul", "div"].map(operator).to_vec();
    branches.push(json!({ "type": ["number", "string"] }));
    let schema = compiled(&json!({ "oneOf": branches }));
    let expression = (0..9).fold(json!(1), |inner, i| {
        let op = ["and", "div", "lt"][i % 3];
        json!({ "op": op, "l": inner, "r": inner })
    });
    assert!(schema.validate(&expression).is_ok());
    let chain = (0..60).fold(json!(1), |inner, _| json!({ "op": "sub", "l": inner, "r": 2 }));
    assert!(schema.validate(&chain).is_ok());
    let large: Value =
        (0..100_000).map(|i| json!({ "id": i, "name": "n", "tags": ["a"] })).collect();
    let rows = json!({ "items": { "required": ["id"], "properties": {
        "id": { "type": "integer" }, "name": { "type": "string", "maxLength": 9 },
        "tags": { "items": { "enum": ["a", "b"] }, "uniqueItems": true } },
        "additionalProperties": false } });
    assert!(compiled(&rows).validate(&large).is_ok(), "large is not hostile");
}

#[test]
fn impersonated_meta_schema_does_not_replace_real_one() {
    for id in [
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2020-12/meta/core",
    ] {
        let posing = json!({ "$id": id, "type": "string", "minLength": 2 });
        let to = json!({ "items": { "$ref": "#A:1.0.0" } });
        let validator = compile(&to, &|_| Some(&posing)).unwrap();
        let values = [json!(["ab"]), json!(["a"]), json!([{}]), json!([true])];
        assert_eq!(
            values.map(|value| validator.is_valid(&value)),
            [true, false, false, false],
            "{id}"
        );
        // It does not replace the meta-schema, which only schemas of that dialect may reference.
        let dialect =
            if id.contains("07") { id } else { "https://json-schema.org/draft/2020-12/schema" };
        let meta = json!({ "$schema": dialect, "properties": { "a": { "$ref": "#A:1.0.0" }, "b": { "$ref": id } } });
        let validator = compile(&meta, &|_| Some(&posing)).unwrap();
        assert!(validator.is_valid(&json!({ "a": "ab", "b": {} })), "{id}");
        assert!(!validator.is_valid(&json!({ "b": "ab" })), "{id}");
    }
}

#[test]
fn errors_of_huge_values_are_limited_and_genuine() {
    let list = json!(vec!["x"; 100_000]);
    let integers = json!({ "items": { "type": "integer" } });
    let found = said("items", &integers, &list);
    assert_eq!((found.len(), &*found[31].0), (limits::VIOLATIONS, "/31"), "{found:?}");
    // The single error contains 100,000 errors per branch.
    let either = json!({ "anyOf": [integers, integers] });
    let found = said("anyOf", &either, &list);
    let [(pointer, message)] = &*found else { panic!("{found:?}") };
    assert!(pointer.is_empty() && message.contains("anyOf"), "{message}");
    // The error after the limit is genuine, too.
    let both = json!({ "allOf": [{ "minItems": 200_000 }, either], "maxItems": 5 });
    let kinds = said("allOf", &both, &list);
    assert!((2..=3).contains(&kinds.len()), "{kinds:?}");
    let wide: Map<_, _> = (0..50_000).map(|i| (format!("n{i}"), json!(0))).collect();
    for closed in ["additionalProperties", "unevaluatedProperties"] {
        let closed = json!({ "properties": { "a": {} }, closed: false });
        let either = json!({ "anyOf": vec![closed.clone(); 64] });
        assert_eq!(said("closed", &closed, &json!(wide)).len(), 1);
        assert_eq!(said("closed branches", &either, &json!(wide)).len(), 1);
    }
    let open = json!({ "prefixItems": [{}], "unevaluatedItems": false });
    let found = said("unevaluatedItems", &open, &list);
    assert_eq!((found.len(), &*found[0].0), (1, ""), "{found:?}");
    assert!(found[0].1.contains("'\"x\"'"), "{found:?}");
    let names = json!({ "propertyNames": { "maxLength": 1 } });
    let found = said("propertyNames", &names, &json!(wide));
    assert_eq!(found[0].1, "\"n0\" is longer than 1 character");
}

#[test]
fn errors_below_long_names_have_short_pointers() {
    let long = json!({ "n".repeat(1 << 20): vec!["x"; 1_000] });
    let schema = json!({ "additionalProperties": { "items": { "type": "integer" } } });
    let found = said("long names", &schema, &long);
    assert!(!found.is_empty() && found.iter().all(|(pointer, _)| pointer.len() < 1_100));
}
