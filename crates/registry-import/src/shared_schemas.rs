//! Shared schemas: equal schemas of several tools of one server become one registered schema.
//!
//! Definitions (`$defs`, `definitions`) are shared first, then nested object schemas. Only
//! self-contained schemas are shared: without a `$ref` into their document, and without a reference
//! from outside into them. Documents with `$id`, anchors or dynamic references are left unchanged.
//! Each result is compared with its original by normal form; if they differ, the tool keeps its
//! original.

mod definitions;
mod holder;
mod names;
mod objects;
mod walk;

use std::collections::{BTreeMap, HashSet};

use holder::Holder;
use names::Names;
use registry_core::{
    kind::Kind,
    reference::{Key, SchemaRef},
    schema_inline::{InlineBudget, inlined},
    version::Version,
};
use schema_compat::json_schema::each_object;
use serde_json::{Value, json};

/// The members of a tool that hold schemas.
pub(super) const FIELDS: [&str; 2] = ["inputSchema", "outputSchema"];

/// Tools that reference schemas, and these schemas.
#[derive(Debug, Default)]
pub(crate) struct SharedSchemas {
    pub(crate) tools: Vec<Value>,
    pub(crate) schemas: Vec<Value>,
}

/// Shares equal schemas of the tools. The names of the schemas start with `prefix`.
pub(crate) fn shared(tools: Vec<Value>, prefix: &str, version: &Version) -> SharedSchemas {
    let mut holders = Vec::new();
    for (i, tool) in tools.iter().enumerate() {
        let name = tool["name"].as_str().unwrap_or_default();
        for field in FIELDS {
            holders.extend(tool.get(field).and_then(|schema| Holder::new(i, name, field, schema)));
        }
    }
    let mut names = Names::new(prefix, version);
    definitions::take_out(&mut holders, &mut names);
    objects::extract(&mut holders, &mut names);
    put_back(tools, &holders, names)
}

/// Sets the schemas that are proven to be equivalent in their tools.
fn put_back(mut tools: Vec<Value>, holders: &[Holder], names: Names) -> SharedSchemas {
    let bodies = names.into_bodies();
    let resolve = |key: &Key| bodies.get(&key.name.to_string()).map(|(_, schema)| schema);
    let mut budget = InlineBudget::for_server();
    for holder in holders {
        let field = &mut tools[holder.tool][holder.field];
        if *field == holder.schema {
            continue;
        }
        let original = inlined(field, &|_| None, &mut budget);
        if original.is_some() && original == inlined(&holder.schema, &resolve, &mut budget) {
            *field = holder.schema.clone();
        }
    }
    let schemas = documents(&tools, &bodies);
    SharedSchemas { tools, schemas }
}

/// The documents of the referenced schemas.
fn documents(tools: &[Value], bodies: &BTreeMap<String, (Version, Value)>) -> Vec<Value> {
    let mut waiting: Vec<_> =
        tools.iter().flat_map(|tool| FIELDS.map(|field| &tool[field])).collect();
    let mut needed = HashSet::new();
    while let Some(schema) = waiting.pop() {
        each_object(schema, &mut |map| {
            let reference = map.get("$ref").and_then(Value::as_str).and_then(SchemaRef::parse);
            let Some(Ok(reference)) = reference else { return };
            let name = reference.key().name.to_string();
            if let Some((_, body)) = bodies.get(&name)
                && needed.insert(name)
            {
                waiting.push(body);
            }
        });
    }
    let document = |(name, (version, schema)): (&String, &(Version, Value))| json!({ "name": name, "version": version.to_string(), "schema": schema });
    bodies.iter().filter(|(name, _)| needed.contains(*name)).map(document).collect()
}

/// A reference to a registered schema.
fn reference(name: &str, version: &Version) -> Value {
    json!({ "$ref": format!("#{name}:{version}") })
}

/// Whether a reference points to a registered schema. Before this step, a document has no such
/// references.
fn is_registered(reference: &str) -> bool {
    matches!(SchemaRef::parse(reference), Some(Ok(found)) if found.key().kind == Kind::Schema)
}

#[cfg(test)]
mod tests;
