//! Approvals of calls by people: requests, decisions, consumption and standing grants.
//!
//! A gateway opens a [`Request`] for a call that a policy does not allow without approval. People
//! decide, the caller repeats the call, and the gateway consumes the approval before it sends. The
//! registry stores requests in its database with the functions of [`Request`]; [`MemoryApprovals`] is
//! the store of a gateway without a registry. The crate performs no I/O and reads no clock.
//!
//! An approval is bound to the caller, the definition of the tool and the final arguments. It is
//! consumed once, also if the outcome of the call is unknown.

mod binding;
mod id;
pub mod limits;
mod memory;
mod message;
mod request;

pub use self::{
    binding::{ArgumentsKey, Binding, Demand, Indistinct, Principal},
    id::{Attempt, InvalidId, RequestId},
    memory::MemoryApprovals,
    message::{ApprovalFuture, Approvals, ApprovalsError, StoreFuture},
    request::{
        Actor, CancelError, Canceller, Changed, Choice, Claim, ConfirmError, ConsumeError, Current,
        DecideError, Decider, Decision, GrantScope, Ineligible, OpenError, Opened, Outcome,
        Recorded, Request, RequestStatus, Review, SettleError, Settlement, SignIn, SignIns,
        Situation, StandingGrant, StandingWish, State, Transition, Use, Wanted, open,
    },
};

#[cfg(test)]
mod testing;
