//! Every member is described, and occurs in a document of the tests.

use std::collections::BTreeSet;

use registry_core::{PublishedSchema, spec::PATTERNS};
use serde_json::Value;

use crate::{parsed, registry_files};

/// Calls `found` with the properties of each object and the name of its definition.
fn each_object(schema: &Value, found: &mut dyn FnMut(&str, &serde_json::Map<String, Value>)) {
    let definitions = schema["$defs"].as_object().unwrap();
    let definitions = definitions.iter().map(|(name, definition)| (name.as_str(), definition));
    for (name, definition) in definitions.chain([("", schema)]) {
        // Conditions and texts are no objects of a document, and some objects have any members.
        if let ("object", Some(properties)) =
            (definition["type"].as_str().unwrap_or_default(), definition["properties"].as_object())
        {
            found(name, properties);
        }
    }
}

/// The description of a property, or of the definition that it refers to.
fn is_described(schema: &Value, property: &Value) -> bool {
    let own = |value: &Value| value["description"].as_str().is_some_and(|text| !text.is_empty());
    let target =
        property["$ref"].as_str().and_then(|target| schema.pointer(target.strip_prefix('#')?));
    own(property) || target.is_some_and(own)
}

#[test]
fn every_member_has_a_description() {
    for published in [PublishedSchema::Registry, PublishedSchema::GatewayConfig] {
        let (schema, mut count) = (parsed(published), 0);
        each_object(&schema, &mut |object, properties| {
            for (name, property) in properties {
                assert!(is_described(&schema, property), "{object}.{name}");
                count += 1;
            }
        });
        assert!(count > 100, "{count}");
        for (name, definition) in schema["$defs"].as_object().unwrap() {
            assert!(is_described(&schema, definition), "{name}");
            assert!(name.starts_with(|c: char| c.is_ascii_uppercase()), "{name}");
        }
    }
}

/// The definitions that a value can have, with references resolved.
fn resolved<'s>(schema: &'s Value, subschema: &'s Value, found: &mut Vec<(String, &'s Value)>) {
    let target = subschema["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
    match target {
        Some(target) => {
            let name = target.rsplit('/').next().unwrap_or_default();
            found.push((name.to_owned(), schema.pointer(target).unwrap()));
        }
        None => found.push((String::new(), subschema)),
    }
    for alternative in subschema["anyOf"].as_array().into_iter().flatten() {
        resolved(schema, alternative, found);
    }
}

/// Records the members of a document by the definition of their objects.
fn walk(schema: &Value, at: (&str, &Value), value: &Value, used: &mut BTreeSet<String>) {
    let (definition, subschema) = at;
    let mut visit = |subschema: &Value, value: &Value| {
        let mut alternatives = Vec::new();
        resolved(schema, subschema, &mut alternatives);
        for (name, alternative) in &alternatives {
            walk(schema, (name, alternative), value, used);
        }
    };
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match subschema["properties"].get(name) {
                    Some(property) => visit(property, value),
                    None => visit(&subschema["additionalProperties"], value),
                }
            }
            let known = |name: &&String| subschema["properties"].get(name.as_str()).is_some();
            used.extend(members.keys().filter(known).map(|name| format!("{definition}.{name}")));
        }
        Value::Array(items) => items.iter().for_each(|item| visit(&subschema["items"], item)),
        _ => {}
    }
}

/// The comparison of parser and schema covers only members that occur.
#[test]
fn every_member_occurs_in_a_document() {
    let schema = parsed(PublishedSchema::Registry);
    let mut used = BTreeSet::new();
    for (_, file) in registry_files() {
        walk(&schema, ("", &schema), &file, &mut used);
    }
    // Objects that only conditions refer to.
    let conditional = ["DependencyParams", "ListValue"];
    let mut missing = Vec::new();
    each_object(&schema, &mut |object, properties| {
        let names = properties.keys().map(|name| format!("{object}.{name}"));
        let is_missing = |name: &String| !used.contains(name) && !conditional.contains(&object);
        missing.extend(names.filter(is_missing));
    });
    assert_eq!(missing, [""; 0]);
}

#[test]
fn patterns_of_compositions_are_those_of_the_parser() {
    let schema = parsed(PublishedSchema::Registry);
    let members = schema["$defs"]["Spec"]["properties"].as_object().unwrap().keys();
    let members: BTreeSet<_> =
        members.map(String::as_str).filter(|name| *name != "$comment").collect();
    assert_eq!(members, PATTERNS.iter().copied().collect());
}
