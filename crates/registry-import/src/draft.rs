//! Registry-v2 documents that an import has built.

use registry_core::{
    entity::{Entity, MANAGED_BY},
    kind::Kind,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Registry-v2 documents: JSON of each kind in the order of the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Draft {
    /// Reusable schemas.
    pub schemas: Vec<Value>,
    /// MCP servers.
    pub servers: Vec<Value>,
    /// Tools.
    pub tools: Vec<Value>,
    /// A2A agents.
    pub agents: Vec<Value>,
    /// Policies.
    pub policies: Vec<Value>,
}

/// A valid entity in canonical field order, or else the unchanged value.
#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Entity(Box<Entity>),
    Value(&'a Value),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    schema_version: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    schemas: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    agents: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policies: Vec<Item<'a>>,
}

impl Draft {
    /// The documents of a kind.
    pub fn documents(&self, kind: Kind) -> &[Value] {
        match kind {
            Kind::Schema => &self.schemas,
            Kind::Server => &self.servers,
            Kind::Tool => &self.tools,
            Kind::Agent => &self.agents,
            Kind::Policy => &self.policies,
        }
    }

    pub(crate) fn documents_mut(&mut self, kind: Kind) -> &mut Vec<Value> {
        match kind {
            Kind::Schema => &mut self.schemas,
            Kind::Server => &mut self.servers,
            Kind::Tool => &mut self.tools,
            Kind::Agent => &mut self.agents,
            Kind::Policy => &mut self.policies,
        }
    }

    /// The number of documents.
    pub fn len(&self) -> usize {
        Kind::ALL.into_iter().map(|kind| self.documents(kind).len()).sum()
    }

    /// Whether the draft has no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A draft with only the documents of one kind.
    pub fn only(&self, kind: Kind) -> Self {
        let mut only = Self::default();
        *only.documents_mut(kind) = self.documents(kind).to_vec();
        only
    }

    /// The registry file as a value.
    pub fn to_value(&self) -> Value {
        json!({
            "schemaVersion": "2.0", "schemas": self.schemas, "servers": self.servers,
            "tools": self.tools, "agents": self.agents, "policies": self.policies,
        })
    }

    /// The registry file as text, for people to review.
    pub fn write(&self) -> Vec<u8> {
        let of = |kind| {
            let item = |value| {
                Entity::parse(kind, value)
                    .map_or(Item::Value(value), |entity| Item::Entity(Box::new(entity)))
            };
            self.documents(kind).iter().map(item).collect()
        };
        let file = File {
            schema_version: "2.0",
            schemas: of(Kind::Schema),
            servers: of(Kind::Server),
            tools: of(Kind::Tool),
            agents: of(Kind::Agent),
            policies: of(Kind::Policy),
        };
        // Entities and values are JSON with string keys, so serializing them into memory cannot
        // fail.
        let mut bytes = serde_json::to_vec_pretty(&file).expect("a draft is always JSON");
        bytes.push(b'\n');
        bytes
    }

    /// Removes the entries of `provides` that do not match.
    pub fn provide_only(&mut self, is_kept: impl Fn(&str) -> bool) {
        let provides =
            self.servers.iter_mut().filter_map(|s| s.get_mut("provides")?.as_array_mut());
        for provides in provides {
            provides.retain(|entry| entry["tool"].as_str().is_some_and(&is_kept));
        }
    }

    /// Sets `metadata.managedBy` of every document, for `apply --prune`.
    pub fn set_manager(&mut self, source: &str) {
        for kind in Kind::ALL {
            for document in self.documents_mut(kind).iter_mut().filter_map(Value::as_object_mut) {
                let metadata = document.entry("metadata").or_insert_with(|| Map::new().into());
                if let Value::Object(metadata) = metadata {
                    metadata.insert(MANAGED_BY.to_owned(), source.into());
                }
            }
        }
    }
}
