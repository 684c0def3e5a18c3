//! Writes prices and budgets.

use registry_core::{
    Amount,
    entity::policy::{
        Budget, BudgetScope, BudgetWindow, CalendarPeriod, CallPrice, FailureCharge, OnUnavailable,
        Price,
    },
};

use crate::{
    convert::time::{duration, timestamp},
    v1::{self, policy_budget::Window},
};

impl From<&Price> for v1::PolicyPrice {
    fn from(Price { call, failures, per_round }: &Price) -> Self {
        let (per_call, reported_by, maximum) = match call {
            CallPrice::Fixed { per_call } => (Some(*per_call), None, None),
            CallPrice::Reported { reported_by, maximum, per_call } => {
                (*per_call, Some(reported_by.as_str().to_owned()), Some(*maximum))
            }
        };
        let text = |amount: Option<Amount>| amount.map(|amount| amount.to_string());
        Self {
            per_call: text(per_call),
            reported_by,
            maximum: text(maximum),
            failures: v1::PolicyFailureCharge::from(*failures).into(),
            per_round: text(*per_round),
        }
    }
}

impl From<FailureCharge> for v1::PolicyFailureCharge {
    fn from(charge: FailureCharge) -> Self {
        match charge {
            FailureCharge::Charged => Self::Charged,
            FailureCharge::Free => Self::Free,
        }
    }
}

impl From<&Budget> for v1::PolicyBudget {
    fn from(budget: &Budget) -> Self {
        let Budget { name, per, limit, window, unpriced, on_unavailable, alert_at } = budget;
        Self {
            name: name.to_string(),
            per: v1::PolicyBudgetScope::from(*per).into(),
            limit: limit.to_string(),
            window: Some(Window::from(window)),
            anchor: window.anchor().map(timestamp),
            time_zone: window.time_zone().map(str::to_owned),
            unpriced: v1::PolicyDecision::from(*unpriced).into(),
            unavailable_allowance: match on_unavailable {
                OnUnavailable::Deny => None,
                OnUnavailable::Allow(amount) => Some(amount.to_string()),
            },
            alert_at: alert_at.iter().map(|fraction| f64::from(*fraction)).collect(),
        }
    }
}

impl From<BudgetScope> for v1::PolicyBudgetScope {
    fn from(scope: BudgetScope) -> Self {
        match scope {
            BudgetScope::Agent => Self::Agent,
            BudgetScope::Team => Self::Team,
            BudgetScope::Principal => Self::Principal,
            BudgetScope::Tool => Self::Tool,
            BudgetScope::Fleet => Self::Fleet,
        }
    }
}

impl From<&BudgetWindow> for Window {
    fn from(window: &BudgetWindow) -> Self {
        let period = match window {
            BudgetWindow::Total => v1::PolicyBudgetPeriod::Total,
            BudgetWindow::Calendar { period, .. } => match period {
                CalendarPeriod::Day => v1::PolicyBudgetPeriod::Day,
                CalendarPeriod::Week => v1::PolicyBudgetPeriod::Week,
                CalendarPeriod::Month => v1::PolicyBudgetPeriod::Month,
                CalendarPeriod::Year => v1::PolicyBudgetPeriod::Year,
            },
            BudgetWindow::Fixed { length, .. } => return Self::Length(duration(*length)),
        };
        Self::Period(period.into())
    }
}
