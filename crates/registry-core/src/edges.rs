//! References of an entity: the edges of the dependency graph, typed by relation.

use schema_compat::pointer::Location;
use serde_json::Value;

use crate::{
    entity::{Agent, Dependency, Entity, Server, Tool},
    kind::Kind,
    reference::{Key, each_reference},
};

/// The way one entity refers to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// A server provides a tool version.
    Provides,
    /// A tool's implementation is a tool of a server.
    Source,
    /// A composition or an agent declares a dependency on a tool or an agent.
    Depends,
    /// A JSON Schema refers to a registered schema.
    Schema,
}

impl Relation {
    /// The relation between two kinds. The kinds determine it, so the document need not be parsed.
    pub fn between(from: Kind, to: Kind) -> Self {
        match (from, to) {
            (Kind::Server, _) => Self::Provides,
            (_, Kind::Server) => Self::Source,
            (_, Kind::Schema) => Self::Schema,
            (_, Kind::Tool | Kind::Agent | Kind::Policy) => Self::Depends,
        }
    }
}

/// One edge of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The kind of reference.
    pub relation: Relation,
    /// The entity referred to.
    pub key: Key,
    /// JSON pointer of the reference in the referring document.
    pub pointer: String,
}

/// The keys of all references of the entity, in document order.
pub fn edges(entity: &Entity) -> Vec<Key> {
    let mut keys = Vec::new();
    each_edge(entity, &mut |_, key, _| keys.push(key.clone()));
    keys
}

/// All references of the entity with relation and pointer, in document order.
pub fn references(entity: &Entity) -> Vec<Reference> {
    let mut found = Vec::new();
    each_edge(entity, &mut |relation, key, at| {
        found.push(Reference { relation, key: key.clone(), pointer: at.to_string() });
    });
    found
}

type Visit<'f> = &'f mut dyn FnMut(Relation, &Key, Location<'_>);

fn each_edge(entity: &Entity, found: Visit<'_>) {
    match entity {
        Entity::Schema(schema) => {
            schema_edges(&schema.schema, Location::ROOT.member("schema"), found);
        }
        Entity::Server(server) => server_edges(server, found),
        Entity::Tool(tool) => tool_edges(tool, found),
        Entity::Agent(agent) => agent_edges(agent, found),
        // Selectors match names of any version, registered or not.
        Entity::Policy(_) => {}
    }
}

fn server_edges(server: &Server, found: Visit<'_>) {
    let list = Location::ROOT.member("provides");
    for (i, provision) in server.provides.iter().enumerate() {
        let key = Key::new(Kind::Tool, provision.tool.clone(), provision.version.clone());
        found(Relation::Provides, &key, list.index(i));
    }
}

fn tool_edges(tool: &Tool, found: Visit<'_>) {
    if let Some(source) = tool.source() {
        found(Relation::Source, &source.server_key(), Location::ROOT.member("source"));
    }
    dependency_edges(&tool.depends, Location::ROOT.member("depends"), found);
    for (name, schema) in
        [("inputSchema", &tool.input_schema), ("outputSchema", &tool.output_schema)]
    {
        if let Some(schema) = schema {
            schema_edges(schema, Location::ROOT.member(name), found);
        }
    }
}

fn agent_edges(agent: &Agent, found: Visit<'_>) {
    let skills = Location::ROOT.member("skills");
    for (i, skill) in agent.skills.iter().enumerate() {
        let at = skills.index(i);
        for (name, schema) in
            [("inputSchema", &skill.input_schema), ("outputSchema", &skill.output_schema)]
        {
            if let Some(schema) = schema {
                schema_edges(schema, at.member(name), found);
            }
        }
    }
    agent.each_dependency_list(&mut |depends, at| dependency_edges(depends, at, found));
}

fn dependency_edges(depends: &[Dependency], at: Location<'_>, found: Visit<'_>) {
    for (i, dependency) in depends.iter().enumerate() {
        found(Relation::Depends, &dependency.key(), at.index(i));
    }
}

fn schema_edges(schema: &Value, at: Location<'_>, found: Visit<'_>) {
    each_reference(schema, at, &mut |key, _, at| {
        if let Ok(key) = key {
            found(Relation::Schema, key, at);
        }
    });
}
