//! JSON Schemas (draft 2020-12) of the files that people write, for editors and other programs.
//!
//! The schemas are files in the repository. Tests compare them with the parsers.

use std::borrow::Cow;

use crate::kind::Kind;

/// The media type of a JSON Schema.
pub const MEDIA_TYPE: &str = "application/schema+json";

/// The end of the names of their files.
pub const FILE_SUFFIX: &str = ".schema.json";

const REGISTRY: &str = include_str!("../schemas/registry.schema.json");
/// The registry serves the schema, and the command line prints it, without the gateway.
const GATEWAY_CONFIG: &str =
    include_str!("../../../gateway-agent/schemas/gateway-config.schema.json");

/// A published schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishedSchema {
    /// The registry file, version 2.
    Registry,
    /// One entity of a registry file.
    Entity(Kind),
    /// The configuration file of a gateway.
    GatewayConfig,
}

impl PublishedSchema {
    /// All schemas.
    pub const ALL: [Self; 7] = [
        Self::Registry,
        Self::Entity(Kind::Schema),
        Self::Entity(Kind::Server),
        Self::Entity(Kind::Tool),
        Self::Entity(Kind::Agent),
        Self::Entity(Kind::Policy),
        Self::GatewayConfig,
    ];

    /// The name: `registry`, a kind, or `gateway-config`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Registry => "registry",
            Self::Entity(kind) => kind.as_str(),
            Self::GatewayConfig => "gateway-config",
        }
    }

    /// The schema with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|schema| schema.name() == name)
    }

    /// The name of its file: `tool.schema.json`.
    pub fn file_name(self) -> String {
        format!("{}{FILE_SUFFIX}", self.name())
    }

    /// The schema as JSON text.
    pub fn text(self) -> Cow<'static, str> {
        match self {
            Self::Registry => REGISTRY.into(),
            Self::Entity(kind) => entity_schema(kind).into(),
            Self::GatewayConfig => GATEWAY_CONFIG.into(),
        }
    }
}

/// The start of the definitions, the last member of the schema of registry files.
const DEFINITIONS: &str = "  \"$defs\": {\n";

/// The definitions of the registry file with another root. The text is cut instead of parsed,
/// because a parsed object does not keep the order of its members.
fn entity_schema(kind: Kind) -> String {
    let definition = match kind {
        Kind::Schema => "Schema",
        Kind::Server => "Server",
        Kind::Tool => "Tool",
        Kind::Agent => "Agent",
        Kind::Policy => "Policy",
    };
    // The text is a constant, and a test parses the result.
    let start = REGISTRY.find(DEFINITIONS).expect("the schema has definitions");
    format!(
        "{{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n  \
         \"$ref\": \"#/$defs/{definition}\",\n{}",
        &REGISTRY[start..]
    )
}
