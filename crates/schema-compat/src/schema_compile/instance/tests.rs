//! The index is compared with the tree that `serde_json` parses from the same text.

use proptest::prelude::*;
use serde_json::{Value, json, value::to_raw_value};

use super::*;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// The value of a part, with each of its pointers looked up in both directions.
fn tree(part: Part<'_>) -> Value {
    let pointer = part.instance.pointer(part.slot);
    assert_eq!(part.instance.find(&pointer).map(Part::slot), Some(part.slot), "{pointer}");
    match part.kind() {
        Kind::Array => {
            let items: Vec<_> = part.items().map(tree).collect();
            assert_eq!(items.len(), part.len());
            items.into()
        }
        Kind::Object => {
            let members: serde_json::Map<_, _> =
                part.members().map(|(name, member)| (name.into_owned(), tree(member))).collect();
            assert_eq!(members.len(), part.len());
            for name in members.keys() {
                assert!(part.get(name).is_some(), "{name:?}");
            }
            assert!(part.get("no such name").is_none());
            members.into()
        }
        Kind::String => part.string().into(),
        Kind::Number => part.number().unwrap().into(),
        Kind::Boolean => part.is_true().into(),
        Kind::Null => Value::Null,
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 24, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(".*", inner, 0..24).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #[test]
    fn index_has_the_values_of_the_tree(value in value(), is_pretty in any::<bool>()) {
        let text = if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let raw = raw(&text.unwrap());
        let instance = Instance::read(&raw).unwrap();
        prop_assert_eq!(tree(instance.root()), value);
        prop_assert_eq!(instance.repeated_name(), None);
    }
}

#[test]
fn names_and_strings_are_unescaped() {
    let raw = raw(r#"{ "\u0061/~": ["\"\\", "\ud83d\ude00", ""], "b" : {"": 1} }"#);
    let instance = Instance::read(&raw).unwrap();
    let expected = json!({ "a/~": ["\"\\", "😀", ""], "b": { "": 1 } });
    assert_eq!(tree(instance.root()), expected);
    assert_eq!(instance.find("/a~1~0/1").unwrap().string(), "😀");
    assert_eq!(instance.values(), 7);
}

#[test]
fn repeated_names_are_detected_despite_escapes() {
    let wide: Vec<_> = (0..100).map(|i| format!(r#""n{i}": 0"#)).collect();
    for (text, pointer) in [
        (r#"{"a":1,"a":2}"#.to_owned(), "/a"),
        (r#"{"x":[0,{"a":1,"\u0061":2}]}"#.to_owned(), "/x/1/a"),
        (format!(r#"[{{{}, "n7": 1}}]"#, wide.join(",")), "/0/n7"),
    ] {
        let raw = raw(&text);
        let found = Instance::read(&raw).unwrap().repeated_name().unwrap();
        assert_eq!((&*found.pointer, found.problem), (pointer, Problem::RepeatedName), "{text}");
    }
    let raw = raw(r#"[{"a":{"a":1}},{"a":2}]"#);
    assert_eq!(Instance::read(&raw).unwrap().repeated_name(), None);
}

#[test]
fn text_without_value_is_rejected_with_pointer() {
    for (text, pointer, problem) in [
        (r#"{"a":[0,1e999]}"#, "/a/1", Problem::Number),
        (r#"{"a":{"b":"\ud800"}}"#, "/a/b", Problem::Surrogate),
    ] {
        let raw = raw(text);
        let error = Instance::read(&raw).unwrap_err();
        assert_eq!((&*error.pointer, error.problem), (pointer, problem));
    }
}

#[test]
fn index_is_at_most_six_times_the_text() {
    for item in ["0", "[]", "{}", r#"{"":0}"#, r#"{"":[]}"#, r#""""#] {
        let text = format!("[{}]", vec![item; 100_000].join(","));
        let raw = raw(&text);
        let instance = Instance::read(&raw).unwrap();
        let bytes = instance.slots.len() * size_of::<Slot>() + instance.sorted.len() * 4;
        assert!(bytes <= 6 * text.len(), "{item}: {bytes} for {}", text.len());
    }
    let names: Vec<_> = (0..100_000).map(|i| format!(r#""{i:x}":0"#)).collect();
    let raw = raw(&format!("{{{}}}", names.join(",")));
    let instance = Instance::read(&raw).unwrap();
    assert!(instance.slots.len() * 8 + instance.sorted.len() * 4 <= 6 * raw.get().len());
}

#[test]
fn shown_text_is_compact_and_truncated() {
    let raw = raw(r#"{ "a": [ 1, [], {} ], "b": "x" }"#);
    let instance = Instance::read(&raw).unwrap();
    assert_eq!(instance.root().shown(100), r#"{"a":[1,[],{}],"b":"x"}"#);
    let long = to_raw_value(&json!([vec![0; 1_000_000], "y".repeat(1_000_000)])).unwrap();
    let instance = Instance::read(&long).unwrap();
    for pointer in ["", "/0", "/1"] {
        let shown = instance.find(pointer).unwrap().shown(100);
        assert!(shown.len() <= 103 && shown.ends_with('…'), "{shown}");
    }
}
