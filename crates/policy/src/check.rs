//! Checks at registration: the conditions of policies against the arguments of the tools that they
//! select, the prices of calls under budgets, inspections, and approvals.

mod approval;
mod indexed;
mod inspection;
mod spending;

use std::{
    borrow::Cow,
    cell::{LazyCell, OnceCell},
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    rc::Rc,
    sync::Arc,
};

use registry_core::{
    Action, Catalog, Document, Entity, Key, Kind, LifecycleState, Name,
    diagnostic::{Code, Diagnostic},
    entity::{
        Policy, Tool,
        policy::{AppliesTo, Authorization, Decision, Pattern, Rate},
    },
    rules::{Plan, Proposed},
    suggest::closest,
};

use self::{inspection::InspectionPolicies, spending::SpendingPolicies};
use crate::{
    Resource, ResourceKind,
    arguments::ArgumentType,
    catalog::{self, Find},
    cedar::{
        CallTypes, CallTypesPool, CedarProblem, Conditions, NamedEntity, Statement, TypeCheck,
    },
    in_force::{Version, documents_in_force},
    selector_index::{SelectorIndex, exact_names},
};

/// JSON pointer of the conditions in a policy.
const CEDAR: &str = "/authorization/cedar";
/// Maximum number of findings of one check.
const FINDINGS: usize = 20;
/// The Cedar entity types with registered names.
const NAMED_TYPES: [&str; 4] = ["Agent", "Server", "Tool", "Skill"];
/// Maximum number of names that are compared with an unmatched one, which bounds the time.
const CANDIDATES: usize = 10_000;

/// Whether a registration may have policies that do not fit the arguments of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PolicyBreaks {
    /// It is rejected.
    #[default]
    Reject,
    /// It is accepted, and the calls of these tools are denied.
    Allow,
}

/// Checks the new and restored policies of a batch against everything that they select, and its new
/// and restored tools and agents against the policies in force after it. Adds the findings to the
/// plan of the batch, and records allowed breaks in the plan and its changes.
pub fn check(catalog: &Catalog, batch: &[Proposed], breaks: PolicyBreaks, plan: &mut Plan) {
    let after = After::new(catalog, batch);
    if after.policies.is_empty() {
        return;
    }
    let calls = CallTypesPool::default();
    let resources = LazyCell::new(|| SelectableResources::new(&after, &calls));
    let policies = after.changed().filter(|(change, document)| {
        document.key().kind == Kind::Policy && matches!(plan.effects.get(*change), Some(Some(_)))
    });
    // These policies are checked against the tools of the batch too.
    let checked = policies.map(|(_, document)| document.key()).collect();
    let spending = SpendingPolicies::new(&after);
    let inspections = InspectionPolicies::new(&after);
    let mut conditions = ConditionsInForce::new(&after, &checked, &calls);
    let mut diagnostics = Vec::new();
    for (change, document) in after.changed() {
        // Registered documents were checked before, or their breaks were allowed.
        let Some(Some(effect)) = plan.effects.get_mut(change) else { continue };
        let key = document.key();
        let problems: Vec<_> = match key.kind {
            Kind::Policy => {
                let warnings = policy_warnings(document, &resources, &spending, &inspections);
                let problems = check_policy(document, &resources, breaks);
                let is_break = |problem: &Diagnostic| problem.code == Code::PolicyIncompatible;
                if breaks == PolicyBreaks::Allow
                    && problems.iter().any(is_break)
                    && let Action::Register { broken_policies, .. } = &mut effect.action
                {
                    broken_policies.push(key.clone());
                }
                problems.into_iter().chain(warnings).collect()
            }
            Kind::Tool | Kind::Agent => {
                let broken = conditions.check(&after, document);
                if breaks == PolicyBreaks::Allow {
                    for (policy, _) in &broken {
                        plan.policy_breaks.entry((*policy).clone()).or_insert(change);
                    }
                }
                let broken = &broken[..broken.len().min(FINDINGS)];
                if let Action::Register { broken_policies, .. } = &mut effect.action {
                    broken_policies.extend(broken.iter().map(|(policy, _)| (*policy).clone()));
                    broken_policies.sort_unstable();
                    broken_policies.dedup();
                }
                let of_policy = |(policy, problem): &(&Key, CedarProblem)| {
                    incompatible(policy, problem, breaks)
                };
                let warnings = spending.check_resources(&|key| after.find(key), document);
                broken.iter().map(of_policy).chain(warnings).collect()
            }
            Kind::Schema | Kind::Server => continue,
        };
        diagnostics.extend(problems.into_iter().map(|problem| problem.for_change(change, key)));
    }
    plan.report(diagnostics);
}

/// The findings about one document, as if it were registered now with the accompanying ones.
pub fn check_document(
    catalog: &Catalog,
    document: &Arc<Document>,
    accompanying: &[Arc<Document>],
) -> Vec<Diagnostic> {
    let documents = std::iter::once(document).chain(accompanying).cloned();
    let batch: Vec<_> = documents.map(Proposed::Register).collect();
    let after = After::new(catalog, &batch);
    let spending = SpendingPolicies::new(&after);
    let calls = CallTypesPool::default();
    match document.key().kind {
        Kind::Policy => {
            let resources = SelectableResources::new(&after, &calls);
            let inspections = InspectionPolicies::new(&after);
            let warnings = policy_warnings(document, &resources, &spending, &inspections);
            let problems = check_policy(document, &resources, PolicyBreaks::Reject);
            problems.into_iter().chain(warnings).collect()
        }
        Kind::Tool | Kind::Agent => {
            let mut conditions = ConditionsInForce::new(&after, &HashSet::new(), &calls);
            let broken = conditions.check(&after, document).into_iter().take(FINDINGS);
            let reject = PolicyBreaks::Reject;
            let broken = broken.map(|(policy, problem)| incompatible(policy, &problem, reject));
            broken.chain(spending.check_resources(&|key| after.find(key), document)).collect()
        }
        Kind::Schema | Kind::Server => Vec::new(),
    }
}

/// The warnings about the other parts of a new policy.
fn policy_warnings(
    document: &Document,
    resources: &SelectableResources<'_>,
    spending: &SpendingPolicies<'_>,
    inspections: &InspectionPolicies<'_>,
) -> Vec<Diagnostic> {
    let mut found = spending.check_policy(document, resources);
    found.extend(inspections.check_policy(document, resources));
    found.extend(approval::check_policy(document, resources));
    found
}

/// The conditions of the policies in force, parsed on first use.
struct ConditionsInForce<'a> {
    documents: Vec<(&'a Key, &'a AppliesTo, &'a Authorization)>,
    index: SelectorIndex,
    parsed: BTreeMap<&'a Key, Option<Conditions>>,
    calls: &'a CallTypesPool,
}

impl<'a> ConditionsInForce<'a> {
    /// Without the policies in `checked`.
    fn new(after: &After<'a>, checked: &HashSet<&Key>, calls: &'a CallTypesPool) -> Self {
        let all = documents_in_force(after.policies.values().copied()).into_iter();
        let all = all.filter(|document| !checked.contains(document.key()));
        let with_conditions = all.filter_map(|document| match document.entity() {
            Entity::Policy(policy) => {
                Some((document.key(), &policy.applies_to, policy.authorization.as_ref()?))
            }
            _ => None,
        });
        let documents: Vec<_> = with_conditions.collect();
        let index = SelectorIndex::new(documents.iter().map(|(_, selector, _)| *selector));
        Self { documents, index, parsed: BTreeMap::new(), calls }
    }

    /// Checks a tool or agent against the policies that select it. Returns the policies that it
    /// breaks, in order of the tools and skills, with the problems.
    fn check(&mut self, after: &After<'_>, document: &Document) -> Vec<(&'a Key, CedarProblem)> {
        let find: Find<'_> = &|key| after.find(key);
        let mut broken = Vec::new();
        catalog::each_resource(find, document, &mut |resource, tool| {
            let calls =
                LazyCell::new(|| self.calls.get(resource.kind, ArgumentType::of_tool(find, &tool)));
            for number in self.index.candidates(&resource) {
                let (policy, selector, authorization) = self.documents[number];
                if !resource.is_selected(selector) {
                    continue;
                }
                let parse = || Conditions::parse(&authorization.cedar).ok();
                let Some(conditions) = self.parsed.entry(policy).or_insert_with(parse) else {
                    continue;
                };
                let problems = conditions.check_types(&calls).problems;
                broken.extend(problems.into_iter().map(|problem| (policy, problem)));
            }
        });
        broken
    }
}

/// A catalog with the changes of a batch.
struct After<'a> {
    catalog: &'a Catalog,
    batch: &'a [Proposed],
    new: BTreeMap<&'a Key, &'a Arc<Document>>,
    /// The last lifecycle state of each key in the batch.
    states: HashMap<&'a Key, LifecycleState>,
    policies: BTreeMap<&'a Key, Version<'a>>,
}

impl<'a> After<'a> {
    fn new(catalog: &'a Catalog, batch: &'a [Proposed]) -> Self {
        let policies = catalog.of_kind(Kind::Policy);
        let mut policies: BTreeMap<_, _> =
            policies.map(|(key, record)| (key, Version::of(key, record))).collect();
        let (mut new, mut states) = (BTreeMap::new(), HashMap::new());
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
                    states.insert(key, *state);
                }
            }
        }
        for (key, state) in &states {
            if let Some(version) = policies.get_mut(key) {
                version.is_retired = *state == LifecycleState::Retired;
            }
        }
        Self { catalog, batch, new, states, policies }
    }

    /// The registered and the restored documents, with the indexes of their changes. Without those
    /// that are retired after the batch.
    fn changed(&self) -> impl Iterator<Item = (usize, &'a Arc<Document>)> {
        let changed = self.batch.iter().enumerate().filter_map(move |(change, proposed)| {
            let document = match proposed {
                Proposed::Register(document) => document,
                Proposed::SetLifecycle { key, .. } => {
                    let record = self.catalog.find(key)?;
                    let was_retired = record.lifecycle.state == LifecycleState::Retired;
                    was_retired.then_some(&record.document)?
                }
            };
            Some((change, document))
        });
        changed.filter(move |(_, document)| !self.is_retired(document.key()))
    }

    fn is_retired(&self, key: &Key) -> bool {
        let registered = || Some(self.catalog.find(key)?.lifecycle.state);
        let state = self.states.get(key).copied().or_else(registered);
        state == Some(LifecycleState::Retired)
    }

    fn find(&self, key: &Key) -> Option<&'a Document> {
        let new = self.new.get(key).map(|document| &***document);
        new.or_else(|| Some(&*self.catalog.find(key)?.document))
    }

    /// The documents of a kind, in order, without retired ones.
    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &'a Document> {
        let is_active = |key: &Key, registered: LifecycleState| {
            let state = self.states.get(key).copied().unwrap_or(registered);
            state != LifecycleState::Retired
        };
        let known = self.catalog.of_kind(kind);
        let known = known.filter(|(key, record)| is_active(key, record.lifecycle.state));
        let new = self.new.iter().filter(move |(key, _)| key.kind == kind);
        let new = new.filter(|(key, _)| !self.is_retired(key));
        let new = new.map(|(key, document)| (*key, &***document));
        let known = known.map(|(key, record)| (key, &*record.document));
        known.chain(new).collect::<BTreeMap<_, _>>().into_values()
    }
}

/// A tool or skill that policies can select.
struct Selectable<'a> {
    resource: Resource,
    tool: Cow<'a, Tool>,
    /// The key of its document.
    key: &'a Key,
    /// See `SelectableResources::calls_of`.
    calls: OnceCell<Rc<CallTypes>>,
}

/// The tools and skills that policies can select.
struct SelectableResources<'a> {
    after: &'a After<'a>,
    all: Vec<Selectable<'a>>,
    by_name: HashMap<String, Vec<usize>>,
    calls: &'a CallTypesPool,
    /// See `names_of`.
    names: [OnceCell<BTreeSet<String>>; NAMED_TYPES.len()],
}

impl<'a> SelectableResources<'a> {
    fn new(after: &'a After<'a>, calls: &'a CallTypesPool) -> Self {
        let find: Find<'_> = &|key| after.find(key);
        let mut all = Vec::new();
        for document in after.of_kind(Kind::Tool).chain(after.of_kind(Kind::Agent)) {
            catalog::each_resource(find, document, &mut |resource, tool| {
                all.push(Selectable {
                    resource,
                    tool,
                    key: document.key(),
                    calls: OnceCell::new(),
                });
            });
        }
        let mut by_name = HashMap::<String, Vec<usize>>::new();
        for (number, one) in all.iter().enumerate() {
            for name in one.resource.names() {
                by_name.entry(name.to_owned()).or_default().push(number);
            }
        }
        Self { after, all, by_name, calls, names: Default::default() }
    }

    /// The registered names of a Cedar entity type. `None`: the type has no registered names.
    fn names_of(&self, entity_type: &str) -> Option<&BTreeSet<String>> {
        let number = NAMED_TYPES.iter().position(|named| *named == entity_type)?;
        let documents = |kind: Kind| -> BTreeSet<_> {
            self.after.of_kind(kind).map(|document| document.key().name.to_string()).collect()
        };
        let resources = || self.all.iter().map(|one| &one.resource);
        Some(self.names[number].get_or_init(|| match entity_type {
            "Agent" => documents(Kind::Agent),
            "Server" => documents(Kind::Server),
            "Tool" => resources().flat_map(|resource| &resource.tools).cloned().collect(),
            _ => resources().flat_map(|resource| &resource.skills).cloned().collect(),
        }))
    }

    /// The types of the calls of a tool or skill.
    fn calls_of<'s>(&self, one: &'s Selectable<'_>) -> &'s Rc<CallTypes> {
        one.calls.get_or_init(|| {
            let arguments = ArgumentType::of_tool(&|key| self.after.find(key), &one.tool);
            self.calls.get(one.resource.kind, arguments)
        })
    }

    /// The selected ones.
    fn select(&self, selector: &AppliesTo) -> impl Iterator<Item = &Selectable<'a>> {
        let numbers = match exact_names(selector) {
            Some(names) => {
                let numbers = names.into_iter().filter_map(|name| self.by_name.get(name));
                numbers.flatten().copied().collect::<BTreeSet<_>>().into_iter().collect()
            }
            None => (0..self.all.len()).collect::<Vec<_>>(),
        };
        let resources = numbers.into_iter().map(move |number| &self.all[number]);
        resources.filter(move |one| one.resource.is_selected(selector))
    }

    /// The selected ones, with the types of their calls. Those of other teams come last.
    fn selected(&self, selector: &AppliesTo) -> Vec<Selected<'_>> {
        let selected = self.select(selector).map(|one| Selected {
            calls: self.calls_of(one),
            key: one.key,
            is_foreign: self.is_foreign(selector, one),
        });
        let mut selected: Vec<_> = selected.collect();
        selected.sort_by_key(|one| one.is_foreign);
        selected
    }

    /// Whether a policy selects a tool of another team only by names of this team, such as the name
    /// of the tool behind an alias. Such a tool must not block the policy.
    fn is_foreign(&self, selector: &AppliesTo, one: &Selectable<'_>) -> bool {
        let Selectable { resource, tool, key, calls: _ } = one;
        let catalog = self.after.catalog;
        if resource.kind != ResourceKind::Tool {
            return false;
        }
        let Some(own) = catalog.owner(Kind::Tool, &key.name) else { return false };
        let is_behind = |behind: &[String], name: &str| behind.iter().any(|one| one == name);
        let exact = |patterns: &[Pattern], behind: &[String]| -> Vec<String> {
            let names = patterns.iter().filter_map(Pattern::as_exact);
            names.filter(|name| is_behind(behind, name)).map(str::to_owned).collect()
        };
        let tools = exact(&selector.tools, &resource.tools);
        if tools.contains(&resource.name) {
            return false;
        }
        let owner = |kind: Kind, name: &str| catalog.owner(kind, &Name::parse(kind, name).ok()?);
        let servers = exact(&selector.servers, &resource.servers);
        let mut owners: Vec<_> = tools.iter().filter_map(|name| owner(Kind::Tool, name)).collect();
        owners.extend(servers.iter().filter_map(|name| owner(Kind::Server, name)));
        if owners.is_empty() {
            let server = tool.source().map(|source| &source.server);
            owners.extend(server.and_then(|server| catalog.owner(Kind::Server, server)));
        }
        !owners.is_empty() && !owners.contains(&own)
    }
}

/// A tool or skill that a policy selects.
struct Selected<'a> {
    calls: &'a Rc<CallTypes>,
    /// The key of its document.
    key: &'a Key,
    is_foreign: bool,
}

impl Selected<'_> {
    /// Whether it belongs to a version of the same tool or agent.
    fn is_version_of(&self, key: &Key) -> bool {
        (self.key.kind, &self.key.name) == (key.kind, &key.name)
    }
}

/// Checks a policy against everything that it selects.
fn check_policy(
    document: &Document,
    resources: &SelectableResources<'_>,
    breaks: PolicyBreaks,
) -> Vec<Diagnostic> {
    let Entity::Policy(policy) = document.entity() else { return Vec::new() };
    let bursts = find_empty_bursts(policy);
    let Some(authorization) = &policy.authorization else {
        return find_omission(policy, None).into_iter().chain(bursts).collect();
    };
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
    let mut checked: BTreeMap<usize, &CallTypes> = BTreeMap::new();
    // One finding for each problem, with the first affected tool.
    let mut problems: BTreeMap<CedarProblem, Option<&Key>> = BTreeMap::new();
    let mut allowed: BTreeMap<CedarProblem, &Key> = BTreeMap::new();
    // The types of calls with each problem.
    let mut affected: BTreeMap<CedarProblem, BTreeSet<usize>> = BTreeMap::new();
    let mut unsatisfiable: BTreeSet<usize> = (0..conditions.statements().len()).collect();
    let selected = resources.selected(&policy.applies_to);
    for &Selected { calls, key, is_foreign } in &selected {
        if problems.len() + allowed.len() >= FINDINGS {
            break;
        }
        if checked.insert(calls.number(), calls).is_none() {
            let found = conditions.check_types(calls);
            unsatisfiable.retain(|index| found.unsatisfiable.contains(index));
            for problem in found.problems {
                affected.entry(problem.clone()).or_default().insert(calls.number());
                // No other version of a tool solves the other problems.
                let may_break = is_foreign || breaks == PolicyBreaks::Allow;
                if may_break && problem.is_of_arguments {
                    allowed.entry(problem).or_insert(key);
                } else {
                    problems.entry(problem).or_insert(Some(key));
                }
            }
        }
    }
    // Prompts and resources have no arguments, and tools may not be registered yet.
    let nothing = ArgumentType::Record(BTreeMap::new());
    for kind in kinds(policy) {
        let is_feature = matches!(kind, ResourceKind::Prompt | ResourceKind::Resource);
        let is_checked = checked.values().any(|calls| calls.kind() == kind);
        if !is_feature && is_checked {
            continue;
        }
        let TypeCheck { problems: found, unsatisfiable: never } =
            conditions.check_types(&resources.calls.get(kind, nothing.clone()));
        let statements = conditions.statements();
        unsatisfiable.retain(|index| {
            never.contains(index) && (is_feature || !statements[*index].reads_arguments())
        });
        if is_feature || !conditions.reads_arguments() {
            for problem in found {
                problems.entry(problem).or_insert(None);
            }
        }
    }
    // Such reads without `has` are problems.
    let undeclared = if problems.is_empty() {
        let types = checked.values().map(|calls| calls.arguments());
        let mut found = undeclared_arguments(&conditions, types.clone());
        let lines: BTreeSet<_> =
            conditions.undeclared_arguments(types).map(|(line, _)| line).collect();
        found.extend(find_unsatisfiable(&conditions, &unsatisfiable, &lines));
        found
    } else {
        Vec::new()
    };
    let problems = problems.iter().take(FINDINGS);
    let problems = problems.map(|(problem, resource)| {
        let found = invalid(problem, *resource);
        let fits_other_version =
            resource.zip(affected.get(problem)).is_some_and(|(key, affected)| {
                let versions = selected.iter().filter(|one| one.is_version_of(key));
                let mut numbers = versions.map(|one| one.calls.number());
                numbers.any(|number| checked.contains_key(&number) && !affected.contains(&number))
            });
        if fits_other_version { with_versions_help(found) } else { found }
    });
    let warnings = allowed.iter().map(|(problem, key)| blocked(problem, key));
    let warnings = warnings.chain(find_unmatched(&conditions, resources));
    let omission = find_omission(policy, Some(&conditions));
    problems.chain(undeclared).chain(omission).chain(bursts).chain(warnings).collect()
}

/// Adds the remedy for a problem that other versions of the tool do not have.
fn with_versions_help(found: Diagnostic) -> Diagnostic {
    let help = format!(
        "{}; other versions fit: no policy can read an argument that has several types, so give it \
         another name in one version, or retire the other versions",
        found.help.as_deref().unwrap_or_default()
    );
    found.with_help(help)
}

/// Warns about statements that no selected call satisfies, except those in lines with a finding.
fn find_unsatisfiable(
    conditions: &Conditions,
    unsatisfiable: &BTreeSet<usize>,
    reported: &BTreeSet<usize>,
) -> Vec<Diagnostic> {
    let statements = unsatisfiable.iter().map(|index| &conditions.statements()[*index]);
    let statements = statements.filter(|statement| !reported.contains(&statement.line()));
    let warning = |statement: &Statement| {
        let effect = if statement.is_permit() { "permit" } else { "forbid" };
        let line = statement.line();
        let message = format!("Cedar line {line}: no selected call can satisfy this `{effect}`");
        let help = "correct the names, actions and types in the statement, or remove it";
        Diagnostic::warning(Code::PolicyUnsatisfiable, CEDAR, message).with_help(help)
    };
    statements.take(FINDINGS).map(warning).collect()
}

/// Finds names in statements that match nothing, which often have a typing error.
fn find_unmatched(conditions: &Conditions, resources: &SelectableResources<'_>) -> Vec<Diagnostic> {
    let entities = conditions.named_entities();
    let types: BTreeSet<&str> = entities.iter().map(|entity| entity.entity_type.as_str()).collect();
    let registered: BTreeMap<&str, &BTreeSet<String>> = types
        .into_iter()
        .filter_map(|entity_type| Some((entity_type, resources.names_of(entity_type)?)))
        .collect();
    let mut found = Vec::new();
    for NamedEntity { line, entity_type, id } in &entities {
        let Some(names) = registered.get(entity_type.as_str()) else { continue };
        if names.contains(id.as_str()) {
            continue;
        }
        if found.len() == FINDINGS {
            break;
        }
        let message =
            format!("Cedar line {line}: {entity_type}::{id:?} matches nothing that is registered");
        let candidates = names.iter().map(String::as_str).take(CANDIDATES);
        let help = match closest(id, candidates) {
            Some(near) => format!("did you mean {entity_type}::{near:?}?"),
            None => "correct the name, or register the entity".to_owned(),
        };
        let warning = Diagnostic::warning(Code::PolicySelectorUnmatched, CEDAR, message);
        found.push(warning.with_help(help));
    }
    found
}

/// Warns about arguments that no selected tool declares. A statement that reads them behind `has` is
/// never satisfied.
fn undeclared_arguments<'a>(
    conditions: &'a Conditions,
    types: impl ExactSizeIterator<Item = &'a ArgumentType> + Clone + 'a,
) -> Vec<Diagnostic> {
    if types.len() == 0 {
        return Vec::new();
    }
    let known = types.clone();
    let names: LazyCell<BTreeSet<&str>, _> =
        LazyCell::new(|| known.flat_map(ArgumentType::member_names).collect());
    let undeclared = conditions.undeclared_arguments(types).take(FINDINGS);
    let warnings = undeclared.map(|(line, path)| {
        let name = path.join(".");
        let message = format!("Cedar line {line}: no selected tool declares the argument `{name}`");
        let similar = path.first().and_then(|first| closest(first, names.iter().copied()));
        let help = match similar.filter(|_| path.len() == 1) {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => "correct the name; a condition on it is never satisfied".to_owned(),
        };
        Diagnostic::warning(Code::PolicyArgumentUndeclared, CEDAR, message).with_help(help)
    });
    warnings.collect()
}

/// Finds a `default: deny` without a `permit`, and a Cedar text without a statement.
fn find_omission(policy: &Policy, conditions: Option<&Conditions>) -> Option<Diagnostic> {
    if policy.default == Decision::Deny && !conditions.is_some_and(Conditions::has_permit) {
        let message = "the policy denies every call that it selects, because it has no `permit`";
        let help = "add a `permit`, or remove `default`; a `forbid` denies calls on purpose";
        return Some(
            Diagnostic::warning(Code::PolicyDeniesAll, "/default", message).with_help(help),
        );
    }
    let is_empty = conditions.is_some_and(|conditions| conditions.statements().is_empty());
    is_empty.then(|| {
        let help = "add a `permit` or `forbid`, or remove `authorization`";
        Diagnostic::warning(Code::PolicyEmpty, CEDAR, "the Cedar text has no statement")
            .with_help(help)
    })
}

/// Warns about rates that deny every call by their bursts.
fn find_empty_bursts(policy: &Policy) -> Vec<Diagnostic> {
    let is_empty = |rate: &Rate| rate.burst == Some(0) && rate.limit > 0;
    let rates = policy.rates.iter().enumerate().filter(|(_, rate)| is_empty(rate));
    let warning = |(number, _): (usize, &Rate)| {
        let message = "the rate denies every call, because its `burst` is 0";
        let help = "remove `burst`, or raise it; `limit: 0` denies calls on purpose";
        let pointer = format!("/rates/{number}/burst");
        Diagnostic::warning(Code::PolicyDeniesAll, pointer, message).with_help(help)
    };
    rates.map(warning).collect()
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
    let diagnostic = Diagnostic::error(Code::PolicyInvalid, CEDAR, message);
    let break_help = "correct the condition, narrow the selectors, or accept that calls of the tools \
                      that do not fit are denied (--allow-policy-break)";
    match (&problem.help, resource) {
        (Some(help), _) => diagnostic.with_help(help),
        (None, Some(_)) => diagnostic.with_help(break_help),
        (None, None) => diagnostic,
    }
}

/// Warns about a tool that does not fit a policy and does not prevent it: a tool of another team with
/// a name of this team, or an allowed break.
fn blocked(problem: &CedarProblem, tool: &Key) -> Diagnostic {
    let message = format!("{problem} (calls of {tool})");
    let help =
        "its calls are denied (POLICY_ERROR) until a version with these arguments is registered";
    Diagnostic::warning(Code::PolicyIncompatible, CEDAR, message).with_help(help)
}

fn incompatible(policy: &Key, problem: &CedarProblem, breaks: PolicyBreaks) -> Diagnostic {
    let cause = problem.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    let message =
        format!("{policy} does not match the arguments of this version: {problem}{cause}");
    match breaks {
        PolicyBreaks::Reject => {
            let help = "keep the arguments that the policy reads, with their types; or give an argument \
                        of a new type a new name, and register a policy that fits all versions in the \
                        same batch; or let the owner of the policy or a governor allow the break \
                        (--allow-policy-break): calls are then denied";
            Diagnostic::error(Code::PolicyIncompatible, "", message).with_help(help)
        }
        PolicyBreaks::Allow => {
            let help = "calls are denied (POLICY_ERROR) until a matching policy is registered";
            Diagnostic::warning(Code::PolicyIncompatible, "", message).with_help(help)
        }
    }
}
