//! The policies in force in a catalog.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use foldhash::{HashMap, HashMapExt as _};
use registry_core::{
    Catalog, Digest, Document, Entity, Kind, LifecycleState, Record,
    entity::{
        Policy,
        policy::{Decision, Mode},
    },
    reference::Key,
};

use crate::{
    Action, ApplicablePolicies, Caller, Resource, ResourceKind,
    applicable::ApplicablePolicy,
    arguments::ArgumentType,
    cedar::{CedarProblem, Conditions},
    facts::CallerMatch,
    selector_index::SelectorIndex,
};

/// A compiled policy.
#[derive(Debug)]
pub struct PolicyInForce {
    document: Arc<Document>,
    label: Box<str>,
    mode: Mode,
    conditions: Option<Result<Conditions, Vec<CedarProblem>>>,
    /// The defect of the conditions for each type of arguments seen so far.
    type_mismatches: Mutex<TypeMismatches>,
}

/// The first defect of the same conditions, by the type of arguments.
type TypeMismatches = HashMap<(ResourceKind, ArgumentType), Option<Arc<str>>>;

/// Maximum number of remembered types of arguments of one policy.
const TYPE_MISMATCHES: usize = 1_000;

impl PolicyInForce {
    /// Compiles a policy.
    pub fn new(document: Arc<Document>) -> Option<Self> {
        let Entity::Policy(policy) = document.entity() else { return None };
        let authorization = policy.authorization.as_ref();
        let conditions = authorization.map(|authorization| Conditions::parse(&authorization.cedar));
        let mode = policy.effective_mode();
        let Key { name, version, .. } = document.key();
        let label = format!("{name}@{version}").into();
        Some(Self { document, label, mode, conditions, type_mismatches: Mutex::default() })
    }

    /// The policy's document.
    pub fn policy(&self) -> &Policy {
        match self.document.entity() {
            Entity::Policy(policy) => policy,
            _ => unreachable!("`new` accepts policies only"),
        }
    }

    /// The name and version.
    pub fn key(&self) -> &Key {
        self.document.key()
    }

    /// The name and version in audit events: `NAME@VERSION`.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The digest of the document.
    pub fn digest(&self) -> Digest {
        self.document.digest()
    }

    /// Whether the version is a pre-release.
    pub fn is_pre_release(&self) -> bool {
        self.key().version.is_prerelease()
    }

    /// The name of the accounts of a budget or rate. A pre-release has accounts of its own, so that
    /// its release starts with nothing spent. Names of budgets have no `@`.
    pub fn account_name(&self, name: &str) -> Arc<str> {
        let version = &self.key().version;
        if version.is_prerelease() { format!("{name}@{version}").into() } else { name.into() }
    }

    /// The effective mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The conditions, or the defects of their text.
    pub fn conditions(&self) -> Option<&Result<Conditions, Vec<CedarProblem>>> {
        self.conditions.as_ref()
    }

    /// The first defect of the conditions for calls with these arguments. Cedar evaluates a
    /// comparison of different types to false, not to an error, so such calls are denied before.
    pub(crate) fn type_mismatch(
        &self,
        kind: ResourceKind,
        arguments: &ArgumentType,
    ) -> Option<Arc<str>> {
        let Some(Ok(conditions)) = &self.conditions else { return None };
        if !conditions.reads_arguments() {
            return None;
        }
        let key = (kind, arguments.clone());
        let known = self.type_mismatches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(type_mismatch) = known.get(&key) {
            return type_mismatch.clone();
        }
        drop(known);
        let problems = conditions.check(kind, arguments);
        let type_mismatch: Option<Arc<str>> =
            problems.first().map(|problem| problem.to_string().into());
        let mut known = self.type_mismatches.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TYPE_MISMATCHES {
            known.clear();
        }
        known.insert(key, type_mismatch.clone());
        type_mismatch
    }

    /// Whether it rejects every call that it selects, apart from cancellations of tasks.
    pub fn denies_every_call(self: &Arc<Self>) -> bool {
        let caller = Caller::Unregistered;
        ResourceKind::ALL.into_iter().all(|kind| {
            let resource = Resource {
                kind,
                name: String::new(),
                version: String::new(),
                tools: Vec::new(),
                skills: Vec::new(),
                servers: Vec::new(),
                tags: Vec::new(),
                is_destructive: false,
                is_read_only: false,
                is_open_world: false,
            };
            let policy = Arc::clone(self);
            let alone = ApplicablePolicy { policy, caller: CallerMatch::Yes, release: None };
            let nothing = || ArgumentType::Record(BTreeMap::new());
            let alone = ApplicablePolicies::new(vec![alone], &caller, &resource, nothing);
            let mut actions =
                kind.actions().iter().filter(|action| !matches!(action, Action::Cancel));
            actions.all(|action| alone.hidden(*action).is_some())
        })
    }

    /// Whether its limits or conditions depend on the hops of a call.
    pub fn depends_on_hops(&self) -> bool {
        let limits = self.policy().limits.as_ref();
        let has_limit = limits
            .is_some_and(|limits| limits.trace.as_ref().is_some_and(|trace| trace.hops.is_some()));
        let conditions = self.conditions.as_ref().and_then(|conditions| conditions.as_ref().ok());
        has_limit || conditions.is_some_and(Conditions::reads_hops)
    }

    /// Whether a call needs a satisfied permit.
    pub fn denies_by_default(&self) -> bool {
        self.policy().default == Decision::Deny
    }
}

/// All policies in force, indexed by the names that they select.
#[derive(Debug, Default)]
pub struct PoliciesInForce {
    policies: Vec<Arc<PolicyInForce>>,
    index: SelectorIndex,
}

impl PoliciesInForce {
    /// Compiles the policies in force: of each name the highest version that is not a pre-release,
    /// unless it is retired, and the highest pre-release above it. Unchanged policies are taken from
    /// `previous`.
    pub fn new(catalog: &Catalog, previous: Option<&Self>) -> Self {
        Self::with_own(catalog, None, previous)
    }

    /// Like [`Self::new`], with a policy of the program itself.
    pub fn with_own(
        catalog: &Catalog,
        own: Option<&Arc<Document>>,
        previous: Option<&Self>,
    ) -> Self {
        let versions = catalog.of_kind(Kind::Policy).map(|(key, record)| Version::of(key, record));
        let own = own.map(|document| Version { key: document.key(), document, is_retired: false });
        // The last version of a name is in force.
        Self::from_versions(versions.chain(own), previous)
    }

    /// Like [`Self::new`], from versions in ascending order.
    pub(crate) fn from_versions<'a>(
        versions: impl Iterator<Item = Version<'a>>,
        previous: Option<&Self>,
    ) -> Self {
        let mut known: HashMap<&Key, &Arc<PolicyInForce>> = HashMap::new();
        for policy in previous.into_iter().flat_map(|previous| &previous.policies) {
            known.insert(policy.key(), policy);
        }
        let compile = |document: &Arc<Document>| {
            let unchanged = known.get(document.key());
            match unchanged.filter(|policy| policy.document.digest() == document.digest()) {
                Some(policy) => Some(Arc::clone(policy)),
                None => PolicyInForce::new(Arc::clone(document)).map(Arc::new),
            }
        };
        let policies: Vec<_> =
            documents_in_force(versions).into_iter().filter_map(compile).collect();
        let index = SelectorIndex::new(policies.iter().map(|policy| &policy.policy().applies_to));
        Self { policies, index }
    }

    /// Whether no policy is in force.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }

    /// All policies in force.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<PolicyInForce>> {
        self.policies.iter()
    }

    /// The policies whose resource selectors match, in order of their names.
    pub fn select(&self, resource: &Resource) -> Vec<&Arc<PolicyInForce>> {
        let candidates = self.index.candidates(resource).into_iter();
        let policies = candidates.map(|number| &self.policies[number]);
        policies.filter(|policy| resource.is_selected(&policy.policy().applies_to)).collect()
    }

    /// The version in force beside a pre-release.
    fn release_beside(&self, key: &Key) -> Option<&Arc<PolicyInForce>> {
        let position = self.policies.binary_search_by(|policy| policy.key().cmp(key)).ok()?;
        // The only other policy of a name is its release, which precedes it.
        let before = &self.policies[position.checked_sub(1)?];
        (before.key().name == key.name).then_some(before)
    }

    /// The policies that apply to calls of a resource by a caller. `None`: there are none.
    pub fn applicable(
        &self,
        caller: &Caller,
        resource: &Resource,
        arguments: impl FnOnce() -> ArgumentType,
    ) -> Option<ApplicablePolicies> {
        let selected: Vec<_> = self
            .select(resource)
            .into_iter()
            .filter_map(|policy| match caller.matches(&policy.policy().applies_to) {
                CallerMatch::No => None,
                caller_match => Some(ApplicablePolicy {
                    policy: Arc::clone(policy),
                    caller: caller_match,
                    release: self.release_beside(policy.key()).cloned(),
                }),
            })
            .collect();
        (!selected.is_empty())
            .then(|| ApplicablePolicies::new(selected, caller, resource, arguments))
    }
}

/// A registered version of a policy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Version<'a> {
    pub(crate) key: &'a Key,
    pub(crate) document: &'a Arc<Document>,
    pub(crate) is_retired: bool,
}

impl<'a> Version<'a> {
    pub(crate) fn of(key: &'a Key, record: &'a Record) -> Self {
        let is_retired = record.lifecycle.state == LifecycleState::Retired;
        Self { key, document: &record.document, is_retired }
    }
}

/// The documents in force, in order of their names and versions.
pub(crate) fn documents_in_force<'a>(
    versions: impl Iterator<Item = Version<'a>>,
) -> Vec<&'a Arc<Document>> {
    let mut newest: BTreeMap<_, [Option<Version<'a>>; 2]> = BTreeMap::new();
    for version in versions {
        let [release, candidate] = newest.entry(&version.key.name).or_default();
        if version.key.version.is_prerelease() {
            *candidate = Some(version);
        } else {
            (*release, *candidate) = (Some(version), None);
        }
    }
    let versions = newest.into_values().flatten().flatten();
    versions.filter(|version| !version.is_retired).map(|version| version.document).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_enforced_forbid_denies_every_call() {
        let denies = |members: Value| {
            let mut policy = json!({ "name": "p", "version": "1.0.0" });
            policy.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            let document = Document::parse(Kind::Policy, &policy).unwrap();
            Arc::new(PolicyInForce::new(Arc::new(document)).unwrap()).denies_every_call()
        };
        let cedar = |text: &str| json!({ "authorization": { "cedar": text } });
        let all = cedar("forbid (principal, action, resource);");
        let uncancelled =
            "forbid (principal, action, resource) unless { action == Action::\"cancel\" };";
        assert!(denies(all.clone()));
        assert!(denies(cedar(uncancelled)));
        assert!(!denies(json!({ "mode": "audit", "authorization": all["authorization"] })));
        assert!(!denies(json!({ "version": "1.0.0-rc.1", "authorization": all["authorization"] })));
        assert!(!denies(cedar("forbid (principal, action == Action::\"call\", resource);")));
        assert!(!denies(json!({})));
    }
}
