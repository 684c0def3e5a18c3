//! The ledger of budgets: accounts, processes and generations. Usage of tools. Execution graphs.
//!
//! The crate `ledger` computes each change. A transaction locks the rows of its budgets first, in the order of their
//! keys. It reads accounts in later statements only, because an aggregate in the locking statement can be older than the
//! lock. The row of a budget has the sums over all accounts. A report therefore reads its own account only, unless it is
//! refused.

mod admin;
mod alerts;
mod generation;
mod notification;
mod post;
mod sql;
mod traces;
mod transaction;
mod usage;

use std::{collections::BTreeMap, sync::Arc};

use ledger::{
    AccountReport, AccountState, BudgetKey, Epoch, GatewayAccount, Rejection, WindowId, WindowSpan,
    account::AccountRow, budget::BudgetRow,
};
use registry_core::{Amount, Timestamp, entity::policy::Fraction};

use super::Error;

pub(super) use transaction::{LedgerTransaction, execute_in};

pub use admin::{
    BudgetPage, ChangeOrigin, LedgerChange, ListedAccount, ListedBudget, ListedChange, Reclaim,
    ReclaimFailure, Reclaimed,
};
pub use alerts::{AlertAttempt, AlertDelivery, ClaimedAlert, Crossing, ListedAlert};
pub use generation::{GenerationCause, LedgerAges};
pub use notification::{RecallListener, RecallNotice};
pub use traces::{ReportedCall, StoredCall, TraceCursor, TraceLimits, TraceQuery, TraceReport};
pub use usage::{UsageAges, UsageGroup, UsageGroupKey, UsageInterval, UsageProperty, UsageQuery};

/// A budget in one window.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct BookKey {
    /// The budget.
    pub budget: BudgetKey,
    /// The window.
    pub window: WindowId,
}

impl BookKey {
    /// Reads policy, budget, subject and window.
    fn from_columns([policy, budget, subject, window]: [&str; 4]) -> Self {
        let budget =
            BudgetKey { policy: policy.into(), budget: budget.into(), subject: subject.into() };
        Self { budget, window: WindowId::new(window) }
    }
}

/// The conditions of grants from a budget.
#[derive(Debug, Clone)]
pub struct BookTerms {
    /// The limit. `None`: no policy in force has the budget.
    pub limit: Option<Amount>,
    /// The spending of a gateway that is allowed while the ledger is unavailable.
    pub allowance: Amount,
    /// The window, if its accounts may be opened.
    pub open: Option<OpenWindow>,
    /// The end of a window that is over. The database can lack its row.
    pub ended: Option<Timestamp>,
    /// The fractions of the limit that raise alerts, in ascending order.
    pub alert_at: Arc<[Fraction]>,
}

/// A window whose accounts may be opened.
#[derive(Debug, Clone)]
pub struct OpenWindow {
    /// Its position relative to now.
    pub span: WindowSpan,
    /// Its end.
    pub end: Option<Timestamp>,
}

/// The report about one account, with its authenticated sender.
#[derive(Debug, Clone)]
pub struct PostRequest {
    /// The principal of the gateway.
    pub gateway: Arc<str>,
    /// The process that sends the report.
    pub process: Epoch,
    /// The report.
    pub report: AccountReport,
}

/// The newest state of the ledger that this server has seen. An older state shows a restored backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeenState {
    /// The number of the generation.
    pub generation: u64,
    /// The counter of transactions.
    pub counter: u64,
}

/// The conditions of a transaction.
#[derive(Debug, Clone, Copy)]
pub struct PostContext {
    /// The newest state that this server has seen.
    pub seen: SeenState,
    /// The time after which a gateway without an answer stops reserving.
    pub offline_for: std::time::Duration,
    /// The time of the ledger.
    pub now: Timestamp,
    /// Whether this server delivers alerts.
    pub has_webhook: bool,
}

/// The reports about one budget.
#[derive(Debug)]
pub struct BookReports<'a> {
    /// The budget.
    pub book: &'a BookKey,
    /// The conditions of its grants.
    pub terms: BookTerms,
    /// The reports.
    pub requests: &'a [PostRequest],
}

/// The results of the reports in a transaction.
#[derive(Debug)]
pub struct Posting {
    /// The state of the ledger.
    pub seen: SeenState,
    /// The results for each budget, in the same order.
    pub books: Vec<BookPosting>,
}

/// The results of the reports about one budget.
#[derive(Debug, Clone, Default)]
pub struct BookPosting {
    /// One result for each request, in the same order.
    pub results: Vec<Result<AccountState, Rejection>>,
    /// The accounts whose idle rights are needed.
    pub recalls: Vec<GatewayAccount>,
    /// The spending without rights that the reports added.
    pub overshoot: Amount,
    /// Rights that gateways claimed and the ledger did not know: grants that a failover lost.
    pub claimed: Amount,
    /// The spending in the reports that nothing explains.
    pub unexplained: Amount,
    /// The thresholds of alerts that the spending has reached.
    pub crossings: Vec<Crossing>,
}

/// A failed transaction of the ledger. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerFailure {
    /// The database may lack transactions; a new generation is needed.
    #[error("the database may lack transactions of the ledger")]
    Lost,
    /// A report of a generation that the ledger cannot have had.
    #[error("generation {0} is unknown to this registry; connect the gateway to its own registry")]
    UnknownGeneration(u64),
    /// A failure of the store.
    #[error(transparent)]
    Store(#[from] Error),
}

/// An account as stored.
#[derive(Debug, Clone, Copy)]
struct StoredAccount {
    row: AccountRow,
    process: Epoch,
    closed_at: Option<Timestamp>,
}

/// Accounts of a budget.
type Accounts = BTreeMap<ProcessKey, StoredAccount>;

/// The identity of an account in a locked budget.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct AccountId {
    /// The id of the budget.
    budget: i64,
    key: ProcessKey,
}

/// An account to store.
#[derive(Debug, Clone, Copy)]
struct AccountChange<'a> {
    /// The id of the budget.
    budget: i64,
    key: &'a ProcessKey,
    account: &'a StoredAccount,
}

/// A budget to create.
#[derive(Debug, Clone, Copy)]
struct NewBudget<'a> {
    book: &'a BookKey,
    /// The end of its window.
    end: Option<Timestamp>,
}

/// A locked budget.
#[derive(Debug, Clone, Copy)]
struct LockedBudget {
    id: i64,
    end: Option<Timestamp>,
    row: BudgetRow,
    /// The highest reached threshold of alerts, in ten-thousandths of the limit.
    alerted: i64,
}

/// The identity of a process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ProcessKey {
    gateway: String,
    epoch: Epoch,
}

impl StoredAccount {
    /// Replaces the totals. The time of the close is the first one.
    fn replaced(&self, row: AccountRow, now: Timestamp) -> Self {
        let closed_at = if row.is_closed { self.closed_at.or(Some(now)) } else { None };
        Self { row, closed_at, ..*self }
    }
}
