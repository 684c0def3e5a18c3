//! The backend of a served tool: a tool of a server, a skill of an agent, or a composition of other
//! tools.

use std::{
    collections::{BTreeMap, HashSet},
    hash::{DefaultHasher, Hash as _},
    sync::{Arc, Mutex, PoisonError},
};

use foldhash::HashMap;
use gateway_protocol::{jsonrpc::Object, mcp::Method};
use gateway_upstream::{Route, TargetId, Tools, interfaces_in};
use registry_core::{
    Catalog, Key, Record,
    entity::{Agent, Dependency, Skill, Tool},
};
use serde_json::{Value, value::RawValue};

use super::{Composed, ServedTool, Snapshot, TaskSupport};
use crate::contract::{ContractAnswer, Contracts, LiveTools};

#[derive(Debug)]
pub(crate) enum Backend {
    Upstream(UpstreamBinding),
    Composed(Arc<Composed>),
}

/// The tool of a server or the skill of an agent.
#[derive(Debug)]
pub(crate) struct UpstreamBinding {
    pub(crate) server: Key,
    pub(crate) tool: Arc<str>,
    /// The upstream method.
    pub(super) method: Method,
    pub(super) live: Option<Arc<Tools>>,
    pub(super) tasks: TaskSupport,
    /// The MCP Apps interfaces in its `_meta`, with the callers' URIs.
    pub(super) interfaces: BTreeMap<Box<str>, Box<str>>,
    /// The target. `None`: it cannot be called here.
    pub(super) route: Option<Route>,
    /// Whether the target is not known to be down.
    pub(super) is_available: bool,
}

impl UpstreamBinding {
    fn live(&self) -> LiveTools<'_> {
        let is_provisional = self.route.as_ref().is_some_and(|route| route.is_fallback);
        LiveTools { tools: self.live.as_ref(), is_provisional }
    }
}

impl Backend {
    /// Returns `None` if the upstream's definition is unusable, or a part of a composition.
    pub(super) fn new(
        snapshot: &Snapshot,
        tool: &Tool,
        mut part: impl FnMut(&Dependency) -> Option<Arc<ServedTool>>,
    ) -> Option<Self> {
        let Some(source) = tool.source() else {
            // Steps have no client that could wait for a task.
            let callable = |declared: &Dependency| {
                part(declared).filter(|served| served.task_support() != TaskSupport::Required)
            };
            return Composed::new(tool, callable)
                .map(|composed| Self::Composed(Arc::new(composed)));
        };
        let server = source.server_key();
        let live = snapshot.definitions.find(&server).cloned();
        if live.as_ref().is_some_and(|tools| tools.has_left_out(&source.tool)) {
            return None;
        }
        let features = snapshot.definitions.features(&server).map(Arc::as_ref);
        let definition = live.as_ref().and_then(|tools| tools.find(&source.tool));
        let tasks = TaskSupport::from_definition(features, definition);
        let meta = match &tool.meta {
            Some(meta) => Some(Value::Object(meta.clone())),
            None => definition.and_then(meta_of),
        };
        let interfaces = interfaces_in(&meta.unwrap_or_default());
        let known = |own: Box<str>| {
            let known = snapshot.definitions.known_uri(&server, &own)?.into();
            Some((own, known))
        };
        let interfaces = interfaces.into_iter().filter_map(known).collect();
        let (tool, method) = (source.tool.as_str().into(), Method::CallTool);
        let route = route_of(snapshot, &server, &source.tool);
        Some(Self::Upstream(UpstreamBinding {
            is_available: snapshot.definitions.is_available(&server),
            server,
            tool,
            method,
            live,
            tasks,
            interfaces,
            route,
        }))
    }

    /// Creates the backend of a skill. Agents list no tools.
    pub(super) fn to_skill(
        snapshot: &Snapshot,
        key: &Key,
        (agent, skill): (&Agent, &Skill),
    ) -> Self {
        let (takes_text, gives_text) = (skill.takes_text(agent), skill.gives_text(agent));
        let streams = agent.capabilities.streaming == Some(true);
        let method = Method::SendMessage { takes_text, gives_text, streams };
        let live = snapshot.definitions.find(key).cloned();
        Self::Upstream(UpstreamBinding {
            server: key.clone(),
            tool: skill.id.as_str().into(),
            method,
            live,
            tasks: TaskSupport::Forbidden,
            interfaces: BTreeMap::new(),
            route: snapshot.definitions.route(key),
            is_available: snapshot.definitions.is_available(key),
        })
    }

    /// Hashes all inputs except documents.
    pub(super) fn hash(&self, hasher: &mut DefaultHasher) {
        match self {
            Self::Upstream(UpstreamBinding {
                tool, live, tasks, interfaces, is_available, ..
            }) => {
                tool.hash(hasher);
                tasks.hash(hasher);
                is_available.hash(hasher);
                interfaces.hash(hasher);
                text_in(live.as_ref(), tool).hash(hasher);
            }
            Self::Composed(composed) => {
                composed.parts().for_each(|(_, part)| part.fingerprint().hash(hasher));
            }
        }
    }

    pub(super) fn missing_target(&self) -> Option<&Key> {
        match self {
            Self::Upstream(UpstreamBinding { server, route, .. }) => {
                route.is_none().then_some(server)
            }
            Self::Composed(composed) => composed.missing_target(),
        }
    }

    /// Whether the target, or that of each part, is not known to be down.
    pub(super) fn is_available(&self) -> bool {
        match self {
            Self::Upstream(binding) => binding.is_available,
            Self::Composed(composed) => composed.parts().all(|(_, part)| part.is_available()),
        }
    }

    pub(super) fn is_quarantined(
        &self,
        snapshot: &Snapshot,
        record: &Record,
        contracts: &Contracts,
    ) -> ContractAnswer {
        let own = |live: LiveTools<'_>| contracts.is_quarantined(&snapshot.catalog, record, live);
        self.holds(own, ServedTool::is_quarantined)
    }

    /// Whether it, or a part, uses the target of a lower version that lists another definition or
    /// was not listed yet.
    pub(super) fn is_undeployed(
        &self,
        snapshot: &Snapshot,
        record: &Record,
        contracts: &Contracts,
    ) -> ContractAnswer {
        let own = |live: LiveTools<'_>| contracts.is_undeployed(&snapshot.catalog, record, live);
        self.holds(own, ServedTool::is_undeployed)
    }

    /// Evaluates a condition for the tool itself or for the parts of a composition.
    fn holds(
        &self,
        own: impl Fn(LiveTools<'_>) -> ContractAnswer,
        part: impl Fn(&ServedTool) -> bool,
    ) -> ContractAnswer {
        match self {
            Self::Upstream(binding) => own(binding.live()),
            // A part with a provisional answer is rebuilt later, which also rebuilds the
            // composition.
            Self::Composed(composed) => ContractAnswer {
                holds: composed.parts().any(|(_, served)| part(served)),
                is_provisional: false,
            },
        }
    }

    /// Whether the backend is unchanged.
    pub(super) fn is_current(
        &self,
        snapshot: &Snapshot,
        mut part: impl FnMut(&Dependency) -> Option<Arc<ServedTool>>,
    ) -> bool {
        match self {
            Self::Upstream(UpstreamBinding {
                server,
                live,
                tasks,
                tool,
                method,
                interfaces,
                route,
                is_available,
            }) => {
                let definition = live.as_ref().and_then(|tools| tools.find(tool));
                let features = snapshot.definitions.features(server).map(Arc::as_ref);
                let is_known = |own: &str, known: &str| {
                    snapshot.definitions.known_uri(server, own).as_deref() == Some(known)
                };
                let now = match method {
                    Method::CallTool => route_of(snapshot, server, tool),
                    _ => snapshot.definitions.route(server),
                };
                is_live_as(live.as_ref(), snapshot.definitions.find(server))
                    && now == *route
                    && snapshot.definitions.is_available(server) == *is_available
                    && (*method != Method::CallTool
                        || TaskSupport::from_definition(features, definition) == *tasks)
                    && interfaces.iter().all(|(own, known)| is_known(own, known))
            }
            Self::Composed(composed) => composed
                .parts()
                .all(|(declared, old)| part(declared).is_some_and(|new| Arc::ptr_eq(&new, old))),
        }
    }
}

/// The `_meta` of a definition, if it can name an interface.
fn meta_of(definition: &RawValue) -> Option<Value> {
    let members = Object::parse(definition).ok()?;
    let meta = members.find("_meta").filter(|raw| raw.get().contains("ui:"))?;
    serde_json::from_str(meta.get()).ok()
}

/// The target of a tool. The target of a lower version serves only the tools that it lists, or
/// before the first connection the registered tools of that version.
fn route_of(snapshot: &Snapshot, server: &Key, tool: &str) -> Option<Route> {
    let route = snapshot.definitions.route(server)?;
    let lists = || match snapshot.definitions.find(server) {
        Some(tools) => tools.find(tool).is_some(),
        None => snapshot.registered.has(&snapshot.catalog, &route.target, tool),
    };
    (!route.is_fallback || lists()).then_some(route)
}

/// The registered tools by target, for targets that were not listed yet.
#[derive(Debug, Default)]
pub(super) struct RegisteredTools(Mutex<HashMap<TargetId, HashSet<Box<str>>>>);

impl RegisteredTools {
    fn has(&self, catalog: &Catalog, target: &TargetId, tool: &str) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .entry(target.clone())
            .or_insert_with(|| upstream_names(catalog, target))
            .contains(tool)
    }
}

fn upstream_names(catalog: &Catalog, target: &TargetId) -> HashSet<Box<str>> {
    let TargetId { kind, name, version } = target.clone();
    let Some(version) = version else { return HashSet::new() };
    let server = Key::new(kind, name, version);
    let source = |key| catalog.find(key)?.document.entity().as_tool()?.source();
    let own = catalog.dependents(&server).filter_map(source);
    let own = own.filter(|source| source.server_key() == server);
    own.map(|source| source.tool.as_str().into()).collect()
}

fn text_in<'a>(tools: Option<&'a Arc<Tools>>, tool: &str) -> Option<&'a str> {
    tools?.find(tool).map(RawValue::get)
}

/// Compared by pointer: a served tool must not keep an old list alive.
fn is_live_as(old: Option<&Arc<Tools>>, new: Option<&Arc<Tools>>) -> bool {
    match (new, old) {
        (Some(new), Some(old)) => Arc::ptr_eq(new, old),
        (new, old) => new.is_none() && old.is_none(),
    }
}
