//! The canonical form of JSON (RFC 8785, "JCS").
//!
//! Every registration is canonicalized, so this writes a value in one pass. The library, which
//! sorts and buffers each object separately, took a sixth of the time of a bulk registration.

use serde_json::{Map, Number, Value};

use crate::{limits, open_json::sorted_members};

/// The RFC 8785 canonical form of a JSON value.
pub fn canonical_bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write(&mut out, value, write_number);
    out
}

/// An injective canonical form for use as a key: equal values have equal bytes and different values
/// different bytes, where fractions are doubles.
///
/// RFC 8785 rounds integers beyond ±2^53 to doubles; this form keeps every digit. Returns `None`
/// if the value contains a double that may have lost digits in parsing: one of ±2^53 or more, or a
/// fraction with more than 15 significant digits.
/// a fraction with more than 15 significant digits.
pub fn exact_bytes(value: &Value) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(64);
    is_exact(value).then(|| write(&mut out, value, write_exact_number))?;
    Some(out)
}

type NumberWriter = fn(&mut Vec<u8>, &Number);

fn write(out: &mut Vec<u8>, value: &Value, number_writer: NumberWriter) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => number_writer(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                separate(out, i);
                write(out, item, number_writer);
            }
            out.push(b']');
        }
        Value::Object(map) => write_object(out, map, number_writer),
    }
}

fn write_object(out: &mut Vec<u8>, map: &Map<String, Value>, number_writer: NumberWriter) {
    out.push(b'{');
    let member = |out: &mut Vec<u8>, i, name: &str, value| {
        separate(out, i);
        write_string(out, name);
        out.push(b':');
        write(out, value, number_writer);
    };
    match sorted_members(map) {
        None => map.iter().enumerate().for_each(|(i, (name, value))| member(out, i, name, value)),
        Some(members) => {
            let members = members.into_iter().enumerate();
            members.for_each(|(i, (name, value))| member(out, i, name, value));
        }
    }
    out.push(b'}');
}

fn separate(out: &mut Vec<u8>, index: usize) {
    if index > 0 {
        out.push(b',');
    }
}

/// Section 3.2.2.2 requires exactly the escapes that `serde_json` writes.
fn write_string(out: &mut Vec<u8>, text: &str) {
    let is_plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Neither a string nor a vector can fail.
        serde_json::to_writer(out, text).expect("a string is JSON");
    }
}

/// Section 3.2.2.3 requires the ECMAScript format, which for a safe integer is its decimal digits.
fn write_number(out: &mut Vec<u8>, number: &Number) {
    let is_safe = |n: &i64| n.unsigned_abs() <= limits::SAFE_INTEGER.unsigned_abs();
    if let Some(integer) = number.as_i64().filter(is_safe) {
        out.extend_from_slice(integer.to_string().as_bytes());
    } else {
        // A `Number` is neither infinite nor NaN.
        let text = serde_json_canonicalizer::to_vec(number).expect("a number is JSON");
        out.extend_from_slice(&text);
    }
}

/// Integers keep all digits. A double without a fraction is written as an integer.
fn write_exact_number(out: &mut Vec<u8>, number: &Number) {
    match integer(number) {
        Some(integer) => out.extend_from_slice(integer.to_string().as_bytes()),
        None => write_number(out, number),
    }
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// The significant digits of the shortest decimal that parses to this double.
fn digits(real: f64) -> usize {
    let text = format!("{real:e}");
    let mantissa = text.split('e').next().unwrap_or_default();
    mantissa.bytes().filter(u8::is_ascii_digit).count()
}

/// Whether each number still has the value of its JSON text, if that had no more digits.
fn is_exact(value: &Value) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "a power of two")]
    const LIMIT: f64 = limits::SAFE_INTEGER as f64;
    match value {
        Value::Number(number) => {
            let is_kept = |real: f64| {
                real.abs() < LIMIT && (real.fract() == 0.0 || digits(real) <= f64::DIGITS as usize)
            };
            integer(number).is_some() || number.as_f64().is_some_and(is_kept)
        }
        Value::Array(items) => items.iter().all(is_exact),
        Value::Object(members) => members.values().all(is_exact),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}
