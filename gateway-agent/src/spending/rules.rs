//! The budgets of policies in the form of the ledger.

use std::{collections::BTreeMap, sync::Arc};

use ledger::{BudgetKey, BudgetRule, WindowError, WindowRule};
use policy::PoliciesInForce;
use registry_core::{Catalog, entity::policy::BudgetWindow};

/// The windows of a budget.
pub(super) fn windows(window: &BudgetWindow) -> Result<WindowRule, WindowError> {
    WindowRule::parse(&window.to_string(), window.time_zone(), window.anchor())
}

/// The budgets in force in a catalog.
#[derive(Debug)]
pub(super) struct BudgetRules {
    catalog: Arc<Catalog>,
    policies: PoliciesInForce,
    budgets: BTreeMap<BudgetName, BudgetRule>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BudgetName {
    policy: Arc<str>,
    budget: Arc<str>,
}

impl BudgetRules {
    pub(super) fn new(catalog: &Arc<Catalog>, previous: Option<&Self>) -> Self {
        let policies = PoliciesInForce::new(catalog, previous.map(|previous| &previous.policies));
        let mut budgets = BTreeMap::new();
        for policy in policies.iter() {
            for budget in &policy.policy().budgets {
                // Registration checks the windows.
                let Ok(windows) = windows(&budget.window) else { continue };
                let name = BudgetName {
                    policy: policy.key().name.as_str().into(),
                    budget: policy.account_name(budget.name.as_str()),
                };
                let (limit, allowance) = (budget.limit, budget.on_unavailable.allowance());
                budgets.insert(name, BudgetRule { limit, allowance, windows });
            }
        }
        Self { catalog: Arc::clone(catalog), policies, budgets }
    }

    /// Whether these are the budgets of a catalog.
    pub(super) fn is_of(&self, catalog: &Arc<Catalog>) -> bool {
        Arc::ptr_eq(&self.catalog, catalog)
    }

    pub(super) fn find(&self, key: &BudgetKey) -> Option<BudgetRule> {
        let BudgetKey { policy, budget, .. } = key.clone();
        self.budgets.get(&BudgetName { policy, budget }).cloned()
    }
}
