//! Recorded histories of a registry, and checks of its invariants.
//!
//! A history is a file of JSON lines ([`event`]): the requests, answers and messages of each
//! process in the order of observation, followed by the log in the database. The validators use
//! nothing else. They share no code with the registry: the application of commits, the closure of a
//! scope and the chain are implemented again from their definitions.
//!
//! A history with budgets ([`budget_event`]) has the calls of priced tools, what the tools executed,
//! and the figures of the ledger at the end. A history with approvals ([`approval_event`]) has calls,
//! decisions of people, what the tools executed, and the requests at the end. Both have their own
//! validators.

pub mod approval_event;
mod approved_calls;
pub mod budget_event;
pub mod closure;
pub mod event;
mod history;
mod journal;
pub mod log;
mod replica;
mod requests;
mod spending;
pub mod state;
pub mod validators;

pub use approval_event::ApprovalEvent;
pub use approved_calls::ApprovalSummary;
pub use budget_event::BudgetEvent;
pub use event::{Event, Line, Workload};
pub use history::{History, ParseError};
pub use log::Log;
pub use spending::SpendingSummary;
pub use validators::{
    APPROVAL_VALIDATORS, BUDGET_VALIDATORS, VALIDATORS, Validator, Violation, validators_of,
};
