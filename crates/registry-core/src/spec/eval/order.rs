//! A total order of JSON values that compares numbers by value.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

/// Whether two values are equal: `1` equals `1.0`, and the order of members does not matter.
pub fn is_same(a: &Value, b: &Value) -> bool {
    compare(a, b) == Ordering::Equal
}

/// Null, false, true, numbers, strings, arrays, objects. Arrays and objects are compared item by
/// item.
pub fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => arrays(a, b),
        (Value::Object(a), Value::Object(b)) => objects(a, b),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

fn arrays(a: &[Value], b: &[Value]) -> Ordering {
    let differing = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|found| found.is_ne());
    differing.unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// Members are sorted by name.
fn objects(a: &Map<String, Value>, b: &Map<String, Value>) -> Ordering {
    let one = |(a, b): ((&String, &Value), (&String, &Value))| {
        a.0.cmp(b.0).then_with(|| compare(a.1, b.1))
    };
    let differing = a.iter().zip(b).map(one).find(|found| found.is_ne());
    differing.unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// Compares exactly, even if an integer has no exact floating-point representation.
fn numbers(a: &Number, b: &Number) -> Ordering {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => integer_to_real(a, real(b)),
        (None, Some(b)) => integer_to_real(b, real(a)).reverse(),
        // JSON has no NaN.
        (None, None) => real(a).partial_cmp(&real(b)).unwrap_or(Ordering::Equal),
    }
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn real(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}

#[expect(clippy::cast_possible_truncation, reason = "it saturates far beyond all integers here")]
fn integer_to_real(a: i128, b: f64) -> Ordering {
    let whole = b.floor();
    // If the integral parts are equal, the fraction decides.
    let fraction = || if b > whole { Ordering::Less } else { Ordering::Equal };
    a.cmp(&(whole as i128)).then_with(fraction)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn value(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn numbers_compare_by_value() {
        for (a, b) in [("1", "1.0"), ("0", "-0.0"), ("100", "1e2"), (r#"{"a":1}"#, r#"{"a":1.0}"#)]
        {
            assert!(is_same(&value(a), &value(b)), "{a} {b}");
        }
        let ascending = [
            "null",
            "false",
            "true",
            "-1e300",
            "-1.5",
            "-1",
            "0",
            "0.5",
            "1",
            "1.5",
            "9007199254740992",
            "9007199254740993",
            "18446744073709551615",
            "1e300",
            r#""""#,
            r#""a""#,
            r#""b""#,
            "[]",
            "[1]",
            "[1,null]",
            "[2]",
            "{}",
            r#"{"a":2}"#,
            r#"{"b":1}"#,
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(compare(&value(a), &value(b)), i.cmp(&j), "{a} {b}");
            }
        }
        assert!(!is_same(&json!("1"), &json!(1)));
    }
}
