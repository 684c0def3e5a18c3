//! Completes the links between entries: servers that only tools name, tools that only servers name,
//! and dependencies that only compositions name.

use std::collections::{BTreeMap, BTreeSet};

use registry_core::{
    kind::Kind,
    name::Name,
    spec::{Composition, Target},
};
use serde_json::{Value, json};

use super::{Entry, FIRST_VERSION, LenientFile, callee, existing};

/// A name and a version.
type NameVersion = (String, String);

impl LenientFile<'_> {
    pub(super) fn link(&mut self) {
        let added = self.add_servers();
        self.complete_provisions(&added);
        self.add_tools();
        self.declare_dependencies();
    }

    pub(super) fn add(&mut self, kind: Kind, entry: &Value, pointer: &str) {
        if let Value::Object(map) = entry {
            self.entries_mut(kind).push(Entry::new(map.clone(), pointer.to_owned()));
        }
    }

    /// The servers in the sources of tools, with the required upstream tools.
    fn sources(&self) -> BTreeMap<NameVersion, Vec<(String, usize)>> {
        let mut sources: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (i, tool) in self.entries(Kind::Tool).iter().enumerate() {
            let Some(source) = tool.map.get("source") else { continue };
            let text = |name: &str| source[name].as_str().unwrap_or_default().to_owned();
            if Name::parse(Kind::Server, &text("server")).is_ok() {
                let key = (text("server"), text("serverVersion"));
                sources.entry(key).or_default().push((text("tool"), i));
            }
        }
        sources
    }

    /// Adds servers that tools name and the file lacks. Returns them.
    fn add_servers(&mut self) -> BTreeSet<NameVersion> {
        let known: BTreeSet<_> = self.entries(Kind::Server).iter().map(Entry::key).collect();
        let mut added = BTreeSet::new();
        for ((name, version), tools) in self.sources() {
            if known.contains(&(name.clone(), version.clone())) {
                continue;
            }
            let named = self.entries(Kind::Tool)[tools[0].1].origins.origin("/source/server");
            let pointer = existing(self.file, named);
            let what = format!("the server {name}@{version} is not in the file");
            let how = "it was added with the tools that name it";
            self.repairs.added(Kind::Server, &pointer, what, how);
            self.add(Kind::Server, &json!({ "name": name, "version": version }), &pointer);
            added.insert((name, version));
        }
        added
    }

    /// Completes `provides` of every server with the tools that use it. `servers` are the added ones.
    fn complete_provisions(&mut self, servers: &BTreeSet<NameVersion>) {
        let (sources, known) = (self.sources(), self.known());
        let keys: BTreeSet<_> = self.entries(Kind::Tool).iter().map(Entry::key).collect();
        let own: Vec<_> = self.entries(Kind::Tool).iter().map(Entry::key).collect();
        let mut added = Vec::new();
        for server in self.entries.entry(Kind::Server).or_default() {
            let (key, at) = (server.key(), server.at("provides"));
            let provides = server.map.entry("provides").or_insert_with(|| json!([]));
            let Value::Array(provides) = provides else { continue };
            for (upstream, tool) in sources.get(&key).into_iter().flatten() {
                let (name, version) = &own[*tool];
                let is_provided = provides.iter().any(|p| {
                    p["tool"] == **upstream || p["tool"] == **name && p["version"] == **version
                });
                if is_provided {
                    continue;
                }
                // The tool with the upstream's name, or this one if that name is invalid.
                let provision = if Name::parse(Kind::Tool, upstream).is_err() {
                    json!({ "tool": name, "version": version })
                } else if keys.contains(&(upstream.clone(), version.clone())) {
                    json!({ "tool": upstream, "version": version })
                } else {
                    let newest = known.newest(Kind::Tool, upstream);
                    let version = newest.map_or(FIRST_VERSION.to_owned(), |(v, _)| v.to_string());
                    json!({ "tool": upstream, "version": version })
                };
                let what = format!("the server does not list in `provides` `{upstream}`");
                added.push((at.clone(), what, servers.contains(&key)));
                server.origins.moved(format!("/provides/{}", provides.len()), &*at);
                provides.push(provision);
            }
        }
        for (pointer, what, is_of_added) in added {
            let (pointer, how) = (existing(self.file, pointer), "it was added");
            if is_of_added {
                self.repairs.added(Kind::Tool, &pointer, what, how);
            } else {
                self.repairs.made(pointer, what, how);
            }
        }
    }

    /// Adds tools that servers provide and the file lacks.
    fn add_tools(&mut self) {
        let mut known: BTreeSet<_> = self.entries(Kind::Tool).iter().map(Entry::key).collect();
        let mut missing = Vec::new();
        for server in self.entries(Kind::Server) {
            let provides = server.map.get("provides").and_then(Value::as_array);
            for (i, provision) in provides.into_iter().flatten().enumerate() {
                let text = |name: &str| provision[name].as_str().unwrap_or_default().to_owned();
                let key = (text("tool"), text("version"));
                if Name::parse(Kind::Tool, &key.0).is_ok() && known.insert(key.clone()) {
                    let pointer =
                        existing(self.file, server.origins.origin(&format!("/provides/{i}")));
                    missing.push((key, server.key(), pointer));
                }
            }
        }
        for ((name, version), (server, server_version), pointer) in missing {
            let what = format!("the tool {name}@{version} is not in the file");
            let how = "it was added without schemas, so the server's own are used";
            self.repairs.added(Kind::Tool, &pointer, what, how);
            let source = json!({ "server": server, "serverVersion": server_version, "tool": name });
            let tool = json!({ "name": name, "version": version, "source": source });
            self.add(Kind::Tool, &tool, &pointer);
        }
    }

    /// Declares every callee of a composition, except those of calls that are left for review.
    fn declare_dependencies(&mut self) {
        let known = self.known();
        let mut declared = Vec::new();
        for tool in self.entries.entry(Kind::Tool).or_default() {
            let Some(spec) = tool.map.get("spec") else { continue };
            let uses = Composition::collect_uses(spec).into_iter();
            let uses = uses.filter(|found| !callee::is_qualified(spec, &found.pointer));
            // Each target with its first occurrence.
            let targets: BTreeMap<_, _> =
                uses.map(|found| (found.target, found.pointer)).rev().collect();
            let mut depends =
                tool.map.get("depends").and_then(Value::as_array).cloned().unwrap_or_default();
            let before = depends.len();
            for (target, pointer) in targets {
                let (kind, name, skill) = match &target {
                    Target::Tool(name) => (Kind::Tool, name.as_str(), None),
                    Target::Agent { name, skill } => (Kind::Agent, name.as_str(), Some(skill)),
                };
                let is_same = |d: &Value| {
                    d["type"] == kind.to_string()
                        && d["name"] == name
                        && d["skill"].as_str() == skill.map(String::as_str)
                };
                if depends.iter().any(is_same) {
                    continue;
                }
                let newest = known.newest(kind, name);
                let version = newest.map_or(FIRST_VERSION.to_owned(), |(v, _)| v.to_string());
                if newest.is_some_and(|(_, is_only)| !is_only) {
                    let at = existing(self.file, tool.origins.origin(&format!("/spec{pointer}")));
                    let what = format!("a step calls {kind}/{name} without a version");
                    let how = format!(
                        "{version} is in `depends`; the file has {}",
                        known.shown(kind, name)
                    );
                    self.repairs.needed(at, what, how);
                }
                let mut new = json!({ "type": kind.to_string(), "name": name, "version": version });
                if let Some(skill) = skill {
                    new["skill"] = skill.as_str().into();
                }
                let to = format!("/depends/{}", depends.len());
                tool.origins.moved(to, tool.at("depends"));
                depends.push(new);
            }
            if depends.len() > before {
                declared.push((tool.pointer.clone(), Value::from(depends.clone())));
                tool.map.insert("depends".to_owned(), depends.into());
            }
        }
        for (pointer, depends) in declared {
            let what = "the composition does not declare all its dependencies";
            self.repairs.made(pointer, what, format!("`depends` is {depends}"));
        }
    }
}
