//! The memory usage of a validation is a small multiple of the text for any schema and value.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;

use schema_compat::schema_compile::{Instance, compile};
use serde_json::{Map, Value, json, value::RawValue};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TEXT: usize = 1 << 20;
/// Maximum memory per byte of text.
const TIMES: usize = 16;
/// Memory that does not depend on the text.
const BASE: usize = 16 << 20;

fn status(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
}

/// An array of `TEXT` bytes.
fn array(item: &str) -> String {
    format!("[{}]", vec![item; TEXT / (item.len() + 1)].join(","))
}

/// An object of `TEXT` bytes.
fn object(member: impl Fn(usize) -> String) -> String {
    let mut text = "{".to_owned();
    for i in 0.. {
        if text.len() > TEXT {
            break;
        }
        text.extend([if i == 0 { "" } else { "," }, member(i).as_str()]);
    }
    text + "}"
}

fn schemas() -> Vec<Value> {
    let integers = json!({ "items": { "type": "integer" } });
    let closed = json!({ "properties": { "a": {} }, "additionalProperties": false });
    let tree = json!({ "$defs": { "t": { "type": ["array", "object"],
        "items": { "$ref": "#/$defs/t" }, "additionalProperties": { "$ref": "#/$defs/t" } } },
        "$ref": "#/$defs/t" });
    let large: Map<_, _> = (0..2_000).map(|i| (format!("n{i}"), json!({ "const": i }))).collect();
    let patterns = json!({ "patternProperties": { "^[a-z]+$": { "type": "string" } },
        "propertyNames": { "maxLength": 0 }, "items": { "pattern": "^[a-z]{2,9}$" } });
    let evaluated = json!({ "anyOf": [{ "prefixItems": [true, true] }, { "properties": { "a": true } }],
        "unevaluatedItems": { "type": "boolean" }, "unevaluatedProperties": { "type": "boolean" } });
    vec![
        json!({ "anyOf": vec![integers.clone(); 60] }),
        json!({ "oneOf": [closed, integers, { "items": closed }] }),
        json!({ "anyOf": vec![closed.clone(); 60] }),
        json!({ "items": { "anyOf": vec![closed; 60] } }),
        json!({ "uniqueItems": true, "contains": { "type": "boolean" }, "minContains": 3 }),
        json!({ "items": { "not": { "properties": large } } }),
        json!({ "items": { "enum": (0..2_000).collect::<Vec<_>>() } }),
        json!({ "items": { "required": (0..50).map(|i| format!("r{i}")).collect::<Vec<_>>() } }),
        json!({ "additionalProperties": integers }),
        integers,
        tree,
        patterns,
        evaluated,
    ]
}

fn texts() -> Vec<String> {
    let deep = format!("{}{}", "[".repeat(90), "]".repeat(90));
    vec![
        array("0"),
        array(r#""x""#),
        array("[]"),
        array(r#"{"":0}"#),
        array(&deep),
        object(|i| format!(r#""{i:x}":0"#)),
        object(|i| format!(r#""\u0061{i:x}":[""]"#)),
        format!(r#"{{"{}":{}}}"#, "n".repeat(TEXT / 2), array("null")),
        format!(r#"["{}"]"#, "ab".repeat(TEXT / 2)),
    ]
}

#[test]
fn memory_is_small_multiple_of_text() {
    let compiled: Vec<_> = schemas()
        .into_iter()
        .map(|schema| (compile(&schema, &|_| None).expect("a schema"), schema))
        .collect();
    for text in texts() {
        let shown = text[..40.min(text.len())].to_owned();
        let raw = RawValue::from_string(text).unwrap();
        for (validator, schema) in &compiled {
            let before = status("VmRSS:");
            fs::write("/proc/self/clear_refs", "5").unwrap();
            let found = validator.check(&Instance::read(&raw).unwrap());
            let grown = status("VmHWM:").saturating_sub(before);
            let most = BASE + TIMES * raw.get().len();
            let schema = schema.to_string();
            let schema = &schema[..60.min(schema.len())];
            println!(
                "{:>3} MiB {:>2} {shown} {schema}",
                grown >> 20,
                found.err().map_or(0, |e| e.len())
            );
            assert!(grown < most, "{} MiB for {shown} and {schema}", grown >> 20);
        }
    }
}
