//! The budgets as this gateway knows them, for operators.

use std::sync::Arc;

use ledger::{
    AccountKey, BudgetState, WindowId,
    spender::{Account, Unit},
};
use registry_core::Amount;
use serde::Serialize;

use super::{Spending, lock};

/// The budgets that this gateway spends from.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SpendingView {
    /// Whether the ledger answered the last report.
    is_ledger_available: bool,
    /// The age of the fleet's figures. `None`: the ledger has not answered yet.
    age_ms: Option<u64>,
    budgets: Vec<BudgetView>,
}

/// A budget in one window.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BudgetView {
    policy: Arc<str>,
    budget: Arc<str>,
    subject: Arc<str>,
    window: WindowId,
    /// The figures of the fleet in the last answer. `None`: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    fleet: Option<FleetView>,
    gateway: ShareView,
}

/// The figures of all gateways.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FleetView {
    limit: Amount,
    spent: Amount,
    /// Unspent rights of all gateways.
    granted: Amount,
    in_doubt: Amount,
}

/// The figures of this gateway.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShareView {
    spent: Amount,
    /// The reservations of calls in flight.
    reserved: Amount,
    /// The rights, spent or not.
    granted: Amount,
}

impl BudgetView {
    fn new(account: &Account) -> Self {
        let AccountKey { budget, window, .. } = account.key().clone();
        let state = account.budget();
        let fleet = |BudgetState { limit, settled, exposed, in_doubt, .. }| FleetView {
            limit,
            spent: settled,
            granted: exposed.saturating_sub(settled),
            in_doubt,
        };
        let totals = account.totals();
        Self {
            policy: budget.policy,
            budget: budget.budget,
            subject: budget.subject,
            window,
            fleet: (state != BudgetState::default()).then(|| fleet(state)),
            gateway: ShareView {
                spent: totals.settled,
                reserved: account.reserved(),
                granted: totals.granted.saturating_sub(totals.returned),
            },
        }
    }
}

impl Spending {
    /// The budgets that this gateway spends from.
    pub(crate) fn view(&self) -> SpendingView {
        let answered_at = *lock(&self.answered_at);
        let age = answered_at.map(|at| self.clock.boot().since(at));
        let accounts = self.spender.accounts();
        let budgets = accounts.iter().filter(|account| account.unit() == Unit::Money);
        SpendingView {
            is_ledger_available: self.is_available(),
            age_ms: age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            budgets: budgets.map(|account| BudgetView::new(account)).collect(),
        }
    }
}
