//! Writes the approval that calls need.

use registry_core::entity::policy::{Approval, ApprovalCondition};

use crate::{convert::time::duration, v1};

impl From<&Approval> for v1::PolicyApproval {
    fn from(approval: &Approval) -> Self {
        let Approval { when, approvers, quorum, four_eyes, expires_after, standing_for, show } =
            approval;
        Self {
            when: v1::PolicyApprovalCondition::from(*when).into(),
            approvers: approvers.iter().map(ToString::to_string).collect(),
            quorum: Some(quorum.get()),
            four_eyes: *four_eyes,
            expires_after: expires_after.map(duration),
            standing_for: standing_for.map(duration),
            show: show.iter().map(ToString::to_string).collect(),
        }
    }
}

impl From<ApprovalCondition> for v1::PolicyApprovalCondition {
    fn from(condition: ApprovalCondition) -> Self {
        match condition {
            ApprovalCondition::Always => Self::Always,
            ApprovalCondition::Destructive => Self::Destructive,
        }
    }
}
