//! Policies in force: the calls that each selects, and the decisions about a call.
//!
//! The registry, the CLI and the gateway use the same code. The crate is pure: it performs no I/O
//! and reads no clock. Cedar is used in [`cedar`] only.

mod applicable;
pub mod arguments;
mod called;
pub mod catalog;
pub mod cedar;
mod check;
mod explain;
mod facts;
mod in_force;
mod selector_index;
mod verdict;

pub use self::{
    applicable::{
        ApplicablePolicies, ApprovalRule, BudgetRule, Direction, InspectionRule, InspectionRules,
        PartialDecision, Payer, PriceRule, RateRule,
    },
    called::Called,
    check::{PolicyBreaks, check, check_document},
    explain::{Explanation, PolicyPart, Selection, StatementOutcome, StatementPart, explain},
    facts::{Action, AgentFacts, CallContext, Caller, Purpose, Resource, ResourceKind},
    in_force::{PoliciesInForce, PolicyInForce},
    verdict::{
        BudgetShortage, DeniedApproval, Finding, MissingApproval, Reason, UsedBudget, Verdict,
    },
};
