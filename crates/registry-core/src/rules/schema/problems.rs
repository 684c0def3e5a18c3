//! Problems of individual JSON Schemas, computed in parallel.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher, RandomState},
};

use schema_compat::{
    json_schema::each_object,
    name::SchemaName,
    schema_compile::{InvalidSchema, compile, problems_if_referred_to, uris_at_host},
};
use serde_json::Value;

use crate::{
    parallel,
    reference::{Key, pure_reference},
    tool_schema::bundle::GATEWAY_HOST,
};

/// The problems of a list of schemas. Equal schemas, which are frequent in generated files, are
/// compiled once.
pub(super) struct Problems {
    different: Vec<Vec<InvalidSchema>>,
    /// For each schema, the index of its distinct value.
    which: Vec<usize>,
}

impl Problems {
    pub(super) fn new<'a>(schemas: Vec<&'a Value>) -> Self {
        let (mut different, mut places) = (Vec::new(), HashMap::new());
        let state = RandomState::new();
        let hashed = parallel::map(schemas, |schema| Hashed(state.hash_one(schema), schema));
        let place = |hashed: Hashed<'a>| {
            let schema = hashed.1;
            *places.entry(hashed).or_insert_with(|| {
                different.push(schema);
                different.len() - 1
            })
        };
        let which = hashed.into_iter().map(place).collect();
        Self { different: parallel::map(different, problems_of), which }
    }

    pub(super) fn get(&self, index: usize) -> &[InvalidSchema] {
        &self.different[self.which[index]]
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

fn problems_of(schema: &Value) -> Vec<InvalidSchema> {
    if pure_reference(schema).is_some() {
        return Vec::new();
    }
    // References are checked separately. Here all valid ones resolve to a schema that allows
    // anything.
    let anything = |name: &SchemaName| Key::for_schema(name).map(|_| &Value::Bool(true));
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
