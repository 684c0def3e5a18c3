//! Partial evaluation: decisions about calls with unknown arguments.

use registry_core::Key;

use super::{ApplicablePolicies, group::PolicyGroup};
use crate::{
    Action, CallContext, Finding,
    cedar::{Evaluation, Request, Statement, StatementSet},
};

/// The decision about calls with unknown arguments.
#[derive(Debug, Clone, PartialEq)]
pub enum PartialDecision {
    /// Every call is denied, with this first violation.
    Denied(Finding),
    /// These policies may deny a call.
    Undecided(Vec<Key>),
    /// No policy denies a call, apart from rates, limits and the age of the catalog.
    Allowed,
}

impl ApplicablePolicies {
    /// Decides a call without its arguments, as far as they do not matter. `known` has the paths of
    /// the members of `context` that are known.
    pub fn decide_partially(
        &self,
        action: Action,
        context: &CallContext<'_>,
        known: &[&[&str]],
    ) -> PartialDecision {
        let group = &self.enforced;
        if let Some(finding) = group.certain_violation(self, action) {
            return PartialDecision::Denied(finding.clone());
        }
        let (decidable, open): (Vec<_>, Vec<_>) =
            self.statements(group).partition(|(_, statement)| statement.reads_only(known));
        let request = Request { action, context, arguments: None };
        let evaluation =
            StatementSet::new(decidable).map(|set| set.evaluate(&self.entities, request));
        let Ok(evaluation) = evaluation.unwrap_or_else(|| Ok(Evaluation::default())) else {
            return PartialDecision::Undecided(self.keys(group.policies()));
        };
        let may_permit = |position: usize| {
            open.iter().any(|(policy, statement)| *policy == position && statement.is_permit())
        };
        if let Some(finding) = group.decide(self, &evaluation, may_permit) {
            return PartialDecision::Denied(finding);
        }
        // A type mismatch denies a call, even if another statement permits it.
        match self.keys(open.iter().map(|(position, _)| *position)) {
            policies if policies.is_empty() => PartialDecision::Allowed,
            policies => PartialDecision::Undecided(policies),
        }
    }

    /// The statements of a group that apply, with the positions of their policies.
    pub(super) fn statements(
        &self,
        group: &PolicyGroup,
    ) -> impl Iterator<Item = (usize, &Statement)> {
        group.statements().filter_map(|(position, index)| {
            let conditions = self.policies[position].policy.conditions()?.as_ref().ok()?;
            Some((position, conditions.statements().get(index)?))
        })
    }

    fn keys(&self, positions: impl Iterator<Item = usize>) -> Vec<Key> {
        let mut keys: Vec<_> =
            positions.map(|position| self.policies[position].policy.key().clone()).collect();
        keys.dedup();
        keys
    }
}
