//! Messages about approvals that gateways and the registry have in common.

use approval::{Binding, Demand, Principal, State};

use crate::v1::{self, ApprovalState as Wire};

/// Writes the call that an approval allows.
pub fn approved_call(call: &Binding) -> v1::ApprovedCall {
    let demand = |Demand { policy, digest, rule }: &Demand| v1::ApprovalDemand {
        policy: policy.clone(),
        digest: digest.to_string(),
        rule: Some(rule.into()),
    };
    v1::ApprovedCall {
        caller: Some(approval_account(&call.caller)),
        agent: call.agent.clone().unwrap_or_default(),
        resource: call.resource.clone(),
        version: call.version.clone(),
        definition_digest: call.definition.to_string(),
        arguments_digest: call.arguments.to_string(),
        demands: call.demands.iter().map(demand).collect(),
    }
}

/// Writes an account.
pub fn approval_account(Principal { issuer, subject, person }: &Principal) -> v1::ApprovalAccount {
    v1::ApprovalAccount {
        issuer: issuer.clone(),
        subject: subject.clone(),
        person: person.clone().unwrap_or_default(),
    }
}

/// Writes a state.
pub fn approval_state(state: State) -> Wire {
    match state {
        State::Pending => Wire::Pending,
        State::Approved => Wire::Approved,
        State::Consumed => Wire::Consumed,
        State::Succeeded => Wire::Succeeded,
        State::Failed => Wire::Failed,
        State::Unknown => Wire::Unknown,
        State::Denied => Wire::Denied,
        State::Expired => Wire::Expired,
        State::Cancelled => Wire::Cancelled,
        State::Superseded => Wire::Superseded,
        State::Invalid => Wire::Invalid,
    }
}

/// Reads a state. `None`: it is unspecified.
pub fn read_approval_state(state: Wire) -> Option<State> {
    Some(match state {
        Wire::Unspecified => return None,
        Wire::Pending => State::Pending,
        Wire::Approved => State::Approved,
        Wire::Consumed => State::Consumed,
        Wire::Succeeded => State::Succeeded,
        Wire::Failed => State::Failed,
        Wire::Unknown => State::Unknown,
        Wire::Denied => State::Denied,
        Wire::Expired => State::Expired,
        Wire::Cancelled => State::Cancelled,
        Wire::Superseded => State::Superseded,
        Wire::Invalid => State::Invalid,
    })
}
