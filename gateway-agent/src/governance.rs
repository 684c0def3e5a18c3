//! The policies of one catalog. Selects those of a call, and the hidden resources.

#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock};

use foldhash::HashMap;
use policy::{ApplicablePolicies, Called, Caller, PoliciesInForce, PolicyInForce};
use registry_core::{
    Catalog, Document, Key, Name,
    entity::policy::{InspectionAction, Mode},
};

/// Maximum number of remembered combinations of callers and tools.
const REMEMBERED: usize = 100_000;

/// The policies in force in a catalog, with the combinations of callers and tools seen so far.
#[derive(Debug)]
pub struct Governance {
    catalog: Arc<Catalog>,
    policies: PoliciesInForce,
    /// Whether a policy inspects data.
    inspects: bool,
    /// Whether a policy replaces data by placeholders.
    tokenizes: bool,
    /// Whether a policy depends on hops.
    counts_hops: bool,
    callers: RwLock<HashMap<Key, Arc<Caller>>>,
    applicable: RwLock<HashMap<AgentAndTarget, Option<Arc<ApplicablePolicies>>>>,
}

/// An agent, and a tool or the skill of an agent.
type AgentAndTarget = (Option<Key>, Key, Option<Arc<str>>);

impl Governance {
    /// Compiles the policies of a catalog, and that of the gateway itself. `None`: none is in force.
    pub fn new(
        catalog: &Arc<Catalog>,
        own: Option<&Arc<Document>>,
        previous: Option<&Self>,
    ) -> Option<Arc<Self>> {
        let previous = previous.map(|previous| &previous.policies);
        let policies = PoliciesInForce::with_own(catalog, own, previous);
        let inspections =
            || policies.iter().filter_map(|policy| policy.policy().inspection.as_ref());
        let inspects = inspections().next().is_some();
        let tokenizes = inspections().any(|inspection| {
            inspection.results.values().any(|action| *action == InspectionAction::Tokenize)
        });
        let counts_hops = policies.iter().any(|policy| policy.depends_on_hops());
        (!policies.is_empty()).then(|| {
            Arc::new(Self {
                catalog: Arc::clone(catalog),
                policies,
                inspects,
                tokenizes,
                counts_hops,
                callers: RwLock::default(),
                applicable: RwLock::default(),
            })
        })
    }

    /// Whether a policy inspects data.
    pub fn inspects(&self) -> bool {
        self.inspects
    }

    /// Whether a policy replaces data by placeholders.
    pub fn tokenizes(&self) -> bool {
        self.tokenizes
    }

    /// Whether a policy depends on hops. All calls are then counted, because a call that this policy
    /// does not select can cause one that it selects, here or at another gateway.
    pub fn counts_hops(&self) -> bool {
        self.counts_hops
    }

    /// Whether all of these policies restore the values that they replaced in arguments of a tool.
    pub fn restores(&self, policies: &[Name], called: Called<'_>) -> bool {
        let Some(resource) = called.resource(&self.catalog) else { return false };
        let restores = |policy: &PolicyInForce| {
            let inspection = policy.policy().inspection.as_ref();
            inspection.is_some_and(|inspection| {
                let mut patterns = inspection.restore_for.iter();
                patterns.any(|pattern| resource.tools.iter().any(|tool| pattern.matches(tool)))
            })
        };
        policies.iter().all(|name| {
            let mut in_force = self.policies.iter().filter(|policy| policy.mode() == Mode::Enforce);
            in_force.any(|policy| policy.key().name == *name && restores(policy))
        })
    }

    /// The caller as policies see it.
    fn caller(&self, agent: Option<&Key>) -> Arc<Caller> {
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
    pub fn applicable_policies(
        &self,
        agent: Option<&Key>,
        called: Called<'_>,
    ) -> Option<Arc<ApplicablePolicies>> {
        let key: AgentAndTarget = match called {
            Called::Tool(document, _) => (agent.cloned(), document.key().clone(), None),
            Called::Skill(document, skill) => {
                (agent.cloned(), document.key().clone(), Some(Arc::clone(skill)))
            }
            // Callers choose the names of resources, so these are not remembered.
            Called::Feature(..) => return self.compute(agent, called),
        };
        let known = self.applicable.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(policies) = known.get(&key) {
            return policies.clone();
        }
        drop(known);
        let policies = self.compute(agent, called);
        let mut known = self.applicable.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(key, policies.clone());
        policies
    }

    fn compute(&self, agent: Option<&Key>, called: Called<'_>) -> Option<Arc<ApplicablePolicies>> {
        self.policies.applicable_to(&self.catalog, &self.caller(agent), called).map(Arc::new)
    }
}
