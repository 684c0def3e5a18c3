//! The JSON Schema of configuration files has the options of the parser, and rejects only files that the
//! parser rejects.

use std::collections::{BTreeMap, BTreeSet};

use schema_compat::schema_compile::{Validator, compile};
use serde_json::{Map, Value, json};

use super::template::{known_fields, problems, set};
use crate::config::yaml;

const SCHEMA: &str = include_str!("../../../schemas/gateway-config.schema.json");

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

fn validator() -> Validator {
    compile(&schema(), &|_| None).unwrap()
}

/// The part of a subschema that describes objects or lists: its own, that of its reference, or that of one
/// of its alternatives.
fn structure<'s>(schema: &'s Value, subschema: &'s Value) -> Option<&'s Value> {
    if let Some(target) = subschema["$ref"].as_str() {
        return structure(schema, schema.pointer(target.strip_prefix('#')?)?);
    }
    let is_structure = |name: &str| subschema.get(name).is_some();
    if ["properties", "items", "additionalProperties"].into_iter().any(is_structure) {
        return Some(subschema);
    }
    let mut alternatives = subschema["anyOf"].as_array()?.iter();
    alternatives.find_map(|alternative| structure(schema, alternative))
}

/// The options at a path such as `.targets[].auth`.
fn options<'s>(schema: &'s Value, path: &str) -> Option<&'s Map<String, Value>> {
    let mut at = schema;
    for segment in path.split('.').skip(1) {
        let name = segment.trim_end_matches("[]");
        let property = at["properties"].get(name).or_else(|| at.get("additionalProperties"))?;
        at = structure(schema, property)?;
        for _ in segment.matches("[]") {
            at = structure(schema, &at["items"])?;
        }
    }
    at["properties"].as_object()
}

#[test]
fn schema_has_the_options_of_the_parser() {
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for alternatives in [false, true] {
        let tree = yaml::parse(&set(alternatives)).expect("YAML");
        for (path, names) in known_fields(&tree) {
            known.entry(path).or_default().extend(names);
        }
    }
    let schema = schema();
    let names = |options: &Map<String, Value>| options.keys().cloned().collect::<BTreeSet<_>>();
    for (path, known) in &known {
        assert_eq!(options(&schema, path).map(names).as_ref(), Some(known), "{path}");
    }
    let known: BTreeSet<_> = known.into_values().collect();
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        let options = definition["properties"].as_object().map(names);
        assert!(options.is_none_or(|options| known.contains(&options)), "{name}");
    }
}

#[test]
fn schema_accepts_templates() {
    let validator = validator();
    let mut value: Value = serde_saphyr::from_str(&set(false)).unwrap();
    assert_eq!(validator.validate(&value), Ok(()));
    let object = value.as_object_mut().unwrap();
    object.values_mut().for_each(|section| *section = Value::Null);
    assert_eq!(validator.validate(&value), Ok(()), "sections without options");
}

/// A configuration with one change.
struct Changed {
    what: String,
    value: Value,
    /// Whether a value has another type, or a member is unknown.
    is_structural: bool,
}

/// Replaces each value, removes each option, and adds an unknown one to each mapping.
fn changes(document: &Value) -> Vec<Changed> {
    let replacements = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0.5),
        json!(""),
        json!("?? no"),
        json!([]),
        json!({ "unknownField": 7 }),
    ];
    let mut pointers = Vec::new();
    collect(document, String::new(), &mut pointers);
    let mut found = Vec::new();
    for pointer in pointers {
        let original = document.pointer(&pointer).unwrap();
        let mut change = |what: String, is_structural: bool, new: Value| {
            let mut value = document.clone();
            *value.pointer_mut(&pointer).unwrap() = new;
            found.push(Changed { what: format!("{pointer} {what}"), value, is_structural });
        };
        for new in &replacements {
            let is_structural = match new {
                Value::Bool(_) => !original.is_boolean(),
                Value::Number(number) => original.is_number() && number.is_i64(),
                Value::Object(_) => !original.is_object(),
                _ => false,
            };
            change(format!("= {new}"), is_structural, new.clone());
        }
        let Value::Object(members) = original else { continue };
        for name in members.keys() {
            let mut members = members.clone();
            members.remove(name);
            change(format!("without {name}"), false, members.into());
        }
        let mut members = members.clone();
        members.insert("unknownField".to_owned(), json!(7));
        change("with an unknown field".to_owned(), true, members.into());
    }
    found
}

fn collect(value: &Value, at: String, pointers: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, v)| collect(v, format!("{at}/{i}"), pointers));
        }
        Value::Object(members) => {
            for (name, value) in members {
                collect(value, format!("{at}/{}", name.replace('/', "~1")), pointers);
            }
        }
        _ => {}
    }
    pointers.push(at);
}

/// The problems of a configuration, without those of the original one, whose files do not exist.
fn new_problems(value: &Value, original: &[(String, String)]) -> Vec<(String, String)> {
    let found = problems(&value.to_string());
    let found = found.into_iter().map(|problem| (problem.field, problem.message));
    found.filter(|problem| !original.contains(problem)).collect()
}

#[test]
fn schema_and_parser_agree_about_changed_configurations() {
    let (validator, mut disagreements) = (validator(), Vec::new());
    let document: Value = serde_saphyr::from_str(&set(false)).unwrap();
    let original = new_problems(&document, &[]);
    for Changed { what, value, is_structural } in changes(&document) {
        let (new, is_valid) = (new_problems(&value, &original), validator.is_valid(&value));
        if !is_valid && new.is_empty() {
            disagreements.push(format!("only the schema rejects {what}"));
        }
        if is_valid && is_structural && !new.is_empty() {
            disagreements.push(format!("only the parser rejects {what}: {new:?}"));
        }
    }
    let shown: Vec<_> = disagreements.iter().take(30).map(String::as_str).collect();
    assert!(disagreements.is_empty(), "{}:\n{}", disagreements.len(), shown.join("\n"));
}
