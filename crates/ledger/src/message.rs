//! The messages between gateways and the ledger.
//!
//! Messages carry totals that only grow, and both sides merge them by maximum. Lost, repeated and
//! reordered messages have no effect on the result.

use std::{fmt, pin::Pin, time::Duration};

use registry_core::Amount;
use serde::{Deserialize, Serialize};

use crate::{
    key::{AccountKey, BudgetKey, Epoch},
    window::{WindowId, WindowSpan},
};

/// A boxed future; the ledger is a trait object.
pub type LedgerFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, LedgerError>> + Send + 'a>>;

/// The accounts of budgets. The registry implements it over its database, a gateway without a
/// registry in memory, and a relay by forwarding.
pub trait Ledger: fmt::Debug + Send + Sync {
    /// Merges a report of a gateway and grants what it requests.
    ///
    /// `gateway` is the principal that authentication proved.
    fn report<'a>(&'a self, gateway: &'a str, report: &'a Report) -> LedgerFuture<'a, Answer>;

    /// Waits for the next recall of a gateway's idle rights.
    fn recall<'a>(&'a self, gateway: &'a str) -> LedgerFuture<'a, Recall>;
}

/// The ledger did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The ledger is unreachable. It may have merged the report.
    #[error("the ledger is unavailable: {0}")]
    Unavailable(String),
    /// The report as a whole is invalid.
    #[error("the ledger rejected the report: {0}")]
    Rejected(String),
}

/// The owner of the accounts of a process. The credential of a gateway can change while its accounts
/// are open, and the next process on its disk closes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessOwner {
    /// The principal that authentication proved in the first report of the process.
    pub gateway: String,
    /// The proof of the ledger, for this process only.
    pub proof: Vec<u8>,
}

/// The totals of accounts at one gateway process, and its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The process that sends the report, or an earlier one on its disk.
    pub process: Epoch,
    /// The owner of the process in an earlier answer. `None`: the ledger has not stated it.
    pub owner: Option<ProcessOwner>,
    /// The newest generation that the process knows.
    pub generation: u64,
    /// The proof of this generation in the answer of the ledger.
    pub generation_proof: Vec<u8>,
    /// Processes of this gateway with all accounts reported in this generation, by this report and
    /// earlier ones that the ledger answered. A process reports for its predecessors on the same disk
    /// in reports of their own, because their owners can differ.
    pub complete: Vec<Epoch>,
    /// Processes that ended, with final reports of all their accounts that have spent anything. The
    /// ledger closes their other accounts at zero, and then stores their end.
    pub ended: Vec<Epoch>,
    /// The accounts with news.
    pub accounts: Vec<AccountReport>,
}

/// The totals of one account. Each total only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Rights that the ledger granted. The ledger raises its own total to this one, which restores
    /// grants that a failover of its database lost.
    pub granted: Amount,
    /// Rights that the gateway returned.
    pub returned: Amount,
    /// The spending.
    pub settled: Amount,
    /// The spending that budgets never reject, such as that of compensations. It explains spending
    /// without rights.
    pub forced: Amount,
}

/// The report about one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountReport {
    /// The budget.
    pub budget: BudgetKey,
    /// The window. `None`: the current one by the clock of the ledger.
    pub window: Option<WindowId>,
    /// The epoch of the account.
    pub epoch: Epoch,
    /// The totals.
    pub totals: Totals,
    /// Whether the account spends nothing more than `settled`. After a crash, `settled` is the crash
    /// mark.
    pub is_final: bool,
    /// The request for more rights.
    pub want: Option<Want>,
}

impl Report {
    /// Whether the report concerns no other process than its own.
    pub fn is_of_one_process(&self) -> bool {
        let is_own = |epoch: &Epoch| *epoch == self.process;
        self.complete.iter().all(is_own)
            && self.ended.iter().all(is_own)
            && self.accounts.iter().all(|account| account.epoch.succeeds(self.process))
    }
}

impl AccountReport {
    /// The answer about this account.
    pub fn answered(&self, result: Result<AccountState, Rejection>) -> AccountAnswer {
        let Self { budget, window, epoch, .. } = self;
        AccountAnswer { budget: budget.clone(), window: window.clone(), epoch: *epoch, result }
    }
}

/// A request that `granted` reach a total. Its repetition has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// The total that a waiting call needs. It receives at least this, or nothing. `None`: a
    /// prefetch, which can be granted in part.
    pub minimum: Option<Amount>,
    /// The wanted total.
    pub granted: Amount,
}

/// The answer to a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The generation of the ledger. A gateway ignores answers of older generations.
    pub generation: u64,
    /// Proves to the ledger after a restore that the gateway knows the generation from it.
    pub generation_proof: Vec<u8>,
    /// The owner of the reported accounts. `None`: the ledger has one gateway only.
    pub owner: Option<ProcessOwner>,
    /// The time after the report during which the gateway may reserve without a further answer.
    pub offline_for: Duration,
    /// One answer for each reported account, in the same order.
    pub accounts: Vec<AccountAnswer>,
}

/// The answer about one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountAnswer {
    /// The budget of the report.
    pub budget: BudgetKey,
    /// The window of the report.
    pub window: Option<WindowId>,
    /// The epoch of the report.
    pub epoch: Epoch,
    /// The account after the report, or why the ledger has none.
    pub result: Result<AccountState, Rejection>,
}

impl AccountAnswer {
    /// Whether the report needs no repetition: the ledger has the totals, or no budget for them.
    pub fn is_processed(&self) -> bool {
        !matches!(self.result, Err(Rejection::Invalid(_)))
    }

    /// Whether a report with these accounts needs no repetition.
    pub fn all_processed(accounts: &[Self]) -> bool {
        accounts.iter().all(Self::is_processed)
    }
}

/// An account after a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountState {
    /// The window.
    pub window: WindowSpan,
    /// The rights.
    pub grant: Grant,
    /// The budget.
    pub budget: BudgetState,
}

/// The rights of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The granted total.
    pub granted: Amount,
    /// Whether the account is closed. The gateway reserves nothing more in it.
    pub is_closed: bool,
    /// Whether the gateway must return idle rights, because the limit was lowered below them.
    pub recall: bool,
    /// Why a waiting call received nothing.
    pub refusal: Option<Refusal>,
}

/// Why a request was not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The limit is reached, by spending or by rights of unreachable gateways.
    Exhausted,
    /// Other gateways have idle rights, which the ledger recalls. The gateway repeats the request.
    Recalling,
    /// The ledger has started a new generation and waits for gateways.
    Recovering,
    /// The window is over, or starts later.
    OutsideWindow,
    /// The account is closed.
    Closed,
}

/// Why the ledger has no account for a report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// No policy in force has the budget.
    #[error("no policy in force has this budget; reload the policies")]
    UnknownBudget,
    /// The window does not exist.
    #[error("the budget has no such window; report without a window to open the current one")]
    UnknownWindow,
    /// The totals are invalid.
    #[error(transparent)]
    Invalid(#[from] ReportError),
}

/// A report with impossible values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// A total is negative.
    #[error("a total of the report is negative")]
    Negative,
    /// More rights were returned than granted.
    #[error("the report returns more than was granted")]
    ReturnedTooMuch,
    /// The minimum is above the wanted total.
    #[error("the minimum of the request is above its wanted total")]
    Want,
    /// The amounts of the budget do not fit.
    #[error("the amounts of the budget exceed the largest amount")]
    OutOfRange,
}

/// The amounts of a budget in one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BudgetState {
    /// The limit, with adjustments.
    pub limit: Amount,
    /// The reported spending.
    pub settled: Amount,
    /// The spending and the rights of all accounts.
    pub exposed: Amount,
    /// Unspent rights of unreachable gateways. Known after a refusal, else zero.
    pub in_doubt: Amount,
    /// The number of connected gateways.
    pub active_gateways: u32,
}

impl BudgetState {
    /// The amount that the ledger can still grant. Negative after the limit was lowered.
    pub fn available(&self) -> Amount {
        self.limit.saturating_sub(self.exposed)
    }
}

/// An account of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayAccount {
    /// The principal of the gateway.
    pub gateway: String,
    /// The account.
    pub key: AccountKey,
}

/// The ledger needs the idle rights of these accounts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recall {
    /// The accounts.
    pub accounts: Vec<AccountKey>,
}
