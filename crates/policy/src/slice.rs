//! The policies that apply to the calls of one resource by one caller.

mod spending;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use registry_core::{
    Key,
    entity::policy::{Mode, Rate},
};
use serde_json::{Map, Value};

pub use self::spending::{BudgetRule, Payer, PriceRule};
use crate::{
    Action, CallContext, Caller, Finding, PolicyInForce, Reason, Resource, ResourceKind, Verdict,
    arguments::ArgumentType,
    cedar::{ConditionSet, Evaluation, Request, Scene, Statement},
    facts::CallerMatch,
};

/// The policies that apply to the calls of one resource by one caller.
#[derive(Debug)]
pub struct Slice {
    policies: Vec<Applied>,
    scene: Scene,
    kind: ResourceKind,
    arguments: ArgumentType,
    enforced: Conditions,
    audited: Vec<Conditions>,
    /// The verdicts about a call that violates nothing.
    admitted: Arc<str>,
}

/// A policy that applies.
#[derive(Debug)]
struct Applied {
    policy: Arc<PolicyInForce>,
    caller: CallerMatch,
}

/// Policies that are evaluated together: all that are enforced, or one in audit mode.
#[derive(Debug, Default)]
struct Conditions {
    /// The policies, by their numbers in the slice.
    policies: Vec<usize>,
    /// The statements that apply: the number of the policy, and that of the statement in it.
    statements: Vec<(usize, usize)>,
    all: Option<ConditionSet>,
    /// The statements that do not read `context`.
    without_context: Option<ConditionSet>,
    /// The first violation by every call.
    always: Option<Finding>,
    /// The policies with `default: "deny"` that have a permit which reads `context`.
    undecided: Vec<usize>,
    /// The first policy whose conditions do not fit the arguments of the resource.
    misfit: OnceLock<Option<Finding>>,
    /// The first violation of conditions that do not read `context`, by action.
    by_action: [OnceLock<Option<Finding>>; Action::ALL.len()],
}

/// The decision about calls with unknown arguments.
#[derive(Debug, Clone, PartialEq)]
pub enum Foresight {
    /// Every call is denied, with this first violation.
    Denied(Finding),
    /// These policies may deny a call.
    Undecided(Vec<Key>),
    /// No policy denies a call, apart from rates, limits and the age of the catalog.
    Allowed,
}

/// A rate that applies, with its policy.
#[derive(Debug, Clone, Copy)]
pub struct RateRule<'a> {
    /// The policy.
    pub policy: &'a Arc<PolicyInForce>,
    /// The rate.
    pub rate: &'a Rate,
}

impl Slice {
    pub(crate) fn new(
        selected: Vec<(Arc<PolicyInForce>, CallerMatch)>,
        caller: &Caller,
        resource: &Resource,
        arguments: impl FnOnce() -> ArgumentType,
    ) -> Self {
        let policies: Vec<_> =
            selected.into_iter().map(|(policy, caller)| Applied { policy, caller }).collect();
        let numbers = |mode| {
            let policies = policies.iter().enumerate();
            policies.filter(move |(_, one)| one.policy.mode() == mode).map(|(number, _)| number)
        };
        let enforced = Conditions::new(&policies, numbers(Mode::Enforce).collect(), caller);
        let audited: Vec<_> = numbers(Mode::Audit)
            .map(|number| Conditions::new(&policies, vec![number], caller))
            .collect();
        let reads_arguments = audited.iter().chain([&enforced]).any(Conditions::reads_arguments);
        let arguments = if reads_arguments {
            arguments()
        } else {
            ArgumentType::Record(std::collections::BTreeMap::new())
        };
        let scene = Scene::new(caller, resource);
        let allow = |one: &Applied| format!("{}:allow", label(one.policy.key()));
        let admitted = policies.iter().map(allow).collect::<Vec<_>>().join(" ").into();
        Self { policies, scene, kind: resource.kind, arguments, enforced, audited, admitted }
    }

    /// Whether conditions read arguments.
    pub fn reads_arguments(&self) -> bool {
        self.audited.iter().chain([&self.enforced]).any(Conditions::reads_arguments)
    }

    /// The violation by all calls with this action, independent of their context. Lists omit the resource.
    pub fn hidden(&self, action: Action) -> Option<&Finding> {
        self.enforced.violation_without_context(self, action)
    }

    /// Evaluates the conditions for a call.
    pub fn evaluate(
        &self,
        action: Action,
        context: &CallContext<'_>,
        arguments: &Map<String, Value>,
    ) -> Verdict {
        let request = Request { action, context, arguments: Some((&self.arguments, arguments)) };
        Verdict {
            denial: self.enforced.violation(self, request),
            audit: self.audited.iter().filter_map(|set| set.violation(self, request)).collect(),
        }
    }

    /// Decides a call without its arguments, as far as they do not matter. `known` has the paths of
    /// the members of `context` that are known.
    pub fn foresee(
        &self,
        action: Action,
        context: &CallContext<'_>,
        known: &[&[&str]],
    ) -> Foresight {
        let conditions = &self.enforced;
        let certain = conditions.always.as_ref().or_else(|| conditions.misfit(self, action));
        if let Some(finding) = certain {
            return Foresight::Denied(finding.clone());
        }
        let (decidable, open): (Vec<_>, Vec<_>) =
            self.statements(conditions).partition(|(_, statement)| statement.reads_only(known));
        let request = Request { action, context, arguments: None };
        let found = ConditionSet::new(decidable).map(|set| set.evaluate(&self.scene, request));
        let Ok(found) = found.unwrap_or_else(|| Ok(Evaluation::default())) else {
            return Foresight::Undecided(self.keys(conditions.policies.iter().copied()));
        };
        let is_permitted =
            |number: usize| open.iter().any(|(n, one)| *n == number && one.is_permit());
        if let Some(finding) = conditions.judge(self, &found, is_permitted) {
            return Foresight::Denied(finding);
        }
        // A value that does not fit its type denies a call, even if another statement permits it.
        match self.keys(open.iter().map(|(number, _)| *number)) {
            policies if policies.is_empty() => Foresight::Allowed,
            policies => Foresight::Undecided(policies),
        }
    }

    /// The statements that apply, with the numbers of their policies.
    fn statements(&self, conditions: &Conditions) -> impl Iterator<Item = (usize, &Statement)> {
        conditions.statements.iter().filter_map(|&(number, index)| {
            let parsed = self.policies[number].policy.conditions()?.as_ref().ok()?;
            Some((number, parsed.statements().get(index)?))
        })
    }

    fn keys(&self, numbers: impl Iterator<Item = usize>) -> Vec<Key> {
        let mut keys: Vec<_> =
            numbers.map(|number| self.policies[number].policy.key().clone()).collect();
        keys.dedup();
        keys
    }

    /// The rates of the policies.
    pub fn rates(&self, mode: Mode) -> impl Iterator<Item = RateRule<'_>> {
        let policies = self.policies.iter().map(|one| &one.policy);
        policies.filter(move |policy| policy.mode() == mode).flat_map(|policy| {
            policy.policy().rates.iter().map(move |rate| RateRule { policy, rate })
        })
    }

    /// The first policy whose limit on traces is exceeded.
    pub fn trace_violation(&self, mode: Mode, calls: u32, hops: u32) -> Option<Finding> {
        let policies = self.policies.iter().map(|one| &one.policy);
        policies.filter(|policy| policy.mode() == mode).find_map(|policy| {
            let trace = policy.policy().limits.as_ref()?.trace.as_ref()?;
            let exceeded = |what, limit: Option<u32>, count| {
                let limit = limit.filter(|limit| count > *limit)?;
                Some(finding(policy, Reason::TraceLimited { what, limit }))
            };
            exceeded("calls", trace.calls, calls).or_else(|| exceeded("hops", trace.hops, hops))
        })
    }

    /// The verdicts of all policies about a call: `NAME@VERSION:allow`, `:deny:REASON` or
    /// `:audit:REASON`, separated by spaces.
    pub fn verdicts(&self, denial: Option<&Finding>, audit: &[Finding]) -> Arc<str> {
        if denial.is_none() && audit.is_empty() {
            return Arc::clone(&self.admitted);
        }
        let verdict = |one: &Applied| {
            let key = one.policy.key();
            let reason = |found: &Finding| (found.policy == *key).then(|| found.reason.as_str());
            let label = label(key);
            match (denial.and_then(reason), audit.iter().find_map(reason)) {
                (Some(reason), _) => format!("{label}:deny:{reason}"),
                (None, Some(reason)) => format!("{label}:audit:{reason}"),
                (None, None) => format!("{label}:allow"),
            }
        };
        self.policies.iter().map(verdict).collect::<Vec<_>>().join(" ").into()
    }

    /// The violation by a call whose arguments cannot be read.
    pub fn unusable(&self, error: String) -> Option<Finding> {
        self.enforced.unusable(self, error)
    }

    /// Whether a policy limits traces.
    pub fn limits_traces(&self) -> bool {
        self.policies.iter().any(|one| {
            let limits = one.policy.policy().limits.as_ref();
            limits.is_some_and(|limits| limits.trace.is_some())
        })
    }

    /// The first policy whose `maxStaleness` is exceeded.
    pub fn stale(&self, mode: Mode, age: Option<Duration>) -> Option<Finding> {
        let policies = self.policies.iter().map(|one| &one.policy);
        policies.filter(|policy| policy.mode() == mode).find_map(|policy| {
            let limit = policy.policy().max_staleness?;
            let is_stale = age.is_none_or(|age| age > limit);
            is_stale.then(|| finding(policy, Reason::StalePolicy { age, limit }))
        })
    }
}

fn label(key: &Key) -> String {
    format!("{}@{}", key.name, key.version)
}

fn finding(policy: &PolicyInForce, reason: Reason) -> Finding {
    Finding { policy: policy.key().clone(), reason }
}

impl Conditions {
    fn new(applied: &[Applied], policies: Vec<usize>, caller: &Caller) -> Self {
        let mut conditions = Self::default();
        let mut statements: Vec<(usize, &Statement)> = Vec::new();
        for &number in &policies {
            let Applied { policy, caller: found } = &applied[number];
            match policy.conditions() {
                None => {}
                Some(Err(problems)) => {
                    let problem = problems.first().map(ToString::to_string);
                    let reason = Reason::PolicyError(problem.unwrap_or_default());
                    conditions.always.get_or_insert_with(|| finding(policy, reason));
                }
                Some(Ok(parsed)) => {
                    for (index, statement) in parsed.statements().iter().enumerate() {
                        // Unknown facts satisfy each forbid, and no permit.
                        let is_unknown = *caller == Caller::Unknown && statement.reads_caller();
                        match (statement.is_permit(), is_unknown) {
                            (true, true) => {}
                            (true, false) if *found == CallerMatch::Unknown => {}
                            (false, true) => {
                                let reason = Reason::Unauthorized;
                                conditions.always.get_or_insert_with(|| finding(policy, reason));
                            }
                            (_, false) => {
                                statements.push((number, statement));
                                conditions.statements.push((number, index));
                            }
                        }
                    }
                }
            }
        }
        conditions.undecided = statements
            .iter()
            .filter(|(_, statement)| statement.is_permit() && statement.reads_context())
            .map(|(number, _)| *number)
            .collect();
        conditions.all = ConditionSet::new(statements.iter().copied());
        let without_context = statements.into_iter().filter(|(_, one)| !one.reads_context());
        conditions.without_context = ConditionSet::new(without_context);
        conditions.policies = policies;
        conditions
    }

    fn reads_arguments(&self) -> bool {
        self.all.as_ref().is_some_and(ConditionSet::reads_arguments)
    }

    fn violation(&self, slice: &Slice, request: Request<'_>) -> Option<Finding> {
        let is_static = self.all.as_ref().is_none_or(|all| !all.reads_context());
        if is_static || self.always.is_some() {
            return self.violation_without_context(slice, request.action).cloned();
        }
        if let Some(found) = self.misfit(slice, request.action) {
            return Some(found.clone());
        }
        match self.all.as_ref()?.evaluate(&slice.scene, request) {
            Ok(found) => self.judge(slice, &found, |_| false),
            Err(error) => self.unusable(slice, error),
        }
    }

    /// The violation by a call whose facts cannot be read. Names the first of these policies that
    /// reads arguments, else the first one.
    fn unusable(&self, slice: &Slice, error: String) -> Option<Finding> {
        let policies = || self.policies.iter().map(|&number| &slice.policies[number].policy);
        let reads_arguments = |policy: &&Arc<PolicyInForce>| {
            policy.conditions().is_some_and(|conditions| {
                conditions.as_ref().is_ok_and(crate::cedar::Conditions::reads_arguments)
            })
        };
        let policy = policies().find(reads_arguments).or_else(|| policies().next())?;
        Some(finding(policy, Reason::PolicyError(error)))
    }

    /// The violation by every call with arguments, because conditions do not fit their types.
    fn misfit(&self, slice: &Slice, action: Action) -> Option<&Finding> {
        if !action.has_arguments() {
            return None;
        }
        let find = || {
            self.policies.iter().find_map(|&number| {
                let policy = &slice.policies[number].policy;
                let problem = policy.misfit(slice.kind, &slice.arguments)?;
                Some(finding(policy, Reason::PolicyError(problem.to_string())))
            })
        };
        self.misfit.get_or_init(find).as_ref()
    }

    fn violation_without_context(&self, slice: &Slice, action: Action) -> Option<&Finding> {
        if self.always.is_some() {
            return self.always.as_ref();
        }
        let violation = || {
            let found = self.without_context.as_ref();
            let found = found.map(|set| set.evaluate_static(&slice.scene, action)).transpose();
            let is_undecided = |number| self.undecided.contains(&number);
            match found {
                Ok(found) => self.judge(slice, &found.unwrap_or_default(), is_undecided),
                Err(error) => self.unusable(slice, error),
            }
        };
        self.by_action[action as usize].get_or_init(violation).as_ref()
    }

    /// Decides by satisfied statements. `is_undecided` tells whether a policy may have a permit that
    /// was not evaluated.
    fn judge(
        &self,
        slice: &Slice,
        found: &Evaluation,
        is_undecided: impl Fn(usize) -> bool,
    ) -> Option<Finding> {
        self.policies.iter().find_map(|&number| {
            let policy = &slice.policies[number].policy;
            if let Some(error) = found.errors.get(&number) {
                return Some(finding(policy, Reason::PolicyError(error.clone())));
            }
            let is_denied = found.forbids.contains(&number)
                || found.forbids.is_empty()
                    && policy.denies_by_default()
                    && !found.permits.contains(&number)
                    && !is_undecided(number);
            is_denied.then(|| finding(policy, Reason::Unauthorized))
        })
    }
}

#[cfg(test)]
mod tests;
