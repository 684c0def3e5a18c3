//! Policies whose conditions are evaluated together.

use std::sync::{Arc, OnceLock};

use super::{ApplicablePolicies, ApplicablePolicy, finding};
use crate::{
    Action, Caller, Finding, PolicyInForce, Reason,
    cedar::{Conditions, Evaluation, Request, Statement, StatementSet},
    facts::CallerMatch,
};

/// Policies that are evaluated together: all that are enforced, or one in audit mode. Each is named
/// by its position in [`ApplicablePolicies`].
#[derive(Debug, Default)]
pub(super) struct PolicyGroup {
    policies: Vec<usize>,
    /// The statements that apply: the position of the policy, and that of the statement in it.
    statements: Vec<(usize, usize)>,
    all: Option<StatementSet>,
    /// The statements that do not read `context`.
    without_context: Option<StatementSet>,
    /// The first violation by every call.
    always: Option<Finding>,
    /// The policies that have a permit which reads `context`.
    undecided: Vec<usize>,
    /// The violation by the first policy whose conditions mismatch the types of the arguments.
    type_mismatch: OnceLock<Option<Finding>>,
    /// The first violation of conditions that do not read `context`, by action.
    by_action: [OnceLock<Option<Finding>>; Action::ALL.len()],
}

impl PolicyGroup {
    pub(super) fn new(
        applicable: &[ApplicablePolicy],
        policies: Vec<usize>,
        caller: &Caller,
    ) -> Self {
        let mut group = Self::default();
        let mut statements: Vec<(usize, &Statement)> = Vec::new();
        for &position in &policies {
            let ApplicablePolicy { policy, caller: caller_match, .. } = &applicable[position];
            let conditions = match policy.conditions() {
                None => continue,
                Some(Ok(conditions)) => conditions,
                Some(Err(problems)) => {
                    let problem = problems.first().map(ToString::to_string);
                    let reason = Reason::PolicyError(problem.unwrap_or_default());
                    group.always.get_or_insert_with(|| finding(policy, reason));
                    continue;
                }
            };
            for (index, statement) in conditions.statements().iter().enumerate() {
                // Unknown facts satisfy each forbid, and no permit.
                let is_unknown = *caller == Caller::Unknown && statement.reads_caller();
                match (statement.is_permit(), is_unknown) {
                    (true, true) => {}
                    (true, false) if *caller_match == CallerMatch::Unknown => {}
                    (false, true) => {
                        let reason = Reason::Unauthorized;
                        group.always.get_or_insert_with(|| finding(policy, reason));
                    }
                    (_, false) => {
                        statements.push((position, statement));
                        group.statements.push((position, index));
                    }
                }
            }
        }
        group.undecided = statements
            .iter()
            .filter(|(_, statement)| statement.is_permit() && statement.reads_context())
            .map(|(position, _)| *position)
            .collect();
        group.all = StatementSet::new(statements.iter().copied());
        let without_context =
            statements.into_iter().filter(|(_, statement)| !statement.reads_context());
        group.without_context = StatementSet::new(without_context);
        group.policies = policies;
        group
    }

    pub(super) fn policies(&self) -> impl Iterator<Item = usize> {
        self.policies.iter().copied()
    }

    /// The statements that apply: the position of the policy, and that of the statement in it.
    pub(super) fn statements(&self) -> impl Iterator<Item = (usize, usize)> {
        self.statements.iter().copied()
    }

    pub(super) fn reads_arguments(&self) -> bool {
        self.all.as_ref().is_some_and(StatementSet::reads_arguments)
    }

    pub(super) fn violation(
        &self,
        applicable: &ApplicablePolicies,
        request: Request<'_>,
    ) -> Option<Finding> {
        let is_static = self.all.as_ref().is_none_or(|all| !all.reads_context());
        if is_static || self.always.is_some() {
            return self.violation_without_context(applicable, request.action).cloned();
        }
        if let Some(finding) = self.type_mismatch(applicable, request.action) {
            return Some(finding.clone());
        }
        match self.all.as_ref()?.evaluate(&applicable.entities, request) {
            Ok(evaluation) => self.decide(applicable, &evaluation, |_| false),
            Err(error) => self
                .first_unusable(applicable, request)
                .or_else(|| self.unusable(applicable, error)),
        }
    }

    /// The violation by the first policy that cannot read the facts of a call.
    fn first_unusable(
        &self,
        applicable: &ApplicablePolicies,
        request: Request<'_>,
    ) -> Option<Finding> {
        self.policies.iter().find_map(|&position| {
            let own = applicable.statements(self).filter(|(policy, _)| *policy == position);
            let error = StatementSet::new(own)?.evaluate(&applicable.entities, request).err()?;
            let policy = &applicable.policies[position].policy;
            Some(finding(policy, Reason::PolicyError(error)))
        })
    }

    /// The violation by a call whose facts cannot be read. Names the first of these policies that
    /// reads arguments, else the first one.
    pub(super) fn unusable(
        &self,
        applicable: &ApplicablePolicies,
        error: String,
    ) -> Option<Finding> {
        let policies =
            || self.policies.iter().map(|&position| &applicable.policies[position].policy);
        let reads_arguments = |policy: &&Arc<PolicyInForce>| {
            policy.conditions().is_some_and(|conditions| {
                conditions.as_ref().is_ok_and(Conditions::reads_arguments)
            })
        };
        let policy = policies().find(reads_arguments).or_else(|| policies().next())?;
        Some(finding(policy, Reason::PolicyError(error)))
    }

    /// The violation by every call with this action, independent of its context and arguments.
    pub(super) fn certain_violation(
        &self,
        applicable: &ApplicablePolicies,
        action: Action,
    ) -> Option<&Finding> {
        self.always.as_ref().or_else(|| self.type_mismatch(applicable, action))
    }

    /// The violation by every call with arguments, because conditions mismatch their types.
    fn type_mismatch(&self, applicable: &ApplicablePolicies, action: Action) -> Option<&Finding> {
        if !action.has_arguments() {
            return None;
        }
        let find = || {
            self.policies.iter().find_map(|&position| {
                let policy = &applicable.policies[position].policy;
                let problem = policy.type_mismatch(applicable.kind, &applicable.arguments)?;
                Some(finding(policy, Reason::PolicyError(problem.to_string())))
            })
        };
        self.type_mismatch.get_or_init(find).as_ref()
    }

    /// The violation by every call with this action, independent of its context.
    pub(super) fn violation_without_context(
        &self,
        applicable: &ApplicablePolicies,
        action: Action,
    ) -> Option<&Finding> {
        if self.always.is_some() {
            return self.always.as_ref();
        }
        let violation = || {
            let evaluation = self.without_context.as_ref();
            let evaluation =
                evaluation.map(|set| set.evaluate_static(&applicable.entities, action)).transpose();
            let may_permit = |position| self.undecided.contains(&position);
            match evaluation {
                Ok(evaluation) => {
                    self.decide(applicable, &evaluation.unwrap_or_default(), may_permit)
                }
                Err(error) => self.unusable(applicable, error),
            }
        };
        self.by_action[action as usize].get_or_init(violation).as_ref()
    }

    /// Decides by satisfied statements. `may_permit` returns true for a policy whose unevaluated permit
    /// may be satisfied.
    pub(super) fn decide(
        &self,
        applicable: &ApplicablePolicies,
        evaluation: &Evaluation,
        may_permit: impl Fn(usize) -> bool,
    ) -> Option<Finding> {
        self.policies.iter().find_map(|&position| {
            let policy = &applicable.policies[position].policy;
            if let Some(error) = evaluation.errors.get(&position) {
                return Some(finding(policy, Reason::PolicyError(error.clone())));
            }
            let is_denied = evaluation.forbids.contains(&position)
                || evaluation.forbids.is_empty()
                    && policy.denies_by_default()
                    && !evaluation.permits.contains(&position)
                    && !may_permit(position);
            is_denied.then(|| finding(policy, Reason::Unauthorized))
        })
    }
}
