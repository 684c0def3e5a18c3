//! The capabilities of a card and its extensions, among them what the agent depends on.
//!
//! Deliberately absent: whether what it depends on is registered; the registry says that.

use serde_json::{Map, Value, json};

use super::Card;
use crate::{
    entity::{agent::SBOM_EXTENSION, tool::DependencyTarget},
    import::repair::quoted,
    reference::{Key, Kind},
};

const FLAGS: [&str; 3] = ["streaming", "pushNotifications", "stateTransitionHistory"];

impl Card<'_> {
    pub(super) fn capabilities(&mut self) -> Value {
        let mut capabilities = Map::new();
        let nothing = Map::new();
        let said = self.said.get("capabilities").and_then(Value::as_object).unwrap_or(&nothing);
        for (name, value) in said {
            if FLAGS.contains(&name.as_str()) && value.is_boolean() {
                capabilities.insert(name.clone(), value.clone());
            } else if name != "extensions" && !value.is_null() {
                let pointer = crate::document::pointer_join("/capabilities", name);
                let how = "it is in `metadata.card.capabilities`";
                self.repairs.made(pointer, "the registry has no field for it", how);
                let kept = self.rest.entry("capabilities").or_insert_with(|| json!({}));
                kept[name] = value.clone();
            }
        }
        let extensions = self.extensions(said.get("extensions"));
        if !extensions.is_empty() {
            capabilities.insert("extensions".to_owned(), extensions.into());
        }
        capabilities.into()
    }

    fn extensions(&mut self, said: Option<&Value>) -> Vec<Value> {
        let (mut extensions, mut sbom) = (Vec::<Value>::new(), None);
        for (i, said) in said.and_then(Value::as_array).into_iter().flatten().enumerate() {
            let pointer = format!("/capabilities/extensions/{i}");
            let Some(uri) = said["uri"].as_str() else {
                self.repairs.needed(pointer, "an extension without a uri", "it was left out");
                continue;
            };
            let mut extension = json!({ "uri": uri });
            for (name, is_right) in [
                ("description", Value::is_string as fn(&Value) -> bool),
                ("required", Value::is_boolean),
            ] {
                if let Some(value) = said.get(name).filter(|value| is_right(value)) {
                    extension[name] = value.clone();
                }
            }
            if uri != SBOM_EXTENSION {
                if let Some(Value::Object(params)) = said.get("params") {
                    extension["params"] = params.clone().into();
                }
                extensions.push(extension);
                continue;
            }
            let depends = self.depends(&said["params"]["depends"], &pointer);
            if let Some(first) = sbom {
                self.repairs.made(pointer, "a second list of dependencies", "it joined the first");
                let first: &mut Value = &mut extensions[first];
                if let Some(all) = first["params"]["depends"].as_array_mut() {
                    all.extend(depends);
                }
                continue;
            }
            extension["params"] = json!({ "depends": depends });
            sbom = Some(extensions.len());
            extensions.push(extension);
        }
        extensions
    }

    fn depends(&mut self, said: &Value, pointer: &str) -> Vec<Value> {
        let mut depends = Vec::new();
        if !said.is_array() && !said.is_null() {
            let at = format!("{pointer}/params/depends");
            self.repairs.needed(at, "`depends` is no list", "it was left out");
        }
        for (i, said) in said.as_array().into_iter().flatten().enumerate() {
            match dependency(said) {
                Ok(dependency) => depends.push(dependency),
                Err(what) => {
                    let at = format!("{pointer}/params/depends/{i}");
                    self.repairs.needed(at, what, "it was left out; name an exact version");
                }
            }
        }
        depends
    }
}

fn dependency(said: &Value) -> Result<Value, String> {
    let text = |name: &str| said[name].as_str().unwrap_or_default();
    let target = match text("type") {
        "tool" | "" => DependencyTarget::Tool,
        "agent" => DependencyTarget::Agent,
        other => return Err(format!("{} is not a type of dependency", quoted(other))),
    };
    let key =
        Key::parse(target.kind(), text("name"), text("version")).map_err(|e| e.to_string())?;
    let mut dependency = json!({
        "type": target, "name": key.name.as_str(), "version": key.version.to_string(),
    });
    if key.kind == Kind::Agent && !text("skill").is_empty() {
        dependency["skill"] = text("skill").into();
    }
    Ok(dependency)
}
