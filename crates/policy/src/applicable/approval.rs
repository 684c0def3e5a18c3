//! The approvals that a call needs.

use std::sync::Arc;

use registry_core::entity::policy::{Approval, ApprovalCondition, Mode};

use super::{ApplicablePolicies, finding};
use crate::{Action, Finding, PolicyInForce, Reason};

/// An approval that calls need, with its policy.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalRule<'a> {
    /// The policy.
    pub policy: &'a Arc<PolicyInForce>,
    /// The approval.
    pub approval: &'a Approval,
}

impl ApplicablePolicies {
    /// The approvals that calls need by the policies in a mode.
    pub fn approvals(&self, mode: Mode) -> impl Iterator<Item = ApprovalRule<'_>> {
        let rules = self.in_mode(mode).filter_map(|policy| {
            Some(ApprovalRule { policy, approval: policy.policy().approval.as_ref()? })
        });
        rules.filter(|rule| match rule.approval.when {
            ApprovalCondition::Always => true,
            ApprovalCondition::Destructive => self.needs_approval,
        })
    }

    /// The violation by a call without an approval.
    pub(crate) fn demanded_approval(&self, action: Action, mode: Mode) -> Option<Finding> {
        let rule = self.approvals(mode).next().filter(|_| action.has_arguments())?;
        Some(finding(rule.policy, Reason::ApprovalRequired(None)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::applicable::testing::applicable;

    #[test]
    fn approvals_are_those_of_one_mode() {
        let policies = applicable(&[
            json!({ "approval": {} }),
            json!({ "mode": "audit", "approval": { "when": "destructive" } }),
            json!({}),
        ]);
        let names = |mode| {
            let rules = policies.approvals(mode);
            rules.map(|rule| rule.policy.key().name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!([names(Mode::Enforce), names(Mode::Audit)], [["p0"], ["p1"]]);
    }
}
