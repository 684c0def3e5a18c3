//! Random JSON values, and random modifications of them.

use proptest::{collection::vec, prelude::*};
use serde_json::Value;

/// A random JSON value with a few levels.
pub fn json() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Value::from),
        (-1000..1000_i32).prop_map(Value::from),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        ".{0,8}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec((".{0,6}", inner), 0..4).prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

/// The value with one part replaced, which `at` selects.
pub fn damaged(value: &Value, at: usize, with: &Value) -> Value {
    let mut pointers = Vec::new();
    collect(value, String::new(), &mut pointers);
    let mut value = value.clone();
    let place = &pointers[at % pointers.len()];
    if let Some(target) = value.pointer_mut(place) {
        *target = with.clone();
    }
    value
}

fn collect(value: &Value, at: String, pointers: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, v)| collect(v, format!("{at}/{i}"), pointers));
        }
        Value::Object(map) => {
            map.iter().for_each(|(k, v)| collect(v, format!("{at}/{k}"), pointers));
        }
        _ => {}
    }
    pointers.push(at);
}
