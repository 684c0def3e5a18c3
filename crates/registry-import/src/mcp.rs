//! Imports a live MCP server: the server, its tools, and the schemas they share.
//!
//! Texts are kept, except for hidden characters; `icons` go into `metadata`. A schema that the
//! registry would reject is dropped, which means "the upstream's schema" until someone corrects it.
//! Prompts and resources are exposed as a whole, because the registry does not store single ones.

mod definition;
mod rejected_schemas;
mod remote;
mod schema;
mod tool;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use registry_core::{
    entity::Exposure, kind::Kind, limits, live::LiveServer, name::Name, server_json::METADATA_KEY,
    text::clean, version::Version,
};
use serde_json::{Map, Value, json};

pub use definition::invalid_member;
pub use remote::public_remote;

use super::{
    Draft, Imported, Repairs, names,
    repair::quoted,
    screening::{screen_text, screened_members},
    shared_schemas::{self, SharedSchemas},
};

/// The version of a server that reports none.
const FIRST_VERSION: &str = "0.1.0";
/// Maximum number of tool names in a problem.
const SHOWN: usize = 20;

/// Options of the import.
#[derive(Debug, Clone, Default)]
pub struct ServerImportOptions {
    /// The server's name in the registry.
    pub name: Option<Name>,
    /// The version of the server, its tools and its schemas.
    pub version: Option<Version>,
    /// The remote for clients of the MCP registry API; see [`public_remote`].
    pub remote: Option<Value>,
    /// Whether equal schemas of several tools become registered schemas.
    pub share_schemas: bool,
    /// Whether prompts and resources are not exposed.
    pub tools_only: bool,
    /// The tools' names in the registry.
    pub naming: Naming,
}

/// Names of tools in the registry that differ from the server's; `source.tool` keeps the latter.
#[derive(Debug, Clone, Default)]
pub struct Naming {
    /// The prefix of each name.
    pub prefix: String,
    /// The full names of single tools, by their names at the server or without a rename.
    pub renames: BTreeMap<String, Name>,
}

impl Naming {
    /// The same with renames by the names at the server only.
    fn for_server(&self, live: &LiveServer) -> Self {
        let said = said_names(live);
        let unnamed =
            |tool: &str| names::closest_name(Kind::Tool, &format!("{}{tool}", self.prefix));
        let tool = |from: &String| {
            if said.contains(from.as_str()) {
                return from.clone();
            }
            let is_it = |tool: &&&str| unnamed(tool).is_some_and(|name| name.as_str() == from);
            let mut tools = said.iter().filter(is_it);
            match (tools.next(), tools.next()) {
                (Some(only), None) => (*only).to_owned(),
                _ => from.clone(),
            }
        };
        let renames = self.renames.iter().map(|(from, to)| (tool(from), to.clone())).collect();
        Self { prefix: self.prefix.clone(), renames }
    }

    /// The name of a tool, if the server's own name needs no repair.
    fn name(&self, said: &str) -> Option<Name> {
        let renamed = self.renames.get(said).cloned();
        renamed.or_else(|| Name::parse(Kind::Tool, &format!("{}{said}", self.prefix)).ok())
    }

    /// Renames that do not fit this server, each with the reason.
    pub fn problems(&self, live: &LiveServer) -> Vec<String> {
        let said = said_names(live);
        let naming = self.for_server(live);
        let mut taken: BTreeMap<Name, &str> = BTreeMap::new();
        let mut problems = Vec::new();
        for from in naming.renames.keys().filter(|from| !said.contains(from.as_str())) {
            let names = said.iter().take(SHOWN).map(|name| quoted(name)).collect::<Vec<_>>();
            problems.push(format!(
                "--rename {from}: the server has no tool {}; it has {}",
                quoted(from),
                names.join(", ")
            ));
        }
        if naming.renames.len() < self.renames.len() {
            problems.push("two --rename select one tool; remove one".to_owned());
        }
        for tool in said {
            let Some(name) = naming.name(tool) else { continue };
            if let Some(other) = taken.get(&name) {
                problems.push(format!(
                    "the tools `{other}` and `{tool}` would both be named `{name}`; rename one of them"
                ));
            } else {
                taken.insert(name, tool);
            }
        }
        problems
    }
}

/// The names of the server's tools.
fn said_names(live: &LiveServer) -> BTreeSet<&str> {
    live.tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

/// The common parts of one import.
struct Common {
    server: Name,
    version: Version,
    naming: Naming,
    repairs: Repairs,
}

/// Imports a live server. Without a usable name, the result is only the repair that reports it.
pub fn import_server(live: &LiveServer, options: &ServerImportOptions) -> Imported {
    let mut repairs = Repairs::default();
    let info = live.info.as_object();
    let info = info.map(|info| screened_members(&mut repairs, info, "/serverInfo", &[]));
    let info = Value::Object(info.unwrap_or_default());
    let version = version(&info, options, &mut repairs);
    let Some(server) = name(&info, options, &mut repairs) else {
        return repairs.into_result(Draft::default());
    };
    let naming = options.naming.for_server(live);
    let mut common = Common { server, version, naming, repairs };
    let (tools, pointers): (Vec<_>, Vec<_>) = common.tools(live).into_iter().unzip();
    let provides: Vec<_> = tools
        .iter()
        .map(|tool| json!({ "tool": tool["name"], "version": tool["version"] }))
        .collect();
    let features = if options.tools_only { &[][..] } else { &live.features };
    let server = common.server(&info, provides, features, options.remote.as_ref());
    let tools =
        rejected_schemas::without_rejected_schemas(&server, tools, &pointers, &mut common.repairs);
    let SharedSchemas { tools, schemas } = if options.share_schemas {
        let prefix = common.server.as_str().rsplit('/').next().unwrap_or_default();
        shared_schemas::shared(tools, prefix, &common.version)
    } else {
        SharedSchemas { tools, schemas: Vec::new() }
    };
    common.repairs.into_result(Draft { schemas, servers: vec![server], tools, ..Draft::default() })
}

fn version(info: &Value, options: &ServerImportOptions, repairs: &mut Repairs) -> Version {
    if let Some(version) = &options.version {
        return version.clone();
    }
    let said = info.get("version").and_then(Value::as_str).unwrap_or_default();
    let pointer = "/serverInfo/version";
    if let Some(version) = names::closest_version(said) {
        if version.to_string() != said {
            let what = format!("{} is not an exact version", quoted(said));
            repairs.made(pointer, what, format!("{version} is used"));
        }
        return version;
    }
    let what = format!("{} is not a semantic version", quoted(said));
    let how = format!("{FIRST_VERSION} is used; change it with --version");
    repairs.made(pointer, what, how);
    names::closest_version(FIRST_VERSION).expect("a constant that is a version")
}

fn name(info: &Value, options: &ServerImportOptions, repairs: &mut Repairs) -> Option<Name> {
    if let Some(name) = &options.name {
        return Some(name.clone());
    }
    let said = info.get("name").and_then(Value::as_str).unwrap_or_default();
    let (pointer, name) = ("/serverInfo/name", names::closest_name(Kind::Server, said));
    match &name {
        Some(name) if name.as_str() == said => {}
        Some(name) => {
            let what = format!("{} is not a server's name", quoted(said));
            repairs.made(pointer, what, format!("`{name}` is used; change it with --name"));
        }
        None => {
            let what = names::no_name(info.get("name"), "a server's");
            repairs.needed(pointer, what, "set one with --name");
        }
    }
    name
}

impl Common {
    /// The documents of the tools with their places in the server's list.
    fn tools(&mut self, live: &LiveServer) -> Vec<(Value, String)> {
        let tools = &live.tools;
        if tools.len() > limits::LIST_ITEMS {
            let what = format!("{} tools, {} are allowed", tools.len(), limits::LIST_ITEMS);
            self.repairs.needed("/tools", what, "the rest was left out; split the server");
        }
        let names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        // A tool with a valid name keeps it, independent of the order.
        let own = names.iter().filter_map(|name| self.naming.name(name));
        let mut taken: HashSet<_> = own.map(|name| name.to_string()).collect();
        let mut upstream = HashSet::new();
        let mut documents = Vec::new();
        for (i, tool) in tools.iter().take(limits::LIST_ITEMS).enumerate() {
            let pointer = format!("/tools/{i}");
            if let Some(reason) = live.unread.get(&i) {
                let said = tool["name"].as_str().map_or("a tool".to_owned(), quoted);
                let what = format!("{said} is not a valid MCP tool: {reason}");
                self.repairs.needed(pointer, what, "it was left out; report it to its authors");
                continue;
            }
            let Some((tool, said)) = self.upstream_name(tool, &pointer) else { continue };
            if !upstream.insert(said) {
                let what = format!("the server has two tools with the name {}", quoted(said));
                self.repairs.needed(
                    pointer,
                    what,
                    "only the first was taken; report it to its authors",
                );
                continue;
            }
            let Some(name) = self.tool_name(said, &pointer, &mut taken) else { continue };
            let others = names.iter().copied().filter(|other| *other != said);
            let document = self.tool(tool, &name, others, &pointer);
            documents.extend(document.map(|document| (document, pointer)));
        }
        documents
    }

    /// A tool and its upstream name, if the tool can be called by it.
    fn upstream_name<'a>(
        &mut self,
        tool: &'a Value,
        pointer: &str,
    ) -> Option<(&'a Map<String, Value>, &'a str)> {
        let named = tool.as_object().and_then(|tool| Some((tool, tool.get("name")?.as_str()?)));
        let Some((tool, said)) = named else {
            self.repairs.needed(pointer, "a tool without a name", "it was left out");
            return None;
        };
        if said.is_empty() || said.len() > 1024 || clean(said).removed > 0 {
            let what = format!("{} is not a tool name", quoted(said));
            self.repairs.needed(format!("{pointer}/name"), what, "the tool was left out");
            return None;
        }
        Some((tool, said))
    }

    /// The registry name of a tool: its own, or the closest valid name that is free.
    fn tool_name(
        &mut self,
        said: &str,
        pointer: &str,
        taken: &mut HashSet<String>,
    ) -> Option<String> {
        if let Some(name) = self.naming.name(said) {
            return Some(name.to_string());
        }
        let wanted = format!("{}{said}", self.naming.prefix);
        let Some(name) = names::closest_name(Kind::Tool, &wanted) else {
            let what = format!("{} cannot be used as a tool's name", quoted(said));
            self.repairs.needed(format!("{pointer}/name"), what, "the tool was left out");
            return None;
        };
        let mut free = name.to_string();
        let mut number = 2;
        while !taken.insert(free.clone()) {
            free = format!("{}_{number}", name.as_str().chars().take(120).collect::<String>());
            number += 1;
        }
        let at = format!("{pointer}/name");
        let what = format!("{} is not allowed as a name", quoted(&wanted));
        let how = format!("it is registered as `{free}`; `source.tool` keeps its own name");
        if free == name.as_str() {
            self.repairs.made(at, what, how);
        } else {
            self.repairs.needed(at, format!("{what}, and `{name}` is taken"), how);
        }
        Some(free)
    }

    fn server(
        &mut self,
        info: &Value,
        provides: Vec<Value>,
        features: &[Exposure],
        remote: Option<&Value>,
    ) -> Value {
        let mut server = Map::new();
        server.insert("name".to_owned(), self.server.as_str().into());
        server.insert("version".to_owned(), self.version.to_string().into());
        let said = ["description", "title"].into_iter().find_map(|field| {
            let text = info.get(field)?.as_str().filter(|text| !text.is_empty())?;
            Some((field, text))
        });
        if let Some((field, text)) = said {
            let pointer = format!("/serverInfo/{field}");
            server.insert(
                "description".to_owned(),
                screen_text(&mut self.repairs, text, &pointer, []).into(),
            );
        }
        server.insert("provides".to_owned(), provides.into());
        if !features.is_empty() {
            let exposes: Vec<_> = features.iter().map(|feature| feature.as_str()).collect();
            server.insert("exposes".to_owned(), exposes.into());
        }
        let mut metadata = kept(info, &["title", "websiteUrl", "icons"]);
        if let Some(remote) = remote {
            metadata.insert(METADATA_KEY.to_owned(), json!({ "remotes": [remote] }));
        }
        if !metadata.is_empty() {
            server.insert("metadata".to_owned(), metadata.into());
        }
        Value::Object(server)
    }
}

/// The non-empty ones of these members.
fn kept(from: &Value, members: &[&str]) -> Map<String, Value> {
    let member = |name: &&str| {
        let value = from.get(name).filter(|value| !value.is_null())?;
        Some(((*name).to_owned(), value.clone()))
    };
    members.iter().filter_map(member).collect()
}

#[cfg(test)]
mod tests;
