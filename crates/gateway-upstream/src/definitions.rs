//! The raw tool definitions of all targets, by server and name.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use gateway_protocol::{
    jsonrpc,
    mcp::header::{self, InvalidAnnotation, Mirror},
    naming::{self, Interfaces},
};
use registry_core::Key;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    error::{Error, ProtocolViolation},
    features::Features,
    routing::{Route, Routing, TargetId},
};
use crate::TransportConfig;
use foldhash::HashMap;

/// Maximum number of tools of one server.
const MAX_TOOLS: usize = 10_000;
/// Maximum number of log lines about rejected tools of one list.
const LOGGED: usize = 20;
/// Maximum length of the names and reasons in them, in characters.
const KEPT_CHARS: usize = 128;

/// The configured targets and their lists.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    routing: Arc<Routing>,
    lists: HashMap<TargetId, Lists>,
    /// The targets that are down.
    unavailable: BTreeSet<TargetId>,
    /// The targets that operators stopped.
    stopped: BTreeSet<TargetId>,
    interfaces: Arc<Interfaces>,
}

/// The lists of a target.
#[derive(Debug, Clone, PartialEq)]
pub struct Lists {
    /// The tools.
    pub tools: Arc<Tools>,
    /// The prompts and resources.
    pub features: Arc<Features>,
    /// The upstream that sent the lists. The target may have another one since.
    pub transport: Arc<TransportConfig>,
}

impl Definitions {
    /// The configured targets.
    pub fn routing(&self) -> &Arc<Routing> {
        &self.routing
    }

    /// The target of a registered server or agent version.
    pub fn route(&self, server: &Key) -> Option<Route> {
        self.routing.resolve(server)
    }

    /// The tools of a server. `None`: it was not reached yet.
    pub fn find(&self, server: &Key) -> Option<&Arc<Tools>> {
        Some(&self.lists(&self.route(server)?.target)?.tools)
    }

    /// The raw definition of one tool.
    #[cfg(test)]
    pub(crate) fn find_tool(&self, server: &Key, tool: &str) -> Option<&RawValue> {
        self.find(server)?.find(tool)
    }

    /// The prompts and resources of a server.
    pub fn features(&self, server: &Key) -> Option<&Arc<Features>> {
        Some(&self.lists(&self.route(server)?.target)?.features)
    }

    /// The lists of a target. `None`: it was not reached yet.
    pub fn lists(&self, target: &TargetId) -> Option<&Lists> {
        self.lists.get(target)
    }

    /// Whether the target of a server or agent is neither known to be down nor stopped. A server
    /// without a target counts as available.
    pub fn is_available(&self, server: &Key) -> bool {
        let is_available =
            |target: &TargetId| self.is_target_available(target) && !self.stopped.contains(target);
        self.route(server).is_none_or(|route| is_available(&route.target))
    }

    /// Whether an operator stopped the target of a server or agent.
    pub fn is_stopped(&self, server: &Key) -> bool {
        self.route(server).is_some_and(|route| self.stopped.contains(&route.target))
    }

    /// Whether these are the stopped targets.
    pub(crate) fn has_stopped(&self, targets: &BTreeSet<TargetId>) -> bool {
        self.stopped == *targets
    }

    /// Sets the stopped targets, which are no longer known to be down.
    pub fn set_stopped(&mut self, targets: BTreeSet<TargetId>) {
        self.unavailable.retain(|target| !targets.contains(target));
        self.stopped = targets;
    }

    /// Whether a target is not known to be down.
    pub(crate) fn is_target_available(&self, target: &TargetId) -> bool {
        !self.unavailable.contains(target)
    }

    /// Records whether a target is down. Returns whether that differs.
    pub fn set_available(&mut self, target: &TargetId, is_available: bool) -> bool {
        if is_available {
            self.unavailable.remove(target)
        } else {
            self.unavailable.insert(target.clone())
        }
    }

    /// The interfaces of MCP Apps that keep their URIs.
    pub fn interfaces(&self) -> &Arc<Interfaces> {
        &self.interfaces
    }

    /// A caller's URI for a resource of a server. It is unchanged until the server was reached.
    pub fn known_uri<'a>(&self, server: &Key, own: &'a str) -> Option<Cow<'a, str>> {
        match self.features(server).and_then(|features| features.prefix()) {
            Some(prefix) => self.interfaces.known(prefix, own),
            None => Some(Cow::Borrowed(own)),
        }
    }

    fn find_interfaces(&mut self) {
        let all = self.lists.values().filter_map(|Lists { tools, features, .. }| {
            let prefix = features.prefix()?;
            let named = tools.interfaces.iter().map(|uri| &**uri);
            let listed = features.interfaces().map(|(uri, _)| uri);
            Some(named.chain(listed).map(move |uri| (prefix, uri)))
        });
        let interfaces = Interfaces::new(all.flatten());
        if interfaces != *self.interfaces {
            self.interfaces = Arc::new(interfaces);
        }
    }

    /// Sets the configured targets and drops the lists of all others. Returns whether anything
    /// changed.
    pub fn configure(&mut self, routing: Routing) -> bool {
        let before = self.lists.len();
        self.lists.retain(|target, _| routing.has(target));
        self.unavailable.retain(|target| routing.has(target));
        self.stopped.retain(|target| routing.has(target));
        self.find_interfaces();
        let is_same = *self.routing == routing && before == self.lists.len();
        self.routing = Arc::new(routing);
        !is_same
    }

    /// Drops the lists of targets that moved. Returns whether there were any.
    pub(crate) fn forget(&mut self, moved: &[TargetId]) -> bool {
        let before = self.lists.len();
        self.lists.retain(|target, _| !moved.contains(target));
        self.unavailable.retain(|target| !moved.contains(target));
        let is_changed = before != self.lists.len();
        if is_changed {
            self.find_interfaces();
        }
        is_changed
    }

    /// Replaces the lists of a target. Returns whether they differ.
    pub fn replace(&mut self, target: &TargetId, lists: Lists) -> bool {
        if self.lists(target) == Some(&lists) {
            return false;
        }
        self.lists.insert(target.clone(), lists);
        self.find_interfaces();
        true
    }
}

/// The tools of one server.
#[derive(Debug, Default, PartialEq)]
pub struct Tools {
    by_name: BTreeMap<Box<str>, Tool>,
    /// The names of the tools in the order of the list.
    order: Vec<Box<str>>,
    /// The rejected tools and the reasons.
    left_out: Vec<(String, InvalidTool)>,
    /// The interfaces of MCP Apps that the tools name in `_meta`.
    interfaces: BTreeSet<Box<str>>,
    /// The card of an agent, which lists no tools.
    card: Option<Arc<str>>,
}

#[derive(Debug)]
struct Tool {
    definition: Box<RawValue>,
    mirrors: Vec<Mirror>,
}

impl PartialEq for Tool {
    fn eq(&self, other: &Self) -> bool {
        self.definition.get() == other.definition.get()
    }
}

impl Tools {
    /// The definition of an agent: its card, if it serves one.
    pub fn of_agent(card: Option<Arc<str>>) -> Self {
        Self { card, ..Self::default() }
    }

    /// The card of an agent as received.
    pub fn card(&self) -> Option<&str> {
        self.card.as_deref()
    }

    /// The raw definition of one tool.
    pub fn find(&self, tool: &str) -> Option<&RawValue> {
        self.by_name.get(tool).map(|tool| &*tool.definition)
    }

    /// All tools in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.by_name.iter().map(|(name, tool)| (name.as_ref(), &*tool.definition))
    }

    /// All tools in the order of the server's list.
    pub fn in_order(&self) -> impl Iterator<Item = &RawValue> {
        self.order.iter().filter_map(|name| self.find(name))
    }

    /// Whether the tool is listed but was rejected.
    pub fn has_left_out(&self, tool: &str) -> bool {
        self.find(tool).is_none() && self.left_out.iter().any(|(name, _)| name == tool)
    }

    /// The arguments of a tool that are mirrored into headers.
    pub(super) fn mirrors(&self, tool: &str) -> &[Mirror] {
        self.by_name.get(tool).map_or(&[], |tool| &tool.mirrors)
    }

    /// Logs the rejected tools.
    pub(super) fn warn(&self, server: &TargetId) {
        for (name, reason) in self.left_out.iter().take(LOGGED) {
            tracing::warn!(
                target.server = %server, tool.name = name, reason = cut(&reason.to_string()),
                "rejected a tool of the upstream"
            );
        }
        let more = self.left_out.len().saturating_sub(LOGGED);
        if more > 0 {
            tracing::warn!(target.server = %server, tools = more, "rejected more tools of the upstream");
        }
    }

    /// Adds a page of `tools/list` and returns the cursor of the next one. Unusable tools are
    /// rejected.
    pub fn add_page(&mut self, page: &RawValue) -> Result<Option<String>, Error> {
        let page: Page<'_> =
            jsonrpc::read_object(page).ok_or(ProtocolViolation::Shape("tools/list"))?;
        for definition in page.tools {
            match Tool::parse(definition, &mut self.interfaces) {
                Ok((name, tool)) => {
                    if let Entry::Vacant(entry) = self.by_name.entry(name) {
                        self.order.push(entry.key().clone());
                        entry.insert(tool);
                    }
                }
                Err(left_out) => self.left_out.push(left_out),
            }
        }
        if self.by_name.len() + self.left_out.len() > MAX_TOOLS {
            return Err(ProtocolViolation::EndlessList.into());
        }
        Ok(page.next_cursor)
    }
}

/// A shortened text of the upstream.
fn cut(text: &str) -> String {
    text.chars().take(KEPT_CHARS).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    input_schema: Option<&'a RawValue>,
    #[serde(rename = "_meta", borrow)]
    meta: Option<&'a RawValue>,
}

/// The interfaces of MCP Apps in the `_meta` of a tool.
pub fn interfaces_in(meta: &Value) -> BTreeSet<Box<str>> {
    let (mut found, mut waiting) = (BTreeSet::new(), vec![meta]);
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(uri) if naming::is_interface(uri) => {
                found.insert(uri.as_str().into());
            }
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) => waiting.extend(members.values()),
            _ => {}
        }
    }
    found
}

/// The reason why a listed tool is rejected.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum InvalidTool {
    #[error("the tool has no name")]
    Nameless,
    #[error(transparent)]
    Annotation(#[from] InvalidAnnotation),
}

impl Tool {
    fn parse(
        definition: &RawValue,
        interfaces: &mut BTreeSet<Box<str>>,
    ) -> Result<(Box<str>, Self), (String, InvalidTool)> {
        let named: Named<'_> = jsonrpc::read_object(definition)
            .ok_or_else(|| (String::new(), InvalidTool::Nameless))?;
        let mirrors = named.input_schema.map_or(Ok(Vec::new()), header::mirrors);
        let mirrors = mirrors.map_err(|error| (cut(&named.name), error.into()))?;
        let meta = named.meta.filter(|raw| raw.get().contains("ui:"));
        let meta = meta.and_then(|raw| serde_json::from_str(raw.get()).ok());
        interfaces.extend(interfaces_in(&meta.unwrap_or_default()));
        Ok((named.name.into(), Self { definition: definition.to_owned(), mirrors }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn pages_accumulate_and_unusable_tools_are_rejected() {
        let mut tools = Tools::default();
        let first = page(
            r#"{"tools":[{"name":"b","x":1.0},{"title":"nameless"},["arrayed"],
               {"name":"bad","inputSchema":{"x-mcp-header":"A"}}],"nextCursor":""}"#,
        );
        assert_eq!(tools.add_page(&first).unwrap().as_deref(), Some(""));
        let last = page(r#"{"tools":[{"name":"a"},{"name":"b","second":true}]}"#);
        assert_eq!(tools.add_page(&last).unwrap(), None);
        let listed: Vec<_> = tools.iter().map(|(name, raw)| (name, raw.get())).collect();
        assert_eq!(listed, [("a", r#"{"name":"a"}"#), ("b", r#"{"name":"b","x":1.0}"#)]);
        let left_out: Vec<_> = tools.left_out.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(left_out, ["", "", "bad"]);
        let in_order: Vec<_> = tools.in_order().map(RawValue::get).collect();
        assert_eq!(in_order, [r#"{"name":"b","x":1.0}"#, r#"{"name":"a"}"#]);
        let asked = ["bad", "a", "unheard of"].map(|name| tools.has_left_out(name));
        assert_eq!(asked, [true, false, false]);
        for none in ["[]", r#"[[{"name":"a"}],null]"#] {
            assert!(tools.add_page(&page(none)).is_err());
        }
    }

    #[test]
    fn rejected_tools_are_logged_briefly() {
        let mut tools = Tools::default();
        let unusable =
            |i: u32| format!(r#"{{"name":"{i:x>9999}","inputSchema":{{"x-mcp-header":1}}}}"#);
        let all: Vec<_> = (0..900).map(unusable).collect();
        tools.add_page(&page(&format!(r#"{{"tools":[{}]}}"#, all.join(",")))).unwrap();

        gateway_testkit::keep_second_subscriber();
        let log = tempfile::NamedTempFile::new().unwrap();
        let writer = Arc::new(log.reopen().unwrap());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
        let server = "server/a@1.0.0".parse().unwrap();
        tracing::subscriber::with_default(subscriber, || tools.warn(&server));
        let text = std::fs::read_to_string(log.path()).unwrap();
        assert_eq!(text.lines().count(), LOGGED + 1, "{text}");
        assert!(text.len() < 20_000 && text.contains("tools=880"), "{text}");
    }

    #[test]
    fn equal_list_is_not_a_change() {
        let key: Key = "server/a@1.0.0".parse().unwrap();
        let server = TargetId::from(&key);
        let tools = |text: &str| {
            let mut tools = Tools::default();
            tools.add_page(&page(text)).unwrap();
            Arc::new(tools)
        };
        let mut all = Definitions::default();
        all.configure([server.clone()].into_iter().collect());
        let transport = Arc::new(crate::tests::http_at("http://127.0.0.1:1/mcp"));
        let mut replace = |text: &str| {
            let (tools, transport) = (tools(text), Arc::clone(&transport));
            all.replace(&server, Lists { tools, features: Arc::default(), transport })
        };
        assert!(replace(r#"{"tools":[]}"#));
        assert!(replace(r#"{"tools":[{"name":"a"}]}"#));
        assert!(!replace(r#"{"tools":[{"name":"a"}],"ttlMs":1}"#));
        assert!(all.find_tool(&key, "a").is_some());
    }

    #[test]
    fn stopped_target_is_unavailable_until_it_starts() {
        let key: Key = "server/a@1.0.0".parse().unwrap();
        let target: TargetId = "server/a@*".parse().unwrap();
        let mut all = Definitions::default();
        all.configure([target.clone()].into_iter().collect());
        all.set_available(&target, false);
        all.set_stopped([target.clone()].into());
        assert!(all.is_stopped(&key) && !all.is_available(&key));
        assert!(all.has_stopped(&[target].into()));
        all.set_stopped(BTreeSet::new());
        assert!(!all.is_stopped(&key) && all.is_available(&key));
    }

    #[test]
    fn down_target_is_unavailable_until_it_is_up_or_removed() {
        let key: Key = "server/a@1.0.0".parse().unwrap();
        let target: TargetId = "server/a@*".parse().unwrap();
        let mut all = Definitions::default();
        all.configure([target.clone()].into_iter().collect());
        assert!(all.is_available(&key));
        assert!(all.set_available(&target, false));
        assert!(!all.set_available(&target, false));
        assert!(!all.is_available(&key));
        assert!(all.set_available(&target, true));
        assert!(all.is_available(&key));

        all.set_available(&target, false);
        all.configure(Routing::default());
        all.configure([target].into_iter().collect());
        assert!(all.is_available(&key));
    }
}
