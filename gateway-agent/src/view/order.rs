//! JSON with object members in the upstream's order.
//!
//! Registered documents are canonical (RFC 8785) with sorted members, but models and people benefit
//! from the order that the authors chose.

use std::collections::HashSet;

use gateway_protocol::jsonrpc::{Object, write_string};
use serde_json::{Value, value::RawValue};

/// Longest upstream text whose order is followed, in bytes. It is parsed once per level.
const MAX_BYTES: usize = 1024 * 1024;

/// Writes a value. The members of each object follow the order of `like`; others follow, sorted.
pub(super) fn arranged(value: &Value, like: Option<&RawValue>) -> String {
    let mut text = Vec::new();
    write(&mut text, value, like.filter(|like| like.get().len() <= MAX_BYTES));
    String::from_utf8(text).expect("JSON is text")
}

fn write(out: &mut Vec<u8>, value: &Value, like: Option<&RawValue>) {
    match value {
        Value::Object(map) => {
            let like = like.and_then(|like| Object::parse(like).ok()).unwrap_or_default();
            let names: HashSet<&str> = like.members().iter().map(|member| &*member.name).collect();
            let first = like.members().iter().filter_map(|member| {
                let (name, value) = map.get_key_value(&*member.name)?;
                Some((name, value, Some(member.value)))
            });
            let others = map.iter().filter(|(name, _)| !names.contains(name.as_str()));
            let all = first.chain(others.map(|(name, value)| (name, value, None)));
            out.push(b'{');
            for (i, (name, value, like)) in all.enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_string(out, name);
                out.push(b':');
                write(out, value, like);
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            let like: Vec<&RawValue> =
                like.and_then(|like| serde_json::from_str(like.get()).ok()).unwrap_or_default();
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(out, item, like.get(i).copied());
            }
            out.push(b']');
        }
        scalar => out.extend_from_slice(scalar.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn members_follow_the_order_of_the_upstream() {
        let like = raw(r#"{"z":{"b":1,"a":[{"y":1,"x":2}]},"gone":3,"m":"\"","a":1.0}"#);
        let value =
            json!({ "a": 1, "m": "\"", "n": true, "z": { "a": [{ "x": 2, "y": 1 }], "b": 9 } });
        let text = r#"{"z":{"b":9,"a":[{"y":1,"x":2}]},"m":"\"","a":1,"n":true}"#;
        assert_eq!(arranged(&value, Some(&like)), text);
        assert_eq!(arranged(&value, None), value.to_string());
        for other in ["[1]", r#"{"a":1,"a":2}"#, "7"] {
            assert_eq!(arranged(&value, Some(&raw(other))), value.to_string());
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![any::<i32>().prop_map(Value::from), "[a\"é]{0,3}".prop_map(Value::from)];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                proptest::collection::btree_map("[a-d\"]", inner.clone(), 0..4)
                    .prop_map(|map| json!(map)),
                proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            ]
        })
    }

    proptest! {
        #[test]
        fn arranging_never_changes_the_value(value in value(), like in value()) {
            let text = arranged(&value, Some(&raw(&like.to_string())));
            prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }
}
