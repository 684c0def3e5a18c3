//! Imports an A2A agent card as an agent of the registry.
//!
//! Cards of A2A 0.2 and 0.3 (`url`, `protocolVersion`) and of 1.0 (`supportedInterfaces`) are
//! supported. Members without a field in the registry, or of another type, are kept at their place
//! in `metadata.card`, including the card's own `metadata`: members directly under `metadata` have
//! a meaning in the registry, which a card must not set. Signatures are dropped, because they cover
//! other bytes; the original of a verified card is kept in `metadata.cardProvenance`.

mod capabilities;
mod endpoint;
mod origin;
mod part;
mod skill;

use std::sync::Arc;

use ::a2a::signature::is_signed;
use registry_core::{
    catalog::Catalog,
    chain::RegistryId,
    diagnostic::{Code, Diagnostic},
    document::Document,
    entity::{Entity, agent::Agent},
    kind::Kind,
    live::LiveAgent,
    name::Name,
    rules::{Proposed, plan},
    version::Version,
};
use serde_json::{Map, Value, json};

pub(super) use capabilities::listed;
pub use origin::{CardOrigin, Provenance, ReceivedCard};
use part::Part;

use super::{
    Draft, Imported, Repairs, names, origins::Origins, repair::quoted, screening::screen_members,
};

/// The version of an agent whose card has none.
const FIRST_VERSION: &str = "0.1.0";

/// Options of the import.
#[derive(Debug, Clone, Default)]
pub struct AgentImportOptions {
    /// The agent's name in the registry.
    pub name: Option<Name>,
    /// The agent's version in the registry.
    pub version: Option<Version>,
    /// The URL of the card, for a card without the URL of its agent.
    pub url: String,
    /// The origin of the card.
    pub origin: CardOrigin,
}

/// Required members with special handling of missing values, and the value that is written instead.
const NEEDED: [(&str, &str); 5] = [
    ("description", "it is empty"),
    ("defaultInputModes", "it is an empty list"),
    ("defaultOutputModes", "it is an empty list"),
    ("skills", "it is an empty list"),
    ("capabilities", "it is an empty object"),
];

/// A card during its import.
struct Card {
    /// Whether the card comes from a live agent and not from a registry file.
    is_live: bool,
    repairs: Repairs,
    /// The content of `metadata.card`.
    rest: Value,
    /// The origins of the agent's members in the card.
    origins: Origins,
}

/// Imports a live card. Without a usable name, the result is only the repair that reports it.
pub fn import_agent(card: &Value, options: &AgentImportOptions) -> Imported {
    let mut repairs = Repairs::default();
    let said = card.as_object().map(|card| screen_members(&mut repairs, card, ""));
    let origins = Origins::default();
    let mut card = Card { is_live: true, repairs, rest: json!({}), origins };
    let agents = card.live(said.unwrap_or_default(), options).into_iter().collect();
    card.repairs.into_result(Draft { agents, ..Draft::default() })
}

/// Reads a live card as an import reads it. The error is the first reason why it is no agent.
pub fn live_agent(card: &Value, options: &AgentImportOptions) -> Result<LiveAgent, String> {
    let no_card = || "it is not an object".to_owned();
    let imported = import_agent(card, options);
    let document = imported.draft.agents.first().ok_or_else(no_card)?;
    let document = Document::parse(Kind::Agent, document).map_err(|found| {
        found.into_iter().next().map_or_else(no_card, |problem| problem.message)
    })?;
    let Entity::Agent(agent) = document.entity() else { return Err(no_card()) };
    Ok(LiveAgent { agent: Agent::clone(agent), is_signed: is_signed(card) })
}

/// Imports an entry of a registry file, without its name and version. `rest` is in its
/// `metadata.card` already. The pointers of the repairs point into the entry.
pub(super) fn entry(
    said: Map<String, Value>,
    rest: Value,
) -> (Map<String, Value>, Repairs, Origins) {
    let (repairs, origins) = (Repairs::default(), Origins::default());
    let mut card = Card { is_live: false, repairs, rest, origins };
    let agent = card.agent(Part::new(said, String::new()), "");
    (agent, card.repairs, card.origins)
}

impl Card {
    fn live(&mut self, said: Map<String, Value>, options: &AgentImportOptions) -> Option<Value> {
        let name = options.name.clone().or_else(|| self.name(said.get("name")))?;
        let mut part = Part::new(said, String::new());
        let title = self.text(&mut part, "name").unwrap_or_default();
        let version = self.version(part.take("version"), options);
        let signatures = part.take("signatures");
        let mut agent = self.agent(part, &options.url);
        agent.insert("name".to_owned(), name.as_str().into());
        agent.insert("version".to_owned(), version.into());
        if !title.is_empty() && title != name.as_str() {
            let metadata = agent.entry("metadata").or_insert_with(|| json!({}));
            metadata["title"] = title.into();
        }
        options.origin.record(&mut self.repairs, signatures.as_ref(), &mut agent);
        let mut agent = Value::Object(agent);
        self.check(&mut agent);
        Some(agent)
    }

    fn agent(&mut self, mut part: Part, address: &str) -> Map<String, Value> {
        for (name, instead) in NEEDED {
            if !part.has(name) {
                self.lacks(&part, name, instead);
            }
        }
        let mut agent = Map::new();
        let mut put = |name: &str, value: Value| drop(agent.insert(name.to_owned(), value));
        put("description", self.text(&mut part, "description").unwrap_or_default().into());
        let (url, protocol) = self.endpoint(&mut part, address);
        put("url", url.into());
        put("protocolVersion", protocol.into());
        for modes in ["defaultInputModes", "defaultOutputModes"] {
            put(modes, self.texts(&mut part, modes, &format!("/{modes}")).into());
        }
        put("skills", self.skills(&mut part).into());
        put("capabilities", self.capabilities(&mut part));
        if let Some(provider) = self.provider(&mut part) {
            put("provider", provider);
        }
        let security = self.security(&mut part);
        if !security.is_empty() {
            put("security", security.into());
        }
        let schemes = self.value(&mut part, "securitySchemes", "an object", Value::is_object);
        if let Some(schemes) = schemes {
            put("securitySchemes", schemes);
        }
        self.finish(part);
        let rest = std::mem::take(&mut self.rest);
        if rest != json!({}) {
            put("metadata", json!({ "card": rest }));
        }
        agent
    }

    fn lacks(&mut self, part: &Part, name: &str, instead: &str) {
        self.repairs.made(part.at(name), format!("the agent has no `{name}`"), instead);
    }

    fn name(&mut self, said: Option<&Value>) -> Option<Name> {
        let text = said.and_then(Value::as_str).unwrap_or_default();
        let name = names::closest_name(Kind::Agent, text);
        match &name {
            Some(name) if name.as_str() == text => {}
            Some(name) => {
                let what = format!("{} is a title, not a name", quoted(text));
                let how =
                    format!("`{name}` is used, the title is kept; change the name with --name");
                self.repairs.made("/name", what, how);
            }
            None => {
                let what = names::no_name(said, "an agent's");
                self.repairs.needed("/name", what, "set one with --name");
            }
        }
        name
    }

    fn version(&mut self, said: Option<Value>, options: &AgentImportOptions) -> String {
        match (&options.version, said) {
            (Some(version), _) => version.to_string(),
            (None, Some(said)) => {
                names::exact_version(&mut self.repairs, &said, "/version", FIRST_VERSION)
            }
            (None, None) => {
                let how = format!("{FIRST_VERSION} is written; change it with --version");
                self.repairs.made("/version", "the agent has no `version`", how);
                FIRST_VERSION.to_owned()
            }
        }
    }

    fn provider(&mut self, part: &mut Part) -> Option<Value> {
        let at = part.at("provider");
        let said = part.take("provider")?;
        let mut provider = self.part(said.clone(), at.clone())?;
        if provider.peek("organization").is_none() {
            self.refuse(&at, "a provider without an organization", said);
            return None;
        }
        let mut made = json!({ "organization": self.text(&mut provider, "organization") });
        if let Some(url) = self.text(&mut provider, "url") {
            made["url"] = url.into();
        }
        self.finish(provider);
        Some(made)
    }

    /// Reports what the registry would reject. `metadata` is dropped instead.
    fn check(&mut self, agent: &mut Value) {
        let mut all = problems(agent);
        if all.is_empty() {
            return self.check_schemas(agent);
        }
        let metadata = agent.as_object_mut().and_then(|map| map.remove("metadata"));
        let left = problems(agent);
        // Depth and size are checked only if nothing else is wrong, so `metadata` is also checked
        // alone.
        all.extend(metadata.iter().flat_map(|metadata| problems(&sound(metadata))));
        all.extend(left.iter().cloned());
        let all: Vec<_> =
            all.iter().enumerate().filter(|(i, one)| !all[..*i].contains(one)).collect();
        if all.len() > left.len() {
            let what = "the registry rejects its `metadata`";
            self.repairs.needed("", what, "all of it was left out");
        } else if let Some(metadata) = metadata {
            agent["metadata"] = metadata;
        }
        for (_, found) in all {
            let how = if left.contains(found) {
                found.help.as_deref().unwrap_or_default()
            } else {
                "`metadata` was left out"
            };
            self.repairs.needed(self.origins.origin(&found.pointer), found.message.clone(), how);
        }
        self.check_schemas(agent);
    }

    /// Reports JSON Schemas that the registry would reject. Their references may be registered.
    fn check_schemas(&mut self, agent: &Value) {
        let Ok(document) = Document::parse(Kind::Agent, agent) else { return };
        let nothing = Catalog::empty(RegistryId::new("import"));
        let proposed = Proposed::Register(Arc::new(document));
        for found in plan(&nothing, &[proposed]).diagnostics {
            if found.code == Code::SchemaInvalid {
                let at = self.origins.origin(&found.pointer);
                self.repairs.needed(at, found.message, found.help.unwrap_or_default());
            }
        }
    }
}

/// The errors of the registry's rules.
fn problems(agent: &Value) -> Vec<Diagnostic> {
    Document::parse(Kind::Agent, agent).err().unwrap_or_default()
}

/// A valid agent with this `metadata`.
fn sound(metadata: &Value) -> Value {
    json!({
        "name": "a", "version": FIRST_VERSION, "description": "", "url": "https://a.example",
        "protocolVersion": "1.0", "defaultInputModes": [], "defaultOutputModes": [],
        "skills": [], "capabilities": {}, "metadata": metadata,
    })
}

#[cfg(test)]
mod tests;
