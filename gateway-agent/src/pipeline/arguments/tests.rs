//! Reading, changing and rejecting arguments.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

#[test]
fn unchanged_arguments_keep_their_bytes() {
    let text = r#"{"b": 1.0,"a":[ ]}"#;
    let raw = raw(text);
    let mut arguments = Arguments::new(Some(&raw)).unwrap();
    assert_eq!(arguments.members().unwrap()["b"], json!(1.0));
    assert_eq!(arguments.raw().unwrap().get(), text);
    assert_eq!(arguments.raw().unwrap().get().as_ptr(), raw.get().as_ptr(), "not even copied");
}

#[test]
fn absent_arguments_are_empty_object() {
    let mut arguments = Arguments::new(None).unwrap();
    assert_eq!(arguments.value().unwrap(), &json!({}));
    assert!(arguments.raw().is_none());
    arguments
        .change(|members| {
            members.insert("a".to_owned(), json!(1));
            Ok::<_, InvalidArguments>(())
        })
        .unwrap();
    assert_eq!(arguments.raw().unwrap().get(), r#"{"a":1}"#);
}

#[test]
fn ambiguous_arguments_are_rejected() {
    for text in [r#"{"a":1,"a":2}"#, r#"{"x":[{"a":1,"\u0061":2}]}"#] {
        let raw = raw(text);
        let error = Arguments::new(Some(&raw)).unwrap().value().unwrap_err();
        let InvalidArguments::Ambiguous(reason) = error else { panic!("{text}: {error}") };
        assert!(reason.contains(r#""a""#), "{text}: {reason}");
    }
    for text in ["5", "[]", "\"{}\"", "true"] {
        assert_eq!(Arguments::new(Some(&raw(text))).unwrap_err(), InvalidArguments::NotAnObject);
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(".*", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #[test]
    fn strict_reader_equals_serde_json(value in value()) {
        let text = json!({ "a": value }).to_string();
        let expected: Value = serde_json::from_str(&text).unwrap();
        let raw = raw(&text);
        let mut arguments = Arguments::new(Some(&raw)).unwrap();
        prop_assert_eq!(arguments.value().unwrap(), &expected);
    }
}
