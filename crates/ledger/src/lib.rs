//! Budgets across a fleet of gateways: accounts, windows, grants, crash marks and generations.
//!
//! The ledger grants rights to spend, and each gateway spends its rights from memory. The registry
//! stores the ledger in its database with the functions of [`budget`]; gateways hold a [`Spender`].
//! Gateways also report the [`usage`] of tools. The crate performs no I/O and reads no clock.
//!
//! Rights never expire by themselves: a silent gateway may still spend. They end with their window,
//! by a report of the gateway or its successor, or by an operator.

pub mod account;
pub mod budget;
mod generation;
mod key;
mod mark;
mod memory;
mod message;
mod rate;
pub mod spender;
pub mod usage;
mod window;

pub use self::{
    generation::{DatabaseState, Generation, ProcessRow, RECOVERY, UNREACHABLE_AFTER},
    key::{AccountKey, BudgetKey, Epoch, InvalidEpoch, MAX_SUBJECT_BYTES},
    mark::{Mark, MarkError, ProcessMarks, SpentAllowance, decode_marks, encode_marks},
    memory::{BudgetRule, MemoryLedger, Reply},
    message::{
        AccountAnswer, AccountReport, AccountState, Answer, BudgetState, GatewayAccount, Grant,
        Ledger, LedgerError, LedgerFuture, ProcessOwner, Recall, Refusal, Rejection, Report,
        ReportError, Totals, Want,
    },
    rate::{CALL, FleetRate},
    spender::Spender,
    window::{
        OPENS_BEFORE, OpenWindows, Period, Window, WindowError, WindowId, WindowRule, WindowSpan,
    },
};
