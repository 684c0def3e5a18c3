//! The catalog of a gateway without a registry: the MCP servers of `mcpServers` as they list
//! themselves.
//!
//! The lists of each server become its registration, which replaces the previous one. A server that
//! was not reached yet keeps its registration of the last run. The registry file beside the cache has
//! all of them, for `registryctl apply`.

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use gateway_upstream::{Definitions, Features, TargetId, TargetState, Tools, Upstreams};
use registry_core::{
    Catalog, Code, Diagnostic, Kind, Name, Record, RegistryFile, RegistryId, entity::Exposure,
    live::LiveServer, registry_file::FileError, rules::validate,
};
use registry_import::{
    By, Draft, Naming, Wishes,
    mcp_servers::{Conflict, Merged},
    server,
};
use serde_json::{Value, value::RawValue};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

use super::{
    content::{PLAIN, Rejected},
    intake::Intake,
};
use crate::{
    feed::Feed,
    files::{directory, replace_synced},
};

/// `metadata.managedBy` of discovered documents.
const MANAGER: &str = "discovered";
/// How long the start waits for the first lists.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a change waits for other changes.
const PAUSE: Duration = Duration::from_millis(100);
/// The interval between two looks at servers that do not answer yet.
const INTERVAL: Duration = Duration::from_secs(1);

/// `mcpServers`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiscoveryConfig {
    /// The file.
    pub file: PathBuf,
    /// The servers in the order of the file.
    pub servers: Vec<TargetId>,
    /// Whether names of tools begin with their server's name.
    pub has_prefix: bool,
    /// The problems of the servers that were left out.
    pub left_out: Vec<String>,
}

/// Discovers servers, and registers what they list.
#[derive(Debug)]
pub struct Discovery {
    config: watch::Receiver<Arc<DiscoveryConfig>>,
    upstreams: Arc<Upstreams>,
    /// The registry file.
    file: PathBuf,
    /// The registrations that were made of the servers' lists.
    known: HashMap<TargetId, Known>,
    /// The servers that were connected for their lists alone.
    visited: BTreeSet<TargetId>,
    /// The conflicts that the log has.
    reported: BTreeSet<Conflict>,
    /// What the last registration was made of.
    seen: Option<(Arc<Definitions>, Arc<DiscoveryConfig>)>,
    written: Option<Vec<u8>>,
}

/// The registration of a server, and the lists that it was made of.
#[derive(Debug)]
struct Known {
    tools: Arc<Tools>,
    features: Arc<Features>,
    has_prefix: bool,
    draft: Draft,
}

impl Discovery {
    /// Creates the discovery of these servers, which are among the upstreams. `file` is the path of the
    /// registry file.
    pub fn new(
        config: watch::Receiver<Arc<DiscoveryConfig>>,
        upstreams: Arc<Upstreams>,
        file: PathBuf,
    ) -> Self {
        Self {
            config,
            upstreams,
            file,
            known: HashMap::new(),
            visited: BTreeSet::new(),
            reported: BTreeSet::new(),
            seen: None,
            written: None,
        }
    }

    /// Waits until each server has answered or failed, but not longer than 5 s, and registers what was
    /// found. Returns at once if there is a catalog of the last run.
    pub(super) async fn first(&mut self, feed: &Feed) -> Result<(), Rejected> {
        if feed.cache.has_catalog() {
            return Ok(());
        }
        self.visit(&feed.cache.current());
        let deadline = Instant::now() + PATIENCE;
        let mut definitions = self.upstreams.definitions();
        while self.upstreams.health().iter().any(|t| matches!(t.state, TargetState::Connecting)) {
            // A target that fails changes no definitions.
            let _ = timeout_at(deadline.min(Instant::now() + PAUSE), definitions.changed()).await;
            if Instant::now() >= deadline {
                break;
            }
        }
        let mut intake = self.intake(feed);
        self.register(&mut intake, feed).await
    }

    /// Follows the servers until the source is stopped.
    pub(super) async fn follow(mut self, feed: Feed) -> Result<(), Rejected> {
        let mut definitions = self.upstreams.definitions();
        let mut config = self.config.clone();
        let mut intake = self.intake(&feed);
        loop {
            definitions.borrow_and_update();
            config.borrow_and_update();
            self.visit(&feed.cache.current());
            self.register(&mut intake, &feed).await?;
            tokio::select! {
                _ = definitions.changed() => sleep(PAUSE).await,
                Ok(()) = config.changed() => {}
                () = sleep(INTERVAL) => {}
                () = feed.stop.cancelled() => return Ok(()),
            }
        }
    }

    fn intake(&self, feed: &Feed) -> Intake {
        Intake::new(feed.clone(), self.file.display().to_string())
    }

    /// Connects servers that are not connected at start and whose tools are unknown; ends their
    /// connections once they have listed them.
    fn visit(&mut self, catalog: &Catalog) {
        let definitions = self.upstreams.definitions().borrow().clone();
        let config = self.config.borrow().clone();
        let health = self.upstreams.health();
        let idle = |id: &TargetId| {
            health.iter().any(|t| t.server == *id && matches!(t.state, TargetState::Idle))
        };
        for id in &config.servers {
            let is_listed = definitions.lists(id).is_some();
            if is_listed && self.visited.remove(id) {
                self.upstreams.rest(id);
            } else if !is_listed && idle(id) && registered(catalog, &id.name).is_none() {
                self.visited.insert(id.clone());
                self.upstreams.start_again(id);
            }
        }
    }

    /// Registers what the servers list now.
    async fn register(&mut self, intake: &mut Intake, feed: &Feed) -> Result<(), Rejected> {
        let definitions = self.upstreams.definitions().borrow().clone();
        let config = self.config.borrow().clone();
        let is_same = self.seen.as_ref().is_some_and(|(listed, configured)| {
            Arc::ptr_eq(listed, &definitions) && Arc::ptr_eq(configured, &config)
        });
        if is_same {
            intake.unchanged();
            return Ok(());
        }
        let draft = self.draft(&definitions, &config, &feed.cache.current());
        self.seen = Some((definitions, config));
        let bytes = draft.write();
        if self.written.as_ref() == Some(&bytes) {
            intake.unchanged();
            return Ok(());
        }
        intake.content(bytes.clone()).await?;
        let (servers, tools) = (draft.servers.len(), draft.tools.len());
        tracing::info!(servers, tools, "serving discovered MCP servers");
        let (file, content) = (self.file.clone(), bytes.clone());
        let writing = tokio::task::spawn_blocking(move || {
            std::fs::create_dir_all(directory(&file))?;
            replace_synced(&file, &content)
        });
        if let Ok(Err(error)) = writing.await {
            let file = self.file.display();
            tracing::warn!(%file, %error, "the discovered registry file cannot be written");
        }
        self.written = Some(bytes);
        Ok(())
    }

    /// The registrations of all servers, in the order of the file.
    fn draft(
        &mut self,
        definitions: &Definitions,
        config: &DiscoveryConfig,
        catalog: &Catalog,
    ) -> Draft {
        self.known.retain(|id, _| config.servers.contains(id));
        let mut all = Merged::default();
        for id in &config.servers {
            let draft = match definitions.lists(id) {
                Some(lists) => self.of_lists(id, lists, config.has_prefix),
                None => registered(catalog, &id.name).unwrap_or_default(),
            };
            for conflict in all.add(&id.name, draft) {
                if self.reported.insert(conflict.clone()) {
                    tracing::warn!("{conflict}");
                }
            }
        }
        all.draft.set_manager(MANAGER);
        all.draft
    }

    /// The registration of a server's lists.
    fn of_lists(
        &mut self,
        id: &TargetId,
        (tools, features): (&Arc<Tools>, &Arc<Features>),
        has_prefix: bool,
    ) -> Draft {
        if let Some(known) = self.known.get(id)
            && Arc::ptr_eq(&known.tools, tools)
            && Arc::ptr_eq(&known.features, features)
            && known.has_prefix == has_prefix
        {
            return known.draft.clone();
        }
        let draft = valid(id, import(&id.name, tools, features, has_prefix));
        let known = Known {
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
    let live = LiveServer {
        info: features.info().and_then(parsed).unwrap_or_default(),
        tools: tools.in_order().filter_map(parsed).collect(),
        features: exposed
            .into_iter()
            .filter(|(c, _)| capabilities.can(c))
            .map(|(_, e)| e)
            .collect(),
        ..LiveServer::default()
    };
    let prefix = if has_prefix { format!("{name}_") } else { String::new() };
    let naming = Naming { prefix, ..Naming::default() };
    let imported = server(&live, &Wishes { name: Some(name.clone()), naming, ..Wishes::default() });
    for repair in imported.repairs.iter().filter(|repair| repair.by == By::Person) {
        tracing::warn!(target.server = %name, at = repair.pointer, "{}", repair.what);
    }
    imported.draft
}

/// A server's registration without the tools that the rules reject.
fn valid(id: &TargetId, draft: Draft) -> Draft {
    if errors(&draft).is_empty() {
        return draft;
    }
    let server = draft.servers.first().cloned().unwrap_or_default();
    let mut kept = Draft { servers: vec![server], ..Draft::default() };
    kept.provide_only(|_| false);
    if let Some(error) = errors(&kept).first() {
        tracing::warn!(target.server = %id, "the server is left out: {error}");
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
            Some(error) => tracing::warn!(target.server = %id, "a tool is left out: {error}"),
        }
    }
    kept.servers.clone_from(&draft.servers);
    kept.provide_only(|tool| names.contains(tool));
    kept
}

/// The errors of a draft by the rules of the registry. A tool whose server is not in the draft has
/// none for that.
fn errors(draft: &Draft) -> Vec<Diagnostic> {
    let file = match RegistryFile::parse(&draft.write()) {
        Ok(file) => file,
        Err(FileError { diagnostics }) => return diagnostics,
    };
    let found = validate(&Catalog::empty(RegistryId::new(PLAIN)), file.proposals()).diagnostics;
    let is_error = |found: &Diagnostic| found.is_error() && found.code != Code::SourceUnknown;
    found.into_iter().filter(is_error).collect()
}

/// A server's registration in a discovered catalog.
fn registered(catalog: &Catalog, name: &Name) -> Option<Draft> {
    if catalog.registry().as_str() != PLAIN {
        return None;
    }
    let document = |record: &Record| serde_json::from_slice::<Value>(record.document.bytes()).ok();
    let (_, record) = catalog.versions(Kind::Server, name).next()?;
    let server = document(record)?;
    let provided = server["provides"].as_array().cloned().unwrap_or_default();
    let tools = provided.iter().filter_map(|entry| {
        let tool = Name::parse(Kind::Tool, entry["tool"].as_str()?).ok()?;
        let (_, record) = catalog.versions(Kind::Tool, &tool).next()?;
        document(record)
    });
    Some(Draft { tools: tools.collect(), servers: vec![server], ..Draft::default() })
}
