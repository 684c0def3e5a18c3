//! A request as stores keep it, and its transitions.

mod consumption;
mod decision;
mod grant;
mod opening;
mod status;
mod transition;

use std::{collections::BTreeSet, time::Duration};

use registry_core::{Digest, Timestamp};
use serde::{Deserialize, Serialize};

pub use self::{
    consumption::{Claim, ConsumeError, Outcome, SettleError, Settlement, Use},
    decision::{
        Choice, Current, DecideError, Decider, Decision, Ineligible, Review, SignIn, StandingWish,
    },
    grant::{GrantScope, StandingGrant},
    opening::{OpenError, Opened, SignIns, Situation, Wanted, open},
    status::RequestStatus,
    transition::{Actor, Changed, Recorded, Transition},
};
use crate::{
    binding::{Binding, Principal},
    id::RequestId,
    limits::{COOL_DOWN, INPUT_WITHIN, KEPT_FOR, PREVIEW_KEPT_FOR, USABLE_FOR},
};

/// The state of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It waits for decisions.
    Pending,
    /// The caller may repeat the call.
    Approved,
    /// A gateway sends the call.
    Consumed,
    /// The call succeeded.
    Succeeded,
    /// The call failed, or was not sent.
    Failed,
    /// The call may have been executed. It needs another approval.
    Unknown,
    /// A person denied it.
    Denied,
    /// The time for the decision or for the call is over.
    Expired,
    /// The caller or an operator cancelled it.
    Cancelled,
    /// A request for the same call with a newer definition or policy replaced it.
    Superseded,
    /// The definition or the policies have changed.
    Invalid,
}

impl State {
    /// Whether the caller waits for a decision, or has not used it.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Approved)
    }

    /// Whether no transition follows.
    pub fn is_ended(self) -> bool {
        !matches!(self, Self::Pending | Self::Approved | Self::Consumed)
    }

    /// The name in documents, audit events and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Consumed => "consumed",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Superseded => "superseded",
            Self::Invalid => "invalid",
        }
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A request for the approval of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Request {
    /// The identity.
    pub id: RequestId,
    /// The number of the last step. The first is 1.
    pub revision: u64,
    /// The call.
    pub binding: Binding,
    /// The teams that own the agent at the time of the request.
    pub owners: BTreeSet<String>,
    /// The redacted arguments as JSON text, for approvers and the caller. `None`: erased.
    pub preview: Option<String>,
    /// An earlier request for this call that is in progress or has an unknown outcome.
    pub uncertain: Option<RequestId>,
    /// The state.
    pub state: State,
    /// The time of the request.
    pub created_at: Timestamp,
    /// The time of the last change of the state.
    pub changed_at: Timestamp,
    /// The end of the wait for decisions, or for the call. `None`: unlimited.
    pub deadline: Option<Timestamp>,
    /// The time when the caller confirmed the call.
    pub confirmed_at: Option<Timestamp>,
    /// The decisions. A denial ends the request.
    pub decisions: Vec<Decision>,
    /// The standing grant that approved the request, by the request that created it.
    pub granted_by: Option<RequestId>,
    /// The rounds of the call, in order.
    pub uses: Vec<Use>,
}

/// The caller cannot confirm a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConfirmError {
    /// No such request is stored.
    #[error("no such approval request")]
    NotFound,
    /// The request is not pending.
    #[error("the request is {0}, not pending")]
    NotPending(State),
    /// Another account called.
    #[error("another account requested the approval; only the caller can confirm its call")]
    OtherCaller,
    /// No policy demands a confirmation.
    #[error("no policy demands a confirmation by the caller")]
    NotDemanded,
}

/// A principal that cancels a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canceller<'a> {
    /// The caller.
    Caller(&'a Principal),
    /// A principal with the role `governor`, or one that ended the standing grant.
    Operator(&'a Principal),
}

/// A request cannot be cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CancelError {
    /// No such request is stored.
    #[error("no such approval request")]
    NotFound,
    /// The request has ended, or the call was sent.
    #[error("the request is {0}; only pending and approved requests can be cancelled")]
    NotOpen(State),
    /// Another account called.
    #[error("another account requested the approval; only the caller or a governor can cancel it")]
    OtherCaller,
}

impl Request {
    /// The identity of the call.
    pub fn key(&self) -> Digest {
        self.binding.key()
    }

    /// The state at a time, which includes time limits that [`Self::advance`] has not recorded.
    pub fn state_at(&self, now: Timestamp) -> State {
        self.due(now).unwrap_or(self.state)
    }

    /// Whether a denial rejects the call at this time.
    pub fn is_cooling_down(&self, now: Timestamp) -> bool {
        self.state == State::Denied && now.since(self.changed_at) < COOL_DOWN
    }

    /// The end of the rest after a denial.
    pub fn cool_down_end(&self) -> Timestamp {
        after(self.changed_at, COOL_DOWN)
    }

    /// The time of the next [`Self::advance`].
    pub fn due_at(&self) -> Option<Timestamp> {
        self.next_limit().map(|(end, _)| end)
    }

    /// Ends a request whose time limit is over.
    pub fn advance(&self, now: Timestamp) -> Option<Changed> {
        Some(self.step(self.due(now)?, Actor::Clock, now))
    }

    /// The time of the end. The preview and the row are deleted some time later.
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.state.is_ended().then_some(self.changed_at)
    }

    /// Whether its preview must be erased.
    pub fn is_preview_due(&self, now: Timestamp) -> bool {
        self.state.is_ended()
            && self.preview.is_some()
            && now.since(self.changed_at) >= PREVIEW_KEPT_FOR
    }

    /// Whether it is deleted.
    pub fn is_due_for_deletion(&self, now: Timestamp) -> bool {
        self.state.is_ended() && now.since(self.changed_at) >= KEPT_FOR
    }

    /// Cancels an open request. `None`: it is cancelled already.
    pub fn cancel(
        &self,
        by: Canceller<'_>,
        now: Timestamp,
    ) -> Result<Option<Changed>, CancelError> {
        let by = match by {
            Canceller::Caller(principal) if !self.binding.caller.is_account(principal) => {
                return Err(CancelError::OtherCaller);
            }
            Canceller::Caller(principal) => Actor::Caller { principal: principal.clone() },
            Canceller::Operator(principal) => Actor::Operator { principal: principal.clone() },
        };
        match self.state_at(now) {
            State::Cancelled => Ok(None),
            state if state.is_open() => Ok(Some(self.step(State::Cancelled, by, now))),
            state => Err(CancelError::NotOpen(state)),
        }
    }

    /// Cancels an unused approval by a standing grant that a principal ended.
    pub fn lose_grant(&self, origin: RequestId, by: &Principal, now: Timestamp) -> Option<Changed> {
        let is_unused = self.state_at(now) == State::Approved;
        let is_affected = is_unused && self.granted_by == Some(origin);
        let by = Actor::Operator { principal: by.clone() };
        is_affected.then(|| self.step(State::Cancelled, by, now))
    }

    /// Ends an open request whose definition or policies have changed.
    pub fn invalidate(&self, now: Timestamp) -> Option<Changed> {
        let is_open = self.state_at(now).is_open();
        is_open.then(|| self.step(State::Invalid, Actor::Registry, now))
    }

    /// Ends a request after its store may have lost transactions, which may have used it.
    pub fn recover(&self, now: Timestamp) -> Option<Changed> {
        let to = match self.state {
            State::Pending | State::Approved => State::Invalid,
            State::Consumed => State::Unknown,
            _ => return None,
        };
        Some(self.step(to, Actor::Recovery, now))
    }

    /// Ends an open request that a newer one replaces.
    pub(crate) fn supersede(&self, newer: RequestId, now: Timestamp) -> Option<Changed> {
        let is_open = self.state_at(now).is_open();
        is_open.then(|| self.step(State::Superseded, Actor::Request { id: newer }, now))
    }

    /// Records that the caller confirmed its call. `None`: it is recorded already.
    pub fn confirm(
        &self,
        caller: &Principal,
        now: Timestamp,
    ) -> Result<Option<Changed>, ConfirmError> {
        if !self.binding.caller.is_account(caller) {
            return Err(ConfirmError::OtherCaller);
        }
        if !self.binding.demands.iter().any(|demand| demand.rule.is_confirmation()) {
            return Err(ConfirmError::NotDemanded);
        }
        let state = self.state_at(now);
        if state.is_open() && self.confirmed_at.is_some() {
            return Ok(None);
        }
        if state != State::Pending {
            return Err(ConfirmError::NotPending(state));
        }
        let confirmed = Self { confirmed_at: Some(now), ..self.clone() };
        let by = Actor::Caller { principal: caller.clone() };
        Ok(Some(confirmed.step_if_approved(self, by, now)))
    }

    /// The end of the wait that starts now.
    pub(crate) fn wait_end(binding: &Binding, now: Timestamp) -> Option<Timestamp> {
        let shortest = binding.demands.iter().filter_map(|demand| demand.rule.expires_after).min();
        shortest.map(|wait| after(now, wait))
    }

    /// The end of the time for the call, which starts now.
    pub(crate) fn use_end(binding: &Binding, now: Timestamp) -> Timestamp {
        let shortest = binding.demands.iter().filter_map(|demand| demand.rule.expires_after).min();
        after(now, shortest.unwrap_or(USABLE_FOR).min(USABLE_FOR))
    }

    /// Changes the state, and records the step.
    pub(crate) fn step(&self, to: State, by: Actor, now: Timestamp) -> Changed {
        self.clone().step_from(self.state, to, by, now)
    }

    /// Approves the request if all demands are met. `old` is the request before the change of `self`.
    pub(crate) fn step_if_approved(self, old: &Self, by: Actor, now: Timestamp) -> Changed {
        let is_approved = self.is_approved();
        let to = if is_approved { State::Approved } else { self.state };
        let deadline =
            if is_approved { Some(Self::use_end(&self.binding, now)) } else { self.deadline };
        Self { deadline, ..self }.step_from(old.state, to, by, now)
    }

    fn step_from(self, from: State, to: State, by: Actor, now: Timestamp) -> Changed {
        let changed_at = if from == to { self.changed_at } else { now };
        let revision = self.revision.saturating_add(1);
        let request = Self { state: to, changed_at, revision, ..self };
        let transition =
            Transition { request: request.id, at: now, from: Some(from), to, by, reason: None };
        Changed { request, transition }
    }

    /// The state after a time limit that is over.
    fn due(&self, now: Timestamp) -> Option<State> {
        self.next_limit().filter(|(end, _)| *end <= now).map(|(_, state)| state)
    }

    /// The next time limit, and the state after it.
    fn next_limit(&self) -> Option<(Timestamp, State)> {
        match self.state {
            State::Pending | State::Approved => Some((self.deadline?, State::Expired)),
            State::Consumed => {
                let last = self.uses.last()?;
                Some(match last.outcome {
                    None => (last.outcome_until, State::Unknown),
                    // The server has executed nothing yet.
                    Some(_) => (after(last.settled_at?, INPUT_WITHIN), State::Failed),
                })
            }
            _ => None,
        }
    }

    /// The last round, if it asked for input.
    pub(crate) fn last_awaiting(&self) -> Option<&Use> {
        self.uses.last().filter(|last| last.outcome == Some(Outcome::AwaitingInput))
    }
}

/// The time after a duration.
pub(crate) fn after(start: Timestamp, duration: Duration) -> Timestamp {
    let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(start.as_millis().saturating_add(millis))
}

#[cfg(test)]
mod tests;
