//! Reads requests of `ApprovalService`.

use approval::{
    Attempt, Binding, Claim, Demand, GrantScope, Outcome, Principal, RequestId, Settlement, Wanted,
    limits::{DEMANDS, TEXT_BYTES},
};
use prost::Message as _;
use registry_core::Digest;
use registry_proto::{convert, v1};
use serde::de::IgnoredAny;

use crate::{
    app::approvals::{ApprovalsWanted, DecisionChoice, DecisionWanted, MAX_PREVIEW_BYTES, States},
    grpc::invalid::{self, FILTER_BYTES, InvalidRequest, field},
};

/// Maximum length of the demanded approvals of a call together, in bytes.
const RULE_BYTES: usize = 8 * 1024;

pub(super) fn id(text: &str) -> Result<RequestId, InvalidRequest> {
    if text.is_empty() {
        return Err(InvalidRequest::Missing("id"));
    }
    text.parse::<RequestId>().map_err(|e| field("id", &e))
}

pub(super) fn wanted(message: v1::RequestApprovalRequest) -> Result<Wanted, InvalidRequest> {
    let v1::RequestApprovalRequest { id: own, call, owner_teams, preview, gateway: _ } = message;
    let owners = invalid::list("owner_teams", owner_teams, DEMANDS)?.into_iter();
    let owners = owners.map(|team| invalid::line("owner_teams", team, FILTER_BYTES));
    let bytes = preview.len();
    if bytes > MAX_PREVIEW_BYTES {
        let limit = MAX_PREVIEW_BYTES;
        return Err(InvalidRequest::TooLong { field: "preview", bytes, limit });
    }
    serde_json::from_str::<IgnoredAny>(&preview).map_err(|e| field("preview", &e))?;
    Ok(Wanted {
        id: id(&own)?,
        binding: binding(call)?,
        owners: owners.collect::<Result<_, _>>()?,
        preview,
    })
}

fn binding(call: Option<v1::ApprovedCall>) -> Result<Binding, InvalidRequest> {
    let v1::ApprovedCall {
        caller,
        agent,
        resource,
        version,
        definition_digest,
        arguments_digest,
        demands,
    } = call.ok_or(InvalidRequest::Missing("call"))?;
    let demands = invalid::list("call.demands", demands, DEMANDS)?;
    let rules = demands.iter().filter_map(|demand| demand.rule.as_ref());
    let bytes: usize = rules.map(v1::PolicyApproval::encoded_len).sum();
    if bytes > RULE_BYTES {
        return Err(InvalidRequest::TooLong { field: "call.demands", bytes, limit: RULE_BYTES });
    }
    let agent = invalid::line("call.agent", agent, TEXT_BYTES)?;
    Ok(Binding {
        caller: account("call.caller", caller)?,
        agent: Some(agent).filter(|agent| !agent.is_empty()),
        resource: required("call.resource", resource)?,
        version: required("call.version", version)?,
        definition: digest("call.definition_digest", &definition_digest)?,
        arguments: digest("call.arguments_digest", &arguments_digest)?,
        demands: demands.into_iter().map(demand).collect::<Result<_, _>>()?,
    })
}

fn demand(demand: v1::ApprovalDemand) -> Result<Demand, InvalidRequest> {
    let v1::ApprovalDemand { policy, digest: text, rule } = demand;
    let rule = rule.ok_or(InvalidRequest::Missing("call.demands"))?;
    Ok(Demand {
        policy: required("call.demands", policy)?,
        digest: digest("call.demands", &text)?,
        rule: convert::policy_approval(rule).map_err(|e| field("call.demands", &e))?,
    })
}

pub(super) fn account(
    name: &'static str,
    account: Option<v1::ApprovalAccount>,
) -> Result<Principal, InvalidRequest> {
    let account = account.ok_or(InvalidRequest::Missing(name))?;
    let v1::ApprovalAccount { issuer, subject, person } = account;
    let person = invalid::line(name, person, TEXT_BYTES)?;
    Ok(Principal {
        issuer: required(name, issuer)?,
        subject: required(name, subject)?,
        person: Some(person).filter(|person| !person.is_empty()),
    })
}

pub(super) fn claim(message: v1::ClaimApprovalRequest) -> Result<Claim, InvalidRequest> {
    let v1::ClaimApprovalRequest {
        id: request,
        call_digest,
        round,
        attempt: own,
        outcome_within,
        gateway: _,
    } = message;
    let within = outcome_within.ok_or(InvalidRequest::Missing("outcome_within"))?;
    Ok(Claim {
        request: id(&request)?,
        key: digest("call_digest", &call_digest)?,
        round,
        attempt: attempt(&own)?,
        within: convert::read_duration(within),
    })
}

pub(super) fn settlement(
    message: &v1::ReportApprovalOutcomeRequest,
) -> Result<Settlement, InvalidRequest> {
    let outcome = match v1::ApprovalOutcome::try_from(message.outcome) {
        Ok(v1::ApprovalOutcome::Succeeded) => Outcome::Succeeded,
        Ok(v1::ApprovalOutcome::Failed) => Outcome::Failed,
        Ok(v1::ApprovalOutcome::Unknown) => Outcome::Unknown,
        Ok(v1::ApprovalOutcome::AwaitingInput) => Outcome::AwaitingInput,
        Ok(v1::ApprovalOutcome::Unspecified) => return Err(InvalidRequest::Missing("outcome")),
        Err(_) => return Err(unknown("outcome", message.outcome)),
    };
    Ok(Settlement { request: id(&message.id)?, attempt: attempt(&message.attempt)?, outcome })
}

pub(super) fn filter(
    message: &v1::ListApprovalsRequest,
) -> Result<ApprovalsWanted, InvalidRequest> {
    let state = v1::ApprovalState::try_from(message.state);
    let state = state.map_err(|_| unknown("state", message.state))?;
    let states = convert::read_approval_state(state).map_or(States::All, States::Only);
    Ok(ApprovalsWanted { states, own: message.own })
}

pub(super) fn decision(
    message: v1::DecideApprovalRequest,
) -> Result<DecisionWanted, InvalidRequest> {
    use v1::decide_approval_request::Choice;
    let v1::DecideApprovalRequest { id: request, choice, is_batch } = message;
    let choice = match choice.ok_or(InvalidRequest::Missing("choice"))? {
        Choice::Approve(v1::ApproveChoice { grant_for: None, .. }) => DecisionChoice::Approve,
        Choice::Approve(v1::ApproveChoice { grant_for: Some(duration), grant_scope }) => {
            let scope = match v1::GrantScope::try_from(grant_scope) {
                Ok(v1::GrantScope::Unspecified | v1::GrantScope::Arguments) => {
                    GrantScope::Arguments
                }
                Ok(v1::GrantScope::Tool) => GrantScope::Tool,
                Err(_) => return Err(unknown("approve.grant_scope", grant_scope)),
            };
            DecisionChoice::ApproveFor { duration: convert::read_duration(duration), scope }
        }
        Choice::Deny(v1::DenyChoice { reason }) => {
            let reason = invalid::text("deny.reason", reason, TEXT_BYTES)?;
            DecisionChoice::Deny { reason }
        }
    };
    Ok(DecisionWanted { id: id(&request)?, choice, is_batch })
}

fn attempt(text: &str) -> Result<Attempt, InvalidRequest> {
    if text.is_empty() {
        return Err(InvalidRequest::Missing("attempt"));
    }
    text.parse::<Attempt>().map_err(|e| field("attempt", &e))
}

fn digest(name: &'static str, text: &str) -> Result<Digest, InvalidRequest> {
    if text.is_empty() {
        return Err(InvalidRequest::Missing(name));
    }
    Digest::parse(text).map_err(|e| field(name, &e))
}

fn required(name: &'static str, text: String) -> Result<String, InvalidRequest> {
    let text = invalid::line(name, text, TEXT_BYTES)?;
    if text.is_empty() { Err(InvalidRequest::Missing(name)) } else { Ok(text) }
}

fn unknown(name: &'static str, number: i32) -> InvalidRequest {
    field(name, &format!("the value {number} is unknown; use a server of the client's version"))
}
