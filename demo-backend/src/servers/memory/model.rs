//! Entities, relations and observations of the knowledge graph.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entities and what connects them.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Graph {
    /// The entities, oldest first.
    pub entities: Vec<Entity>,
    /// The relations, oldest first.
    pub relations: Vec<Relation>,
}

/// An entity.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entity {
    /// Its name, which is its identity.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The type of the entity.
    pub entity_type: String,
    /// Observations about the entity.
    #[serde(default)]
    pub observations: Vec<String>,
}

/// A relation between two entities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Relation {
    /// Name of the source entity.
    pub from: String,
    /// Name of the target entity.
    pub to: String,
    /// The type in active voice, such as `follows`.
    pub relation_type: String,
}

/// Entities to create, or created ones.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Entities {
    /// The entities.
    pub entities: Vec<Entity>,
}

/// Relations to create, or created ones.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Relations {
    /// The relations.
    pub relations: Vec<Relation>,
}

impl Graph {
    /// Whether there is an entity of this name.
    pub fn knows(&self, name: &str) -> bool {
        self.entities.iter().any(|entity| entity.name == name)
    }
}
