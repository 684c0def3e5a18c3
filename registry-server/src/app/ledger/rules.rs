//! The budgets and fleet rates of the policies in force.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use ledger::{BudgetKey, FleetRate, WindowRule};
use policy::PoliciesInForce;
use registry_core::{
    Amount, Catalog, Key, Revision,
    entity::policy::{BudgetScope, Fraction, Reach},
};

use crate::feed::Hub;

/// The budgets at a revision.
#[derive(Debug, Default)]
pub(super) struct Rules {
    revision: Option<Revision>,
    policies: PoliciesInForce,
    budgets: HashMap<(Arc<str>, Arc<str>), Rule>,
}

/// A budget or fleet rate in force.
#[derive(Debug)]
pub(super) struct Rule {
    /// The calls that share the limit. `None`: the rule is a rate.
    pub(super) per: Option<BudgetScope>,
    /// The limit in each window.
    pub(super) limit: Amount,
    /// The spending of a gateway that is allowed without the ledger.
    pub(super) allowance: Amount,
    pub(super) windows: WindowRule,
    /// The fractions of the limit that raise alerts, in ascending order.
    pub(super) alert_at: Arc<[Fraction]>,
}

impl Rules {
    /// Whether this version of a policy is in force.
    pub(super) fn is_in_force(&self, key: &Key) -> bool {
        self.policies.iter().any(|policy| policy.key() == key)
    }

    /// The rule of a budget or fleet rate. `None`: no policy in force has it.
    pub(super) fn find(&self, key: &BudgetKey) -> Option<&Rule> {
        self.budgets.get(&(key.policy.clone(), key.budget.clone()))
    }
}

/// The budgets at the current revision.
pub(super) struct RulesCache {
    hub: Arc<Hub>,
    rules: Mutex<Arc<Rules>>,
}

impl RulesCache {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        Self { hub, rules: Mutex::default() }
    }

    pub(super) fn catalog(&self) -> Arc<Catalog> {
        self.hub.catalog()
    }

    pub(super) fn current(&self) -> Arc<Rules> {
        let catalog = self.hub.catalog();
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        if rules.revision != Some(catalog.revision()) {
            let policies = PoliciesInForce::new(&catalog, Some(&rules.policies));
            let budgets = budgets(&policies);
            *rules = Arc::new(Rules { revision: Some(catalog.revision()), policies, budgets });
        }
        rules.clone()
    }
}

fn budgets(policies: &PoliciesInForce) -> HashMap<(Arc<str>, Arc<str>), Rule> {
    let mut budgets = HashMap::new();
    for policy in policies.iter() {
        let name: Arc<str> = policy.key().name.as_str().into();
        for budget in &policy.policy().budgets {
            let window = &budget.window;
            let text = window.to_string();
            // Validation rejects policies with other windows.
            let Ok(windows) = WindowRule::parse(&text, window.time_zone(), window.anchor()) else {
                continue;
            };
            let alert_at = budget.alert_at.as_slice().into();
            let (limit, allowance) = (budget.limit, budget.on_unavailable.allowance());
            let rule = Rule { per: Some(budget.per), limit, allowance, windows, alert_at };
            budgets.insert((name.clone(), policy.account_name(budget.name.as_str())), rule);
        }
        let rates = policy.policy().rates.iter().filter(|rate| rate.reach == Reach::Fleet);
        for FleetRate { name: rate, windows, limit } in rates.map(FleetRate::new) {
            let alert_at = Arc::default();
            let rule = Rule { per: None, limit, allowance: Amount::ZERO, windows, alert_at };
            budgets.insert((name.clone(), policy.account_name(&rate)), rule);
        }
    }
    budgets
}
