//! The shape of an agent: its dependencies are in its extension, and nothing that it must have is
//! missing.
//!
//! Deliberately absent: versions of what it depends on.

use serde_json::{Map, Value, json};

use super::Entry;
use crate::{
    entity::agent::SBOM_EXTENSION,
    import::{CardWishes, Repairs, agent, names},
    reference::Kind,
};

impl Entry {
    pub(super) fn shape_agent(&mut self, repairs: &mut Repairs) {
        self.rename(repairs, "dependencies", "depends");
        self.move_depends(repairs);
        // Without a name there is nothing to make of it; the registry's rules say so.
        if self.is_a_card() && names::name_of(Kind::Agent, self.name()).is_some() {
            // Live cards say where they are otherwise, and leave out more.
            let has_version = self.map.contains_key("version");
            self.map.entry("version").or_insert_with(|| super::FIRST_VERSION.into());
            let (depends, own) = (self.take_depends(), self.map.remove("metadata"));
            let made = agent(&Value::Object(self.map.clone()), &CardWishes::default());
            repairs.all_at(&self.pointer, made.repairs);
            if let Some(Value::Object(map)) = made.draft.agents.into_iter().next() {
                self.map = map;
            }
            self.put_depends(repairs, depends);
            self.put_metadata(own);
            if !has_version {
                self.map.remove("version");
            }
        }
    }

    /// What a file says in `metadata` means what it means, other than in a stranger's card.
    fn put_metadata(&mut self, own: Option<Value>) {
        match (self.map.get_mut("metadata"), own) {
            (Some(Value::Object(made)), Some(Value::Object(own))) => made.extend(own),
            (None, Some(own)) => drop(self.map.insert("metadata".to_owned(), own)),
            _ => {}
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
        let what = "an agent's dependencies are in an extension of its capabilities";
        let how = format!("they are the `params.depends` of {SBOM_EXTENSION}");
        repairs.made(self.at("depends"), what, how);
        let mut all = self.take_depends().unwrap_or_default();
        all.extend(depends);
        self.put_depends(repairs, Some(all));
    }

    fn extensions(&mut self) -> Option<&mut Vec<Value>> {
        self.map.get_mut("capabilities")?.get_mut("extensions")?.as_array_mut()
    }

    /// The dependencies of its extension, which is left without them.
    fn take_depends(&mut self) -> Option<Vec<Value>> {
        let sbom = self.extensions()?.iter_mut().find(|e| e["uri"] == SBOM_EXTENSION)?;
        let depends = sbom.get_mut("params")?.get_mut("depends")?;
        let list = listed(depends)?;
        *depends = json!([]);
        Some(list)
    }

    fn put_depends(&mut self, repairs: &mut Repairs, depends: Option<Vec<Value>>) {
        let Some(depends) = depends else { return };
        let Some(extensions) = self.extensions_to_extend() else {
            let what = "there is no place for the agent's dependencies";
            let how = "they were left out; `capabilities` is an object, its `extensions` a list";
            repairs.needed(self.at("capabilities"), what, how);
            return;
        };
        let params = json!({ "depends": depends });
        match extensions.iter_mut().find(|extension| extension["uri"] == SBOM_EXTENSION) {
            Some(sbom) if sbom["params"].is_object() => sbom["params"]["depends"] = depends.into(),
            Some(sbom) => sbom["params"] = params,
            None => extensions.push(json!({ "uri": SBOM_EXTENSION, "params": params })),
        }
    }

    fn extensions_to_extend(&mut self) -> Option<&mut Vec<Value>> {
        let capabilities = self.map.entry("capabilities").or_insert_with(|| Map::new().into());
        let capabilities = capabilities.as_object_mut()?;
        capabilities.entry("extensions").or_insert_with(|| json!([])).as_array_mut()
    }
}

/// Dependencies as a list: they may be one, or versions by names.
fn listed(depends: &Value) -> Option<Vec<Value>> {
    let dependency = |(name, said): (&String, &Value)| match said {
        Value::String(version) => format!("{name}@{version}").into(),
        Value::Object(fields) => {
            let mut fields = fields.clone();
            fields.entry("name").or_insert_with(|| name.as_str().into());
            fields.into()
        }
        _ => json!({ "name": name, "version": said }),
    };
    match depends {
        Value::Array(list) => Some(list.clone()),
        Value::String(_) => Some(vec![depends.clone()]),
        Value::Object(one) if one.contains_key("name") => Some(vec![depends.clone()]),
        Value::Object(named) => Some(named.iter().map(dependency).collect()),
        _ => None,
    }
}
