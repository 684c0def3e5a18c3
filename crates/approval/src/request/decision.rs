//! Decisions of people, and their eligibility.

use std::collections::BTreeSet;

use registry_core::{Timestamp, commit::invalid_message_char, entity::policy::Approver};
use serde::{Deserialize, Serialize};

use super::{
    Request, State, after,
    grant::{GrantScope, StandingGrant},
    transition::{Actor, Changed},
};
use crate::{
    binding::{Binding, Demand, Indistinct, Principal},
    limits::{GRANTS_PER_CALLER, TEXT_BYTES},
};

/// How a person authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SignIn {
    /// An identity provider.
    Oidc,
    /// A client certificate.
    Certificate,
    /// An API token. It does not prove which person uses it.
    Token,
}

/// A person that decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decider {
    /// The account.
    pub principal: Principal,
    /// The team.
    pub team: Option<String>,
    /// Whether it has the role `approver`.
    pub is_approver: bool,
    /// The authentication.
    pub sign_in: SignIn,
    /// Whether the identity provider must name the human behind the account, but does not.
    pub lacks_person: bool,
}

/// The catalog at the time of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current {
    /// The teams that own the agent now.
    pub owners: BTreeSet<String>,
    /// Whether the definition and the demanding policies are still those of the request.
    pub is_current: bool,
}

/// The choice of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Choice {
    /// The call is allowed.
    Approve {
        /// The wish to allow later calls too.
        standing: Option<StandingWish>,
    },
    /// The call is rejected.
    Deny {
        /// The reason, which the caller receives.
        reason: String,
    },
}

/// The wish of an approver that later calls need no approval. All approvers of a request must have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StandingWish {
    /// The allowed calls.
    pub scope: GrantScope,
    /// The end.
    pub until: Timestamp,
}

/// A choice with its circumstances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Review<'a> {
    /// The person.
    pub decider: &'a Decider,
    /// The choice.
    pub choice: &'a Choice,
    /// The catalog.
    pub current: &'a Current,
    /// Whether the person decides about several requests at once.
    pub is_batch: bool,
    /// The number of standing grants of the caller. Stores set it.
    pub grants: usize,
}

/// A recorded choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decision {
    /// The account.
    pub by: Principal,
    /// The authentication.
    pub sign_in: SignIn,
    /// The time.
    pub at: Timestamp,
    /// The choice.
    pub choice: Choice,
    /// The policies whose demands the decision counts for.
    pub policies: Vec<String>,
}

/// Why a person may not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ineligible {
    /// The role is missing.
    #[error("the role `approver` is required")]
    NotApprover,
    /// The policy names other approvers.
    #[error("the policy names other approvers; `registryctl approvals show` lists them")]
    NotSelected,
    /// An API token does not prove a person.
    #[error(
        "the policy demands different people; sign in with an identity provider or a certificate"
    )]
    Token,
    /// The identity provider does not name the person.
    #[error(
        "the policy demands different people, but the token of the account lacks the claim of \
         `--oidc-person-claim`"
    )]
    Unnamed,
    /// The person may be the caller.
    #[error("the policy demands another person than the caller: {0}")]
    Caller(Indistinct),
    /// The team owns the agent.
    #[error("the policy excludes the team that owns the calling agent")]
    Owner,
    /// The person may have approved already.
    #[error("the policy demands different people, but an earlier approval exists: {0}")]
    Earlier(Indistinct),
}

/// A decision is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// No such request is stored.
    #[error("no such approval request")]
    NotFound,
    /// The request is not pending.
    #[error("the request is {0}, not pending")]
    NotPending(State),
    /// The person may not decide.
    #[error(transparent)]
    Ineligible(#[from] Ineligible),
    /// The account has approved already.
    #[error("the account has already approved the request")]
    Repeated,
    /// The demands have enough approvals.
    #[error("the policies that this account may approve for have enough approvals already")]
    Met,
    /// Only the caller can confirm the request.
    #[error("no policy demands an approval by a person; the caller confirms its call itself")]
    ConfirmationOnly,
    /// A batch approves requests of policies with `fourEyes` or a quorum.
    #[error("the policy demands different people; approve the request separately")]
    Sensitive,
    /// A denial needs a reason.
    #[error(
        "a denial needs a reason of 1 to {TEXT_BYTES} bytes without control characters, which the \
         caller receives"
    )]
    Reason,
    /// A demanding policy permits no standing grant.
    #[error("a policy permits no standing grant; approve this call only")]
    NoStanding,
    /// The grant has no valid end.
    #[error("the end of a standing grant must be in the future and at the latest at {0}")]
    StandingEnd(Timestamp),
    /// The caller has too many standing grants.
    #[error(
        "the caller has {GRANTS_PER_CALLER} standing grants; revoke one, or approve this call only"
    )]
    TooManyGrants,
}

impl Request {
    /// Records a decision. If the definition or the policies have changed, the request ends as
    /// [`State::Invalid`] instead.
    pub fn decide(&self, review: Review<'_>, now: Timestamp) -> Result<Changed, DecideError> {
        let state = self.state_at(now);
        if state != State::Pending {
            return Err(DecideError::NotPending(state));
        }
        let policies = match review.choice {
            Choice::Approve { standing } => self.check_approval(review, *standing, now)?,
            Choice::Deny { reason } => self.check_denial(review, reason)?,
        };
        if !review.current.is_current {
            return Ok(self.step(State::Invalid, Actor::Registry, now));
        }
        let Decider { principal, sign_in, .. } = review.decider;
        let (by, sign_in) = (principal.clone(), *sign_in);
        let actor = Actor::Decider { principal: by.clone(), sign_in };
        let choice = review.choice.clone();
        let mut decided = self.clone();
        decided.decisions.push(Decision { by, sign_in, at: now, choice, policies });
        if let Choice::Deny { reason } = review.choice {
            let mut changed = decided.step(State::Denied, actor, now);
            changed.transition.reason = Some(reason.clone());
            return Ok(changed);
        }
        Ok(decided.step_if_approved(self, actor, now))
    }

    /// Whether a principal may see the request: the caller, and people that may decide about it.
    pub fn is_visible_to(&self, viewer: &Decider) -> bool {
        self.binding.is_visible_to(viewer)
    }

    /// Whether people decide about the request. Otherwise the caller confirms its call itself.
    pub fn needs_people(&self) -> bool {
        self.demands_of_people().next().is_some()
    }

    /// Whether all demands are met.
    pub(crate) fn is_approved(&self) -> bool {
        self.binding.demands.iter().all(|demand| {
            if demand.rule.is_confirmation() {
                return self.confirmed_at.is_some();
            }
            self.is_met(demand)
        })
    }

    /// Whether a demand has enough approvals by people.
    fn is_met(&self, demand: &Demand) -> bool {
        let count = self.approvals_for(demand).count();
        u32::try_from(count).is_ok_and(|count| count >= demand.rule.quorum.get())
    }

    fn demands_of_people(&self) -> impl Iterator<Item = &Demand> {
        self.binding.demands_of_people()
    }

    /// The approvals that count for a demand.
    fn approvals_for(&self, demand: &Demand) -> impl Iterator<Item = &Decision> {
        self.decisions.iter().filter(|decision| {
            matches!(decision.choice, Choice::Approve { .. })
                && decision.policies.contains(&demand.policy)
        })
    }

    /// The policies that an approval counts for.
    fn check_approval(
        &self,
        review: Review<'_>,
        standing: Option<StandingWish>,
        now: Timestamp,
    ) -> Result<Vec<String>, DecideError> {
        let is_own = |decision: &Decision| decision.by.is_account(&review.decider.principal);
        let (mut policies, mut refusal) = (Vec::new(), DecideError::ConfirmationOnly);
        for demand in self.demands_of_people() {
            match self.check_approver(demand, review) {
                // A person that may not approve for an open demand needs the reason.
                Ok(()) if self.is_met(demand) => {
                    if refusal == DecideError::ConfirmationOnly {
                        refusal = DecideError::Met;
                    }
                }
                Ok(()) => policies.push(demand.policy.clone()),
                Err(reason) => refusal = reason.into(),
            }
        }
        if self.decisions.iter().any(is_own) {
            return Err(DecideError::Repeated);
        }
        if policies.is_empty() {
            return Err(refusal);
        }
        let is_counted = |demand: &&Demand| policies.contains(&demand.policy);
        if review.is_batch && self.demands_of_people().filter(is_counted).any(needs_people) {
            return Err(DecideError::Sensitive);
        }
        if let Some(wish) = standing {
            if review.grants >= GRANTS_PER_CALLER {
                return Err(DecideError::TooManyGrants);
            }
            let limits = self.binding.demands.iter().map(|demand| demand.rule.standing_for);
            // `None` is less than any limit.
            let longest = limits.min().flatten().ok_or(DecideError::NoStanding)?;
            let latest = after(now, longest);
            if wish.until <= now || wish.until > latest {
                return Err(DecideError::StandingEnd(latest));
            }
        }
        Ok(policies)
    }

    /// The policies that a denial counts for. Any approver may deny, also an owner of the agent.
    fn check_denial(&self, review: Review<'_>, reason: &str) -> Result<Vec<String>, DecideError> {
        let (mut policies, mut refusal) = (Vec::new(), DecideError::ConfirmationOnly);
        for demand in self.demands_of_people() {
            match check_selected(demand, review.decider) {
                Ok(()) => policies.push(demand.policy.clone()),
                Err(reason) => refusal = reason.into(),
            }
        }
        if policies.is_empty() {
            return Err(refusal);
        }
        let is_unfit = reason.trim().is_empty() || invalid_message_char(reason).is_some();
        if is_unfit || reason.len() > TEXT_BYTES {
            return Err(DecideError::Reason);
        }
        Ok(policies)
    }

    fn check_approver(&self, demand: &Demand, review: Review<'_>) -> Result<(), Ineligible> {
        let Review { decider, current, .. } = review;
        check_selected(demand, decider)?;
        if needs_people(demand) && decider.sign_in == SignIn::Token {
            return Err(Ineligible::Token);
        }
        if needs_people(demand) && decider.lacks_person {
            return Err(Ineligible::Unnamed);
        }
        if demand.rule.four_eyes {
            self.check_other_than_caller(decider, current)?;
        }
        if demand.rule.quorum.get() > 1 {
            for earlier in self.approvals_for(demand) {
                let (earlier, own) = (&earlier.by, &decider.principal);
                let distinct = earlier.check_distinct(own).and(own.check_distinct(earlier));
                distinct.map_err(Ineligible::Earlier)?;
            }
        }
        Ok(())
    }

    /// Whether a person is neither the caller nor an owner of its agent.
    fn check_other_than_caller(
        &self,
        decider: &Decider,
        current: &Current,
    ) -> Result<(), Ineligible> {
        let Binding { caller, .. } = &self.binding;
        let is_owned_agent = |owners| self.binding.is_owned_agent(owners);
        if is_owned_agent(&self.owners) || is_owned_agent(&current.owners) {
            // A certificate of a person can name an agent.
            let is_namesake = caller.subject == decider.principal.subject;
            if is_namesake && decider.sign_in == SignIn::Certificate {
                return Err(Ineligible::Caller(Indistinct::Account));
            }
        } else {
            caller.check_distinct(&decider.principal).map_err(Ineligible::Caller)?;
        }
        let is_owner = |team: &String| self.owners.contains(team) || current.owners.contains(team);
        if decider.team.as_ref().is_some_and(is_owner) { Err(Ineligible::Owner) } else { Ok(()) }
    }
}

impl Binding {
    fn demands_of_people(&self) -> impl Iterator<Item = &Demand> {
        self.demands.iter().filter(|demand| !demand.rule.is_confirmation())
    }

    fn is_visible_to(&self, viewer: &Decider) -> bool {
        let is_caller = self.caller.is_account(&viewer.principal);
        is_caller || self.demands_of_people().any(|demand| check_selected(demand, viewer).is_ok())
    }
}

impl StandingGrant {
    /// Whether a principal may see the grant: the caller, and people that may decide about its call.
    pub fn is_visible_to(&self, viewer: &Decider) -> bool {
        self.binding.is_visible_to(viewer)
    }
}

/// Whether the demand counts people, not accounts.
fn needs_people(demand: &Demand) -> bool {
    demand.rule.four_eyes || demand.rule.quorum.get() > 1
}

fn check_selected(demand: &Demand, decider: &Decider) -> Result<(), Ineligible> {
    if !decider.is_approver {
        return Err(Ineligible::NotApprover);
    }
    let is_selected = |approver: &Approver| match approver {
        Approver::Role => true,
        Approver::Team(team) => decider.team.as_deref() == Some(&**team),
        Approver::Caller => false,
    };
    demand.rule.approvers.iter().any(is_selected).then_some(()).ok_or(Ineligible::NotSelected)
}

#[cfg(test)]
mod tests;
