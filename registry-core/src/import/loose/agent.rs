//! The shape of an agent: its dependencies are in its extension, and nothing that it must have is
//! missing.
//!
//! Deliberately absent: versions of what it depends on.

use serde_json::{Value, json};

use super::{Entry, shape::OWN};
use crate::{
    entity::agent::SBOM_EXTENSION,
    import::{
        Repairs,
        a2a::{entry, listed},
        repair::put,
    },
    reference::Kind,
};

impl Entry {
    pub(super) fn shape_agent(&mut self, repairs: &mut Repairs) {
        self.rename(repairs, "dependencies", "depends");
        let title = self.name().to_owned();
        // Without a name there is nothing to make of it.
        if self.is_a_card() && self.shape_key(Kind::Agent, repairs) {
            // Live cards say where they are otherwise, and leave out more.
            let mut said = std::mem::take(&mut self.map);
            let own = ["name", "version", "depends"].iter().chain(&OWN);
            self.map = own.filter_map(|name| said.remove_entry(*name)).collect();
            let (mut made, found) = entry(said);
            repairs.all_at(&self.pointer, found);
            let card = made.get_mut("metadata").and_then(|metadata| metadata.get_mut("card"));
            let card = card.map(Value::take);
            made.remove("metadata");
            self.map.extend(made);
            self.put_metadata(repairs, title, card);
        }
        self.move_depends(repairs);
    }

    /// What a file says in `metadata` means what it means, other than in a stranger's card.
    fn put_metadata(&mut self, repairs: &mut Repairs, title: String, card: Option<Value>) {
        let at = self.at("metadata");
        let is_titled = title == self.name();
        if is_titled && card.is_none() {
            return;
        }
        let metadata = self.map.entry("metadata").or_insert_with(|| json!({}));
        let Value::Object(metadata) = metadata else { return };
        if !is_titled {
            metadata.entry("title").or_insert_with(|| title.into());
        }
        match (metadata.get_mut("card"), card) {
            (Some(Value::Object(own)), Some(Value::Object(card))) => {
                for member in card {
                    put(own, repairs, &format!("{at}/card"), member);
                }
            }
            (_, Some(card)) => put(metadata, repairs, &at, ("card".to_owned(), card)),
            (_, None) => {}
        }
    }

    /// Whether a strict reader would miss something that a card may leave out.
    fn is_a_card(&self) -> bool {
        let needed = ["description", "url", "protocolVersion", "skills", "capabilities"];
        needed.iter().any(|name| !self.map.contains_key(*name))
            || ["defaultInputModes", "defaultOutputModes"]
                .iter()
                .any(|n| !self.map.contains_key(*n))
    }

    fn move_depends(&mut self, repairs: &mut Repairs) {
        let Some(depends) = self.map.remove("depends") else { return };
        let Some(depends) = listed(&depends) else {
            let how = "it was left out; write a list of `type`, `name` and `version`";
            repairs.needed(self.at("depends"), "`depends` is no list", how);
            return;
        };
        let at = self.at("depends");
        let place = self.dependencies().and_then(|place| Some((listed(place)?, place)));
        let Some((mut all, place)) = place else {
            let what = "there is no place for the agent's dependencies";
            let how = "they were left out; `capabilities` is an object, its `extensions` a list";
            repairs.needed(self.at("capabilities"), what, how);
            return;
        };
        all.extend(depends);
        *place = all.into();
        let what = "an agent's dependencies are in an extension of its capabilities";
        repairs.made(at, what, format!("they are the `params.depends` of {SBOM_EXTENSION}"));
    }

    /// The list of its extension, made where it is missing.
    fn dependencies(&mut self) -> Option<&mut Value> {
        fn member<'a>(map: &'a mut Value, name: &str, empty: Value) -> Option<&'a mut Value> {
            Some(map.as_object_mut()?.entry(name).or_insert(empty))
        }
        let capabilities = self.map.entry("capabilities").or_insert_with(|| json!({}));
        let extensions = member(capabilities, "extensions", json!([]))?.as_array_mut()?;
        let is_sbom = |extension: &Value| extension["uri"] == SBOM_EXTENSION;
        if !extensions.iter().any(is_sbom) {
            extensions.push(json!({ "uri": SBOM_EXTENSION }));
        }
        let sbom = extensions.iter_mut().find(|extension| is_sbom(extension))?;
        member(member(sbom, "params", json!({}))?, "depends", json!([]))
    }
}
