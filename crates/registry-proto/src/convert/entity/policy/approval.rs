//! Reads the approval that calls need.

use registry_core::entity::policy::ApprovalCondition;
use serde_json::Value;

use super::{duration_value, object};
use crate::v1;

pub(super) fn approval_value(approval: v1::PolicyApproval) -> Value {
    let v1::PolicyApproval {
        when,
        approvers,
        quorum,
        four_eyes,
        expires_after,
        standing_for,
        show,
    } = approval;
    // A message does not distinguish an empty list from an absent one. The former is invalid.
    let approvers = Some(approvers).filter(|list| !list.is_empty());
    object([
        ("when", condition_value(when)),
        ("approvers", approvers.into()),
        ("quorum", quorum.into()),
        ("fourEyes", four_eyes.into()),
        ("expiresAfter", expires_after.map(duration_value).into()),
        ("standingFor", standing_for.map(duration_value).into()),
        ("show", show.into()),
    ])
}

// The reader of documents rejects the text of an unknown number.

fn condition_value(number: i32) -> Value {
    match v1::PolicyApprovalCondition::try_from(number) {
        Ok(v1::PolicyApprovalCondition::Unspecified) => Value::Null,
        Ok(v1::PolicyApprovalCondition::Always) => ApprovalCondition::Always.as_str().into(),
        Ok(v1::PolicyApprovalCondition::Destructive) => {
            ApprovalCondition::Destructive.as_str().into()
        }
        Err(_) => number.to_string().into(),
    }
}
