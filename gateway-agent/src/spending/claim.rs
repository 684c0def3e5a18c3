//! The amounts that calls take from accounts: prices from budgets, and single calls from fleet rates.

use ledger::{
    BudgetKey, CALL, FleetRate, MAX_SUBJECT_BYTES, WindowError, WindowRule,
    spender::{BudgetSettings, Unit},
};
use policy::{BudgetRule, Payer, RateRule};
use registry_core::{Amount, Digest};

use super::rules;

/// An amount that a call takes from an account.
pub(super) trait Claim {
    fn key(&self) -> &BudgetKey;
    fn amount(&self) -> Amount;
    fn settings(&self) -> BudgetSettings;
    fn windows(&self) -> Result<WindowRule, WindowError>;
}

/// A budget that a call charges.
#[derive(Debug)]
pub(crate) struct BudgetCharge<'a> {
    pub(crate) rule: BudgetRule<'a>,
    pub(crate) key: BudgetKey,
    pub(crate) amount: Amount,
}

/// A fleet rate that a call uses.
#[derive(Debug)]
pub(crate) struct RateCharge {
    pub(crate) key: BudgetKey,
    windows: WindowRule,
}

impl<'a> BudgetCharge<'a> {
    pub(crate) fn new(rule: BudgetRule<'a>, payer: &Payer<'_>, amount: Amount) -> Self {
        let key = BudgetKey {
            policy: rule.policy.key().name.as_str().into(),
            budget: rule.policy.account_name(rule.budget.name.as_str()),
            subject: rule.subject(payer).into(),
        };
        Self { rule, key, amount }
    }
}

impl Claim for BudgetCharge<'_> {
    fn key(&self) -> &BudgetKey {
        &self.key
    }

    fn amount(&self) -> Amount {
        self.amount
    }

    fn settings(&self) -> BudgetSettings {
        BudgetSettings { unit: Unit::Money, allowance: self.rule.budget.on_unavailable.allowance() }
    }

    fn windows(&self) -> Result<WindowRule, WindowError> {
        rules::windows(&self.rule.budget.window)
    }
}

impl RateCharge {
    /// `counted`: the text that the calls with the same rate share.
    pub(crate) fn new(rule: &RateRule<'_>, counted: &str) -> Self {
        let FleetRate { name, windows, .. } = FleetRate::new(rule.rate);
        // The ledger rejects other subjects.
        let is_valid = counted.len() <= MAX_SUBJECT_BYTES && !counted.contains(char::is_control);
        let subject = if is_valid {
            counted.into()
        } else {
            Digest::compute(counted.as_bytes()).to_string().into()
        };
        let policy = rule.policy.key().name.as_str().into();
        let budget = rule.policy.account_name(&name);
        Self { key: BudgetKey { policy, budget, subject }, windows }
    }
}

impl Claim for RateCharge {
    fn key(&self) -> &BudgetKey {
        &self.key
    }

    fn amount(&self) -> Amount {
        CALL
    }

    fn settings(&self) -> BudgetSettings {
        BudgetSettings { unit: Unit::Calls, allowance: Amount::ZERO }
    }

    fn windows(&self) -> Result<WindowRule, WindowError> {
        Ok(self.windows.clone())
    }
}
