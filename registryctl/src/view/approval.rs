//! Approvals in the output of commands.

use registry_proto::v1;
use serde::Serialize;
use serde_json::value::RawValue;

use super::time_text as time;

/// A request for the approval of a call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalView {
    pub(crate) id: String,
    pub(crate) state: &'static str,
    #[serde(flatten)]
    pub(crate) call: ApprovedCallView,
    pub(crate) owner_teams: Vec<String>,
    pub(crate) created_at: Option<String>,
    pub(crate) state_at: Option<String>,
    pub(crate) expires_at: Option<String>,
    pub(crate) confirmed_at: Option<String>,
    /// An earlier request for the call that may have been executed.
    pub(crate) uncertain: Option<String>,
    pub(crate) grant: Option<String>,
    pub(crate) decisions: Vec<DecisionView>,
    pub(crate) rounds: Vec<RoundView>,
    /// The redacted arguments, with all digits of their numbers. `None`: erased or hidden.
    pub(crate) arguments: Option<Box<RawValue>>,
}

/// A call that needs an approval.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovedCallView {
    pub(crate) resource: String,
    pub(crate) version: String,
    pub(crate) agent: Option<String>,
    pub(crate) caller: AccountOfPersonView,
    pub(crate) policies: Vec<DemandView>,
}

/// An account at an issuer of credentials.
#[derive(Debug, Serialize)]
pub(crate) struct AccountOfPersonView {
    pub(crate) issuer: String,
    pub(crate) subject: String,
    pub(crate) person: Option<String>,
}

/// A policy that demands the approval.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DemandView {
    pub(crate) policy: String,
    pub(crate) approvers: Vec<String>,
    pub(crate) quorum: u32,
    pub(crate) four_eyes: bool,
    /// The pointers of the arguments that approvers see. Empty: all.
    pub(crate) show: Vec<String>,
}

/// A decision of a person.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DecisionView {
    pub(crate) by: AccountOfPersonView,
    pub(crate) sign_in: &'static str,
    pub(crate) at: Option<String>,
    /// The policies whose demands it counts for.
    pub(crate) policies: Vec<String>,
    pub(crate) choice: &'static str,
    pub(crate) reason: Option<String>,
    pub(crate) grant_until: Option<String>,
}

/// A round of a call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RoundView {
    pub(crate) round: u32,
    pub(crate) gateway: String,
    pub(crate) claimed_at: Option<String>,
    pub(crate) outcome: Option<&'static str>,
    pub(crate) outcome_at: Option<String>,
}

/// A step of a request.
#[derive(Debug, Serialize)]
pub(crate) struct ApprovalStepView {
    pub(crate) at: Option<String>,
    pub(crate) state: &'static str,
    pub(crate) cause: String,
    pub(crate) actor: String,
}

/// A standing grant.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GrantView {
    pub(crate) id: String,
    pub(crate) scope: &'static str,
    #[serde(flatten)]
    pub(crate) call: ApprovedCallView,
    pub(crate) approvers: Vec<AccountOfPersonView>,
    pub(crate) starts_at: Option<String>,
    pub(crate) expires_at: Option<String>,
}

impl ApprovalView {
    /// The approvals and the quorum of the policy that lacks most approvals, such as `1 of 2`. `None`: no
    /// policy lacks one.
    pub(crate) fn progress(&self) -> Option<String> {
        let approved = self.decisions.iter().filter(|decision| decision.choice == "approved");
        let count = |demand: &DemandView| {
            approved.clone().filter(|decision| decision.policies.contains(&demand.policy)).count()
        };
        let counted =
            self.call.policies.iter().map(|demand| (count(demand), demand.quorum as usize));
        let lacking = counted.filter(|(count, quorum)| count < quorum);
        let (count, quorum) = lacking.max_by_key(|(count, quorum)| quorum - count)?;
        Some(format!("{count} of {quorum}"))
    }
}

impl From<v1::Approval> for ApprovalView {
    fn from(approval: v1::Approval) -> Self {
        Self {
            state: state(approval.state),
            id: approval.id,
            call: approval.call.unwrap_or_default().into(),
            owner_teams: approval.owner_teams,
            created_at: time(approval.create_time),
            state_at: time(approval.state_time),
            expires_at: time(approval.expire_time),
            confirmed_at: time(approval.confirm_time),
            uncertain: present(approval.uncertain_id),
            grant: present(approval.grant_id),
            decisions: approval.decisions.into_iter().map(DecisionView::from).collect(),
            rounds: approval.rounds.into_iter().map(RoundView::from).collect(),
            arguments: approval.preview.and_then(|text| RawValue::from_string(text).ok()),
        }
    }
}

impl From<v1::ApprovedCall> for ApprovedCallView {
    fn from(call: v1::ApprovedCall) -> Self {
        Self {
            resource: call.resource,
            version: call.version,
            agent: present(call.agent),
            caller: call.caller.unwrap_or_default().into(),
            policies: call.demands.into_iter().map(DemandView::from).collect(),
        }
    }
}

impl From<v1::ApprovalAccount> for AccountOfPersonView {
    fn from(account: v1::ApprovalAccount) -> Self {
        let v1::ApprovalAccount { issuer, subject, person } = account;
        Self { issuer, subject, person: present(person) }
    }
}

impl From<v1::ApprovalDemand> for DemandView {
    fn from(demand: v1::ApprovalDemand) -> Self {
        let rule = demand.rule.unwrap_or_default();
        Self {
            policy: demand.policy,
            approvers: rule.approvers,
            quorum: rule.quorum.unwrap_or(1),
            four_eyes: rule.four_eyes,
            show: rule.show,
        }
    }
}

impl From<v1::ApprovalDecision> for DecisionView {
    fn from(decision: v1::ApprovalDecision) -> Self {
        use v1::approval_decision::Choice;
        let sign_in = match v1::ApprovalSignIn::try_from(decision.sign_in) {
            Ok(v1::ApprovalSignIn::Oidc) => "oidc",
            Ok(v1::ApprovalSignIn::Certificate) => "certificate",
            Ok(v1::ApprovalSignIn::Token) => "token",
            Ok(v1::ApprovalSignIn::Unspecified) | Err(_) => "unknown",
        };
        let (choice, reason, grant_until) = match decision.choice {
            Some(Choice::Approved(approved)) => ("approved", None, time(approved.grant_until_time)),
            Some(Choice::Denied(denied)) => ("denied", Some(denied.reason), None),
            None => ("unknown", None, None),
        };
        Self {
            by: decision.account.unwrap_or_default().into(),
            policies: decision.policies,
            sign_in,
            at: time(decision.decide_time),
            choice,
            reason,
            grant_until,
        }
    }
}

impl From<v1::ApprovalRound> for RoundView {
    fn from(round: v1::ApprovalRound) -> Self {
        let outcome = match v1::ApprovalOutcome::try_from(round.outcome) {
            Ok(v1::ApprovalOutcome::Succeeded) => Some("succeeded"),
            Ok(v1::ApprovalOutcome::Failed) => Some("failed"),
            Ok(v1::ApprovalOutcome::Unknown) => Some("unknown"),
            Ok(v1::ApprovalOutcome::AwaitingInput) => Some("awaitingInput"),
            Ok(v1::ApprovalOutcome::Unspecified) | Err(_) => None,
        };
        Self {
            round: round.round,
            gateway: round.gateway,
            claimed_at: time(round.claim_time),
            outcome,
            outcome_at: time(round.outcome_time),
        }
    }
}

impl From<v1::ApprovalStep> for ApprovalStepView {
    fn from(step: v1::ApprovalStep) -> Self {
        let v1::ApprovalStep { step_time, state: number, cause, actor } = step;
        Self { at: time(step_time), state: state(number), cause, actor }
    }
}

impl From<v1::StandingGrant> for GrantView {
    fn from(grant: v1::StandingGrant) -> Self {
        let scope = match v1::GrantScope::try_from(grant.scope) {
            Ok(v1::GrantScope::Arguments) => "arguments",
            Ok(v1::GrantScope::Tool) => "tool",
            Ok(v1::GrantScope::Unspecified) | Err(_) => "unknown",
        };
        Self {
            id: grant.id,
            scope,
            call: grant.call.unwrap_or_default().into(),
            approvers: grant.approvers.into_iter().map(AccountOfPersonView::from).collect(),
            starts_at: time(grant.start_time),
            expires_at: time(grant.expire_time),
        }
    }
}

fn present(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// The state of a newer registry is `other`: `unknown` is a state of its own.
fn state(number: i32) -> &'static str {
    use v1::ApprovalState as Wire;
    match Wire::try_from(number) {
        Ok(Wire::Pending) => "pending",
        Ok(Wire::Approved) => "approved",
        Ok(Wire::Consumed) => "consumed",
        Ok(Wire::Succeeded) => "succeeded",
        Ok(Wire::Failed) => "failed",
        Ok(Wire::Unknown) => "unknown",
        Ok(Wire::Denied) => "denied",
        Ok(Wire::Expired) => "expired",
        Ok(Wire::Cancelled) => "cancelled",
        Ok(Wire::Superseded) => "superseded",
        Ok(Wire::Invalid) => "invalid",
        Ok(Wire::Unspecified) | Err(_) => "other",
    }
}
