//! A schema made self-contained: every registered schema that it refers to moves into its `$defs`.
//!
//! Clients know nothing of the registry, so `{"$ref": "#Name:1.0.0"}` becomes
//! `{"$ref": "#/$defs/Name:1.0.0"}`, each schema is taken once (so recursion ends), and a reference
//! at the very top is replaced by what it refers to, because MCP wants an object schema there.
//! Where any of the schemas has an identity of its own (`$id`, anchors, a dialect), pointers cannot
//! be moved safely, and all are embedded as JSON Schema resources with a URN instead. Deliberately
//! absent: fetching; an unknown reference is an error.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use registry_core::{
    Key, SchemaRef,
    json_schema::{each_object, map_objects},
};
use serde_json::{Map, Value};

/// Gives the JSON Schema of a registered schema.
pub type Resolve<'a> = &'a dyn Fn(&Key) -> Option<&'a Value>;

/// A reference to a schema that is not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the schema `#{}:{}` is not registered", .0.name, .0.version)]
pub struct Unresolved(pub Key);

/// Longest chain of schemas that are nothing but a reference.
const CHAIN: usize = 32;
/// Keywords that only say something about a schema; beside a reference they replace the target's.
const ANNOTATIONS: [&str; 9] = [
    "$comment",
    "$schema",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
];
/// Keywords that give a schema an identity of its own.
const IDENTITY: [&str; 5] = ["$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"];
/// The dialect that is meant where none is named.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Makes a schema self-contained.
pub fn bundle(schema: &Value, resolve: Resolve<'_>) -> Result<Value, Unresolved> {
    let root = without_top_reference(schema, resolve)?;
    let needed = needed(&root, resolve)?;
    if needed.is_empty() {
        return Ok(root);
    }
    let has_identity = needed.values().any(|(_, schema)| has_identity(schema));
    let form = if has_identity { Form::Resources } else { Form::Pointers };
    let mut names = Names { form, taken: &root, prefix: None };
    let mut bundled = names.rewrite(&root);
    let mut defs = match bundled.as_object_mut().and_then(|map| map.remove("$defs")) {
        Some(Value::Object(defs)) => defs,
        _ => Map::new(),
    };
    for (key, schema) in needed.values() {
        names.prefix = (form == Form::Pointers).then(|| format!("#/$defs/{}", names.name(key)));
        let mut embedded = names.rewrite(schema);
        match (form, &mut embedded) {
            (Form::Resources, Value::Object(map)) => {
                map.insert("$id".to_owned(), Value::String(urn(key)));
            }
            (Form::Pointers, Value::Object(map)) => _ = map.remove("$schema"),
            _ => {}
        }
        defs.insert(names.name(key), embedded);
    }
    if let Value::Object(map) = &mut bundled {
        map.insert("$defs".to_owned(), Value::Object(defs));
    }
    Ok(bundled)
}

/// How references lead to embedded schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// By pointer into `$defs`; the embedded schemas' own pointers are moved along.
    Pointers,
    /// By URI; the embedded schemas stay as they are.
    Resources,
}

/// Rewrites references while schemas are embedded.
struct Names<'a> {
    form: Form,
    taken: &'a Value,
    /// Where the schema at hand will stand; `None` for the top and for resources.
    prefix: Option<String>,
}

impl Names<'_> {
    /// The member of `$defs`; moved aside if the top schema has one of that name already.
    fn name(&self, key: &Key) -> String {
        let mut name = format!("{}:{}", key.name, key.version);
        while self.taken.get("$defs").is_some_and(|defs| defs.get(&name).is_some()) {
            name.push('_');
        }
        name
    }

    fn reference(&self, text: &str) -> String {
        match SchemaRef::parse(text) {
            Some(Ok(reference)) if self.form == Form::Resources => urn(reference.key()),
            Some(Ok(reference)) => format!("#/$defs/{}", self.name(reference.key())),
            _ => match (&self.prefix, text.strip_prefix('#')) {
                (Some(prefix), Some(rest)) if rest.is_empty() || rest.starts_with('/') => {
                    format!("{prefix}{rest}")
                }
                _ => text.to_owned(),
            },
        }
    }

    fn rewrite(&self, schema: &Value) -> Value {
        map_objects(schema, &mut |map| {
            if let Some(Value::String(text)) = map.get_mut("$ref") {
                *text = self.reference(text);
            }
        })
    }
}

fn urn(key: &Key) -> String {
    format!("urn:registry:schema:{}:{}", key.name, key.version)
}

/// Follows a reference at the top, so that the top is an object schema of its own.
fn without_top_reference(schema: &Value, resolve: Resolve<'_>) -> Result<Value, Unresolved> {
    let mut root = schema.clone();
    for _ in 0..CHAIN {
        let Some(key) = registered_reference(&root) else { break };
        let target = resolve(&key).ok_or(Unresolved(key))?;
        let (Value::Object(siblings), Value::Object(target)) = (&root, target) else { break };
        let collides = |name: &String| {
            !ANNOTATIONS.contains(&name.as_str()) && name != "$ref" && target.contains_key(name)
        };
        if siblings.keys().any(collides) {
            break;
        }
        let mut merged = target.clone();
        merged.extend(siblings.clone().into_iter().filter(|(name, _)| name != "$ref"));
        // The target may itself begin with a reference.
        if let Some(next) = target.get("$ref") {
            merged.insert("$ref".to_owned(), next.clone());
        }
        root = Value::Object(merged);
    }
    Ok(root)
}

fn registered_reference(schema: &Value) -> Option<Key> {
    let reference = SchemaRef::parse(schema.get("$ref")?.as_str()?)?.ok()?;
    Some(reference.key().clone())
}

/// Every registered schema behind this one, by name and version.
fn needed<'a>(
    root: &Value,
    resolve: Resolve<'a>,
) -> Result<BTreeMap<String, (Key, &'a Value)>, Unresolved> {
    let mut found = BTreeMap::new();
    let mut waiting = references(root);
    while let Some(key) = waiting.pop() {
        let name = format!("{}:{}", key.name, key.version);
        if found.contains_key(&name) {
            continue;
        }
        let schema = resolve(&key).ok_or_else(|| Unresolved(key.clone()))?;
        waiting.extend(references(schema));
        found.insert(name, (key, schema));
    }
    Ok(found)
}

fn references(schema: &Value) -> Vec<Key> {
    let mut found = Vec::new();
    each_object(schema, &mut |map| {
        let text = map.get("$ref").and_then(Value::as_str);
        if let Some(Ok(reference)) = text.and_then(SchemaRef::parse) {
            found.push(reference.key().clone());
        }
    });
    found
}

fn has_identity(schema: &Value) -> bool {
    let mut found = false;
    each_object(schema, &mut |map| {
        let dialect = map.get("$schema").and_then(Value::as_str).unwrap_or(DIALECT);
        found |= dialect.trim_end_matches('#') != DIALECT;
        found |= IDENTITY.iter().any(|name| map.get(*name).is_some_and(Value::is_string));
    });
    found
}
