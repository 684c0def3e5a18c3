//! Policies in force: the calls that each selects, and the decisions about a call.
//!
//! The registry, the CLI and the gateway use the same code. The crate is pure: it performs no I/O
//! and reads no clock. Cedar is used in [`cedar`] only.

pub mod arguments;
pub mod catalog;
pub mod cedar;
mod check;
mod facts;
mod in_force;
mod slice;
mod verdict;

pub use self::{
    check::check,
    facts::{Action, AgentFacts, CallContext, Caller, Purpose, Resource, ResourceKind},
    in_force::{PoliciesInForce, PolicyInForce},
    slice::{RateRule, Slice},
    verdict::{Finding, Reason, Verdict},
};
