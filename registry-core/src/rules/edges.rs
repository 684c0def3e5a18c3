//! What an entity refers to: the edges of the dependency graph.
//!
//! Deliberately absent: whether the other end exists.

use serde_json::Value;

use crate::{
    entity::{Agent, Entity, Server, Tool},
    reference::{Key, Kind, SchemaRef},
};

/// Every key that the entity refers to, in the order of its document. A server refers to the
/// tools that it provides, a tool to its source, its dependencies and schemas.
pub fn edges(entity: &Entity) -> Vec<Key> {
    let mut keys = Vec::new();
    match entity {
        Entity::Schema(schema) => schema_refs(&schema.schema, &mut keys),
        Entity::Server(server) => provided(server, &mut keys),
        Entity::Tool(tool) => used_by_tool(tool, &mut keys),
        Entity::Agent(agent) => used_by_agent(agent, &mut keys),
    }
    keys
}

fn provided(server: &Server, keys: &mut Vec<Key>) {
    let tools = server.provides.iter();
    keys.extend(tools.map(|p| Key::new(Kind::Tool, p.tool.clone(), p.version.clone())));
}

fn used_by_tool(tool: &Tool, keys: &mut Vec<Key>) {
    keys.extend(tool.source().map(crate::entity::ToolSource::server_key));
    keys.extend(tool.depends.iter().map(crate::entity::Dependency::key));
    for schema in [&tool.input_schema, &tool.output_schema].into_iter().flatten() {
        schema_refs(schema, keys);
    }
}

fn used_by_agent(agent: &Agent, keys: &mut Vec<Key>) {
    keys.extend(agent.depends().0.iter().map(crate::entity::Dependency::key));
    for skill in &agent.skills {
        for schema in [&skill.input_schema, &skill.output_schema].into_iter().flatten() {
            schema_refs(schema, keys);
        }
    }
}

/// Collects the registered schemas that a JSON Schema refers to, at any depth.
pub(crate) fn schema_refs(schema: &Value, keys: &mut Vec<Key>) {
    match schema {
        Value::Object(map) => {
            for (name, value) in map {
                match value {
                    Value::String(text) if name == "$ref" => {
                        if let Some(Ok(reference)) = SchemaRef::parse(text) {
                            keys.push(reference.key().clone());
                        }
                    }
                    _ => schema_refs(value, keys),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| schema_refs(item, keys)),
        _ => {}
    }
}
