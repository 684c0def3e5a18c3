//! Steps that name the server of their tool, as `{ "name": "search", "server": "docs" }`: the tool of the
//! registry that they mean, added where the file has none.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Entry, FIRST_VERSION, Loose};
use crate::{import::names, reference::Kind};

/// The tools that steps can call, by the server that provides them.
pub(super) struct Callees {
    /// The tools of the file: name, server, and the server's own name of the tool.
    known: Vec<Callee>,
    /// Every tool name of the file, and of the tools that are to be added.
    taken: BTreeSet<String>,
    /// The versions of the servers and of the tools that they provide.
    servers: BTreeMap<String, Server>,
    /// The tools that are to be added, each with the place that names it.
    pub(super) added: Vec<(Value, String)>,
}

struct Callee {
    name: String,
    server: String,
    upstream: String,
    /// Whether its arguments and results are the server's own.
    is_plain: bool,
}

#[derive(Default)]
struct Server {
    version: Option<String>,
    provides: BTreeMap<String, String>,
}

impl Callee {
    fn of(tool: &Entry) -> Option<Self> {
        let source = tool.map.get("source")?;
        let is_changed = source.get("defaults").is_some()
            || source.get("hideFields").is_some()
            || tool.map.contains_key("outputTransform");
        Some(Self {
            name: tool.name().to_owned(),
            server: source["server"].as_str()?.to_owned(),
            upstream: source["tool"].as_str()?.to_owned(),
            is_plain: !is_changed,
        })
    }
}

impl Loose<'_> {
    pub(super) fn callees(&self) -> Callees {
        let tools = self.of(Kind::Tool);
        let mut servers: BTreeMap<String, Server> = BTreeMap::new();
        for tool in tools {
            let source =
                tool.map.get("source").map(|source| (&source["server"], &source["serverVersion"]));
            if let Some((Value::String(server), Value::String(version))) = source {
                servers.entry(server.clone()).or_default().version = Some(version.clone());
            }
        }
        for entry in self.of(Kind::Server) {
            let server = servers.entry(entry.name().to_owned()).or_default();
            server.version = Some(entry.version().to_owned());
            let provides = entry.map.get("provides").and_then(Value::as_array);
            for provision in provides.into_iter().flatten() {
                if let (Some(tool), Some(version)) =
                    (provision["tool"].as_str(), provision["version"].as_str())
                {
                    server.provides.insert(tool.to_owned(), version.to_owned());
                }
            }
        }
        Callees {
            known: tools.iter().filter_map(Callee::of).collect(),
            taken: tools.iter().map(|tool| tool.name().to_owned()).collect(),
            servers,
            added: Vec::new(),
        }
    }
}

impl Callees {
    /// The name of the tool that a step means by the name that its server has for it. `at` is where the step
    /// says so.
    pub(super) fn resolve(
        &mut self,
        name: &str,
        server: &str,
        version: Option<&str>,
        at: &str,
    ) -> String {
        let mut of_server = self.known.iter().filter(|callee| callee.server == server);
        let named = of_server.clone().find(|callee| callee.name == name);
        let known =
            named.or_else(|| of_server.find(|callee| callee.is_plain && callee.upstream == name));
        match known {
            Some(callee) => callee.name.clone(),
            None => self.add(name, server, version, at),
        }
    }

    fn add(&mut self, upstream: &str, server: &str, version: Option<&str>, at: &str) -> String {
        let known = self.servers.get(server);
        let server_version = version.or_else(|| known?.version.as_deref()).unwrap_or(FIRST_VERSION);
        let provided = known.and_then(|server| server.provides.get(upstream));
        let mut name = upstream.to_owned();
        if self.taken.contains(&name) {
            let joined = format!("{server}_{upstream}");
            name = names::name_of(Kind::Tool, &joined).map_or(joined, |name| name.to_string());
        }
        let source = json!({ "server": server, "serverVersion": server_version, "tool": upstream });
        let version = provided.map_or(FIRST_VERSION, String::as_str);
        let tool = json!({ "name": name, "version": version, "source": source });
        self.taken.insert(name.clone());
        let (server, upstream) = (server.to_owned(), upstream.to_owned());
        self.known.push(Callee { name: name.clone(), server, upstream, is_plain: true });
        self.added.push((tool, at.to_owned()));
        name
    }
}

/// The server that a step names beside its tool, taken from there.
pub(super) fn take_server(step: &mut Map<String, Value>) -> Option<(&'static str, String)> {
    ["server", "target"].into_iter().find_map(|member| match step.get(member)? {
        Value::String(_) => match step.remove(member)? {
            Value::String(server) => Some((member, server)),
            _ => None,
        },
        _ => None,
    })
}
