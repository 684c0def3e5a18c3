//! The agents that a caller can see: those that it declared, or all if the policy lets it call
//! undeclared ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use gateway_policy::{RuntimeValidation, check_standing};
use registry_core::{
    Entity, Key, Kind, Name, Record, Version,
    entity::{Agent, DependencyTarget, Extension, agent::SBOM_EXTENSION},
};

use super::{Gateway, route};
use crate::{
    identity::{Caller, authenticator::Authentication},
    view::{Audience, Snapshot},
};

/// The agents of one caller at one moment.
#[derive(Debug)]
pub(crate) struct Directory {
    snapshot: Arc<Snapshot>,
    caller: Caller,
    policy: RuntimeValidation,
}

/// An agent as a caller sees it.
#[derive(Debug, Clone)]
pub(crate) struct VisibleAgent {
    record: Arc<Record>,
    /// The ids of the declared skills. `None`: all skills.
    skills: Option<BTreeSet<String>>,
}

impl Directory {
    /// The agents of a caller now.
    pub(crate) fn of(gateway: &Gateway, caller: &Authentication) -> Self {
        let snapshot = gateway.views().now();
        let caller = gateway.identify(&snapshot, &caller.claim, caller.client.clone());
        Self { snapshot, caller, policy: gateway.policy() }
    }

    /// Whether a catalog was loaded.
    pub(crate) fn has_catalog(&self) -> bool {
        self.snapshot.has_catalog()
    }

    /// The agents for a list, by name and version. Undeclared agents are never listed for agents,
    /// even if the policy allows calls to them.
    pub(crate) fn agents(&self) -> Vec<VisibleAgent> {
        match route::audience(self.policy, &self.caller) {
            Audience::Agent(_) => self.declared().into_values().collect(),
            Audience::Everyone => self.newest_of_all(),
            Audience::Nobody => Vec::new(),
        }
    }

    /// The agent that a caller addresses: the version that the path names, else the one that the
    /// caller declared, else the newest.
    pub(crate) fn find(&self, name: &Name, version: Option<&Version>) -> Option<VisibleAgent> {
        let is_wanted = |key: &Key| version.is_none_or(|version| *version == key.version);
        let declared = self.declared().into_iter().rev();
        let mut declared = declared.filter(|(key, _)| key.name == *name && is_wanted(key));
        if let Some((_, agent)) = declared.next() {
            return Some(agent);
        }
        check_standing(self.policy, route::undeclared(&self.caller)).ok()?;
        self.newest(name, is_wanted)
    }

    fn declared(&self) -> BTreeMap<Key, VisibleAgent> {
        let mut declared = BTreeMap::new();
        let caller = self.caller.agent().and_then(|agent| self.snapshot.catalog.find(agent));
        let Some(Entity::Agent(caller)) = caller.map(|record| record.document.entity()) else {
            return declared;
        };
        let (depends, _) = caller.depends();
        for dependency in depends.iter().filter(|d| d.target == DependencyTarget::Agent) {
            let key = dependency.key();
            let record = self.snapshot.catalog.find(&key).filter(|record| self.is_served(record));
            let Some(record) = record else { continue };
            let agent = declared.entry(key).or_insert_with(|| VisibleAgent {
                record: Arc::clone(record),
                skills: Some(BTreeSet::new()),
            });
            if let Some(skills) = &mut agent.skills {
                skills.extend(dependency.skill.clone());
            }
        }
        declared
    }

    fn newest_of_all(&self) -> Vec<VisibleAgent> {
        let names: BTreeSet<_> =
            self.snapshot.catalog.of_kind(Kind::Agent).map(|(key, _)| &key.name).collect();
        names.into_iter().filter_map(|name| self.newest(name, |_| true)).collect()
    }

    fn newest(&self, name: &Name, is_wanted: impl Fn(&Key) -> bool) -> Option<VisibleAgent> {
        let versions = self.snapshot.catalog.usable_versions(Kind::Agent, name).into_iter();
        let mut versions = versions.filter(|record| is_wanted(record.document.key()));
        let record = versions.find(|record| self.is_served(record))?;
        Some(VisibleAgent { record: Arc::clone(record), skills: None })
    }

    /// Whether the agent is usable and has a target.
    fn is_served(&self, record: &Record) -> bool {
        let key = record.document.key();
        record.is_usable() && self.snapshot.definitions.route(key).is_some()
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

    /// Whether the agent streams events.
    pub(crate) fn has_streaming(&self) -> bool {
        self.entity().is_some_and(|agent| agent.capabilities.streaming == Some(true))
    }

    /// The extensions of A2A that the agent declares.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = &Extension> {
        let agent = self.entity().into_iter();
        let extensions = agent.flat_map(|agent| &agent.capabilities.extensions);
        // Dependencies are for the registry, not for callers.
        extensions.filter(|extension| extension.uri != SBOM_EXTENSION)
    }

    /// The registered agent as callers see it: the visible skills, and no dependencies.
    pub(crate) fn agent(&self) -> Option<Agent> {
        let mut agent = self.entity()?.clone();
        if let Some(skills) = &self.skills {
            agent.skills.retain(|skill| skills.contains(&skill.id));
        }
        agent.capabilities.extensions.retain(|extension| extension.uri != SBOM_EXTENSION);
        Some(agent)
    }
}
