//! The agents that a caller can see: those that it declared, or all if the policy lets it call
//! undeclared ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use agent_rpc::Failure;
use gateway_policy::check_standing;
use policy::ApplicablePolicies;
use registry_core::{
    Entity, Key, Kind, Name, Record, Version,
    entity::{Agent, Dependency, DependencyTarget, Extension, agent::SBOM_EXTENSION},
};

use super::{Gateway, route};
use crate::{
    identity::{Caller, authenticator::Authentication},
    view::{
        AddressedAgent, Audience, ServedTool, Snapshot, ToolLookup, View,
        visible_servers::VisibleServers,
    },
};

/// The agents of one caller at one moment.
#[derive(Debug)]
pub(crate) struct Directory<'a> {
    gateway: &'a Gateway,
    snapshot: Arc<Snapshot>,
    caller: Caller,
    includes_retired: bool,
}

/// An agent that a caller can see.
#[derive(Debug, Clone)]
pub(crate) struct VisibleAgent {
    record: Arc<Record>,
    /// The declared skills, or all.
    skills: Vec<Dependency>,
}

impl<'a> Directory<'a> {
    /// The agents of a caller now.
    pub(crate) fn of(gateway: &'a Gateway, caller: &Authentication) -> Self {
        let snapshot = gateway.views().now();
        let caller = gateway.identify(&snapshot, &caller.claim, caller.client.clone());
        Self { gateway, snapshot, caller, includes_retired: false }
    }

    /// The same agents, and retired ones: their tasks still exist.
    pub(crate) fn with_retired(self) -> Self {
        Self { includes_retired: true, ..self }
    }

    /// Whether a catalog was loaded.
    pub(crate) fn has_catalog(&self) -> bool {
        self.snapshot.has_catalog()
    }

    /// The agents for a list, by name and version. Undeclared agents are never listed for agents,
    /// even if the policy allows calls to them.
    pub(crate) fn agents(&self) -> Vec<VisibleAgent> {
        let agents = match route::audience(self.gateway.policy(), &self.caller) {
            Audience::Agent(agent) => self.declared_by(&agent),
            Audience::Everyone => self.newest_of_all(),
            Audience::Nobody => Vec::new(),
        };
        agents.into_iter().filter_map(|agent| self.listed(agent)).collect()
    }

    /// The composed tools that the caller's list of tools has, by name.
    pub(crate) fn composed_tools(&self) -> Vec<Arc<ServedTool>> {
        let view = self.view();
        let is_composed = |served: &&Arc<ServedTool>| served.composed().is_some();
        let mut tools: Vec<_> = view.listed().filter(is_composed).cloned().collect();
        tools.sort_by(|a, b| a.name().cmp(b.name()));
        tools
    }

    /// A composed tool of the caller. Calls of hidden ones are denied by their policies.
    pub(crate) fn composed_tool(&self, name: &Name) -> Option<Arc<ServedTool>> {
        self.view().find(name).filter(|served| served.composed().is_some()).cloned()
    }

    /// The error of a function that the caller's list of tools does not have.
    pub(crate) fn unknown_function(&self, agent_id: &str, function: &str) -> Failure {
        if self.has_function_of(agent_id) {
            return Failure::function_not_found(agent_id, function);
        }
        Failure::agent_not_found(agent_id)
    }

    /// Whether the caller's list of tools has a function of this data agent.
    pub(crate) fn has_function_of(&self, agent_id: &str) -> bool {
        self.view().listed().any(|served| served.function_of(agent_id).is_some())
    }

    /// The policies that apply to calls of a tool.
    pub(crate) fn policies(&self, served: &ServedTool) -> Option<Arc<ApplicablePolicies>> {
        served.policies(self.snapshot.governance.as_deref()?, self.caller.agent())
    }

    /// The state of the gateway that the directory reads.
    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The servers of a view whose prompts and resources the caller can see.
    pub(crate) fn visible_servers(&self, view: &View) -> VisibleServers {
        self.gateway.visible_servers(&self.snapshot, view, &self.caller)
    }

    /// All tools of the caller, also those that lists omit at the age of the catalog.
    pub(crate) fn all_tools(&self) -> Arc<View> {
        self.gateway.view(&self.snapshot, &self.caller)
    }

    /// The caller's list of tools.
    pub(crate) fn view(&self) -> Arc<View> {
        self.all_tools().at(self.gateway.staleness().check().level)
    }

    /// The agent that a caller addresses: the version that the path names, else the one that the
    /// caller declared, else the newest.
    pub(crate) fn find(&self, name: &Name, version: Option<&Version>) -> Option<VisibleAgent> {
        let lookup = self.lookup();
        let AddressedAgent { key, declared } =
            lookup.addressed_agent(self.caller.agent(), name, version)?;
        if !declared.is_empty() {
            return self.served(&key, declared);
        }
        check_standing(self.gateway.policy(), route::undeclared(&self.caller)).ok()?;
        self.served(&key, lookup.skills_of(&key))
    }

    /// The agent with the skills that neither policies nor a quarantine hide. `None`: it has none.
    pub(crate) fn listed(&self, mut agent: VisibleAgent) -> Option<VisibleAgent> {
        let lookup = self.lookup();
        let governance = self.snapshot.governance.as_deref();
        agent.skills.retain(|skill| {
            let served = lookup.skill(skill).filter(|served| !served.is_quarantined());
            served.is_some_and(|served| {
                let policies = governance.and_then(|g| served.policies(g, self.caller.agent()));
                policies.is_none_or(|p| p.hidden(served.called().action()).is_none())
            })
        });
        (!agent.skills.is_empty()).then_some(agent)
    }

    fn declared_by(&self, agent: &Key) -> Vec<VisibleAgent> {
        let record = self.snapshot.catalog.find(agent);
        let Some(Entity::Agent(agent)) = record.map(|record| record.document.entity()) else {
            return Vec::new();
        };
        let mut declared = BTreeMap::<Key, Vec<Dependency>>::new();
        let (depends, _) = agent.depends();
        for skill in depends.iter().filter(|skill| skill.target == DependencyTarget::Agent) {
            declared.entry(skill.key()).or_default().push(skill.clone());
        }
        let declared = declared.into_iter();
        declared.filter_map(|(key, skills)| self.served(&key, skills)).collect()
    }

    fn newest_of_all(&self) -> Vec<VisibleAgent> {
        let lookup = self.lookup();
        let agents = self.snapshot.catalog.of_kind(Kind::Agent);
        let names: BTreeSet<_> = agents.map(|(key, _)| &key.name).collect();
        let newest = names.into_iter().filter_map(|name| lookup.newest_agent(name));
        newest.filter_map(|key| self.served(&key, lookup.skills_of(&key))).collect()
    }

    /// The agent, if it has a target and can be found in its state.
    fn served(&self, key: &Key, skills: Vec<Dependency>) -> Option<VisibleAgent> {
        let is_found = |record: &&Arc<Record>| self.includes_retired || record.is_usable();
        let record = self.snapshot.catalog.find(key).filter(is_found)?;
        self.snapshot.definitions.route(key)?;
        Some(VisibleAgent { record: Arc::clone(record), skills })
    }

    fn lookup(&self) -> ToolLookup<'_> {
        let lookup = self.gateway.views().lookup(&self.snapshot);
        if self.includes_retired { lookup.with_retired() } else { lookup }
    }
}

impl VisibleAgent {
    /// The name and version.
    pub(crate) fn key(&self) -> &Key {
        self.record.document.key()
    }

    /// The registration.
    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    fn entity(&self) -> Option<&Agent> {
        if let Entity::Agent(agent) = self.record.document.entity() { Some(agent) } else { None }
    }

    /// The extensions of A2A that the agent declares.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = &Extension> {
        self.entity().into_iter().flat_map(Agent::protocol_extensions)
    }

    /// The registered agent as callers see it: the visible skills, and no dependencies.
    pub(crate) fn agent(&self) -> Option<Agent> {
        let mut agent = self.entity()?.clone();
        let is_visible = |id: &str| self.skills.iter().any(|s| s.skill.as_deref() == Some(id));
        agent.skills.retain(|skill| is_visible(&skill.id));
        agent.capabilities.extensions.retain(|extension| extension.uri != SBOM_EXTENSION);
        Some(agent)
    }
}
