//! The policies of one catalog: which apply to a call, and which resources they hide.

#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock};

use foldhash::HashMap;
use policy::{
    Action, Caller, PoliciesInForce, Resource, ResourceKind, Slice, arguments::ArgumentType,
    catalog,
};
use registry_core::{
    Catalog, Document, Entity, Key,
    entity::{Hints, Tool},
    scope::Scope,
};

/// Maximum number of remembered combinations of callers and tools.
const SLICES: usize = 100_000;

/// The policies in force in a catalog, with the combinations of callers and tools seen so far.
#[derive(Debug)]
pub struct Governance {
    catalog: Arc<Catalog>,
    policies: PoliciesInForce,
    callers: RwLock<HashMap<Key, Arc<Caller>>>,
    slices: RwLock<HashMap<SliceKey, Option<Arc<Slice>>>>,
}

/// An agent, and a tool or the skill of an agent.
type SliceKey = (Option<Key>, Key, Option<Arc<str>>);

/// A tool or skill that is called.
#[derive(Debug, Clone, Copy)]
pub enum Called<'a> {
    /// A registered tool.
    Tool(&'a Document, &'a Tool),
    /// A skill of a registered agent.
    Skill(&'a Document, &'a Arc<str>),
    /// A prompt or resource of a server.
    Feature(ResourceKind, &'a Key, &'a str),
}

impl Called<'_> {
    /// The action of a call.
    pub fn action(&self) -> Action {
        match self {
            Self::Tool(..) => Action::Call,
            Self::Skill(..) => Action::Send,
            Self::Feature(ResourceKind::Prompt, ..) => Action::Get,
            Self::Feature(..) => Action::Read,
        }
    }
}

impl Governance {
    /// Compiles the policies of a catalog. `None`: none is in force.
    pub fn new(catalog: &Arc<Catalog>, previous: Option<&Self>) -> Option<Arc<Self>> {
        let previous = previous.map(|previous| &previous.policies);
        let policies = PoliciesInForce::new(catalog, previous);
        (!policies.is_empty()).then(|| {
            Arc::new(Self {
                catalog: Arc::clone(catalog),
                policies,
                callers: RwLock::default(),
                slices: RwLock::default(),
            })
        })
    }

    /// The caller as policies see it.
    pub fn caller(&self, agent: Option<&Key>) -> Arc<Caller> {
        let Some(agent) = agent else {
            // A scoped catalog lacks agents that a complete one has.
            let is_complete = **self.catalog.scope() == Scope::Everything;
            return Arc::new(if is_complete { Caller::Unregistered } else { Caller::Unknown });
        };
        let known = self.callers.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(caller) = known.get(agent) {
            return Arc::clone(caller);
        }
        drop(known);
        let record = self.catalog.find(agent);
        let facts = record.and_then(|record| catalog::agent(&self.catalog, record));
        let caller = Arc::new(facts.map_or(Caller::Unregistered, Caller::Agent));
        let mut known = self.callers.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(agent.clone(), Arc::clone(&caller));
        caller
    }

    /// The policies that apply to calls by an agent. `None`: none applies.
    pub fn slice(&self, agent: Option<&Key>, called: Called<'_>) -> Option<Arc<Slice>> {
        let key: SliceKey = match called {
            Called::Tool(document, _) => (agent.cloned(), document.key().clone(), None),
            Called::Skill(document, skill) => {
                (agent.cloned(), document.key().clone(), Some(Arc::clone(skill)))
            }
            // Callers choose the names of resources, so these are not remembered.
            Called::Feature(..) => return self.compute(agent, called),
        };
        let known = self.slices.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(slice) = known.get(&key) {
            return slice.clone();
        }
        drop(known);
        let slice = self.compute(agent, called);
        let mut known = self.slices.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= SLICES {
            known.clear();
        }
        known.insert(key, slice.clone());
        slice
    }

    fn compute(&self, agent: Option<&Key>, called: Called<'_>) -> Option<Arc<Slice>> {
        let resource = self.resource(called)?;
        let find = |key: &Key| self.catalog.find(key).map(|record| &*record.document);
        let arguments = || match called {
            Called::Tool(_, tool) => ArgumentType::of_tool(&find, tool),
            Called::Skill(document, skill) => match document.entity() {
                Entity::Agent(agent) => agent.skill(skill).map_or_else(
                    || ArgumentType::of_schema(None, &|_| None),
                    |skill| ArgumentType::of_tool(&find, &skill.as_tool(agent)),
                ),
                _ => ArgumentType::of_schema(None, &|_| None),
            },
            Called::Feature(..) => ArgumentType::of_schema(None, &|_| None),
        };
        self.policies.slice(&self.caller(agent), &resource, arguments).map(Arc::new)
    }

    fn resource(&self, called: Called<'_>) -> Option<Resource> {
        match called {
            Called::Tool(_, tool) => {
                let find = |key: &Key| self.catalog.find(key)?.document.entity().as_tool();
                let hints = Hints::registered(tool, &find, &mut std::collections::BTreeMap::new());
                Some(catalog::tool(tool, hints))
            }
            Called::Skill(document, skill) => match document.entity() {
                Entity::Agent(agent) => Some(catalog::skill(agent, agent.skill(skill)?)),
                _ => None,
            },
            Called::Feature(kind, server, name) => {
                let record = self.catalog.find(server).map(|record| &**record);
                Some(catalog::feature(kind, server, record, name))
            }
        }
    }
}
