//! Agent cards of A2A 0.3 and 1.0, and cards with the members of both.

mod publish;
#[cfg(test)]
mod tests;

use gateway_protocol::jsonrpc::nests_within;
use registry_core::{
    document::{Digest, canonical_bytes, parse_json},
    entity::agent::Agent,
};
use serde::Serialize;
use serde_json::{Value, json};

pub use self::publish::{Facade, Shape};
pub use crate::legacy::security::requirement_to_v03;
use crate::{
    json::{Object, filled, items},
    legacy,
    untranslatable::Untranslatable,
    version::{Binding, Version},
};

/// The path of a card below the URL of its agent.
pub const WELL_KNOWN_PATH: &str = "/.well-known/agent-card.json";
/// The path of a card before 0.3.
pub const LEGACY_WELL_KNOWN_PATH: &str = "/.well-known/agent.json";

/// The limits of a card.
#[derive(Debug, Clone, Copy)]
pub struct CardLimits {
    /// Maximum size in bytes.
    pub bytes: usize,
    /// Maximum nesting.
    pub depth: usize,
    /// Maximum skills.
    pub skills: usize,
    /// Maximum interfaces, extensions, security schemes and signatures, each.
    pub items: usize,
}

impl Default for CardLimits {
    fn default() -> Self {
        Self { bytes: 1 << 20, depth: 32, skills: 500, items: 64 }
    }
}

/// A document that is not a usable card.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCard {
    /// The document exceeds the size limit.
    #[error("the agent card is longer than {0} bytes")]
    TooLarge(usize),
    /// The document is nested too deeply.
    #[error("the agent card is nested deeper than {0} levels")]
    TooDeep(usize),
    /// The document is not JSON, or repeats a member.
    #[error("the agent card is not valid JSON: {0}")]
    Json(String),
    /// The document is not an object.
    #[error("the agent card is not a JSON object")]
    NotAnObject,
    /// A list is too long.
    #[error("`{name}` of the agent card has more than {limit} items")]
    TooMany {
        /// The member.
        name: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A required member is missing or empty. A card `{}` is an error page with status 200.
    #[error("the agent card has no `{0}`")]
    Missing(&'static str),
    /// No interface has a known version and binding.
    #[error("the agent card has no interface with a known version and binding")]
    NoInterface,
    /// A member has no translation.
    #[error("the agent card cannot be translated: {0}")]
    Untranslatable(#[from] Untranslatable),
}

/// An interface of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// The URL.
    pub url: String,
    /// The binding.
    #[serde(rename = "protocolBinding")]
    pub binding: Binding,
    /// The version.
    #[serde(rename = "protocolVersion")]
    pub version: Version,
    /// The tenant that requests must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// The optional features of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Whether the agent streams events.
    pub streaming: bool,
    /// Whether the agent sends push notifications.
    pub push_notifications: bool,
    /// Whether the agent has an extended card.
    pub extended_card: bool,
}

/// An agent card as received.
#[derive(Debug, Clone, PartialEq)]
pub struct Card(Object);

impl Card {
    /// Parses a card that an agent served.
    pub fn parse(bytes: &[u8], limits: &CardLimits) -> Result<Self, InvalidCard> {
        if bytes.len() > limits.bytes {
            return Err(InvalidCard::TooLarge(limits.bytes));
        }
        if !nests_within(bytes, limits.depth) {
            return Err(InvalidCard::TooDeep(limits.depth));
        }
        let value = parse_json(bytes).map_err(|error| InvalidCard::Json(error.to_string()))?;
        let Value::Object(card) = value else { return Err(InvalidCard::NotAnObject) };
        let card = Self(card);
        card.check(limits)?;
        Ok(card)
    }

    /// The card of a registered agent. Members of its original card that the registry has no field
    /// for are in `metadata.card`.
    pub fn of_agent(agent: &Agent) -> Self {
        // The entity serializes to the object of its document.
        let card = serde_json::to_value(agent).unwrap_or_default();
        let Value::Object(mut card) = card else { return Self(Object::new()) };
        let Some(Value::Object(mut metadata)) = card.remove("metadata") else { return Self(card) };
        if let Some(title @ Value::String(_)) = metadata.remove("title") {
            card.insert("name".to_owned(), title);
        }
        if let Some(Value::Object(rest)) = metadata.remove("card") {
            for (name, value) in rest {
                match (card.get_mut(&name), value) {
                    (None, value) => drop(card.insert(name, value)),
                    (Some(Value::Object(known)), Value::Object(rest)) => {
                        rest.into_iter().for_each(|(name, value)| {
                            known.entry(name).or_insert(value);
                        });
                    }
                    // The registry's own field is valid.
                    (Some(_), _) => {}
                }
            }
        }
        Self(card)
    }

    fn check(&self, limits: &CardLimits) -> Result<(), InvalidCard> {
        if filled(&self.0, "name").is_none() {
            return Err(InvalidCard::Missing("name"));
        }
        let extensions = self.0.get("capabilities").and_then(|c| c.get("extensions"));
        let schemes = self.0.get("securitySchemes").and_then(Value::as_object);
        let count = |name| items(&self.0, name).len();
        let counts = [
            ("skills", count("skills"), limits.skills),
            ("supportedInterfaces", count("supportedInterfaces"), limits.items),
            ("additionalInterfaces", count("additionalInterfaces"), limits.items),
            ("signatures", count("signatures"), limits.items),
            ("extensions", extensions.and_then(Value::as_array).map_or(0, Vec::len), limits.items),
            ("securitySchemes", schemes.map_or(0, serde_json::Map::len), limits.items),
        ];
        if let Some((name, _, limit)) = counts.into_iter().find(|(_, count, limit)| count > limit) {
            return Err(InvalidCard::TooMany { name, limit });
        }
        if self.interfaces().is_empty() {
            return Err(InvalidCard::NoInterface);
        }
        Ok(())
    }

    /// The members as received.
    pub fn members(&self) -> &Object {
        &self.0
    }

    /// The card as a JSON value.
    pub fn to_value(&self) -> Value {
        self.0.clone().into()
    }

    /// The interfaces with a known version and binding, preferred ones first.
    pub fn interfaces(&self) -> Vec<Interface> {
        let mut interfaces: Vec<Interface> = Vec::new();
        for found in legacy::card::interfaces(&self.0).iter().filter_map(Value::as_object) {
            let version = Version::of_interface(filled(found, "protocolVersion"));
            let binding = Binding::parse(filled(found, "protocolBinding").unwrap_or("JSONRPC"));
            let (Some(url), Some(version), Some(binding)) =
                (filled(found, "url"), version, binding)
            else {
                continue;
            };
            let tenant = filled(found, "tenant").map(str::to_owned);
            let interface = Interface { url: url.to_owned(), binding, version, tenant };
            if !interfaces.contains(&interface) {
                interfaces.push(interface);
            }
        }
        interfaces
    }

    /// The interface for a binding and a version.
    pub fn interface(&self, binding: Binding, version: Version) -> Option<Interface> {
        let mut all = self.interfaces().into_iter();
        all.find(|interface| interface.binding == binding && interface.version == version)
    }

    /// The optional features.
    pub fn capabilities(&self) -> Capabilities {
        let flag =
            |name| self.0.get("capabilities").and_then(|c| c.get(name)) == Some(&true.into());
        let legacy = self.0.get("supportsAuthenticatedExtendedCard") == Some(&true.into());
        Capabilities {
            streaming: flag("streaming"),
            push_notifications: flag("pushNotifications"),
            extended_card: flag("extendedAgentCard") || legacy,
        }
    }

    /// The card in the shape of 1.0, with the agent's own interfaces and without signatures, which
    /// cover other bytes.
    pub fn to_v1(&self) -> Result<Value, Untranslatable> {
        let mut card = self.0.clone();
        card.remove("signatures");
        legacy::card::to_v1(card.into())
    }
}

/// Whether one of a card's addresses has this path. The card at the root of a host can belong to another agent of the
/// host. Hosts are not compared, because proxies change them.
pub fn has_address_at(card: &Value, path: &str) -> bool {
    let interfaces = card.as_object().map(legacy::card::interfaces).unwrap_or_default();
    let urls = interfaces.iter().filter_map(|interface| interface["url"].as_str());
    let mut urls = urls.filter_map(|url| url.parse::<http::Uri>().ok());
    urls.any(|url| url.path().trim_end_matches('/') == path.trim_end_matches('/'))
}

/// The strong entity tag of a served card.
pub fn entity_tag(card: &Value) -> String {
    let digest = Digest::compute(&canonical_bytes(card)).to_string();
    format!("\"{}\"", digest.trim_start_matches("sha256:"))
}

/// Whether `If-None-Match` contains the tag. The comparison is weak (RFC 9110, section 13.1.2).
pub fn matches_entity_tag(if_none_match: &str, tag: &str) -> bool {
    let mut tags = if_none_match.split(',').map(str::trim);
    tags.any(|one| one == "*" || one.trim_start_matches("W/") == tag)
}

/// An interface as a member of `supportedInterfaces`.
impl From<&Interface> for Value {
    fn from(interface: &Interface) -> Self {
        let mut value = json!({
            "url": interface.url, "protocolBinding": interface.binding.as_str(),
            "protocolVersion": interface.version.as_str(),
        });
        if let Some(tenant) = &interface.tenant {
            value["tenant"] = tenant.as_str().into();
        }
        value
    }
}
