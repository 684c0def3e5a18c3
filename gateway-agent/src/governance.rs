//! The policies of one catalog. Selects those of a call, and the hidden resources.

#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock};

use foldhash::HashMap;
use policy::{Called, Caller, PoliciesInForce, Slice};
use registry_core::{Catalog, Key};

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
        let registered = || Arc::new(Caller::registered(&self.catalog, agent));
        let Some(key) = agent else { return registered() };
        let known = self.callers.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(caller) = known.get(key) {
            return Arc::clone(caller);
        }
        drop(known);
        let caller = registered();
        let mut known = self.callers.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(key.clone(), Arc::clone(&caller));
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
        self.policies.slice_of(&self.catalog, &self.caller(agent), called).map(Arc::new)
    }
}
