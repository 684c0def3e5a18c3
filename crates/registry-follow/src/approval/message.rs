//! The messages of gateways about approvals.

use approval::{
    ApprovalsError, CancelError, Claim, ConfirmError, ConsumeError, OpenError, Outcome,
    RequestStatus, SettleError, Settlement, State, Wanted, limits::COOL_DOWN,
};
use ledger::LedgerError;
use registry_core::Timestamp;
use registry_proto::{
    convert,
    v1::{self, ApprovalRefusalReason as Reason, approval_decision::Choice},
};

/// The store did not answer.
pub(super) fn failure(error: LedgerError) -> ApprovalsError {
    match error {
        LedgerError::Unavailable(reason) => ApprovalsError::Unavailable(reason),
        LedgerError::Rejected(reason) => ApprovalsError::Rejected(reason),
    }
}

/// The answer cannot be read.
pub(super) fn invalid(field: &str) -> ApprovalsError {
    ApprovalsError::Unavailable(format!("the field `{field}` of the answer is missing or invalid"))
}

pub(super) fn wanted(wanted: &Wanted) -> v1::RequestApprovalRequest {
    let Wanted { id, binding, owners, preview } = wanted;
    v1::RequestApprovalRequest {
        id: id.to_string(),
        call: Some(convert::approved_call(binding)),
        owner_teams: owners.iter().cloned().collect(),
        preview: preview.clone(),
        gateway: String::new(),
    }
}

pub(super) fn claim(claim: &Claim) -> v1::ClaimApprovalRequest {
    let Claim { request, key, round, attempt, within } = claim;
    v1::ClaimApprovalRequest {
        id: request.to_string(),
        call_digest: key.to_string(),
        round: *round,
        attempt: attempt.to_string(),
        outcome_within: Some(convert::duration(*within)),
        gateway: String::new(),
    }
}

pub(super) fn settlement(settlement: &Settlement) -> v1::ReportApprovalOutcomeRequest {
    let Settlement { request, attempt, outcome } = settlement;
    let outcome = match outcome {
        Outcome::Succeeded => v1::ApprovalOutcome::Succeeded,
        Outcome::Failed => v1::ApprovalOutcome::Failed,
        Outcome::Unknown => v1::ApprovalOutcome::Unknown,
        Outcome::AwaitingInput => v1::ApprovalOutcome::AwaitingInput,
    };
    v1::ReportApprovalOutcomeRequest {
        id: request.to_string(),
        attempt: attempt.to_string(),
        outcome: outcome.into(),
        gateway: String::new(),
    }
}

pub(super) fn status(approval: &v1::Approval) -> Result<RequestStatus, ApprovalsError> {
    let state = convert::read_approval_state(approval.state());
    let state = state.ok_or_else(|| invalid("state"))?;
    let (time, is_denied) = match state {
        State::Denied => (approval.state_time, true),
        _ => (approval.expire_time, false),
    };
    let time = time.map(convert::read_timestamp).transpose();
    let time = time.map_err(|_| invalid("expire_time"))?;
    let ends_at = if is_denied { time.map(after_rest) } else { time };
    let (mut denial, mut approvals) = (None, Vec::new());
    for decision in &approval.decisions {
        match &decision.choice {
            Some(Choice::Denied(denied)) => denial = Some(denied.reason.clone()),
            Some(Choice::Approved(_)) => approvals.extend(decision.policies.iter().cloned()),
            None => {}
        }
    }
    let uncertain = Some(&approval.uncertain_id).filter(|id| !id.is_empty());
    Ok(RequestStatus {
        id: approval.id.parse().map_err(|_| invalid("id"))?,
        state,
        ends_at,
        denial,
        uncertain: uncertain
            .map(|id| id.parse())
            .transpose()
            .map_err(|_| invalid("uncertain_id"))?,
        is_confirmed: approval.confirm_time.is_some(),
        approvals,
        page: None,
    })
}

/// The end of the rest after a denial.
fn after_rest(denied: Timestamp) -> Timestamp {
    let rest = i64::try_from(COOL_DOWN.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(denied.as_millis().saturating_add(rest))
}

/// A refusal with a reason that the message does not have.
fn other(refusal: v1::ApprovalRefusal) -> ApprovalsError {
    ApprovalsError::Rejected(refusal.message)
}

fn state_of(refusal: &v1::ApprovalRefusal) -> Option<State> {
    convert::read_approval_state(refusal.state())
}

pub(super) fn open_error(refusal: v1::ApprovalRefusal) -> Result<OpenError, ApprovalsError> {
    Ok(match refusal.reason() {
        Reason::Demands => OpenError::Demands,
        Reason::TooLarge => OpenError::TooLarge,
        Reason::UsedId => OpenError::UsedId,
        Reason::TooManyOpen => OpenError::TooManyOpen,
        Reason::TooManyStored => OpenError::TooManyStored,
        Reason::Full => OpenError::Full,
        Reason::Undecidable => OpenError::Undecidable,
        _ => return Err(other(refusal)),
    })
}

pub(super) fn confirm_error(refusal: v1::ApprovalRefusal) -> Result<ConfirmError, ApprovalsError> {
    Ok(match (refusal.reason(), state_of(&refusal)) {
        (Reason::NotFound, _) => ConfirmError::NotFound,
        (Reason::NotPending, Some(state)) => ConfirmError::NotPending(state),
        (Reason::OtherCaller, _) => ConfirmError::OtherCaller,
        (Reason::NotDemanded, _) => ConfirmError::NotDemanded,
        _ => return Err(other(refusal)),
    })
}

pub(super) fn cancel_error(refusal: v1::ApprovalRefusal) -> Result<CancelError, ApprovalsError> {
    Ok(match (refusal.reason(), state_of(&refusal)) {
        (Reason::NotFound, _) => CancelError::NotFound,
        (Reason::NotOpen, Some(state)) => CancelError::NotOpen(state),
        (Reason::OtherCaller, _) => CancelError::OtherCaller,
        _ => return Err(other(refusal)),
    })
}

pub(super) fn consume_error(
    refusal: v1::ApprovalRefusal,
    round: u32,
) -> Result<ConsumeError, ApprovalsError> {
    Ok(match (refusal.reason(), state_of(&refusal)) {
        (Reason::NotFound, _) => ConsumeError::NotFound,
        (Reason::OtherCall, _) => ConsumeError::OtherCall,
        (Reason::NotApproved, Some(state)) => ConsumeError::NotApproved(state),
        (Reason::Used, _) => ConsumeError::Used,
        (Reason::Replayed, _) => ConsumeError::Replayed { round },
        (Reason::TooManyRounds, _) => ConsumeError::TooManyRounds,
        _ => return Err(other(refusal)),
    })
}

pub(super) fn settle_error(refusal: v1::ApprovalRefusal) -> Result<SettleError, ApprovalsError> {
    Ok(match (refusal.reason(), state_of(&refusal)) {
        (Reason::NotFound, _) => SettleError::NotFound,
        (Reason::OtherAttempt, _) => SettleError::OtherAttempt,
        (Reason::Ended, Some(state)) => SettleError::Ended(state),
        _ => return Err(other(refusal)),
    })
}
