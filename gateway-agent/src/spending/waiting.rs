//! The calls that wait for rights.

use std::collections::BTreeMap;

use ledger::{
    BudgetKey,
    spender::{Demand, Demands},
};
use registry_core::Amount;

/// The calls that wait for rights, by budget.
#[derive(Debug, Default)]
pub(super) struct WaitingCalls {
    budgets: BTreeMap<BudgetKey, Queue>,
    /// The number of reports.
    reports: u64,
}

#[derive(Debug, Default)]
struct Queue {
    prices: Vec<Amount>,
    /// The last report whose request the ledger certainly refuses again.
    refused: Option<u64>,
    /// The last report whose request the ledger answered without a grant.
    declined: Option<u64>,
    /// The last report, if the ledger refused its request because it recovers.
    recovering: Option<u64>,
}

impl WaitingCalls {
    /// Adds a call. Returns the number of reports before it.
    pub(super) fn add<'a>(&mut self, prices: impl Iterator<Item = (&'a BudgetKey, Amount)>) -> u64 {
        for (budget, price) in prices {
            self.budgets.entry(budget.clone()).or_default().prices.push(price);
        }
        self.reports
    }

    pub(super) fn remove(&mut self, budget: &BudgetKey, price: Amount) {
        let Some(queue) = self.budgets.get_mut(budget) else { return };
        if let Some(position) = queue.prices.iter().position(|waiting| *waiting == price) {
            queue.prices.swap_remove(position);
        }
        if queue.prices.is_empty() {
            self.budgets.remove(budget);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.budgets.is_empty()
    }

    pub(super) fn demands(&self) -> Demands {
        let demand = |(budget, queue): (&BudgetKey, &Queue)| {
            let lowest = queue.prices.iter().min().copied().unwrap_or_default();
            let total = queue.prices.iter().fold(Amount::ZERO, |sum, p| sum.saturating_add(*p));
            (budget.clone(), Demand { lowest, total })
        };
        self.budgets.iter().map(demand).collect()
    }

    /// Starts a report of the waiting calls. Returns its number.
    pub(super) fn start_report(&mut self) -> u64 {
        self.reports += 1;
        self.reports
    }

    /// Records that the ledger refuses the request of a report, and would refuse its repetition.
    pub(super) fn refuse(&mut self, budget: &BudgetKey, report: u64) {
        if let Some(queue) = self.budgets.get_mut(budget) {
            queue.refused = Some(report);
        }
    }

    /// Records that the ledger answered the request of a report without a grant.
    pub(super) fn decline(&mut self, budget: &BudgetKey, report: u64) {
        if let Some(queue) = self.budgets.get_mut(budget) {
            queue.declined = Some(report);
            queue.recovering = None;
        }
    }

    /// Records that the ledger declined the request of a report because it recovers.
    pub(super) fn recover(&mut self, budget: &BudgetKey, report: u64) {
        if let Some(queue) = self.budgets.get_mut(budget) {
            queue.recovering = Some(report);
        }
    }

    /// Whether the ledger refused a call that was added after this number of reports because it recovers.
    pub(super) fn is_recovering(&self, budget: &BudgetKey, added: u64) -> bool {
        let recovering = self.budgets.get(budget).and_then(|queue| queue.recovering);
        recovering.is_some_and(|report| report > added)
    }

    /// Whether the ledger answered without a grant after this number of reports.
    pub(super) fn is_declined(&self, budget: &BudgetKey, added: u64) -> bool {
        let declined = self.budgets.get(budget).and_then(|queue| queue.declined);
        declined.is_some_and(|report| report > added)
    }

    /// Whether the ledger refused a call that was added after this number of reports. The refused
    /// request is that of the lowest price, so it concerns all waiting calls.
    pub(super) fn is_refused(&self, budget: &BudgetKey, added: u64) -> bool {
        let refused = self.budgets.get(budget).and_then(|queue| queue.refused);
        refused.is_some_and(|report| report > added)
    }
}
