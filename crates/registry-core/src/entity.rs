//! The documents of the five kinds: fields, parsing and serialization.
//!
//! Normal form: `$comment` members of the documents' own objects and empty optional fields are
//! omitted, so that an entity has one form regardless of its source syntax. Open JSON (schemas,
//! `metadata`, `spec`, `defaults` …) is preserved unchanged, and serialized with sorted members.
//!
//! Servers and gateways parse stored documents with the same code, and do not start if it fails. A
//! restriction of new documents is therefore a rule of [`crate::rules`].

pub mod agent;
pub mod policy;
pub mod schema;
pub mod server;
pub mod tool;

use schema_compat::pointer::Location;
use serde::Serialize;
use serde_json::Value;

pub use agent::{Agent, Capabilities, Extension, ExtensionParams, Provider, Skill};
pub use policy::Policy;
pub use schema::Schema;
pub use server::{Exposure, Provision, Server};
pub use tool::{
    Dependency, DependencyTarget, Hints, Implementation, TaskSupport, Tool, ToolEffect, ToolSource,
};

use crate::{
    decode::Problems, diagnostic::Diagnostic, kind::Kind, name::Name, reference::Key,
    version::Version,
};

/// The member of `metadata` that names the source that manages a document.
pub const MANAGED_BY: &str = "managedBy";
/// The member of an agent's `metadata` with the origin of its card, if the signature was verified.
pub const CARD_PROVENANCE: &str = "cardProvenance";

/// An entity of any kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Entity {
    /// A reusable JSON Schema.
    Schema(Schema),
    /// An MCP server.
    Server(Server),
    /// A tool.
    Tool(Box<Tool>),
    /// An A2A agent.
    Agent(Box<Agent>),
    /// A policy.
    Policy(Box<Policy>),
}

impl Entity {
    /// Parses an entity strictly and reports every problem at its pointer.
    pub fn parse(kind: Kind, value: &Value) -> Result<Self, Vec<Diagnostic>> {
        Self::from_value(kind, value.clone())
    }

    /// The same for an owned value. Its open JSON is moved into the entity, except that of policies.
    pub fn from_value(kind: Kind, value: Value) -> Result<Self, Vec<Diagnostic>> {
        let problems = Problems::default();
        let read = match kind {
            Kind::Schema => Schema::read(&problems, value, Location::ROOT).map(Self::Schema),
            Kind::Server => Server::read(&problems, value, Location::ROOT).map(Self::Server),
            Kind::Tool => {
                Tool::read(&problems, value, Location::ROOT).map(|t| Self::Tool(Box::new(t)))
            }
            Kind::Agent => {
                Agent::read(&problems, value, Location::ROOT).map(|a| Self::Agent(Box::new(a)))
            }
            Kind::Policy => {
                Policy::read(&problems, &value, Location::ROOT).map(|p| Self::Policy(Box::new(p)))
            }
        };
        match read {
            Some(entity) if problems.is_empty() => Ok(entity),
            _ => Err(problems.into_vec()),
        }
    }

    /// The kind of the entity.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Schema(_) => Kind::Schema,
            Self::Server(_) => Kind::Server,
            Self::Tool(_) => Kind::Tool,
            Self::Agent(_) => Kind::Agent,
            Self::Policy(_) => Kind::Policy,
        }
    }

    /// The tool, if the entity is one.
    pub fn as_tool(&self) -> Option<&Tool> {
        match self {
            Self::Tool(tool) => Some(tool),
            Self::Schema(_) | Self::Server(_) | Self::Agent(_) | Self::Policy(_) => None,
        }
    }

    /// The JSON Schema, if the entity is one.
    pub fn as_schema(&self) -> Option<&Value> {
        match self {
            Self::Schema(schema) => Some(&schema.schema),
            Self::Server(_) | Self::Tool(_) | Self::Agent(_) | Self::Policy(_) => None,
        }
    }

    /// The name of the entity.
    pub fn name(&self) -> &Name {
        match self {
            Self::Schema(schema) => &schema.name,
            Self::Server(server) => &server.name,
            Self::Tool(tool) => &tool.name,
            Self::Agent(agent) => &agent.name,
            Self::Policy(policy) => &policy.name,
        }
    }

    /// The exact version of the entity.
    pub fn version(&self) -> &Version {
        match self {
            Self::Schema(schema) => &schema.version,
            Self::Server(server) => &server.version,
            Self::Tool(tool) => &tool.version,
            Self::Agent(agent) => &agent.version,
            Self::Policy(policy) => &policy.version,
        }
    }

    /// The description, if there is one.
    pub fn description(&self) -> Option<&str> {
        match self {
            Self::Schema(schema) => schema.description.as_deref(),
            Self::Server(server) => server.description.as_deref(),
            Self::Tool(tool) => tool.description.as_deref(),
            Self::Agent(agent) => Some(&agent.description),
            Self::Policy(policy) => policy.description.as_deref(),
        }
    }

    /// The open metadata, if there is any.
    pub fn metadata(&self) -> Option<&serde_json::Map<String, Value>> {
        match self {
            Self::Schema(schema) => schema.metadata.as_ref(),
            Self::Server(server) => server.metadata.as_ref(),
            Self::Tool(tool) => tool.metadata.as_ref(),
            Self::Agent(agent) => agent.metadata.as_ref(),
            Self::Policy(policy) => policy.metadata.as_ref(),
        }
    }

    /// The kind, name and version.
    pub fn key(&self) -> Key {
        Key::new(self.kind(), self.name().clone(), self.version().clone())
    }

    /// The JSON in normal form.
    pub fn to_value(&self) -> Value {
        // Entities consist only of serializable strings, JSON values and lists.
        serde_json::to_value(self).expect("an entity is always JSON")
    }
}
