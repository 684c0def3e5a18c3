//! The events of a history with budgets. Amounts are micro-units of the currency.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The identity of a budget.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BudgetId {
    /// The name of the policy.
    pub policy: String,
    /// The name of the budget in the policy.
    pub budget: String,
    /// The subject whose spending is limited.
    pub subject: String,
}

/// A budget in one window.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Book {
    /// The budget.
    pub id: BudgetId,
    /// The id of the window.
    pub window: String,
}

/// An account of a gateway process, as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountFigures {
    /// The principal of the gateway.
    pub gateway: String,
    /// The epoch.
    pub epoch: String,
    /// The granted rights.
    pub granted: i64,
    /// The returned rights.
    pub returned: i64,
    /// The reported spending.
    pub settled: i64,
    /// The spending that budgets never reject.
    #[serde(default)]
    pub forced: i64,
    /// Whether the account has no rights any longer.
    pub is_closed: bool,
}

/// A budget in one window, as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// The reported spending.
    pub settled: i64,
    /// The spending and the rights of all accounts.
    pub exposed: i64,
    /// Unspent rights of unreachable gateways.
    pub in_doubt: i64,
    /// The spending without rights.
    pub overshoot: i64,
    /// The reported spending that nothing explains.
    #[serde(default)]
    pub unexplained: i64,
    /// The rights that operators reclaimed.
    pub reclaimed: i64,
    /// The accounts.
    pub accounts: Vec<AccountFigures>,
}

/// An account and its budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookAccount {
    /// The budget in one window.
    pub book: Book,
    /// The account.
    pub account: AccountFigures,
}

/// The answer to a call, as its caller sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Payment {
    /// The tool answered, also with an error.
    Paid {},
    /// A policy rejected the call.
    Denied {
        /// The machine-readable reason.
        reason: String,
        /// Its details.
        details: Value,
    },
    /// The call failed, or its outcome is unknown.
    Failed {
        /// Why.
        reason: String,
    },
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum BudgetEvent {
    /// A policy sets a limit, before the first call.
    Rule {
        /// The name of the policy.
        policy: String,
        /// The name of the budget.
        budget: String,
        /// The limit of each subject in each window.
        limit: i64,
        /// The price of each call.
        price: i64,
        /// The spending of each gateway process that is allowed without the ledger.
        allowance: i64,
    },
    /// From here on, the limit of a book may be this one.
    LimitRequested {
        /// The book.
        book: Book,
        /// The new limit.
        limit: i64,
    },
    /// From here on, the limit of a book is at most this one at all servers.
    LimitInForce {
        /// The book.
        book: Book,
        /// The limit.
        limit: i64,
        /// The spending and the rights of all accounts afterward.
        exposed: i64,
    },
    /// A caller sends a call.
    Pay {
        /// The unique id of the call.
        call: String,
        /// The gateway.
        gateway: String,
        /// The price.
        price: i64,
        /// The charged budgets.
        budgets: Vec<BudgetId>,
    },
    /// The tool of a call that was just sent is compensated, if it runs. The price and the budgets are
    /// those of the compensation, which budgets never reject.
    Compensates {
        /// The id of the call.
        call: String,
    },
    /// The answer to a call.
    Answered {
        /// The id of the call.
        call: String,
        /// The answer.
        #[serde(flatten)]
        answer: Payment,
    },
    /// The tool received a call and executed it.
    Executed {
        /// The id of the call.
        call: String,
    },
    /// The tool answers the last execution of a call with a price below that of the call.
    Reported {
        /// The id of the call.
        call: String,
        /// The reported price.
        price: i64,
    },
    /// A gateway charged a call, by its audit log.
    Charged {
        /// The id of the call.
        call: String,
        /// The charge.
        amount: i64,
    },
    /// The file of crash marks of a dead process was deleted or torn.
    MarksLost {
        /// The principal of the gateway.
        gateway: String,
    },
    /// The database loses transactions: a backup is restored, or a lagging standby is promoted.
    TransactionsLost {
        /// The accounts before the loss.
        accounts: Vec<BookAccount>,
    },
    /// The overshoot of a book that survives the loss of transactions.
    OvershootKept {
        /// The book.
        book: Book,
        /// The overshoot after the loss.
        overshoot: i64,
    },
    /// A budget in one window at the end.
    Ended {
        /// The book.
        book: Book,
        /// Its figures.
        figures: Figures,
    },
}

impl AccountFigures {
    /// The most that the account can have spent.
    pub fn exposure(&self) -> i128 {
        let settled = i128::from(self.settled);
        if self.is_closed {
            return settled;
        }
        settled.max(i128::from(self.granted) - i128::from(self.returned))
    }

    /// The rights without reported spending.
    pub fn unspent(&self) -> i128 {
        self.exposure() - i128::from(self.settled)
    }
}
