//! The policies that apply to the calls of one resource by one caller.

mod approval;
mod group;
mod inspection;
mod limits;
mod partial;
mod spending;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use registry_core::entity::policy::Mode;
use serde_json::{Map, Value};

use self::group::PolicyGroup;
pub use self::{
    approval::ApprovalRule,
    inspection::{Direction, InspectionRule, InspectionRules},
    limits::RateRule,
    partial::PartialDecision,
    spending::{BudgetRule, Payer, PriceRule},
};
use crate::{
    Action, CallContext, Caller, Finding, PolicyInForce, Reason, Resource, ResourceKind, Verdict,
    arguments::ArgumentType,
    cedar::{CallEntities, Request},
    facts::CallerMatch,
};

/// The policies that apply to the calls of one resource by one caller.
#[derive(Debug)]
pub struct ApplicablePolicies {
    policies: Vec<ApplicablePolicy>,
    entities: CallEntities,
    /// The team that owns the caller.
    team: Option<Box<str>>,
    kind: ResourceKind,
    /// Whether policies with `approval.when: destructive` demand an approval.
    needs_approval: bool,
    arguments: ArgumentType,
    enforced: PolicyGroup,
    audited: Vec<PolicyGroup>,
    inspection: Option<Arc<InspectionRules>>,
    /// The verdicts about a call that violates nothing.
    admitted: Arc<str>,
}

/// A policy that applies.
#[derive(Debug)]
pub(crate) struct ApplicablePolicy {
    pub(crate) policy: Arc<PolicyInForce>,
    pub(crate) caller: CallerMatch,
    /// The version in force beside a pre-release. It counts what both limit, also if it does not
    /// apply to the call.
    pub(crate) release: Option<Arc<PolicyInForce>>,
}

impl ApplicablePolicies {
    pub(crate) fn new(
        policies: Vec<ApplicablePolicy>,
        caller: &Caller,
        resource: &Resource,
        arguments: impl FnOnce() -> ArgumentType,
    ) -> Self {
        let positions = |mode| {
            let policies = policies.iter().enumerate();
            policies
                .filter(move |(_, applicable)| applicable.policy.mode() == mode)
                .map(|(position, _)| position)
        };
        let enforced = PolicyGroup::new(&policies, positions(Mode::Enforce).collect(), caller);
        let audited: Vec<_> = positions(Mode::Audit)
            .map(|position| PolicyGroup::new(&policies, vec![position], caller))
            .collect();
        let reads_arguments = audited.iter().chain([&enforced]).any(PolicyGroup::reads_arguments);
        let arguments =
            if reads_arguments { arguments() } else { ArgumentType::Record(BTreeMap::new()) };
        let entities = CallEntities::new(caller, resource);
        let allow = |applicable: &ApplicablePolicy| format!("{}:allow", applicable.policy.label());
        let admitted = policies.iter().map(allow).collect::<Vec<_>>().join(" ").into();
        let inspection = InspectionRules::new(&policies, &resource.tools);
        let team = match caller {
            Caller::Agent(agent) => Some(agent.team.as_str().into()),
            Caller::Unregistered | Caller::Unknown => None,
        };
        let (kind, needs_approval) = (resource.kind, resource.needs_approval());
        Self {
            policies,
            entities,
            team,
            kind,
            needs_approval,
            arguments,
            enforced,
            audited,
            inspection,
            admitted,
        }
    }

    /// The team that owns the calling agent. `None`: the caller is not registered.
    pub fn team(&self) -> Option<&str> {
        self.team.as_deref()
    }

    /// Whether conditions read arguments.
    pub fn reads_arguments(&self) -> bool {
        self.audited.iter().chain([&self.enforced]).any(PolicyGroup::reads_arguments)
    }

    /// The violation by all calls with this action, independent of their context. Lists omit the resource.
    pub fn hidden(&self, action: Action) -> Option<&Finding> {
        self.enforced.violation_without_context(self, action)
    }

    /// The violations of policies in audit mode by all calls with this action, independent of their
    /// context.
    pub fn audited(&self, action: Action) -> Vec<Finding> {
        let violation =
            |group: &PolicyGroup| group.violation_without_context(self, action).cloned();
        self.audited.iter().filter_map(violation).collect()
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
            audit: self.audited.iter().filter_map(|group| group.violation(self, request)).collect(),
        }
    }

    /// The violation by a call whose arguments cannot be read.
    pub fn unusable(&self, error: String) -> Option<Finding> {
        self.enforced.unusable(self, error)
    }

    /// The verdicts of all policies about a call: `NAME@VERSION:allow`, `:deny:REASON`,
    /// `:audit:REASON` or `:undecided`, separated by spaces. A denial ends the decision, so that a
    /// policy without a finding may be undecided.
    pub fn verdicts(&self, denial: Option<&Finding>, audit: &[Finding]) -> Arc<str> {
        if denial.is_none() && audit.is_empty() {
            return Arc::clone(&self.admitted);
        }
        let other = if denial.is_some() { "undecided" } else { "allow" };
        let verdict = |applicable: &ApplicablePolicy| {
            let key = applicable.policy.key();
            let reason =
                |finding: &Finding| (finding.policy == *key).then(|| finding.reason.as_str());
            let label = applicable.policy.label();
            match (denial.and_then(reason), audit.iter().find_map(reason)) {
                (Some(reason), _) => format!("{label}:deny:{reason}"),
                (None, Some(reason)) => format!("{label}:audit:{reason}"),
                (None, None) => format!("{label}:{other}"),
            }
        };
        self.policies.iter().map(verdict).collect::<Vec<_>>().join(" ").into()
    }

    /// The policies in this mode.
    fn in_mode(&self, mode: Mode) -> impl Iterator<Item = &Arc<PolicyInForce>> {
        let policies = self.policies.iter().map(|applicable| &applicable.policy);
        policies.filter(move |policy| policy.mode() == mode)
    }
}

fn finding(policy: &PolicyInForce, reason: Reason) -> Finding {
    Finding { policy: policy.key().clone(), reason }
}
