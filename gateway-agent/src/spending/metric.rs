//! The metrics of budgets.

use std::{collections::BTreeMap, sync::Arc};

use ledger::{
    BudgetKey,
    spender::{Account, Unit},
};
use metrics::{counter, gauge};
use registry_core::Amount;

use super::{Spending, lock};

const SPENT: &str = "gateway_budget_spent";
const RESERVED: &str = "gateway_budget_reserved";
const GRANTED: &str = "gateway_budget_granted";
const IN_DOUBT: &str = "gateway_budget_in_doubt";
const OVERSHOOT: &str = "gateway_budget_overshoot";
const REFUSALS: &str = "gateway_budget_refusals_total";
const LEDGER_AGE: &str = "gateway_ledger_age_seconds";

/// Maximum number of budgets with series of their own.
const MAX_BUDGETS: usize = 200;

/// The budgets with series.
#[derive(Debug, Default)]
pub(super) struct BudgetSeries(BTreeMap<BudgetName, Sums>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BudgetName {
    policy: Arc<str>,
    budget: Arc<str>,
}

/// Sums over the subjects and open windows of a budget.
#[derive(Debug, Default)]
struct Sums {
    spent: Amount,
    reserved: Amount,
    granted: Amount,
    in_doubt: Amount,
    overshoot: Amount,
}

impl Sums {
    fn add(&mut self, account: &Account) {
        let totals = account.totals();
        let granted = totals.granted.saturating_sub(totals.returned);
        let overshoot = totals.settled.saturating_sub(granted).max(Amount::ZERO);
        for (sum, amount) in [
            (&mut self.spent, totals.settled),
            (&mut self.reserved, account.reserved()),
            (&mut self.granted, granted),
            (&mut self.in_doubt, account.budget().in_doubt),
            (&mut self.overshoot, overshoot),
        ] {
            *sum = sum.saturating_add(amount);
        }
    }
}

impl BudgetSeries {
    /// Sets the gauges. Budgets without accounts are set to zero.
    pub(super) fn update(&mut self, spending: &Spending) {
        self.0.values_mut().for_each(|sums| *sums = Sums::default());
        let accounts = spending.spender.accounts().into_iter();
        for account in accounts.filter(|account| account.unit() == Unit::Money) {
            let BudgetKey { policy, budget, .. } = account.key().budget.clone();
            let name = BudgetName { policy, budget };
            if self.0.len() < MAX_BUDGETS || self.0.contains_key(&name) {
                self.0.entry(name).or_default().add(&account);
            }
        }
        for (BudgetName { policy, budget }, sums) in &self.0 {
            for (gauge, amount) in [
                (SPENT, sums.spent),
                (RESERVED, sums.reserved),
                (GRANTED, sums.granted),
                (IN_DOUBT, sums.in_doubt),
                (OVERSHOOT, sums.overshoot),
            ] {
                gauge!(gauge, "policy" => policy.to_string(), "budget" => budget.to_string())
                    .set(units(amount));
            }
        }
        if let Some(answered_at) = *lock(&spending.answered_at) {
            gauge!(LEDGER_AGE).set(spending.clock.boot().since(answered_at).as_secs_f64());
        }
    }
}

/// Counts a call that a budget did not cover.
pub(super) fn count_refusal() {
    counter!(REFUSALS).increment(1);
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
fn units(amount: Amount) -> f64 {
    amount.as_micros() as f64 / 1e6
}
