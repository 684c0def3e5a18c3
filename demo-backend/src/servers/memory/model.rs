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

/// Something that is known of.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entity {
    /// Its name, which is its identity.
    #[schemars(length(min = 1))]
    pub name: String,
    /// What kind of thing it is.
    pub entity_type: String,
    /// What is known of it.
    #[serde(default)]
    pub observations: Vec<String>,
}

/// How one entity relates to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Relation {
    /// Name of the entity that relates.
    pub from: String,
    /// Name of the entity it relates to.
    pub to: String,
    /// How, in active voice, such as `follows`.
    pub relation_type: String,
}

/// Entities to create, or those that were.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Entities {
    /// The entities.
    pub entities: Vec<Entity>,
}

/// Relations to create, or those that were.
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
