//! Problems of individual JSON Schemas, computed in parallel or together.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher, RandomState},
};

use schema_compat::{
    json_schema::each_object,
    name::SchemaName,
    schema_compile::{InvalidSchema, compile, is_basic, problems_if_referred_to, uris_at_host},
};
use serde_json::{Value, json};

use crate::{
    parallel,
    reference::{Key, SchemaRef, pure_reference},
    tool_schema::bundle::GATEWAY_HOST,
};

/// The problems of a list of schemas. Basic schemas, which are the most frequent, are not compiled.
/// Other equal schemas, which are frequent in generated files, are compiled once.
pub(super) struct Problems {
    different: Vec<Vec<InvalidSchema>>,
    /// For each schema, the index of its distinct value. `None`: it is basic.
    which: Vec<Option<usize>>,
}

impl Problems {
    pub(super) fn new<'a>(schemas: Vec<&'a Value>) -> Self {
        let (mut different, mut places) = (Vec::new(), HashMap::new());
        let state = RandomState::new();
        let hashed = parallel::map(schemas, |schema| {
            (!is_basic(schema)).then(|| Hashed(state.hash_one(schema), schema))
        });
        let mut place = |hashed: Hashed<'a>| {
            let schema = hashed.1;
            *places.entry(hashed).or_insert_with(|| {
                different.push(schema);
                different.len() - 1
            })
        };
        let which = hashed.into_iter().map(|hashed| hashed.map(&mut place)).collect();
        // For WebAssembly, the library compiles the meta-schema again with each schema.
        let different = if cfg!(target_family = "wasm") {
            problems_together(&different)
        } else {
            parallel::map(different, problems_of)
        };
        Self { different, which }
    }

    /// The problems of a schema; `None` for a basic one.
    pub(super) fn get(&self, index: usize) -> Option<&[InvalidSchema]> {
        self.which[index].map(|at| &*self.different[at])
    }
}

/// A schema with its hash, which is expensive to compute.
#[derive(PartialEq, Eq)]
struct Hashed<'a>(u64, &'a Value);

impl Hash for Hashed<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

/// The problems of each schema. Valid schemas are compiled as parts of one, unless their position matters.
fn problems_together(schemas: &[&Value]) -> Vec<Vec<InvalidSchema>> {
    let (movable, mut single): (Vec<usize>, Vec<usize>) =
        (0..schemas.len()).partition(|i| is_movable(schemas[*i]));
    let mut groups = vec![&*movable];
    while let Some(group) = groups.pop() {
        if group.len() < 2 {
            single.extend(group);
            continue;
        }
        let parts: Vec<_> = group.iter().map(|i| schemas[*i]).collect();
        if compile(&json!({ "prefixItems": parts }), &anything).is_err() {
            let (first, rest) = group.split_at(group.len() / 2);
            groups.extend([first, rest]);
        }
    }
    let mut problems = vec![Vec::new(); schemas.len()];
    for i in single {
        problems[i] = problems_of(schemas[i]);
    }
    problems
}

/// Whether a schema means the same as a part of another one.
fn is_movable(schema: &Value) -> bool {
    const POSITIONAL: [&str; 9] = [
        "$schema",
        "$vocabulary",
        "$id",
        "id",
        "$anchor",
        "$dynamicAnchor",
        "$dynamicRef",
        "$recursiveAnchor",
        "$recursiveRef",
    ];
    let mut is_movable = true;
    each_object(schema, &mut |map| {
        let is_named = |reference: &Value| {
            reference.as_str().is_some_and(|text| SchemaRef::parse(text).is_some())
        };
        is_movable &= map.get("$ref").is_none_or(is_named);
        is_movable &= !POSITIONAL.iter().any(|name| map.contains_key(*name));
    });
    is_movable
}

/// References are checked separately. Here all valid ones resolve to a schema that allows anything.
fn anything(name: &SchemaName) -> Option<&'static Value> {
    Key::for_schema(name).map(|_| &Value::Bool(true))
}

fn problems_of(schema: &Value) -> Vec<InvalidSchema> {
    if pure_reference(schema).is_some() {
        return Vec::new();
    }
    let mut problems = compile(schema, &anything).err().unwrap_or_default();
    if problems.is_empty() && has_uris(schema) {
        problems = problems_if_referred_to(schema);
        problems.extend(uris_at_host(schema, GATEWAY_HOST));
    }
    problems.into_iter().filter(|p| !matches!(p, InvalidSchema::Unresolved { .. })).collect()
}

/// Whether the schema contains URIs, so that its meaning depends on its base URI.
fn has_uris(schema: &Value) -> bool {
    let mut found = false;
    each_object(schema, &mut |map| {
        let mut uris =
            ["$id", "id", "$ref", "$dynamicRef"].iter().filter_map(|name| map.get(*name));
        found |= uris.any(|uri| uri.as_str().is_some_and(|uri| !uri.starts_with('#')));
    });
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{problems_of, problems_together};

    #[test]
    fn schemas_have_same_problems_together_and_alone() {
        let schemas = [
            json!({ "type": "object", "properties": { "a": { "$ref": "#A:1.0.0" } } }),
            json!({ "type": "string", "pattern": "^a+$" }),
            json!({ "type": "strin", "properties": { "a": { "minimum": "1" } } }),
            json!({ "$ref": "#/$defs/a", "$defs": { "a": true } }),
            json!({ "$ref": "#/prefixItems/0" }),
            json!({ "properties": { "a": { "$ref": "#" } } }),
            json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }] }),
            json!({ "pattern": "(?=a)" }),
            json!({ "$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": true }),
            json!({ "exclusiveMinimum": true }),
            json!({ "$id": "https://example.com/a", "$ref": "#a", "$defs": { "a": { "$anchor": "a" } } }),
            json!({ "$ref": "#a" }),
            json!({ "items": { "$ref": "https://example.com/a" } }),
            json!({ "items": { "$ref": "#A:latest" }, "type": 1 }),
            json!({ "patternProperties": { "[": {} } }),
            json!({ "required": ["a", "a"] }),
            json!({ "enum": [{ "$ref": "#" }] }),
            json!(false),
        ];
        let schemas: Vec<_> = schemas.iter().collect();
        let alone: Vec<_> = schemas.iter().copied().map(problems_of).collect();
        assert!(alone.iter().filter(|problems| problems.is_empty()).count() > 5, "{alone:?}");
        for from in 0..schemas.len() {
            assert_eq!(problems_together(&schemas[from..]), alone[from..]);
        }
        assert_eq!(problems_together(&schemas[..2]), alone[..2]);
    }
}
