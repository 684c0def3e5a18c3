//! The catalog of a gateway without a registry: the discovered MCP servers of `mcpServers`, and the
//! data agents that registered themselves.
//!
//! The lists of each server become its registration, which replaces the previous one. A server that
//! was not reached yet keeps the registration of the last run. The registry file next to the cache
//! contains all of them, for `registryctl apply`.

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use atomic_file::{Access, parent_directory};
use gateway_upstream::{
    Definitions, Features, Lists, TargetId, TargetState, Tools, TransportConfig, Upstreams,
};
use registry_core::{
    Catalog, Code, Diagnostic, Digest, Kind, Name, Record, RegistryFile, RegistryId,
    entity::Exposure, limits::LIST_ITEMS, live::LiveServer, registry_file::FileError,
    rules::validate,
};
use registry_import::{
    Draft, Naming, RepairedBy, ServerImportOptions, import_server, invalid_member,
    mcp_servers::{Conflict, Merged, summary},
};
use serde_json::{Value, json, value::RawValue};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

use super::{
    content::{ContentRejected, PLAIN_REGISTRY},
    loader::ContentLoader,
};
use crate::{feed::Feed, registrations::LocalAgents};

/// `metadata.managedBy` of discovered documents.
const MANAGER: &str = "discovered";
/// The `metadata` key with [`DiscoveredServer::origin`].
const ORIGIN: &str = "discoveredFrom";
/// Maximum wait for the first lists at start.
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay that combines several changes.
const PAUSE: Duration = Duration::from_millis(100);
/// Polling interval of unreachable servers.
const INTERVAL: Duration = Duration::from_secs(1);

/// The `mcpServers` section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiscoveryConfig {
    /// The servers file.
    pub file: PathBuf,
    /// The servers in the order of the file.
    pub servers: Vec<DiscoveredServer>,
    /// Whether tool names have their server's name as prefix.
    pub has_prefix: bool,
    /// The problems of skipped servers.
    pub skipped: Vec<String>,
    /// The settings that have no effect or may not work.
    pub warnings: Vec<String>,
}

/// A server of the servers file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredServer {
    /// The server's target.
    pub id: TargetId,
    /// Its program or URL.
    pub transport: TransportConfig,
}

impl DiscoveredServer {
    /// The lists of the server. Lists of its previous program or URL are ignored, because the
    /// targets and this configuration do not change at the same time.
    fn lists<'a>(&self, definitions: &'a Definitions) -> Option<&'a Lists> {
        definitions.lists(&self.id).filter(|lists| *lists.transport == self.transport)
    }

    /// The digest of the program or URL. Headers and environment variables do not count, because
    /// they may be secrets.
    fn origin(&self, has_prefix: bool) -> String {
        let text = match &self.transport {
            TransportConfig::Http { url, .. } => url.clone(),
            TransportConfig::Stdio { command, args, cwd, .. } => {
                json!([command, args, cwd]).to_string()
            }
            // A servers file has no data agents.
            TransportConfig::DataAgent(_) => String::new(),
        };
        Digest::compute(format!("{text} {has_prefix}").as_bytes()).to_string()
    }
}

/// Discovers servers, and registers their lists.
#[derive(Debug)]
pub struct Discovery {
    config: watch::Receiver<Arc<DiscoveryConfig>>,
    agents: watch::Receiver<LocalAgents>,
    upstreams: Arc<Upstreams>,
    /// The path of the registry file.
    file: PathBuf,
    /// The registrations of listed servers.
    known: HashMap<TargetId, KnownServer>,
    /// Servers that were connected only to list them; each is connected once.
    listing: HashMap<TargetId, ListingConnection>,
    /// The logged conflicts.
    reported: BTreeSet<Conflict>,
    /// The data agents that are left out.
    skipped_agents: BTreeSet<Name>,
    /// The input of the last registration.
    seen: Option<(Arc<Definitions>, Arc<DiscoveryConfig>, LocalAgents)>,
    written: Option<Vec<u8>>,
    /// Whether a failed write was logged.
    has_write_failed: bool,
}

/// A connection to a server only to list it.
#[derive(Debug)]
struct ListingConnection {
    transport: TransportConfig,
    is_over: bool,
}

/// A registration and the lists that it came from.
#[derive(Debug)]
struct KnownServer {
    tools: Arc<Tools>,
    features: Arc<Features>,
    has_prefix: bool,
    draft: Draft,
}

impl Discovery {
    /// Creates the discovery of servers among the upstreams. `file` is the path of the registry
    /// file, and `agents` are the registered data agents.
    pub fn new(
        config: watch::Receiver<Arc<DiscoveryConfig>>,
        agents: watch::Receiver<LocalAgents>,
        upstreams: Arc<Upstreams>,
        file: PathBuf,
    ) -> Self {
        Self {
            config,
            agents,
            upstreams,
            file,
            known: HashMap::new(),
            listing: HashMap::new(),
            reported: BTreeSet::new(),
            skipped_agents: BTreeSet::new(),
            seen: None,
            written: None,
            has_write_failed: false,
        }
    }

    /// Waits up to 5 s until each server has answered or failed, then registers the results.
    /// Returns immediately if the cache has a catalog.
    pub(super) async fn first(&mut self, feed: &Feed) -> Result<(), ContentRejected> {
        if feed.cache.has_catalog() {
            return Ok(());
        }
        self.list_idle_servers(&feed.cache.current());
        let deadline = Instant::now() + START_TIMEOUT;
        let mut definitions = self.upstreams.definitions();
        while self.upstreams.health().iter().any(|t| matches!(t.state, TargetState::Connecting)) {
            // A failing target does not change definitions.
            let _ = timeout_at(deadline.min(Instant::now() + PAUSE), definitions.changed()).await;
            if Instant::now() >= deadline {
                break;
            }
        }
        let mut loader = self.loader(feed);
        self.register(&mut loader, feed).await
    }

    /// Follows the servers until the source is stopped.
    pub(super) async fn follow(mut self, feed: Feed) -> Result<(), ContentRejected> {
        let mut definitions = self.upstreams.definitions();
        let (mut config, mut agents) = (self.config.clone(), self.agents.clone());
        let mut loader = self.loader(&feed);
        loop {
            definitions.borrow_and_update();
            config.borrow_and_update();
            agents.borrow_and_update();
            self.list_idle_servers(&feed.cache.current());
            self.register(&mut loader, &feed).await?;
            tokio::select! {
                _ = definitions.changed() => sleep(PAUSE).await,
                Ok(()) = config.changed() => {}
                Ok(()) = agents.changed() => {}
                () = sleep(INTERVAL) => {}
                () = feed.stop.cancelled() => return Ok(()),
            }
        }
    }

    fn loader(&self, feed: &Feed) -> ContentLoader {
        ContentLoader::new(feed.clone(), self.file.display().to_string())
    }

    /// Connects servers without `autoStart` whose tools are unknown, until they are listed or fail.
    fn list_idle_servers(&mut self, catalog: &Catalog) {
        let definitions = self.upstreams.definitions().borrow().clone();
        let config = self.config.borrow().clone();
        let health = self.upstreams.health();
        for server in &config.servers {
            let state = health.iter().find(|target| target.server == server.id);
            let Some(state) = state.map(|target| &target.state) else { continue };
            let is_listed = server.lists(&definitions).is_some();
            let known = self.listing.get_mut(&server.id);
            match known.filter(|known| known.transport == server.transport) {
                Some(connection) => {
                    let is_down = matches!(state, TargetState::Down { .. });
                    if !connection.is_over && (is_listed || is_down) {
                        connection.is_over = true;
                        self.upstreams.leave_idle(&server.id);
                    }
                }
                None if matches!(state, TargetState::Idle)
                    && !is_listed
                    && registered(catalog, server, config.has_prefix).is_none() =>
                {
                    let transport = server.transport.clone();
                    let connection = ListingConnection { transport, is_over: false };
                    self.listing.insert(server.id.clone(), connection);
                    self.upstreams.resume(&server.id);
                }
                None => {}
            }
        }
    }

    /// Registers the current lists.
    async fn register(
        &mut self,
        loader: &mut ContentLoader,
        feed: &Feed,
    ) -> Result<(), ContentRejected> {
        let definitions = self.upstreams.definitions().borrow().clone();
        let config = self.config.borrow().clone();
        let agents = self.agents.borrow().clone();
        let is_same = self.seen.as_ref().is_some_and(|(listed, configured, registered)| {
            Arc::ptr_eq(listed, &definitions)
                && Arc::ptr_eq(configured, &config)
                && Arc::ptr_eq(registered, &agents)
        });
        if is_same {
            loader.unchanged();
            return Ok(());
        }
        let draft = self.draft((&definitions, &config), &agents, &feed.cache.current());
        let bytes = draft.write();
        if self.written.as_ref() == Some(&bytes) {
            self.seen = Some((definitions, config, agents));
            loader.unchanged();
            return Ok(());
        }
        loader.content(bytes.clone()).await?;
        let (file, content) = (self.file.clone(), bytes.clone());
        let writing = tokio::task::spawn_blocking(move || {
            std::fs::create_dir_all(parent_directory(&file))?;
            atomic_file::replace(&file, &content, Access::Default)
        });
        if let Ok(Err(error)) = writing.await {
            if !self.has_write_failed {
                let file = self.file.display();
                tracing::warn!(%file, %error, "cannot write the discovered registry file; free disk space, or set another directory with --data");
            }
            self.has_write_failed = true;
            return Ok(());
        }
        let (servers, tools) = (draft.servers.len(), draft.tools.len());
        tracing::info!(servers, tools, "serving discovered MCP servers");
        self.has_write_failed = false;
        self.seen = Some((definitions, config, agents));
        self.written = Some(bytes);
        Ok(())
    }

    /// The registrations of all servers, in the order of the file.
    fn draft(
        &mut self,
        (definitions, config): (&Definitions, &DiscoveryConfig),
        agents: &LocalAgents,
        catalog: &Catalog,
    ) -> Draft {
        self.known.retain(|id, _| config.servers.iter().any(|server| server.id == *id));
        let (mut all, mut conflicts) = (Merged::default(), Vec::new());
        for server in &config.servers {
            let draft = match server.lists(definitions) {
                Some(lists) => self.of_lists(server, lists, config.has_prefix),
                None => registered(catalog, server, config.has_prefix).unwrap_or_default(),
            };
            conflicts.extend(all.add(&server.id.name, draft));
        }
        for (name, draft) in agents.iter() {
            if self.is_served(name, draft, config) {
                conflicts.extend(all.add(name, draft.clone()));
            }
        }
        conflicts.retain(|conflict| self.reported.insert(conflict.clone()));
        if let Some(summary) = summary(&conflicts) {
            tracing::warn!("{summary}");
        }
        all.draft.set_manager(MANAGER);
        all.draft
    }

    /// Whether a data agent is served beside the servers of the file. One invalid agent would prevent
    /// the registration of all servers.
    fn is_served(&mut self, name: &Name, draft: &Draft, config: &DiscoveryConfig) -> bool {
        let problem = if config.servers.iter().any(|server| server.id.name == *name) {
            Some("a server of the servers file has its name; rename one of them".to_owned())
        } else {
            errors(draft).first().map(ToString::to_string)
        };
        let Some(problem) = problem else {
            self.skipped_agents.remove(name);
            return true;
        };
        if self.skipped_agents.insert(name.clone()) {
            tracing::warn!(agent.name = %name, "data agent skipped: {problem}");
        }
        false
    }

    /// The registration of a server's lists.
    fn of_lists(
        &mut self,
        server: &DiscoveredServer,
        Lists { tools, features, .. }: &Lists,
        has_prefix: bool,
    ) -> Draft {
        let id = &server.id;
        if let Some(known) = self.known.get(id)
            && Arc::ptr_eq(&known.tools, tools)
            && Arc::ptr_eq(&known.features, features)
            && known.has_prefix == has_prefix
        {
            return known.draft.clone();
        }
        let mut draft = valid(id, import(&id.name, tools, features, has_prefix));
        for document in &mut draft.servers {
            document["metadata"][ORIGIN] = server.origin(has_prefix).into();
        }
        let known = KnownServer {
            tools: Arc::clone(tools),
            features: Arc::clone(features),
            has_prefix,
            draft: draft.clone(),
        };
        self.known.insert(id.clone(), known);
        draft
    }
}

fn import(name: &Name, tools: &Tools, features: &Features, has_prefix: bool) -> Draft {
    let parsed = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
    let capabilities = features.capabilities();
    let exposed = [("prompts", Exposure::Prompts), ("resources", Exposure::Resources)];
    let listed: Vec<_> = tools.in_order().filter_map(parsed).collect();
    let unread = listed.iter().enumerate().filter_map(|(i, tool)| Some((i, invalid_member(tool)?)));
    let live = LiveServer {
        info: features.info().and_then(parsed).unwrap_or_default(),
        unread: unread.collect(),
        tools: listed,
        features: exposed
            .into_iter()
            .filter(|(c, _)| capabilities.has(c))
            .map(|(_, e)| e)
            .collect(),
    };
    let prefix = if has_prefix { format!("{name}_") } else { String::new() };
    let naming = Naming { prefix, ..Naming::default() };
    let imported = import_server(
        &live,
        &ServerImportOptions { name: Some(name.clone()), naming, ..ServerImportOptions::default() },
    );
    for repair in imported.repairs.iter().filter(|repair| repair.by == RepairedBy::Person) {
        let index = repair.pointer.split('/').nth(2).and_then(|index| index.parse::<usize>().ok());
        let tool = index.and_then(|index| live.tools.get(index)?["name"].as_str());
        tracing::warn!(
            target.server = %name,
            tool.name = tool,
            at = repair.pointer,
            "review a definition of the server: {}",
            repair.what
        );
    }
    let mut draft = imported.draft;
    // Without its own schema, a tool would be served with the rejected one.
    let has_schemas = |tool: &Value| {
        let own = live.tools.iter().find(|own| own["name"] == tool["source"]["tool"]);
        ["inputSchema", "outputSchema"].into_iter().all(|schema| {
            tool.get(schema).is_some() || own.is_none_or(|own| own.get(schema).is_none())
        })
    };
    draft.tools.retain(has_schemas);
    if let Some(warning) = truncate(&mut draft.tools) {
        tracing::warn!(target.server = %name, "{warning}");
    }
    let kept: BTreeSet<_> =
        draft.tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect();
    draft.provide_only(|tool| kept.contains(tool));
    draft
}

/// Removes the tools beyond the maximum of one server, and returns a warning about them.
fn truncate(tools: &mut Vec<Value>) -> Option<String> {
    let listed = tools.len();
    tools.truncate(LIST_ITEMS);
    (listed > LIST_ITEMS).then(|| {
        format!(
            "the server has {listed} tools, and the maximum is {LIST_ITEMS}; the first \
             {LIST_ITEMS} are served; split the server, or disable tools in it"
        )
    })
}

/// Removes the tools that the registry's rules reject.
fn valid(id: &TargetId, draft: Draft) -> Draft {
    if errors(&draft).is_empty() {
        return draft;
    }
    let server = draft.servers.first().cloned().unwrap_or_default();
    let mut kept = Draft { servers: vec![server], ..Draft::default() };
    kept.provide_only(|_| false);
    if let Some(error) = errors(&kept).first() {
        tracing::warn!(target.server = %id, "server skipped: {error}");
        return Draft::default();
    }
    let mut names = BTreeSet::new();
    for tool in draft.tools {
        let alone = Draft { tools: vec![tool], ..Draft::default() };
        match errors(&alone).first() {
            None => {
                names.extend(alone.tools[0]["name"].as_str().map(str::to_owned));
                kept.tools.extend(alone.tools);
            }
            Some(error) => tracing::warn!(target.server = %id, "tool skipped: {error}"),
        }
    }
    kept.servers.clone_from(&draft.servers);
    kept.provide_only(|tool| names.contains(tool));
    kept
}

/// The errors of a draft by the registry's rules, except for tools whose server is not in the
/// draft.
fn errors(draft: &Draft) -> Vec<Diagnostic> {
    let file = match RegistryFile::parse(&draft.write()) {
        Ok(file) => file,
        Err(FileError { diagnostics }) => return diagnostics,
    };
    let found =
        validate(&Catalog::empty(RegistryId::new(PLAIN_REGISTRY)), file.proposals()).diagnostics;
    let is_error = |found: &Diagnostic| found.is_error() && found.code != Code::SourceUnknown;
    found.into_iter().filter(is_error).collect()
}

/// A server's registration in a discovered catalog.
fn registered(catalog: &Catalog, server: &DiscoveredServer, has_prefix: bool) -> Option<Draft> {
    if catalog.registry().as_str() != PLAIN_REGISTRY {
        return None;
    }
    let document = |record: &Record| serde_json::from_slice::<Value>(record.document.bytes()).ok();
    let (_, record) = catalog.versions(Kind::Server, &server.id.name).next()?;
    let document_of_server = document(record)?;
    if document_of_server["metadata"][ORIGIN] != server.origin(has_prefix) {
        return None;
    }
    let provided = document_of_server["provides"].as_array().cloned().unwrap_or_default();
    let tools = provided.iter().filter_map(|entry| {
        let tool = Name::parse(Kind::Tool, entry["tool"].as_str()?).ok()?;
        let (_, record) = catalog.versions(Kind::Tool, &tool).next()?;
        document(record)
    });
    let servers = vec![document_of_server];
    Some(Draft { tools: tools.collect(), servers, ..Draft::default() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gateway_upstream::{Addresses, UpstreamLimits};
    use serde_json::value::to_raw_value;

    use super::*;

    fn transport(url: &str) -> TransportConfig {
        TransportConfig::Http {
            url: url.to_owned(),
            headers: BTreeMap::new(),
            auth: None,
            tls: None,
            addresses: Addresses::default(),
            is_grpc: false,
        }
    }

    #[tokio::test]
    async fn lists_of_previous_program_are_not_registered() {
        let id: TargetId = "server/a@*".parse().unwrap();
        let mut tools = Tools::default();
        let listed = json!({ "tools": [{ "name": "t", "inputSchema": { "type": "object" } }] });
        tools.add_page(&to_raw_value(&listed).unwrap()).unwrap();
        let (tools, features) = (Arc::new(tools), Arc::default());
        let transport_of_lists = Arc::new(transport("http://127.0.0.1:1/old"));
        let mut definitions = Definitions::default();
        definitions.configure([id.clone()].into_iter().collect());
        definitions.replace(&id, Lists { tools, features, transport: transport_of_lists });
        let upstreams = Upstreams::start(&[], UpstreamLimits::default());
        let (_sender, config) = watch::channel(Arc::default());
        let (_agents, agents) = watch::channel(LocalAgents::default());
        let mut discovery = Discovery::new(config, agents, upstreams, PathBuf::new());
        let mut registered_tools = |url: &str| {
            let server = DiscoveredServer { id: id.clone(), transport: transport(url) };
            let config = DiscoveryConfig { servers: vec![server], ..DiscoveryConfig::default() };
            let catalog = Catalog::empty(RegistryId::new(PLAIN_REGISTRY));
            let agents = LocalAgents::default();
            discovery.draft((&definitions, &config), &agents, &catalog).tools.len()
        };
        assert_eq!(registered_tools("http://127.0.0.1:1/old"), 1);
        assert_eq!(registered_tools("http://127.0.0.1:1/new"), 0);
    }

    #[tokio::test]
    async fn data_agents_that_cannot_be_served_are_left_out() {
        let agent = |(name, version): (&str, &str)| {
            let server = json!({ "name": name, "version": version, "provides": [] });
            let draft = Draft { servers: vec![server], ..Draft::default() };
            (Name::parse(Kind::Server, name).unwrap(), draft)
        };
        let agents = [("late", "1.0.0"), ("broken", "none"), ("extractor", "1.0.0")].map(agent);
        let agents: LocalAgents = Arc::new(BTreeMap::from(agents));
        let server = DiscoveredServer {
            id: "server/late@*".parse().unwrap(),
            transport: transport("http://127.0.0.1:1/mcp"),
        };
        let (_sender, configured) = watch::channel(Arc::default());
        let upstreams = Upstreams::start(&[], UpstreamLimits::default());
        let registered = watch::channel(Arc::clone(&agents)).1;
        let mut discovery = Discovery::new(configured, registered, upstreams, PathBuf::new());
        let mut names_with = |servers: Vec<DiscoveredServer>| {
            let config = DiscoveryConfig { servers, ..DiscoveryConfig::default() };
            let catalog = Catalog::empty(RegistryId::new(PLAIN_REGISTRY));
            let draft = discovery.draft((&Definitions::default(), &config), &agents, &catalog);
            let names = draft.servers.iter().filter_map(|server| server["name"].as_str());
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(names_with(vec![server]), ["extractor"], "the server is not listed yet");
        assert_eq!(names_with(Vec::new()), ["extractor", "late"]);
    }

    #[test]
    fn tools_beyond_the_maximum_are_reported_and_left_out() {
        let tool = |i: usize| json!({ "name": format!("t{i}") });
        let mut tools: Vec<_> = (0..LIST_ITEMS).map(tool).collect();
        assert_eq!(truncate(&mut tools), None);
        tools.extend((LIST_ITEMS..1_200).map(tool));
        let warning = truncate(&mut tools).unwrap();
        assert!(warning.contains("1200") && warning.contains("1000"), "{warning}");
        assert_eq!(tools.len(), LIST_ITEMS);
        assert_eq!(tools[LIST_ITEMS - 1]["name"], "t999");
    }
}
