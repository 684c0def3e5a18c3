//! An A2A agent's card as an agent of the registry.
//!
//! Cards of A2A 0.2 and 0.3 (`url`, `protocolVersion`) and of 1.0 (`supportedInterfaces`) are read.
//! What has no field of its own is kept in `metadata.card`, the card's own `metadata` too: beside
//! it stands what means something to the registry, which no card may say. Signatures are dropped,
//! because they are over other bytes. Deliberately absent: extended cards, and checking signatures.

mod capabilities;
mod skill;

use serde_json::{Map, Value, json};

use super::{
    Draft, Imported, Repairs, names,
    repair::quoted,
    wording::{screened_members, worded},
};
use crate::{document::Document, name::Name, reference::Kind, version::Version};

/// The version of an agent that does not say its own.
const FIRST_VERSION: &str = "0.1.0";
/// The protocol version of a card that does not say it (A2A 1.0 section 3.6).
const OLDEST_PROTOCOL: &str = "0.3";

/// What the user wants otherwise.
#[derive(Debug, Clone, Default)]
pub struct CardWishes {
    /// The agent's name in the registry.
    pub name: Option<Name>,
    /// Its version.
    pub version: Option<Version>,
    /// Where the card was found, for a card that does not say where its agent is.
    pub url: String,
}

/// The members of a card that are read here; the rest is kept as it is.
const READ: [&str; 15] = [
    "name",
    "version",
    "description",
    "url",
    "protocolVersion",
    "supportedInterfaces",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
    "capabilities",
    "provider",
    "security",
    "securityRequirements",
    "securitySchemes",
    "signatures",
];

/// A card on its way.
struct Card<'a> {
    said: &'a Map<String, Value>,
    repairs: Repairs,
    /// What is kept in `metadata.card`.
    rest: Map<String, Value>,
}

/// Makes an agent of a card. Without a name that can be used, there is only the repair that says so.
pub fn agent(card: &Value, wishes: &CardWishes) -> Imported {
    let mut repairs = Repairs::default();
    let said = card.as_object().map(|card| screened_members(&mut repairs, card, "", &["skills"]));
    let said = said.unwrap_or_default();
    let mut card = Card { said: &said, repairs, rest: Map::new() };
    let agents = card.agent(wishes).into_iter().collect();
    Imported { draft: Draft { agents, ..Draft::default() }, repairs: card.repairs.into_vec() }
}

impl Card<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.said.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    fn agent(&mut self, wishes: &CardWishes) -> Option<Value> {
        let name = self.name(wishes)?;
        let version = self.version(wishes);
        let (url, protocol) = self.endpoint(wishes);
        let description = self.text("description").unwrap_or_default().to_owned();
        let description = worded(&mut self.repairs, &description, "/description", []);
        let mut agent = json!({
            "name": name.as_str(), "version": version.to_string(), "description": description,
            "url": url, "protocolVersion": protocol,
            "defaultInputModes": self.modes("defaultInputModes"),
            "defaultOutputModes": self.modes("defaultOutputModes"),
            "skills": self.skills(),
            "capabilities": self.capabilities(),
        });
        if let Some(provider) = self.provider() {
            agent["provider"] = provider;
        }
        let security = self.security();
        if !security.is_empty() {
            agent["security"] = security.into();
        }
        if let Some(Value::Object(schemes)) = self.said.get("securitySchemes") {
            agent["securitySchemes"] = schemes.clone().into();
        }
        self.keep_the_rest();
        let mut metadata = Map::new();
        if self.text("name") != Some(name.as_str()) {
            metadata.extend(self.text("name").map(|title| ("title".to_owned(), title.into())));
        }
        if !self.rest.is_empty() {
            metadata.insert("card".to_owned(), self.rest.clone().into());
        }
        if !metadata.is_empty() {
            agent["metadata"] = metadata.into();
        }
        self.check(&mut agent);
        Some(agent)
    }

    fn name(&mut self, wishes: &CardWishes) -> Option<Name> {
        if let Some(name) = &wishes.name {
            return Some(name.clone());
        }
        let said = self.text("name").unwrap_or_default().to_owned();
        let name = names::name_of(Kind::Agent, &said);
        match &name {
            Some(name) if name.as_str() == said => {}
            Some(name) => {
                let what = format!("{} is a title, not a name", quoted(&said));
                let how = format!("`{name}` is used, the title is kept; --name says another");
                self.repairs.made("/name", what, how);
            }
            None => {
                let what = format!("{} cannot be made an agent's name", quoted(&said));
                self.repairs.needed("/name", what, "say one with --name");
            }
        }
        name
    }

    fn version(&mut self, wishes: &CardWishes) -> Version {
        if let Some(version) = &wishes.version {
            return version.clone();
        }
        let said = self.text("version").unwrap_or_default().to_owned();
        let version = names::version_of(&said);
        let text = version.as_ref().map_or(FIRST_VERSION.to_owned(), ToString::to_string);
        if text != said {
            let what = format!("{} is not an exact version", quoted(&said));
            let how = format!("{text} is used; --version says another");
            self.repairs.made("/version", what, how);
        }
        version.unwrap_or_else(|| {
            names::version_of(FIRST_VERSION).expect("a constant that is a version")
        })
    }

    /// Where the agent answers, and by which protocol version: by JSON-RPC if it does that.
    fn endpoint(&mut self, wishes: &CardWishes) -> (String, String) {
        let interfaces = self.said.get("supportedInterfaces").and_then(Value::as_array);
        if let Some(interfaces) = interfaces {
            let is_rpc = |i: &&Value| i["protocolBinding"] == "JSONRPC" && i["url"].is_string();
            let chosen = interfaces.iter().find(is_rpc).or(interfaces.first());
            if interfaces.len() > 1 || chosen.is_some_and(|chosen| chosen.get("tenant").is_some()) {
                let what = format!("{} interfaces", interfaces.len());
                let how = "the first for JSON-RPC is the agent's `url`; all are in `metadata.card`";
                self.repairs.made("/supportedInterfaces", what, how);
                self.rest.insert("supportedInterfaces".to_owned(), interfaces.clone().into());
            }
            if let Some(url) = chosen.and_then(|chosen| chosen["url"].as_str()) {
                let protocol = chosen.and_then(|chosen| chosen["protocolVersion"].as_str());
                return (url.to_owned(), protocol.unwrap_or("1.0").to_owned());
            }
        }
        let protocol = self.text("protocolVersion").unwrap_or(OLDEST_PROTOCOL).to_owned();
        if let Some(url) = self.text("url") {
            return (url.to_owned(), protocol);
        }
        let what = "the card does not say where its agent is";
        self.repairs.needed("/url", what, "the address of the card was used; put in the agent's");
        (wishes.url.clone(), protocol)
    }

    fn modes(&mut self, name: &str) -> Vec<Value> {
        strings(self.said.get(name))
    }

    fn provider(&mut self) -> Option<Value> {
        let said = self.said.get("provider")?;
        let Some(organization) = said["organization"].as_str() else {
            let what = "a provider without an organization";
            self.repairs.needed("/provider", what, "it was left out");
            return None;
        };
        let organization = worded(&mut self.repairs, organization, "/provider/organization", []);
        let mut provider = json!({ "organization": organization });
        if let Some(url) = said["url"].as_str() {
            provider["url"] = url.into();
        }
        Some(provider)
    }

    /// The security requirements in the form of A2A 0.3: `{ scheme: [scopes] }`.
    fn security(&mut self) -> Vec<Value> {
        if let Some(Value::Array(security)) = self.said.get("security") {
            return security.clone();
        }
        let requirements = self.said.get("securityRequirements").and_then(Value::as_array);
        let Some(requirements) = requirements else { return Vec::new() };
        let what = "security requirements as A2A 1.0 writes them";
        let how = "they are `security`, each scheme with its list of scopes";
        self.repairs.made("/securityRequirements", what, how);
        let scopes = |(name, scopes): (&String, &Value)| {
            let list = scopes.get("list").unwrap_or(scopes);
            (name.clone(), if list.is_array() { list.clone() } else { json!([]) })
        };
        let requirement = |requirement: &Value| {
            let schemes = requirement.get("schemes").unwrap_or(requirement).as_object()?;
            Some(Value::Object(schemes.iter().map(scopes).collect()))
        };
        requirements.iter().filter_map(requirement).collect()
    }

    fn keep_the_rest(&mut self) {
        if self.said.contains_key("signatures") {
            let what = "signatures, which are over the card as it was";
            self.repairs.made("/signatures", what, "they were left out");
        }
        for (name, value) in self.said {
            if READ.contains(&name.as_str()) || value.is_null() {
                continue;
            }
            let pointer = crate::document::pointer_join("", name);
            self.repairs.made(
                pointer,
                "the registry has no field for it",
                "it is in `metadata.card`",
            );
            self.rest.insert(name.clone(), value.clone());
        }
    }

    /// Says what the registry would refuse; `metadata` is not worth a refusal.
    fn check(&mut self, agent: &mut Value) {
        let problems =
            |agent: &Value| Document::parse(Kind::Agent, agent).err().unwrap_or_default();
        let all = problems(agent);
        if all.is_empty() {
            return;
        }
        if let Value::Object(map) = agent {
            map.remove("metadata");
        }
        let left = problems(agent);
        for found in all {
            let how = if left.contains(&found) {
                found.help.as_deref().unwrap_or_default()
            } else {
                "`metadata` was left out"
            };
            self.repairs.needed(found.pointer, found.message, how);
        }
    }
}

/// The strings of a list; anything else in it is left out.
fn strings(said: Option<&Value>) -> Vec<Value> {
    let items = said.and_then(Value::as_array).into_iter().flatten();
    items.filter(|item| item.is_string()).cloned().collect()
}

#[cfg(test)]
mod tests;
