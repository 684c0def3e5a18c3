//! Comparison of a live server or agent with its registration, with a class for each difference.
//!
//! A property of a tool that is not registered (a schema, a description) is defined by the upstream
//! and cannot differ, but its texts are inspected. `icons`, the input schema of a tool that hides
//! fields, and the output schema of a tool that transforms its output are not compared.

mod card;
mod texts;
mod tool;

use std::collections::{BTreeMap, BTreeSet};

use schema_compat::compatibility::Budget;
use serde::Serialize;
use serde_json::Value;

pub use self::card::{LiveAgent, compare_agent};
use crate::{
    catalog::Catalog,
    entity::{Entity, Exposure, Server, Tool},
    kind::Kind,
    lifecycle::LifecycleState,
    name::closest_name,
    reference::Key,
    schema_inline,
    text::Sign,
    version::closest_version,
};

/// The answers of a live server.
#[derive(Debug, Clone, Default)]
pub struct LiveServer {
    /// The `serverInfo` of the server.
    pub info: Value,
    /// The tools of all pages in order.
    pub tools: Vec<Value>,
    /// Invalid tool definitions by index, with the reasons.
    pub unread: BTreeMap<usize, String>,
    /// Supported features other than tools.
    pub features: Vec<Exposure>,
}

/// The severity of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// A change of texts for people.
    Cosmetic,
    /// An extension.
    Compatible,
    /// Compatibility could not be decided.
    Undecided,
    /// A change of texts that may instruct the model or hide something.
    Suspicious,
    /// Callers may fail.
    Breaking,
}

/// A difference between a live server and its registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LiveDifference {
    /// The severity.
    pub class: Class,
    /// The tool's name on the server or the skill's id; empty for the server or agent itself.
    pub tool: String,
    /// JSON pointer into the tool: `/description`.
    pub pointer: String,
    /// The schema keyword that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyword: Option<String>,
    /// A counterexample: a value that only one side accepts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<Value>,
    /// A description of the difference.
    pub what: String,
    /// The reasons for the class `suspicious`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub signs: BTreeSet<Sign>,
}

impl LiveDifference {
    fn new(class: Class, tool: &str, pointer: &str, what: impl Into<String>) -> Self {
        let (tool, pointer, what) = (tool.to_owned(), pointer.to_owned(), what.into());
        Self { class, tool, pointer, keyword: None, instance: None, what, signs: BTreeSet::new() }
    }
}

/// The server is not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not registered")]
pub struct NotRegistered(pub Key);

/// Compares a live server with its registration; the most severe differences come first.
pub fn compare(
    catalog: &Catalog,
    server: &Key,
    live: &LiveServer,
) -> Result<Vec<LiveDifference>, NotRegistered> {
    let record = catalog.find(server).ok_or_else(|| NotRegistered(server.clone()))?;
    let Entity::Server(registered) = record.document.entity() else {
        return Err(NotRegistered(server.clone()));
    };
    let (budget, forms) = (Budget::for_batch(), schema_inline::InlineBudget::for_server());
    let mut comparison = Comparison { catalog, server, budget, forms, found: Vec::new() };
    comparison.server(registered, live);
    let mut found = comparison.found;
    found.sort_by(|a, b| b.class.cmp(&a.class).then_with(|| a.tool.cmp(&b.tool)));
    Ok(found)
}

/// Compares a live tool with a registered tool that has it as its source.
pub fn compare_tool(catalog: &Catalog, registered: &Tool, live: &Value) -> Vec<LiveDifference> {
    let Some(source) = registered.source() else { return Vec::new() };
    let (budget, forms) = (Budget::for_pair(), schema_inline::InlineBudget::for_server());
    let server = &source.server_key();
    let mut comparison = Comparison { catalog, server, budget, forms, found: Vec::new() };
    comparison.tool(registered, live);
    comparison.found
}

struct Comparison<'a> {
    catalog: &'a Catalog,
    server: &'a Key,
    budget: Budget,
    forms: schema_inline::InlineBudget,
    found: Vec<LiveDifference>,
}

impl<'a> Comparison<'a> {
    fn add(&mut self, class: Class, tool: &str, pointer: &str, what: impl Into<String>) {
        self.found.push(LiveDifference::new(class, tool, pointer, what));
    }

    fn server(&mut self, registered: &Server, live: &LiveServer) {
        let said = live.info.get("version").and_then(Value::as_str).unwrap_or_default();
        if closest_version(said).is_some_and(|version| version != registered.version) {
            let version = said.chars().take(64).collect::<String>();
            self.add(
                Class::Cosmetic,
                "",
                "/version",
                format!("the server reports the version {version}"),
            );
        }
        self.presented(registered, live);
        let expected = self.expected(registered);
        let mut by_name: BTreeMap<&str, &Value> = BTreeMap::new();
        for (i, tool) in live.tools.iter().enumerate() {
            let name = tool.get("name").and_then(Value::as_str);
            if let Some(reason) = live.unread.get(&i) {
                let what = format!("invalid MCP tool definition: {reason}");
                let at = if name.is_none() { format!("/tools/{i}") } else { String::new() };
                self.add(Class::Breaking, name.unwrap_or_default(), &at, what);
            }
            let Some(name) = name else { continue };
            if by_name.insert(name, tool).is_some() {
                self.add(Class::Breaking, name, "/name", "the server has two tools with this name");
            }
        }
        for (name, tools) in &expected {
            match by_name.get(name.as_str()) {
                Some(live) => self.tools(tools, live),
                None if tools.iter().all(|(_, is_retired)| *is_retired) => {}
                None => self.add(Class::Breaking, name, "", "the server does not have this tool"),
            }
        }
        for (name, tool) in by_name {
            if !expected.contains_key(name) {
                self.add(Class::Compatible, name, "", "the tool is not registered");
                self.words_of(tool, name);
            }
        }
    }

    /// Compares the server's self-reported name with its registered name without the namespace, and
    /// inspects its texts.
    fn presented(&mut self, registered: &Server, live: &LiveServer) {
        let said = live.info.get("name").and_then(Value::as_str).unwrap_or_default();
        let name = closest_name(Kind::Server, said);
        let bare = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
        if name.is_none_or(|name| bare(name.as_str()) != bare(registered.name.as_str())) {
            let name = said.chars().take(64).collect::<String>();
            self.add(Class::Cosmetic, "", "/name", format!("the server reports the name {name}"));
        }
        for field in ["title", "description"] {
            let said = live.info.get(field).filter(|said| {
                said.as_str().is_some_and(|said| registered.description.as_deref() != Some(said))
            });
            self.unregistered(("", &format!("/{field}")), said.unwrap_or(&Value::Null));
        }
    }

    /// Compares a live tool with each registered tool that has it as its source. Equal differences
    /// are reported once.
    fn tools(&mut self, registered: &[(&Tool, bool)], live: &Value) {
        let start = self.found.len();
        for (tool, _) in registered {
            self.tool(tool, live);
        }
        for difference in self.found.split_off(start) {
            if !self.found[start..].contains(&difference) {
                self.found.push(difference);
            }
        }
    }

    /// The registered tools by their names on the server, and whether they are retired. Several may
    /// have the same upstream tool.
    fn expected(&self, registered: &Server) -> BTreeMap<String, Vec<(&'a Tool, bool)>> {
        let mut expected = BTreeMap::<_, Vec<_>>::new();
        for provision in &registered.provides {
            let key = Key::new(Kind::Tool, provision.tool.clone(), provision.version.clone());
            let Some(record) = self.catalog.find(&key) else { continue };
            let Entity::Tool(tool) = record.document.entity() else { continue };
            let own = tool.source().filter(|source| source.server == self.server.name);
            let name = own.map_or(key.name.as_str(), |source| source.tool.as_str());
            let is_retired = record.lifecycle.state == LifecycleState::Retired;
            expected.entry(name.to_owned()).or_default().push((&**tool, is_retired));
        }
        expected
    }
}
