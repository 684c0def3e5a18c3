//! The consumption of an approval by one call, in rounds.
//!
//! A store keeps each round with a unique key of request and number, so that two gateways cannot consume
//! one round.

use std::time::Duration;

use registry_core::{Digest, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    Request, State, after,
    transition::{Actor, Changed},
};
use crate::{
    id::{Attempt, RequestId},
    limits::{OUTCOME_WITHIN, ROUNDS},
};

/// The message of a gateway before it sends a round of a call. Its repetition has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The request.
    pub request: RequestId,
    /// The key of the call that the gateway will send.
    pub key: Digest,
    /// The round. The first is 0; the state that the gateway seals for the caller has the next one.
    pub round: u32,
    /// The call of the gateway.
    pub attempt: Attempt,
    /// The maximum time for the outcome.
    pub within: Duration,
}

/// A round of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Use {
    /// The round.
    pub round: u32,
    /// The principal of the gateway.
    pub gateway: String,
    /// The call of the gateway.
    pub attempt: Attempt,
    /// The time of the consumption.
    pub consumed_at: Timestamp,
    /// The end of the time for the outcome.
    pub outcome_until: Timestamp,
    /// The outcome.
    pub outcome: Option<Outcome>,
    /// The time of the outcome.
    pub settled_at: Option<Timestamp>,
}

/// The outcome of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// The call succeeded.
    Succeeded,
    /// The call failed, or was not sent.
    Failed,
    /// The call may have been executed.
    Unknown,
    /// The server asks for input, which starts the next round.
    AwaitingInput,
}

/// The message of a gateway after a round. Its repetition has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The request.
    pub request: RequestId,
    /// The call of the gateway.
    pub attempt: Attempt,
    /// The outcome.
    pub outcome: Outcome,
}

/// A round is not consumed, and must not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConsumeError {
    /// No such request is stored.
    #[error("no such approval; repeat the call to request one")]
    NotFound,
    /// The approval is for another call.
    #[error("the call differs from the approved one; repeat the approved call, or request another")]
    OtherCall,
    /// The request is not approved.
    #[error("the request is {0}, not approved")]
    NotApproved(State),
    /// Another call used the approval.
    #[error("another call has used the approval; repeat the call to request another one")]
    Used,
    /// Another call used the round, or it is not the next one.
    #[error("round {round} of the call was used before, or is not the next one")]
    Replayed {
        /// The round.
        round: u32,
    },
    /// The call has too many rounds.
    #[error("a call has at most {ROUNDS} rounds")]
    TooManyRounds,
}

/// An outcome is not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SettleError {
    /// No such request is stored.
    #[error("no such approval")]
    NotFound,
    /// The gateway did not consume the last round with this attempt.
    #[error("the last round of the approval belongs to another call")]
    OtherAttempt,
    /// The request has ended with another outcome.
    #[error("the request is {0} already")]
    Ended(State),
}

impl Request {
    /// Consumes a round. `None`: it is consumed by this attempt already.
    pub fn consume(
        &self,
        gateway: &str,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Option<Changed>, ConsumeError> {
        if claim.key != self.key() {
            return Err(ConsumeError::OtherCall);
        }
        match self.state_at(now) {
            State::Approved if claim.round == 0 => {}
            State::Approved => return Err(ConsumeError::Replayed { round: claim.round }),
            State::Consumed => {
                if self.is_last_use(gateway, claim) {
                    return Ok(None);
                }
                self.check_next_round(claim)?;
            }
            State::Succeeded | State::Failed | State::Unknown => return Err(ConsumeError::Used),
            state => return Err(ConsumeError::NotApproved(state)),
        }
        let mut consumed = self.clone();
        consumed.uses.push(Use {
            round: claim.round,
            gateway: gateway.to_owned(),
            attempt: claim.attempt,
            consumed_at: now,
            outcome_until: after(now, claim.within.min(OUTCOME_WITHIN)),
            outcome: None,
            settled_at: None,
        });
        let by = Actor::Gateway { name: gateway.to_owned() };
        Ok(Some(consumed.step(State::Consumed, by, now)))
    }

    /// Records the outcome of the last round. `None`: it is recorded already.
    pub fn settle(
        &self,
        gateway: &str,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<Option<Changed>, SettleError> {
        let last = self.uses.last().ok_or(SettleError::OtherAttempt)?;
        if last.gateway != gateway || last.attempt != settlement.attempt {
            return Err(SettleError::OtherAttempt);
        }
        if last.outcome == Some(settlement.outcome) {
            return Ok(None);
        }
        let state = self.state_at(now);
        if state != State::Consumed || last.outcome.is_some() {
            return Err(SettleError::Ended(state));
        }
        let mut settled = self.clone();
        if let Some(last) = settled.uses.last_mut() {
            (last.outcome, last.settled_at) = (Some(settlement.outcome), Some(now));
        }
        let to = match settlement.outcome {
            Outcome::Succeeded => State::Succeeded,
            Outcome::Failed => State::Failed,
            Outcome::Unknown => State::Unknown,
            Outcome::AwaitingInput => State::Consumed,
        };
        let by = Actor::Gateway { name: gateway.to_owned() };
        Ok(Some(settled.step(to, by, now)))
    }

    fn is_last_use(&self, gateway: &str, claim: &Claim) -> bool {
        self.uses.last().is_some_and(|last| {
            last.round == claim.round
                && last.attempt == claim.attempt
                && last.gateway == gateway
                && last.outcome.is_none()
        })
    }

    fn check_next_round(&self, claim: &Claim) -> Result<(), ConsumeError> {
        if claim.round == 0 {
            return Err(ConsumeError::Used);
        }
        let last = self.last_awaiting().ok_or(ConsumeError::Replayed { round: claim.round })?;
        if claim.round != last.round + 1 {
            return Err(ConsumeError::Replayed { round: claim.round });
        }
        if claim.round >= ROUNDS { Err(ConsumeError::TooManyRounds) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
