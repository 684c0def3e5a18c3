//! The capabilities of an agent and its protocol extensions, including the one that declares
//! dependencies.

use schema_compat::pointer::Location;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};

use crate::{decode::Problems, entity::tool::Dependency, open_json};

/// The extension that declares an agent's dependencies.
pub const SBOM_EXTENSION: &str = "urn:agentgateway:sbom";

/// Optional protocol features of an agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Whether it streams responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
    /// Whether it pushes task updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push_notifications: Option<bool>,
    /// Whether it keeps the history of task states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_transition_history: Option<bool>,
    /// Protocol extensions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<Extension>,
}

/// A protocol extension of an agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Extension {
    /// The identifier of the extension.
    pub uri: String,
    /// The purpose of the extension for this agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether clients must support it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// The parameters.
    #[serde(skip_serializing_if = "ExtensionParams::is_empty")]
    pub params: ExtensionParams,
}

/// The parameters of an extension.
#[derive(Debug, Clone, PartialEq)]
pub enum ExtensionParams {
    /// For `urn:agentgateway:sbom`: the agent's dependencies.
    Sbom(Vec<Dependency>),
    /// For any other extension: open JSON, preserved unchanged.
    Open(Map<String, Value>),
}

impl ExtensionParams {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Open(map) if map.is_empty())
    }
}

impl Serialize for ExtensionParams {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Open(map) => open_json::serialize(map, serializer),
            Self::Sbom(depends) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("depends", depends)?;
                map.end()
            }
        }
    }
}

impl Capabilities {
    /// Calls `found` with each list of dependencies and its location.
    pub(super) fn each_dependency_list(
        &self,
        at: Location<'_>,
        found: &mut dyn FnMut(&[Dependency], Location<'_>),
    ) {
        let list = at.member("extensions");
        for (i, extension) in self.extensions.iter().enumerate() {
            if let ExtensionParams::Sbom(depends) = &extension.params {
                let extension = list.index(i);
                found(depends, extension.member("params").member("depends"));
            }
        }
    }

    pub(super) fn read(problems: &Problems, value: Value, at: Location<'_>) -> Option<Self> {
        let mut fields = problems.owned_object(value, at)?;
        let capabilities = Self {
            streaming: fields.optional_bool("streaming"),
            push_notifications: fields.optional_bool("pushNotifications"),
            state_transition_history: fields.optional_bool("stateTransitionHistory"),
            extensions: fields
                .take_list("extensions", |value, at| Extension::read(problems, value, at)),
        };
        let is_sbom = |extension: &&Extension| extension.uri == SBOM_EXTENSION;
        if capabilities.extensions.iter().filter(is_sbom).count() > 1 {
            let message = format!("the extension {SBOM_EXTENSION} is declared more than once");
            problems.invalid(fields.at("extensions"), message, "put all `depends` into one");
        }
        fields.finish();
        Some(capabilities)
    }
}

impl Extension {
    fn read(problems: &Problems, value: Value, at: Location<'_>) -> Option<Self> {
        let mut fields = problems.owned_object(value, at)?;
        let uri = fields.required_string("uri");
        let description = fields.optional_string("description");
        let required = fields.optional_bool("required");
        let params = match (fields.get("params"), uri.as_deref()) {
            (Some(params), Some(SBOM_EXTENSION)) => {
                ExtensionParams::read_sbom(problems, params, fields.at("params"))
            }
            (None, Some(SBOM_EXTENSION)) => ExtensionParams::Sbom(Vec::new()),
            _ => ExtensionParams::Open(fields.open_object("params").unwrap_or_default()),
        };
        fields.finish();
        Some(Self { uri: uri?, description, required, params })
    }
}

impl ExtensionParams {
    fn read_sbom(problems: &Problems, value: &Value, at: Location<'_>) -> Self {
        let depends = problems.object(value, at).map(|fields| {
            let depends = fields.list("depends", |v, at| Dependency::read(problems, v, at));
            fields.finish();
            depends
        });
        Self::Sbom(depends.unwrap_or_default())
    }
}
