//! The shape of an agent: dependencies in its extension, and all required members present.

use registry_core::{entity::agent::SBOM_EXTENSION, kind::Kind};
use serde_json::{Map, Value, json};

use super::{Entry, shape::OWN};
use crate::{
    Repairs,
    a2a::{entry, listed},
};

impl Entry {
    pub(super) fn shape_agent(&mut self, repairs: &mut Repairs) {
        self.rename(repairs, "dependencies", "depends");
        let title = self.name().to_owned();
        // An entry without a name cannot be imported.
        if self.is_a_card() && self.shape_key(Kind::Agent, repairs) {
            // Live cards have their URL elsewhere and omit more members.
            let mut said = std::mem::take(&mut self.map);
            let own = ["name", "version", "depends"].iter().chain(&OWN);
            self.map = own.filter_map(|name| said.remove_entry(*name)).collect();
            let own = self.map.get_mut("metadata").and_then(Value::as_object_mut);
            let rest = own.and_then(|metadata| metadata.remove("card"));
            let (made, found, origins) = entry(said, rest.unwrap_or_else(|| json!({})));
            repairs.all_from(found, |pointer| self.origins.origin(pointer));
            self.origins.join(origins);
            self.put_made(made, title);
        }
        self.move_depends(repairs);
    }

    /// The `metadata` of a registry file keeps its meaning, unlike that of a live card.
    fn put_made(&mut self, mut made: Map<String, Value>, title: String) {
        let mut metadata = match made.remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Map::new(),
        };
        let own = match self.map.remove("metadata") {
            Some(Value::Object(own)) => own,
            _ => Map::new(),
        };
        if title != self.name() && !own.contains_key("title") {
            self.origins.moved("/metadata/title", self.at("name"));
            metadata.insert("title".to_owned(), title.into());
        }
        metadata.extend(own);
        if !metadata.is_empty() {
            self.map.insert("metadata".to_owned(), metadata.into());
        }
        self.map.extend(made);
    }

    /// Whether required members are missing that a card may omit.
    fn is_a_card(&self) -> bool {
        let needed = ["description", "url", "protocolVersion", "skills", "capabilities"];
        needed.iter().any(|name| !self.map.contains_key(*name))
            || ["defaultInputModes", "defaultOutputModes"]
                .iter()
                .any(|n| !self.map.contains_key(*n))
    }

    fn move_depends(&mut self, repairs: &mut Repairs) {
        let Some(depends) = self.map.remove("depends") else { return };
        let at = self.at("depends");
        let Some(depends) = listed(&depends, &at) else {
            let how = "it was left out; write a list of `type`, `name` and `version`";
            repairs.needed(at, "`depends` is not a list", how);
            return;
        };
        let place = dependencies(&mut self.map);
        let place = place.and_then(|(to, place)| Some((listed(place, &to)?, to, place)));
        let Some((own, to, place)) = place else {
            let what = "there is no place for the agent's dependencies";
            let how = "they were left out; `capabilities` is an object, its `extensions` a list";
            repairs.needed(self.at("capabilities"), what, how);
            return;
        };
        let own = own.into_iter().map(|(at, dependency)| (self.origins.origin(&at), dependency));
        let all = own.chain(depends).collect();
        *place = self.origins.list(&to, all).into();
        let what = "an agent's dependencies are in an extension of its capabilities";
        repairs.made(at, what, format!("they are the `params.depends` of {SBOM_EXTENSION}"));
    }
}

/// The dependency list in an agent's extension with its place; created if missing.
fn dependencies(agent: &mut Map<String, Value>) -> Option<(String, &mut Value)> {
    fn member<'a>(map: &'a mut Value, name: &str, empty: Value) -> Option<&'a mut Value> {
        Some(map.as_object_mut()?.entry(name).or_insert(empty))
    }
    let capabilities = agent.entry("capabilities").or_insert_with(|| json!({}));
    let extensions = member(capabilities, "extensions", json!([]))?.as_array_mut()?;
    let is_sbom = |extension: &Value| extension["uri"] == SBOM_EXTENSION;
    let i = extensions.iter().position(is_sbom).unwrap_or(extensions.len());
    if i == extensions.len() {
        extensions.push(json!({ "uri": SBOM_EXTENSION }));
    }
    let depends = member(member(&mut extensions[i], "params", json!({}))?, "depends", json!([]))?;
    Some((format!("/capabilities/extensions/{i}/params/depends"), depends))
}
