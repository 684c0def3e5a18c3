//! References without an exact version: in schemas, dependencies, provisions and sources.

use std::collections::BTreeSet;

use registry_core::{entity::agent::SBOM_EXTENSION, reference::SchemaRef};
use schema_compat::json_schema::{each_object, map_objects};
use serde_json::{Map, Value, json};

use super::{FIRST_VERSION, Kind, LenientFile, existing, versions::KnownVersions};
use crate::{Repairs, names, origins::Origins, repair::quoted};

/// The context for finding versions.
struct Finder<'a> {
    known: &'a KnownVersions,
    /// The pointers point into the entry, not into the file.
    repairs: Repairs,
    origins: &'a mut Origins,
}

impl LenientFile<'_> {
    /// Gives every reference an exact version.
    pub(super) fn name_versions(&mut self) {
        let known = self.known();
        for (kind, entries) in &mut self.entries {
            for entry in entries {
                let (repairs, origins) = (Repairs::default(), &mut entry.origins);
                let mut finder = Finder { known: &known, repairs, origins };
                for field in ["schema", "inputSchema", "outputSchema"] {
                    if let Some(schema) = entry.map.get_mut(field) {
                        finder.schema(schema, &format!("/{field}"));
                    }
                }
                match kind {
                    Kind::Schema | Kind::Policy => {}
                    Kind::Server => finder.provisions(&mut entry.map),
                    Kind::Tool => finder.tool(&mut entry.map),
                    Kind::Agent => finder.agent(&mut entry.map),
                }
                let found = finder.repairs;
                self.repairs.all_from(found, |at| existing(self.file, entry.origins.origin(at)));
            }
        }
    }
}

/// The references to anchors of the schema itself.
fn own_places(schema: &Value) -> BTreeSet<String> {
    let mut own = BTreeSet::new();
    each_object(schema, &mut |map| {
        let anchors = ["$anchor", "$dynamicAnchor"].into_iter().filter_map(|name| map.get(name));
        own.extend(anchors.filter_map(Value::as_str).map(|anchor| format!("#{anchor}")));
    });
    own
}

impl Finder<'_> {
    /// An exact version for a reference to this name.
    fn version(&mut self, kind: Kind, name: &str, said: Option<&Value>, at: &str) -> String {
        let text = said.map(names::version_text);
        if let (Some(said), Some(text)) = (said, &text)
            && names::closest_version(text).is_some()
        {
            return names::exact_version(&mut self.repairs, said, at, FIRST_VERSION);
        }
        let what = match text {
            Some(text) => format!("{kind}/{name} by the version {}", quoted(&text)),
            None => format!("{kind}/{name} without a version"),
        };
        match self.known.newest(kind, name) {
            Some((version, true)) => {
                self.repairs.made(at, what, format!("{version} is written, the file's only one"));
                version.to_string()
            }
            Some((version, false)) => {
                let shown = self.known.shown(kind, name);
                let how = format!("{version} is written; the file has {shown}");
                self.repairs.needed(at, what, how);
                version.to_string()
            }
            // Servers that are missing in the file are added.
            None if kind == Kind::Server => {
                self.repairs.made(at, what, format!("{FIRST_VERSION} is written"));
                FIRST_VERSION.to_owned()
            }
            None => {
                let how = format!("{FIRST_VERSION} is written; the file does not have it");
                self.repairs.needed(at, what, how);
                FIRST_VERSION.to_owned()
            }
        }
    }

    fn schema(&mut self, schema: &mut Value, at: &str) {
        if let Value::String(text) = schema {
            let text = if text.starts_with('#') { text.clone() } else { format!("#{text}") };
            self.repairs.made(at, "a schema as a text", "it is a `$ref`");
            *schema = json!({ "$ref": text });
        }
        let own = own_places(schema);
        let changed = map_objects(schema, &mut |map| {
            self.typed_reference(map, at);
            let Some(Value::String(text)) = map.get("$ref") else { return };
            if own.contains(text)
                || text
                    .strip_prefix('#')
                    .is_some_and(|at| at.starts_with('/') && schema.pointer(at).is_some())
            {
                return;
            }
            if let Some(exact) = self.reference(&text.clone(), at) {
                map.insert("$ref".to_owned(), exact.into());
            }
        });
        *schema = changed;
    }

    /// Converts `{ "type": "schema", "name", "version" }` to a `$ref`.
    fn typed_reference(&mut self, map: &mut Map<String, Value>, at: &str) {
        let name = map.get("name").and_then(Value::as_str).map(str::to_owned);
        let Some(name) = name.filter(|_| map.get("type").is_some_and(|of| of == "schema")) else {
            return;
        };
        let version = self.version(Kind::Schema, &name, map.get("version"), at);
        let reference = format!("#{name}:{version}");
        let what = format!("a reference to the schema {} by its fields", quoted(&name));
        self.repairs.made(at, what, format!("\"$ref\": \"{reference}\" is written"));
        map.retain(|member, _| !["type", "name", "version"].contains(&member.as_str()));
        map.insert("$ref".to_owned(), reference.into());
    }

    /// The corrected `$ref`. `None`: it is correct, or not a registry reference.
    fn reference(&mut self, text: &str, at: &str) -> Option<String> {
        if matches!(SchemaRef::parse(text), Some(Ok(_))) {
            return None;
        }
        let body = text.strip_prefix('#')?;
        let body = body.strip_prefix("/schemas/").unwrap_or(body);
        let (name, version) = match body.split_once([':', '@']) {
            Some((name, version)) => (name, Some(Value::from(version))),
            None => (body, None),
        };
        // `#/$defs/x` and `#anchor` are local references.
        self.known.newest(Kind::Schema, name)?;
        let version = self.version(Kind::Schema, name, version.as_ref(), at);
        Some(format!("#{name}:{version}"))
    }

    fn provisions(&mut self, server: &mut Map<String, Value>) {
        let Some(Value::Array(provides)) = server.get_mut("provides") else { return };
        for (i, provision) in provides.iter_mut().enumerate() {
            let Some(name) = provision["tool"].as_str().map(str::to_owned) else { continue };
            let at = format!("/provides/{i}");
            let said = provision.get("version").filter(|version| !version.is_null());
            provision["version"] = self.version(Kind::Tool, &name, said, &at).into();
        }
    }

    fn tool(&mut self, tool: &mut Map<String, Value>) {
        if let Some(Value::Object(source)) = tool.get_mut("source") {
            let server = source.get("server").and_then(Value::as_str).map(str::to_owned);
            if let Some(server) = server {
                let said = source.get("serverVersion");
                let version = self.version(Kind::Server, &server, said, "/source/serverVersion");
                source.insert("serverVersion".to_owned(), version.into());
            }
        }
        if let Some(Value::Array(depends)) = tool.get_mut("depends") {
            self.depends(depends, "/depends");
        }
    }

    fn agent(&mut self, agent: &mut Map<String, Value>) {
        let skills = agent.get_mut("skills").and_then(Value::as_array_mut);
        for (i, skill) in skills.into_iter().flatten().enumerate() {
            for field in ["inputSchema", "outputSchema"] {
                if let Some(schema) = skill.get_mut(field) {
                    self.schema(schema, &format!("/skills/{i}/{field}"));
                }
            }
        }
        let extensions = agent
            .get_mut("capabilities")
            .and_then(|capabilities| capabilities.get_mut("extensions"))
            .and_then(Value::as_array_mut);
        for (i, extension) in extensions.into_iter().flatten().enumerate() {
            if extension["uri"] != SBOM_EXTENSION {
                continue;
            }
            let depends = extension.get_mut("params").and_then(|p| p.get_mut("depends"));
            if let Some(Value::Array(depends)) = depends {
                let at = format!("/capabilities/extensions/{i}/params/depends");
                self.depends(depends, &at);
            }
        }
    }

    fn depends(&mut self, depends: &mut Vec<Value>, at: &str) {
        let items = std::mem::take(depends).into_iter().enumerate();
        let placed = items.map(|(i, item)| (self.origins.origin(&format!("{at}/{i}")), item));
        let (schemas, mut all): (Vec<_>, Vec<_>) =
            placed.partition(|(_, item)| item["type"] == "schema");
        let kept = all.len();
        all.extend(schemas);
        *depends = self.origins.list(at, all);
        for i in kept..depends.len() {
            let what = "schemas are referenced, not listed in `depends`";
            self.repairs.made(format!("{at}/{i}"), what, "it was left out of `depends`");
        }
        depends.truncate(kept);
        for (i, dependency) in depends.iter_mut().enumerate() {
            self.dependency(dependency, &format!("{at}/{i}"));
        }
    }

    fn dependency(&mut self, dependency: &mut Value, at: &str) {
        if let Value::String(text) = dependency {
            let (target, rest) = match text.split_once('/') {
                Some((kind @ ("tool" | "agent"), rest)) => (Some(kind), rest),
                _ => (None, text.as_str()),
            };
            let (name, version) = match rest.rsplit_once('@') {
                Some((name, version)) => (name, Some(version)),
                None => (rest, None),
            };
            self.repairs.made(at, "a dependency as a text", "it has its fields");
            *dependency = json!({ "type": target, "name": name, "version": version });
        }
        let Some(map) = dependency.as_object_mut() else { return };
        map.retain(|_, value| !value.is_null());
        let Some(name) = map.get("name").and_then(Value::as_str).map(str::to_owned) else { return };
        if !map.contains_key("type") {
            let is_agent = self.known.newest(Kind::Agent, &name).is_some()
                && self.known.newest(Kind::Tool, &name).is_none();
            let target = if is_agent { "agent" } else { "tool" };
            let what = format!("the dependency on `{name}` has no type");
            self.repairs.made(at, what, format!("\"type\": \"{target}\" is written"));
            map.insert("type".to_owned(), target.into());
        }
        let kind = if map["type"] == "agent" { Kind::Agent } else { Kind::Tool };
        let version = self.version(kind, &name, map.get("version"), at);
        map.insert("version".to_owned(), version.into());
    }
}
