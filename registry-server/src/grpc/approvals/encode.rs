//! Writes responses of `ApprovalService`.

use approval::{
    CancelError, Choice, ConfirmError, ConsumeError, Decision, GrantScope, OpenError, Outcome,
    Request, SettleError, SignIn, StandingGrant, State, Transition, Use,
};
use registry_core::Timestamp;
use registry_proto::{
    convert::{approval_account, approval_state, approved_call, timestamp},
    v1::{self, ApprovalRefusalReason as Reason},
};

use crate::app::approvals::Cause;

/// A request with its state at a time.
pub(super) fn approval(request: &Request, now: Timestamp) -> v1::Approval {
    let id = |id: Option<approval::RequestId>| id.map(|id| id.to_string()).unwrap_or_default();
    v1::Approval {
        id: request.id.to_string(),
        revision: request.revision,
        state: approval_state(request.state_at(now)).into(),
        call: Some(approved_call(&request.binding)),
        call_digest: request.key().to_string(),
        owner_teams: request.owners.iter().cloned().collect(),
        create_time: Some(timestamp(request.created_at)),
        state_time: Some(timestamp(request.changed_at)),
        expire_time: request.deadline.map(timestamp),
        confirm_time: request.confirmed_at.map(timestamp),
        uncertain_id: id(request.uncertain),
        grant_id: id(request.granted_by),
        decisions: request.decisions.iter().map(decision).collect(),
        rounds: request.uses.iter().map(round).collect(),
        preview: request.preview.clone(),
    }
}

pub(super) fn grant(grant: &StandingGrant) -> v1::StandingGrant {
    v1::StandingGrant {
        id: grant.origin.to_string(),
        scope: scope(grant.scope).into(),
        call: Some(approved_call(&grant.binding)),
        approvers: grant.granted_by.iter().map(approval_account).collect(),
        start_time: Some(timestamp(grant.starts_at)),
        expire_time: Some(timestamp(grant.ends_at)),
    }
}

pub(super) fn step(step: &Transition) -> v1::ApprovalStep {
    let Cause { kind, actor } = Cause::of(&step.by);
    v1::ApprovalStep {
        step_time: Some(timestamp(step.at)),
        state: approval_state(step.to).into(),
        cause: kind.to_owned(),
        actor,
    }
}

fn decision(decision: &Decision) -> v1::ApprovalDecision {
    use v1::approval_decision::Choice as Wire;
    let choice = match &decision.choice {
        Choice::Approve { standing } => Wire::Approved(v1::ApprovedChoice {
            grant_until_time: standing.map(|wish| timestamp(wish.until)),
            grant_scope: standing
                .map_or(v1::GrantScope::Unspecified, |wish| scope(wish.scope))
                .into(),
        }),
        Choice::Deny { reason } => Wire::Denied(v1::DeniedChoice { reason: reason.clone() }),
    };
    let sign_in = match decision.sign_in {
        SignIn::Oidc => v1::ApprovalSignIn::Oidc,
        SignIn::Certificate => v1::ApprovalSignIn::Certificate,
        SignIn::Token => v1::ApprovalSignIn::Token,
    };
    v1::ApprovalDecision {
        account: Some(approval_account(&decision.by)),
        sign_in: sign_in.into(),
        decide_time: Some(timestamp(decision.at)),
        policies: decision.policies.clone(),
        choice: Some(choice),
    }
}

fn round(used: &Use) -> v1::ApprovalRound {
    let outcome = match used.outcome {
        None => v1::ApprovalOutcome::Unspecified,
        Some(Outcome::Succeeded) => v1::ApprovalOutcome::Succeeded,
        Some(Outcome::Failed) => v1::ApprovalOutcome::Failed,
        Some(Outcome::Unknown) => v1::ApprovalOutcome::Unknown,
        Some(Outcome::AwaitingInput) => v1::ApprovalOutcome::AwaitingInput,
    };
    v1::ApprovalRound {
        round: used.round,
        gateway: used.gateway.clone(),
        claim_time: Some(timestamp(used.consumed_at)),
        outcome: outcome.into(),
        outcome_time: used.settled_at.map(timestamp),
    }
}

fn scope(scope: GrantScope) -> v1::GrantScope {
    match scope {
        GrantScope::Arguments => v1::GrantScope::Arguments,
        GrantScope::Tool => v1::GrantScope::Tool,
    }
}

fn refusal(reason: Reason, of: Option<State>, error: &impl ToString) -> v1::ApprovalRefusal {
    let state = of.map_or(v1::ApprovalState::Unspecified, approval_state).into();
    v1::ApprovalRefusal { reason: reason.into(), state, message: error.to_string() }
}

pub(super) fn open_refusal(error: OpenError) -> v1::ApprovalRefusal {
    let reason = match error {
        OpenError::Demands => Reason::Demands,
        OpenError::TooLarge => Reason::TooLarge,
        OpenError::UsedId => Reason::UsedId,
        OpenError::TooManyOpen => Reason::TooManyOpen,
        OpenError::TooManyStored => Reason::TooManyStored,
        OpenError::Full => Reason::Full,
        OpenError::Undecidable => Reason::Undecidable,
    };
    refusal(reason, None, &error)
}

pub(super) fn confirm_refusal(error: ConfirmError) -> v1::ApprovalRefusal {
    let (reason, state) = match error {
        ConfirmError::NotFound => (Reason::NotFound, None),
        ConfirmError::NotPending(state) => (Reason::NotPending, Some(state)),
        ConfirmError::OtherCaller => (Reason::OtherCaller, None),
        ConfirmError::NotDemanded => (Reason::NotDemanded, None),
    };
    refusal(reason, state, &error)
}

pub(super) fn cancel_refusal(error: CancelError) -> v1::ApprovalRefusal {
    let (reason, state) = match error {
        CancelError::NotFound => (Reason::NotFound, None),
        CancelError::NotOpen(state) => (Reason::NotOpen, Some(state)),
        CancelError::OtherCaller => (Reason::OtherCaller, None),
    };
    refusal(reason, state, &error)
}

pub(super) fn consume_refusal(error: ConsumeError) -> v1::ApprovalRefusal {
    let (reason, state) = match error {
        ConsumeError::NotFound => (Reason::NotFound, None),
        ConsumeError::OtherCall => (Reason::OtherCall, None),
        ConsumeError::NotApproved(state) => (Reason::NotApproved, Some(state)),
        ConsumeError::Used => (Reason::Used, None),
        ConsumeError::Replayed { .. } => (Reason::Replayed, None),
        ConsumeError::TooManyRounds => (Reason::TooManyRounds, None),
    };
    refusal(reason, state, &error)
}

pub(super) fn settle_refusal(error: SettleError) -> v1::ApprovalRefusal {
    let (reason, state) = match error {
        SettleError::NotFound => (Reason::NotFound, None),
        SettleError::OtherAttempt => (Reason::OtherAttempt, None),
        SettleError::Ended(state) => (Reason::Ended, Some(state)),
    };
    refusal(reason, state, &error)
}
