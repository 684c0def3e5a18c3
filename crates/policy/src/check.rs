//! Checks at registration: the conditions of policies against the arguments of the tools that they
//! select.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use registry_core::{
    Action, Catalog, Document, Entity, Key, Kind, LifecycleState,
    diagnostic::{Code, Diagnostic},
    entity::{Policy, policy::Decision},
    rules::{Plan, Proposed},
};

use crate::{
    ResourceKind,
    arguments::ArgumentType,
    catalog::{self, Find},
    cedar::{CedarProblem, Conditions},
    in_force::{Version, documents_in_force},
};

/// JSON pointer of the conditions in a policy.
const CEDAR: &str = "/authorization/cedar";
/// Maximum number of findings of one check.
const FINDINGS: usize = 20;

/// Whether a registration may break policies in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PolicyBreaks {
    /// It is rejected.
    #[default]
    Reject,
    /// It is accepted, and its calls are denied.
    Allow,
}

/// Checks the new policies of a batch against everything that they select, and its new tools and
/// agents against the policies in force after it. Adds the findings to the plan of the batch, and
/// records allowed breaks in its changes.
pub fn check(catalog: &Catalog, batch: &[Proposed], breaks: PolicyBreaks, plan: &mut Plan) {
    let after = After::new(catalog, batch);
    if after.policies.is_empty() {
        return;
    }
    let mut conditions = ConditionsInForce::new(&after);
    let mut found = Vec::new();
    for (change, document) in after.registered() {
        // Registered documents were checked before, or their breaks were allowed.
        let Some(Some(effect)) = plan.effects.get_mut(change) else { continue };
        let key = document.key();
        let problems = match key.kind {
            Kind::Policy => after.check_policy(document),
            Kind::Tool | Kind::Agent => {
                let broken = conditions.check(&after, document);
                if let Action::Register { broken_policies, .. } = &mut effect.action {
                    broken_policies.extend(broken.iter().map(|(policy, _)| (*policy).clone()));
                    broken_policies.sort_unstable();
                    broken_policies.dedup();
                }
                let of_policy = |(policy, problem): &(&Key, CedarProblem)| {
                    incompatible(policy, problem, breaks)
                };
                broken.iter().map(of_policy).collect()
            }
            Kind::Schema | Kind::Server => continue,
        };
        found.extend(problems.into_iter().map(|problem| problem.for_change(change, key)));
    }
    plan.report(found);
}

/// The findings about one document, as if it were registered now.
pub fn check_document(catalog: &Catalog, document: &Arc<Document>) -> Vec<Diagnostic> {
    let batch = [Proposed::Register(Arc::clone(document))];
    let after = After::new(catalog, &batch);
    match document.key().kind {
        Kind::Policy => after.check_policy(document),
        Kind::Tool | Kind::Agent => {
            let mut conditions = ConditionsInForce::new(&after);
            let broken = conditions.check(&after, document).into_iter();
            let reject = PolicyBreaks::Reject;
            broken.map(|(policy, problem)| incompatible(policy, &problem, reject)).collect()
        }
        Kind::Schema | Kind::Server => Vec::new(),
    }
}

/// The conditions of the policies in force, parsed on first use.
struct ConditionsInForce<'a> {
    documents: Vec<&'a Arc<Document>>,
    parsed: BTreeMap<&'a Key, Option<Conditions>>,
}

impl<'a> ConditionsInForce<'a> {
    fn new(after: &After<'a>) -> Self {
        let documents = documents_in_force(after.policies.values().copied());
        Self { documents, parsed: BTreeMap::new() }
    }

    /// Checks a tool or agent against the policies that select it. Returns the policies that it does
    /// not fit, in order of the tools and skills, with the problems.
    fn check(&mut self, after: &After<'_>, document: &Document) -> Vec<(&'a Key, CedarProblem)> {
        let find: Find<'_> = &|key| after.find(key);
        let mut found = Vec::new();
        catalog::each_resource(find, document, &mut |resource, tool| {
            for policy in &self.documents {
                let Entity::Policy(content) = policy.entity() else { continue };
                let Some(authorization) = &content.authorization else { continue };
                if !resource.is_selected(&content.applies_to) {
                    continue;
                }
                let parse = || Conditions::parse(&authorization.cedar).ok();
                let conditions = self.parsed.entry(policy.key()).or_insert_with(parse);
                let Some(conditions) = conditions else { continue };
                let arguments = ArgumentType::of_tool(find, tool);
                let problems = conditions.check(resource.kind, &arguments);
                found.extend(problems.into_iter().map(|problem| (policy.key(), problem)));
            }
        });
        found.truncate(FINDINGS);
        found
    }
}

/// A catalog with the changes of a batch.
struct After<'a> {
    catalog: &'a Catalog,
    batch: &'a [Proposed],
    new: BTreeMap<&'a Key, &'a Arc<Document>>,
    policies: BTreeMap<&'a Key, Version<'a>>,
}

impl<'a> After<'a> {
    fn new(catalog: &'a Catalog, batch: &'a [Proposed]) -> Self {
        let policies = catalog.of_kind(Kind::Policy);
        let mut policies: BTreeMap<_, _> =
            policies.map(|(key, record)| (key, Version::of(key, record))).collect();
        let mut new = BTreeMap::new();
        for proposed in batch {
            let key = proposed.key();
            match proposed {
                Proposed::Register(document) => {
                    new.insert(key, document);
                    if key.kind == Kind::Policy {
                        let version = Version { key, document, is_retired: false };
                        policies.entry(key).or_insert(version);
                    }
                }
                Proposed::SetLifecycle { state, .. } => {
                    if let Some(version) = policies.get_mut(key) {
                        version.is_retired = *state == LifecycleState::Retired;
                    }
                }
            }
        }
        Self { catalog, batch, new, policies }
    }

    fn registered(&self) -> impl Iterator<Item = (usize, &'a Arc<Document>)> {
        let batch = self.batch.iter().enumerate();
        batch.filter_map(|(change, proposed)| Some((change, proposed.document()?)))
    }

    fn find(&self, key: &Key) -> Option<&'a Document> {
        let new = self.new.get(key).map(|document| &***document);
        new.or_else(|| Some(&*self.catalog.find(key)?.document))
    }

    /// The documents of a kind, in order, without retired ones.
    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &'a Document> {
        let known = self.catalog.of_kind(kind);
        let known = known.filter(|(_, record)| record.lifecycle.state != LifecycleState::Retired);
        let new = self.new.iter().filter(move |(key, _)| key.kind == kind);
        let new = new.map(|(key, document)| (*key, &***document));
        let known = known.map(|(key, record)| (key, &*record.document));
        known.chain(new).collect::<BTreeMap<_, _>>().into_values()
    }

    /// Checks a policy against everything that it selects.
    fn check_policy(&self, document: &Document) -> Vec<Diagnostic> {
        let Entity::Policy(policy) = document.entity() else { return Vec::new() };
        let Some(authorization) = &policy.authorization else { return Vec::new() };
        let conditions = match Conditions::parse(&authorization.cedar) {
            Ok(conditions) => conditions,
            Err(problems) => {
                return problems.iter().map(|problem| invalid(problem, None)).collect();
            }
        };
        if conditions.has_permit() && policy.default == Decision::Allow {
            let message = "a `permit` has no effect in a policy that allows by default";
            let help = "add \"default\": \"deny\", or remove the `permit`";
            return vec![Diagnostic::error(Code::PolicyInvalid, CEDAR, message).with_help(help)];
        }
        let find: Find<'_> = &|key| self.find(key);
        let mut checked: HashSet<(ResourceKind, ArgumentType)> = HashSet::new();
        // One finding for each problem, with the first affected tool.
        let mut problems: BTreeMap<CedarProblem, Option<&Key>> = BTreeMap::new();
        for document in self.of_kind(Kind::Tool).chain(self.of_kind(Kind::Agent)) {
            catalog::each_resource(find, document, &mut |resource, tool| {
                if problems.len() >= FINDINGS || !resource.is_selected(&policy.applies_to) {
                    return;
                }
                let arguments = ArgumentType::of_tool(find, tool);
                if checked.insert((resource.kind, arguments.clone())) {
                    for problem in conditions.check(resource.kind, &arguments) {
                        problems.entry(problem).or_insert(Some(document.key()));
                    }
                }
            });
        }
        // Prompts and resources have no arguments, and tools may not be registered yet.
        let nothing = ArgumentType::Record(BTreeMap::new());
        for kind in kinds(policy) {
            let is_feature = matches!(kind, ResourceKind::Prompt | ResourceKind::Resource);
            let is_checked = checked.iter().any(|(checked, _)| *checked == kind);
            if is_feature || !is_checked && !conditions.reads_arguments() {
                for problem in conditions.check(kind, &nothing) {
                    problems.entry(problem).or_insert(None);
                }
            }
        }
        let problems = problems.iter().take(FINDINGS);
        problems.map(|(problem, resource)| invalid(problem, *resource)).collect()
    }
}

/// The kinds of resources that the selectors of a policy can match.
fn kinds(policy: &Policy) -> Vec<ResourceKind> {
    let selector = &policy.applies_to;
    ResourceKind::ALL
        .into_iter()
        .filter(|kind| {
            !selector.names_resources()
                || match kind {
                    ResourceKind::Tool => {
                        !selector.tools.is_empty() || !selector.servers.is_empty()
                    }
                    ResourceKind::Skill => !selector.skills.is_empty(),
                    ResourceKind::Prompt | ResourceKind::Resource => !selector.servers.is_empty(),
                }
        })
        // Prompts and resources are never destructive.
        .filter(|kind| {
            selector.destructive != Some(true)
                || !matches!(kind, ResourceKind::Prompt | ResourceKind::Resource)
        })
        .collect()
}

fn invalid(problem: &CedarProblem, resource: Option<&Key>) -> Diagnostic {
    let message = match resource {
        Some(resource) => format!("{problem} (calls of {resource})"),
        None => problem.to_string(),
    };
    let found = Diagnostic::error(Code::PolicyInvalid, CEDAR, message);
    match &problem.help {
        Some(help) => found.with_help(help),
        None => found,
    }
}

fn incompatible(policy: &Key, problem: &CedarProblem, breaks: PolicyBreaks) -> Diagnostic {
    let message = format!("{policy} does not fit this version: {problem}");
    match breaks {
        PolicyBreaks::Reject => {
            let help = "keep the arguments that the policy reads, register a fitting policy in the \
                        same batch, or allow the break (--allow-policy-break): calls are then denied";
            Diagnostic::error(Code::PolicyIncompatible, "", message).with_help(help)
        }
        PolicyBreaks::Allow => {
            let help = "calls are denied (POLICY_ERROR) until a fitting policy is registered";
            Diagnostic::warning(Code::PolicyIncompatible, "", message).with_help(help)
        }
    }
}
