//! Views: the tools that a caller can see. A view maps tool names to [`ServedTool`]s and contains
//! the pages of `tools/list` as bytes.
//!
//! Three layers are cached and invalidated separately: served tools (one tool version each), pages
//! (a sequence of served tools) and views (one audience). Each is computed on first use.

mod backend;
mod cell;
mod composed;
pub mod definition;
mod hints;
pub mod input;
mod order;
pub mod pages;
pub mod params;
pub mod served_tool;
mod skill_name;
mod tasks;
#[cfg(test)]
mod tests;
pub mod tool_cache;
pub mod validators;
pub mod visible_servers;

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use arc_swap::ArcSwap;
use foldhash::{HashMap, HashSet};
use gateway_policy::CallerIdentity;
use gateway_upstream::Definitions;
use registry_core::{
    Catalog, Document, Entity, Key, Kind, Name, Scope, Version,
    entity::{Agent, Dependency, DependencyTarget, Skill},
};
use tokio::sync::watch;

pub(crate) use self::backend::Backend;
use self::{backend::RegisteredTools, cell::ViewCell, pages::Pages, tool_cache::ToolCache};
pub use self::{
    composed::Composed,
    input::{InputSchema, ParamHeader},
    pages::{Cursor, Form, Listing},
    served_tool::ServedTool,
    tasks::TaskSupport,
    visible_servers::VisibleServer,
};
use crate::{
    contract::Contracts,
    freshness::StalenessLevel,
    governance::Governance,
    identity::agent_urls::{self, AgentUrls},
};

/// The callers that share a view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Audience {
    /// A registered agent, which sees the tools it declares.
    Agent(Key),
    /// Callers without an agent's identity, which see the newest version of every tool with a
    /// target. In a scope, only tools with all versions.
    Everyone,
    /// Callers that the policy rejects, which see nothing.
    Nobody,
}

impl Audience {
    /// The agent.
    pub fn agent(&self) -> Option<&Key> {
        match self {
            Self::Agent(agent) => Some(agent),
            Self::Everyone | Self::Nobody => None,
        }
    }
}

/// A catalog with the upstreams' definitions. A call uses one snapshot.
#[derive(Debug)]
pub struct Snapshot {
    /// The registry's catalog.
    pub catalog: Arc<Catalog>,
    /// The tools and features that upstreams list.
    pub definitions: Arc<Definitions>,
    /// The policies. `None`: none is in force.
    pub governance: Option<Arc<Governance>>,
    /// The sources, after these values.
    sources: Sources,
    serial: u64,
    registered: RegisteredTools,
    agent_urls: OnceLock<AgentUrls>,
}

impl Snapshot {
    /// The first snapshot. `own`: the policy of the gateway itself.
    fn first(mut sources: Sources, own: Option<&Arc<Document>>) -> Self {
        let (catalog, definitions) = sources.read();
        Self {
            governance: Governance::new(&catalog, own, None),
            catalog,
            definitions,
            sources,
            serial: 1,
            registered: RegisteredTools::default(),
            agent_urls: OnceLock::new(),
        }
    }

    /// Whether a catalog was loaded. It can be empty.
    pub fn has_catalog(&self) -> bool {
        !self.catalog.registry().as_str().is_empty()
    }

    /// The claim with the name of its agent, if it has the URL of a card instead.
    pub(crate) fn named<'a>(&self, claim: &'a CallerIdentity) -> Cow<'a, CallerIdentity> {
        if !agent_urls::is_url(claim) {
            return Cow::Borrowed(claim);
        }
        self.agent_urls.get_or_init(|| AgentUrls::new(&self.catalog)).named(claim)
    }
}

/// The sources of snapshots.
#[derive(Debug, Clone)]
struct Sources {
    catalog: watch::Receiver<Arc<Catalog>>,
    definitions: watch::Receiver<Arc<Definitions>>,
}

impl Sources {
    /// Reads the current values.
    fn read(&mut self) -> (Arc<Catalog>, Arc<Definitions>) {
        let catalog = self.catalog.borrow_and_update().clone();
        (catalog, self.definitions.borrow_and_update().clone())
    }

    /// Whether both sources are open and have sent no value since [`Self::read`]. It takes no lock, which
    /// all calls would share.
    fn are_unchanged(&self) -> bool {
        matches!(self.catalog.has_changed(), Ok(false))
            && matches!(self.definitions.has_changed(), Ok(false))
    }
}

/// The tools of one audience in one snapshot.
#[derive(Debug, Default)]
pub struct View {
    served_tools: HashMap<Name, Arc<ServedTool>>,
    /// The tools that policies hide: they are found, but not listed.
    hidden: HashSet<Name>,
    pages: Pages,
    fingerprint: u64,
    /// Whether some tools can be called as tasks of 2025-11-25.
    takes_tasks: bool,
    /// The view of a stale catalog, which has only read-only tools.
    read_only: OnceLock<Arc<Self>>,
}

impl View {
    /// `is_hidden` selects tools that lists omit.
    fn new(
        mut served_tools: Vec<Arc<ServedTool>>,
        is_hidden: impl Fn(&ServedTool) -> bool,
        previous: Option<&Self>,
    ) -> Self {
        served_tools.sort_by(|a, b| {
            (a.list_position(), a.listed_name()).cmp(&(b.list_position(), b.listed_name()))
        });
        let hidden: HashSet<_> = served_tools
            .iter()
            .filter(|served| is_hidden(served))
            .map(|served| served.listed_name().clone())
            .collect();
        let listed = served_tools.iter().filter(|served| is_listed(served, &hidden));
        let listed: Vec<_> = listed.cloned().collect();
        let mut hasher = DefaultHasher::new();
        for served in &listed {
            served.fingerprint().hash(&mut hasher);
        }
        let pages = Pages::new(&listed, previous.map(|view| &view.pages));
        let takes_tasks =
            listed.iter().any(|served| served.task_support() != TaskSupport::Forbidden);
        let served_tools =
            served_tools.into_iter().map(|served| (served.listed_name().clone(), served)).collect();
        let fingerprint = hasher.finish();
        Self { served_tools, hidden, pages, fingerprint, takes_tasks, read_only: OnceLock::new() }
    }

    /// The view at a staleness level.
    pub fn at(self: Arc<Self>, level: StalenessLevel) -> Arc<Self> {
        let left = || {
            let admitted =
                self.served_tools.values().filter(|served| level.admits(served.is_read_only()));
            let is_hidden = |served: &ServedTool| self.hidden.contains(served.listed_name());
            Arc::new(Self::new(admitted.cloned().collect(), is_hidden, None))
        };
        match level {
            StalenessLevel::Serve => self,
            StalenessLevel::ReadOnly => self.read_only.get_or_init(left).clone(),
            StalenessLevel::Reject => left(),
        }
    }

    /// Finds a tool by the name that callers use.
    pub fn find(&self, name: &Name) -> Option<&Arc<ServedTool>> {
        self.served_tools.get(name)
    }

    /// All tools, unordered.
    pub fn served_tools(&self) -> impl Iterator<Item = &Arc<ServedTool>> {
        self.served_tools.values()
    }

    /// The tools that lists have, unordered.
    pub fn listed(&self) -> impl Iterator<Item = &Arc<ServedTool>> {
        self.served_tools().filter(|served| is_listed(served, &self.hidden))
    }

    /// The number of tools, including quarantined ones.
    pub fn len(&self) -> usize {
        self.served_tools.len()
    }

    /// Whether the view has no tools.
    pub fn is_empty(&self) -> bool {
        self.served_tools.is_empty()
    }

    /// The first page of the list, or the page after a cursor.
    pub fn list(&self, after: Option<&Cursor>, form: impl Into<Form>) -> Listing {
        self.pages.list(after, form.into())
    }

    /// Whether some tools can be called as tasks of 2025-11-25.
    pub fn takes_tasks(&self) -> bool {
        self.takes_tasks
    }

    fn has_same_tools(&self, other: &Self) -> bool {
        let is_in_other = |(name, served): (&Name, &Arc<ServedTool>)| {
            other.find(name).is_some_and(|same| Arc::ptr_eq(same, served))
        };
        self.len() == other.len()
            && self.fingerprint == other.fingerprint
            && self.served_tools.iter().all(is_in_other)
    }

    /// Equal fingerprints mean equal lists.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

fn is_listed(served: &ServedTool, hidden: &HashSet<Name>) -> bool {
    !served.is_quarantined()
        && served.missing_target().is_none()
        && !served.is_stopped()
        && !hidden.contains(served.listed_name())
}

/// The views of all audiences.
#[derive(Debug)]
pub struct Views {
    sources: Sources,
    current: ArcSwap<Snapshot>,
    cells: RwLock<HashMap<Audience, Arc<ViewCell>>>,
    tool_cache: ToolCache,
    /// Whether views contain the declared skills of agents.
    has_skills: bool,
    /// The policy of the gateway itself.
    own_policy: Option<Arc<Document>>,
}

impl Views {
    /// Creates views of a catalog and the upstreams' definitions. `contracts` determines the checks
    /// of each tool.
    pub fn new(
        catalog: watch::Receiver<Arc<Catalog>>,
        definitions: watch::Receiver<Arc<Definitions>>,
        contracts: Arc<Contracts>,
    ) -> Self {
        let sources = Sources { catalog, definitions };
        let first = Snapshot::first(sources.clone(), None);
        let (cells, tool_cache) = (RwLock::default(), ToolCache::new(contracts));
        let current = ArcSwap::from_pointee(first);
        let (has_skills, own_policy) = (false, None);
        Self { sources, current, cells, tool_cache, has_skills, own_policy }
    }

    /// Sets whether views contain the skills of agents that an agent declares, as tools.
    pub fn with_skills(self, has_skills: bool) -> Self {
        Self { has_skills, ..self }
    }

    /// Adds a policy of the gateway itself to those of the catalog.
    pub fn with_policy(self, policy: Option<Arc<Document>>) -> Self {
        let first = Snapshot::first(self.sources.clone(), policy.as_ref());
        Self { current: ArcSwap::from_pointee(first), own_policy: policy, ..self }
    }

    /// Subscribes to changes of both sources.
    pub fn subscribe(&self) -> (watch::Receiver<Arc<Catalog>>, watch::Receiver<Arc<Definitions>>) {
        (self.sources.catalog.clone(), self.sources.definitions.clone())
    }

    /// The current snapshot.
    pub fn now(&self) -> Arc<Snapshot> {
        let current = self.current.load();
        if self.is_latest(&current) {
            return Arc::clone(&current);
        }
        drop(current);
        self.refresh()
    }

    fn is_latest(&self, snapshot: &Snapshot) -> bool {
        let Sources { catalog, definitions } = &self.sources;
        snapshot.sources.are_unchanged()
            || Arc::ptr_eq(&catalog.borrow(), &snapshot.catalog)
                && Arc::ptr_eq(&definitions.borrow(), &snapshot.definitions)
    }

    fn refresh(&self) -> Arc<Snapshot> {
        // The lock orders serials. A concurrent caller finds the work done.
        let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
        let current = self.current.load_full();
        if self.is_latest(&current) {
            return current;
        }
        let mut sources = self.sources.clone();
        let (catalog, definitions) = sources.read();
        let governance = if Arc::ptr_eq(&catalog, &current.catalog) {
            current.governance.clone()
        } else {
            let own = self.own_policy.as_ref();
            Governance::new(&catalog, own, current.governance.as_deref())
        };
        let next = Arc::new(Snapshot {
            governance,
            catalog,
            definitions,
            sources,
            serial: current.serial + 1,
            registered: RegisteredTools::default(),
            agent_urls: OnceLock::new(),
        });
        cells.retain(|audience, _| match audience {
            Audience::Agent(agent) => next.catalog.find(agent).is_some(),
            Audience::Everyone | Audience::Nobody => true,
        });
        self.tool_cache.prune(&next.catalog);
        self.current.store(next.clone());
        next
    }

    /// The view of an audience in a snapshot.
    pub fn view(&self, snapshot: &Snapshot, audience: &Audience) -> Arc<View> {
        let cell = self.cell(snapshot, audience);
        cell.view_or(|previous| self.build(snapshot, audience, previous))
    }

    fn cell(&self, snapshot: &Snapshot, audience: &Audience) -> Arc<ViewCell> {
        let cells = self.cells.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = cells.get(audience).filter(|cell| cell.serial() == snapshot.serial) {
            return Arc::clone(cell);
        }
        drop(cells);
        let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
        let known = cells.get(audience);
        if let Some(cell) = known.filter(|cell| cell.serial() == snapshot.serial) {
            return Arc::clone(cell);
        }
        // A call with an older snapshot gets its own view, which must not replace a newer one.
        if known.is_some_and(|cell| cell.serial() > snapshot.serial) {
            return Arc::new(ViewCell::new(snapshot.serial, None));
        }
        let cell = Arc::new(ViewCell::new(snapshot.serial, known.map(Arc::as_ref)));
        cells.insert(audience.clone(), cell.clone());
        cell
    }

    fn build(
        &self,
        snapshot: &Snapshot,
        audience: &Audience,
        previous: Option<Arc<View>>,
    ) -> Arc<View> {
        let served_tools = match audience {
            Audience::Agent(agent) => self.declared_by(snapshot, agent),
            Audience::Everyone => self.newest_of_all(snapshot),
            Audience::Nobody => Vec::new(),
        };
        let governance = snapshot.governance.as_deref();
        let agent = audience.agent();
        let is_hidden = |served: &ServedTool| {
            let policies = governance.and_then(|governance| served.policies(governance, agent));
            policies.is_some_and(|policies| policies.hidden(served.called().action()).is_some())
        };
        let view = View::new(served_tools, is_hidden, previous.as_deref());
        match previous {
            Some(previous) if view.has_same_tools(&previous) => previous,
            _ => Arc::new(view),
        }
    }

    fn declared_by(&self, snapshot: &Snapshot, agent: &Key) -> Vec<Arc<ServedTool>> {
        let Some(record) = snapshot.catalog.find(agent) else { return Vec::new() };
        let Entity::Agent(agent) = record.document.entity() else { return Vec::new() };
        let (depends, _) = agent.depends();
        let mut served_tools: Vec<_> = depends
            .iter()
            .filter(|dependency| dependency.target == DependencyTarget::Tool)
            .filter_map(|dependency| self.tool_cache.find(snapshot, &dependency.key()))
            .collect();
        if self.has_skills {
            self.add_skills(snapshot, depends, &mut served_tools);
        }
        served_tools
    }

    /// Adds the declared skills that have a name as tools. A registered tool precedes a skill with
    /// the same name, and a newer version of an agent an older one.
    fn add_skills(
        &self,
        snapshot: &Snapshot,
        depends: &[Dependency],
        served_tools: &mut Vec<Arc<ServedTool>>,
    ) {
        let mut names: HashSet<_> =
            served_tools.iter().map(|served| served.listed_name().clone()).collect();
        let skills = depends.iter().filter(|declared| declared.target == DependencyTarget::Agent);
        let mut skills: Vec<_> = skills.collect();
        skills.sort_by(|a, b| b.version.cmp(&a.version));
        for skill in skills {
            let served = self.tool_cache.skill(snapshot, skill);
            let Some(served) = served.filter(|served| served.skill_name().is_some()) else {
                continue;
            };
            if names.insert(served.listed_name().clone()) {
                served_tools.push(served);
            }
        }
    }

    fn newest_of_all(&self, snapshot: &Snapshot) -> Vec<Arc<ServedTool>> {
        let mut served_tools = Vec::new();
        let mut last: Option<&Name> = None;
        for (key, _) in snapshot.catalog.of_kind(Kind::Tool) {
            if last != Some(&key.name) {
                served_tools.extend(self.newest(snapshot, &key.name));
            }
            last = Some(&key.name);
        }
        served_tools
    }

    /// The newest version with a target. A version that uses the target of a lower version is
    /// skipped unless that target lists its definition: a registration alone must not change the
    /// tools that callers see.
    fn newest(&self, snapshot: &Snapshot, name: &Name) -> Option<Arc<ServedTool>> {
        let mut undeployed = None;
        for record in snapshot.catalog.preferred_versions(Kind::Tool, name) {
            let served = self.tool_cache.find(snapshot, record.document.key());
            match served.filter(|served| served.missing_target().is_none()) {
                Some(served) if !served.is_undeployed() => return Some(served),
                served => undeployed = undeployed.or(served),
            }
        }
        undeployed
    }

    /// A registered tool version, even if retired, for compensations and running tasks.
    pub fn registered(&self, snapshot: &Snapshot, tool: &Key) -> Option<Arc<ServedTool>> {
        self.tool_cache.registered(snapshot, tool)
    }

    /// The lookup of tools by any caller.
    pub fn lookup<'a>(&'a self, snapshot: &'a Snapshot) -> ToolLookup<'a> {
        ToolLookup { views: self, snapshot, includes_retired: false }
    }
}

/// Lookup of single tools, without computing a whole view.
#[derive(Debug, Clone, Copy)]
pub struct ToolLookup<'a> {
    views: &'a Views,
    snapshot: &'a Snapshot,
    includes_retired: bool,
}

/// The version of an agent that a caller addresses.
#[derive(Debug)]
pub struct AddressedAgent {
    /// The agent.
    pub key: Key,
    /// The skills that the caller declares. Empty: it declares none of this version.
    pub declared: Vec<Dependency>,
}

impl ToolLookup<'_> {
    /// The same lookup, which also finds retired versions if no other is found. Retirement forbids new
    /// calls. Running tasks continue.
    pub fn with_retired(self) -> Self {
        Self { includes_retired: true, ..self }
    }

    /// The version that an agent declares.
    pub fn declared(&self, agent: &Key, name: &str) -> Option<Arc<ServedTool>> {
        let view = self.views.view(self.snapshot, &Audience::Agent(agent.clone()));
        let served = view.served_tools.get(name).cloned();
        if served.is_some() || !self.includes_retired {
            return served;
        }
        let declared = self.dependency(agent, name)?;
        match declared.target {
            DependencyTarget::Tool => self.views.registered(self.snapshot, &declared.key()),
            DependencyTarget::Agent => self.skill(declared),
        }
    }

    /// The version that an agent declares, if calls cannot use it because it or its server is retired.
    pub fn declared_retired(&self, agent: &Key, name: &str) -> Option<Key> {
        let declared = self.dependency(agent, name)?.key();
        let record = self.snapshot.catalog.find(&declared)?;
        (!self.snapshot.catalog.is_callable(record)).then_some(declared)
    }

    /// The dependency that an agent calls by this name.
    fn dependency(&self, agent: &Key, name: &str) -> Option<&Dependency> {
        let (depends, _) = self.agent(agent)?.depends();
        let has_name = |declared: &&Dependency| match (declared.target, &declared.skill) {
            (DependencyTarget::Agent, Some(skill)) if self.views.has_skills => {
                skill_name::of(&declared.name, skill).is_some_and(|known| known.as_str() == name)
            }
            (DependencyTarget::Agent, _) => false,
            (DependencyTarget::Tool, _) => declared.name.as_str() == name,
        };
        depends.iter().filter(has_name).max_by(|a, b| a.version.cmp(&b.version))
    }

    /// The newest version with a target.
    pub fn newest(&self, name: &Name) -> Option<Arc<ServedTool>> {
        let served = self.views.newest(self.snapshot, name);
        served.or_else(|| {
            self.views.registered(self.snapshot, &self.newest_registered(Kind::Tool, name)?)
        })
    }

    /// The newest version in any state, for lookups with retired versions. Scopes can lack them.
    fn newest_registered(&self, kind: Kind, name: &Name) -> Option<Key> {
        let catalog = &self.snapshot.catalog;
        if !self.includes_retired || **catalog.scope() != Scope::Everything {
            return None;
        }
        let versions = catalog.versions(kind, name).map(|(key, _)| key);
        versions.max_by_key(|key| (!key.version.is_prerelease(), key.version.clone())).cloned()
    }

    /// The skills of an agent that another agent declares.
    pub fn declared_skills(&self, caller: &Key, agent: &Name) -> Vec<Dependency> {
        let Some(caller) = self.agent(caller) else { return Vec::new() };
        let (depends, _) = caller.depends();
        let is_of = |dependency: &&Dependency| {
            dependency.target == DependencyTarget::Agent && dependency.name == *agent
        };
        depends.iter().filter(is_of).cloned().collect()
    }

    /// The version of an agent that a caller addresses: the requested one, else the newest that the
    /// caller declares, else the newest.
    pub fn addressed_agent(
        &self,
        caller: Option<&Key>,
        name: &Name,
        requested: Option<&Version>,
    ) -> Option<AddressedAgent> {
        let declared = caller.map(|caller| self.declared_skills(caller, name));
        let mut declared = declared.unwrap_or_default();
        let newest_declared = declared.iter().map(|skill| &skill.version).max();
        let version = requested.or(newest_declared).cloned();
        let version = version.or_else(|| Some(self.newest_agent(name)?.version))?;
        declared.retain(|skill| skill.version == version);
        Some(AddressedAgent { key: Key::new(Kind::Agent, name.clone(), version), declared })
    }

    /// All skills of an agent version.
    pub fn skills_of(&self, key: &Key) -> Vec<Dependency> {
        let Some(agent) = self.agent(key) else { return Vec::new() };
        let skill = |skill: &Skill| Dependency {
            target: DependencyTarget::Agent,
            name: key.name.clone(),
            version: key.version.clone(),
            skill: Some(skill.id.clone()),
        };
        agent.skills.iter().map(skill).collect()
    }

    /// A skill of an agent version.
    pub fn skill(&self, skill: &Dependency) -> Option<Arc<ServedTool>> {
        let served = self.views.tool_cache.skill(self.snapshot, skill);
        if served.is_some() || !self.includes_retired {
            return served;
        }
        self.views.tool_cache.registered_skill(self.snapshot, skill)
    }

    /// The newest version of an agent with its own target, else the newest one that uses the target of
    /// a lower version: a registration alone must not change the agent that callers reach.
    pub fn newest_agent(&self, name: &Name) -> Option<Key> {
        let versions = self.snapshot.catalog.preferred_versions(Kind::Agent, name);
        let keys: Vec<_> = versions.into_iter().map(|record| record.document.key()).collect();
        let has_own_target = |key: &&&Key| {
            self.snapshot.definitions.route(key).is_some_and(|route| !route.is_fallback)
        };
        let newest = keys.iter().find(has_own_target).or(keys.first()).map(|key| Key::clone(key));
        newest.or_else(|| self.newest_registered(Kind::Agent, name))
    }

    /// Whether an agent version is retired.
    pub fn is_retired(&self, agent: &Key) -> bool {
        self.snapshot.catalog.find(agent).is_some_and(|record| !record.is_usable())
    }

    fn agent(&self, key: &Key) -> Option<&Agent> {
        match self.snapshot.catalog.find(key)?.document.entity() {
            Entity::Agent(agent) => Some(agent),
            _ => None,
        }
    }
}
