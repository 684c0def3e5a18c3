//! `memory-server`: a knowledge graph that only grows.

pub mod model;

use std::sync::Mutex;

use rmcp::handler::server::tool::ToolRouter;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};

use self::model::{Entities, Entity, Graph, Relation, Relations};
use crate::hosted_server::Domain;
use crate::records::lock;
use crate::tool_error::ToolError;

/// The memory server.
#[derive(Debug)]
pub struct Memory {
    graph: Mutex<Graph>,
}

impl Memory {
    /// A server with two entities and one relation.
    pub fn new() -> Self {
        let entity = |name: &str, observation: &str| Entity {
            name: name.to_owned(),
            entity_type: "system".to_owned(),
            observations: vec![observation.to_owned()],
        };
        let graph = Graph {
            entities: vec![
                entity("registry", "keeps an append-only log of validated commits"),
                entity("gateway", "enforces at run time what was registered"),
            ],
            relations: vec![Relation {
                from: "gateway".to_owned(),
                to: "registry".to_owned(),
                relation_type: "follows".to_owned(),
            }],
        };
        Self { graph: Mutex::new(graph) }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Domain for Memory {
    const NAME: &'static str = "memory-server";
    const VERSION: &'static str = "1.0.0";
    const PATH: &'static str = "/memory/mcp";
    const INSTRUCTIONS: &'static str = "Remember entities and how they relate.";

    fn tools() -> ToolRouter<Self> {
        Self::tool_router()
    }
}

#[tool_router]
impl Memory {
    /// Read the whole knowledge graph.
    #[tool(annotations(
        title = "Read graph",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn read_graph(&self) -> Json<Graph> {
        Json(lock(&self.graph).clone())
    }

    /// Add entities. Existing names stay unchanged and are not returned.
    #[tool(annotations(
        title = "Create entities",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn create_entities(
        &self,
        Parameters(new): Parameters<Entities>,
    ) -> Result<Json<Entities>, ToolError> {
        if new.entities.iter().any(|entity| entity.name.is_empty()) {
            return Err(ToolError::invalid("an entity has an empty name"));
        }
        let mut graph = lock(&self.graph);
        let mut created = Vec::new();
        for entity in new.entities {
            if !graph.knows(&entity.name) {
                graph.entities.push(entity.clone());
                created.push(entity);
            }
        }
        Ok(Json(Entities { entities: created }))
    }

    /// Connect existing entities, all or none. Existing relations are not returned.
    #[tool(annotations(
        title = "Create relations",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn create_relations(
        &self,
        Parameters(new): Parameters<Relations>,
    ) -> Result<Json<Relations>, ToolError> {
        let mut graph = lock(&self.graph);
        for end in new.relations.iter().flat_map(|relation| [&relation.from, &relation.to]) {
            if !graph.knows(end) {
                return Err(ToolError::not_found("entity", end));
            }
        }
        let mut created = Vec::new();
        for relation in new.relations {
            if !graph.relations.contains(&relation) {
                graph.relations.push(relation.clone());
                created.push(relation);
            }
        }
        Ok(Json(Relations { relations: created }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entities(server: &Memory, names: &[&str]) -> usize {
        let entity = |name: &&str| Entity {
            name: (*name).to_owned(),
            entity_type: "test".to_owned(),
            observations: Vec::new(),
        };
        let new = Entities { entities: names.iter().map(entity).collect() };
        server.create_entities(Parameters(new)).map(|made| made.0.entities.len()).unwrap()
    }

    fn relate(server: &Memory, from: &str, to: &str) -> Result<usize, ToolError> {
        let relation = Relation { from: from.into(), to: to.into(), relation_type: "knows".into() };
        let new = Relations { relations: vec![relation] };
        server.create_relations(Parameters(new)).map(|made| made.0.relations.len())
    }

    #[test]
    fn entity_is_created_once() {
        let server = Memory::new();
        assert_eq!(entities(&server, &["a", "b", "a", "registry"]), 2);
        assert_eq!(entities(&server, &["a"]), 0);
        let graph = server.read_graph().0;
        assert_eq!(graph.entities.len(), 4);
    }

    #[test]
    fn relation_needs_both_ends_and_is_created_once() {
        let server = Memory::new();
        assert_eq!(relate(&server, "registry", "ghost").unwrap_err().code, "not_found");
        assert_eq!(relate(&server, "registry", "gateway"), Ok(1));
        assert_eq!(relate(&server, "registry", "gateway"), Ok(0));
        let graph = server.read_graph().0;
        assert_eq!(graph.relations.len(), 2);
    }
}
