//! The capabilities of a card and its extensions, including the agent's dependencies.

use registry_core::{
    entity::{agent::SBOM_EXTENSION, tool::DependencyTarget},
    kind::Kind,
    reference::Key,
};
use schema_compat::pointer::pointer_join;
use serde_json::{Map, Value, json};

use super::{Card, part::Part};
use crate::repair::quoted;

const FLAGS: [&str; 3] = ["streaming", "pushNotifications", "stateTransitionHistory"];

impl Card {
    pub(super) fn capabilities(&mut self, part: &mut Part) -> Value {
        let mut capabilities = Map::new();
        let Some(mut said) = self.object(part, "capabilities") else { return capabilities.into() };
        for name in FLAGS {
            let flag = self.value(&mut said, name, "true or false", Value::is_boolean);
            capabilities.extend(flag.map(|flag| (name.to_owned(), flag)));
        }
        let extensions = self.extensions(&mut said);
        if !extensions.is_empty() {
            capabilities.insert("extensions".to_owned(), extensions.into());
        }
        self.finish(said);
        capabilities.into()
    }

    fn extensions(&mut self, part: &mut Part) -> Vec<Value> {
        let (mut extensions, mut sbom) = (Vec::<Value>::new(), None);
        let (list, mut depends) = ("/capabilities/extensions", Vec::new());
        for (at, said) in self.items(part, "extensions", "uri") {
            let whole = said.clone();
            let Some(mut said) = self.part(said, at.clone()) else { continue };
            let Some(uri) = said.peek("uri").map(str::to_owned) else {
                self.refuse(&at, "an extension without a uri", whole);
                continue;
            };
            said.take("uri");
            if uri == SBOM_EXTENSION && sbom.is_some() {
                self.repairs.made(
                    at,
                    "a second list of dependencies",
                    "it was merged into the first",
                );
                depends.extend(self.params_of_sbom(&mut said));
                self.finish(said);
                continue;
            }
            let mut extension = Map::from_iter([("uri".to_owned(), uri.clone().into())]);
            let description = self.text(&mut said, "description");
            extension.extend(description.map(|text| ("description".to_owned(), text.into())));
            let required = self.value(&mut said, "required", "true or false", Value::is_boolean);
            extension.extend(required.map(|flag| ("required".to_owned(), flag)));
            if uri == SBOM_EXTENSION {
                depends.extend(self.params_of_sbom(&mut said));
                sbom = Some(extensions.len());
            } else {
                let params = self.value(&mut said, "params", "an object", Value::is_object);
                extension.extend(params.map(|params| ("params".to_owned(), params)));
            }
            self.origins.moved(format!("{list}/{}", extensions.len()), at);
            extensions.push(extension.into());
            self.finish(said);
        }
        if let Some(first) = sbom {
            let to = format!("{list}/{first}/params/depends");
            extensions[first]["params"] = json!({ "depends": self.origins.list(&to, depends) });
        }
        extensions
    }

    /// The dependencies with their places in the card.
    fn params_of_sbom(&mut self, extension: &mut Part) -> Vec<(String, Value)> {
        let Some(mut params) = self.object(extension, "params") else { return Vec::new() };
        let depends = if self.is_live {
            self.exact_dependencies(&mut params)
        } else {
            self.dependencies_as_they_are(&mut params)
        };
        self.finish(params);
        depends
    }

    /// The dependencies of a registry file's entry, which the file may complete.
    fn dependencies_as_they_are(&mut self, params: &mut Part) -> Vec<(String, Value)> {
        let Some(said) = params.take("depends") else { return Vec::new() };
        let at = params.at("depends");
        listed(&said, &at).unwrap_or_else(|| {
            self.refuse(&at, "`depends` is not a list", said);
            Vec::new()
        })
    }

    fn exact_dependencies(&mut self, params: &mut Part) -> Vec<(String, Value)> {
        let mut depends = Vec::new();
        for (at, said) in self.items(params, "depends", "name") {
            let whole = said.clone();
            let Some(mut said) = self.part(said, at.clone()) else { continue };
            let key = match key_of(&whole) {
                Ok(key) => key,
                Err(what) => {
                    self.refuse(&at, what, whole);
                    continue;
                }
            };
            if said.take("type").is_none() {
                self.repairs.made(
                    &at,
                    "a dependency without a type",
                    "it is taken as a dependency on a tool",
                );
            }
            said.take("name");
            said.take("version");
            let mut dependency = json!({
                "type": key.kind, "name": key.name.as_str(), "version": key.version.to_string(),
            });
            if key.kind == Kind::Agent
                && let Some(skill) = self.text(&mut said, "skill")
            {
                dependency["skill"] = skill.into();
            }
            depends.push((at, dependency));
            self.finish(said);
        }
        depends
    }
}

/// The key of an exact dependency.
fn key_of(said: &Value) -> Result<Key, String> {
    let target = match &said["type"] {
        Value::Null => DependencyTarget::Tool,
        Value::String(text) if text == "tool" => DependencyTarget::Tool,
        Value::String(text) if text == "agent" => DependencyTarget::Agent,
        Value::String(other) => {
            return Err(format!("{} is not a type of dependency", quoted(other)));
        }
        _ => return Err("the type of a dependency is a text".to_owned()),
    };
    let text = |name: &str| {
        let lacking = || format!("a dependency needs its {name} as a text");
        said[name].as_str().filter(|text| !text.is_empty()).ok_or_else(lacking)
    };
    Key::parse(target.kind(), text("name")?, text("version")?).map_err(|e| e.to_string())
}

/// Dependencies as a list with their places. The input may be one dependency, or a map of names to
/// versions.
pub(crate) fn listed(depends: &Value, at: &str) -> Option<Vec<(String, Value)>> {
    let dependency = |(name, said): (&String, &Value)| {
        let listed = match said {
            Value::String(version) => format!("{name}@{version}").into(),
            Value::Object(fields) => {
                let mut fields = fields.clone();
                fields.entry("name").or_insert_with(|| name.as_str().into());
                fields.into()
            }
            _ => json!({ "name": name, "version": said }),
        };
        (pointer_join(at, name), listed)
    };
    let one = || Some(vec![(at.to_owned(), depends.clone())]);
    match depends {
        Value::Array(list) => {
            let items = list.iter().enumerate();
            Some(items.map(|(i, item)| (format!("{at}/{i}"), item.clone())).collect())
        }
        Value::String(_) => one(),
        Value::Object(named) if named.contains_key("name") => one(),
        Value::Object(named) => Some(named.iter().map(dependency).collect()),
        _ => None,
    }
}
