//! Budgets in the output of commands. Amounts are decimal text.

use registry_proto::v1;
use serde::Serialize;

use super::time_text as time;

/// A budget in one window.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BudgetView {
    pub(crate) policy: String,
    pub(crate) budget: String,
    pub(crate) subject: String,
    pub(crate) window: String,
    pub(crate) window_ends_at: Option<String>,
    pub(crate) currency: String,
    pub(crate) limit: Option<String>,
    pub(crate) adjustment: String,
    pub(crate) settled: String,
    pub(crate) exposed: String,
    pub(crate) available: String,
    pub(crate) in_doubt: String,
    pub(crate) overshoot: String,
    pub(crate) reclaimed: String,
    pub(crate) unexplained: String,
}

impl From<v1::Budget> for BudgetView {
    fn from(budget: v1::Budget) -> Self {
        let v1::BudgetKey { policy, budget: name, subject } = budget.key.unwrap_or_default();
        Self {
            policy,
            budget: name,
            subject,
            window: budget.window,
            window_ends_at: time(budget.window_end_time),
            currency: budget.currency,
            limit: budget.limit,
            adjustment: budget.adjustment,
            settled: budget.settled,
            exposed: budget.exposed,
            available: budget.available,
            in_doubt: budget.in_doubt,
            overshoot: budget.overshoot,
            reclaimed: budget.reclaimed,
            unexplained: budget.unexplained,
        }
    }
}

/// An account of a gateway process.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AccountView {
    pub(crate) gateway: String,
    pub(crate) epoch: String,
    pub(crate) granted: String,
    pub(crate) returned: String,
    pub(crate) settled: String,
    pub(crate) forced: String,
    pub(crate) unexplained: String,
    pub(crate) state: &'static str,
    pub(crate) last_contact_at: Option<String>,
}

impl From<v1::Account> for AccountView {
    fn from(account: v1::Account) -> Self {
        let state = match (account.is_closed, account.is_reachable) {
            (true, _) => "closed",
            (false, true) => "open",
            (false, false) => "unreachable",
        };
        Self {
            gateway: account.gateway,
            epoch: account.epoch,
            granted: account.granted,
            returned: account.returned,
            settled: account.settled,
            forced: account.forced,
            unexplained: account.unexplained,
            state,
            last_contact_at: time(account.last_contact_time),
        }
    }
}

/// A threshold that the spending has reached.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BudgetAlertView {
    pub(crate) threshold: f64,
    pub(crate) crossed_at: Option<String>,
    pub(crate) settled: String,
    pub(crate) limit: String,
    pub(crate) delivery: &'static str,
    pub(crate) delivered_at: Option<String>,
}

impl From<v1::BudgetAlert> for BudgetAlertView {
    fn from(alert: v1::BudgetAlert) -> Self {
        let delivery = match v1::BudgetAlertDelivery::try_from(alert.delivery) {
            Ok(v1::BudgetAlertDelivery::NoWebhook) => "no-webhook",
            Ok(v1::BudgetAlertDelivery::Pending) => "pending",
            Ok(v1::BudgetAlertDelivery::Delivered) => "delivered",
            Ok(v1::BudgetAlertDelivery::Failed) => "failed",
            Ok(v1::BudgetAlertDelivery::Unspecified) | Err(_) => "unknown",
        };
        Self {
            threshold: alert.threshold,
            crossed_at: time(alert.crossed_time),
            settled: alert.settled,
            limit: alert.limit,
            delivery,
            delivered_at: time(alert.delivered_time),
        }
    }
}

/// A change by an operator.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BudgetChangeView {
    pub(crate) at: Option<String>,
    pub(crate) principal: String,
    pub(crate) change: &'static str,
    pub(crate) amount: String,
    pub(crate) gateway: String,
    pub(crate) reason: String,
}

impl From<v1::BudgetChange> for BudgetChangeView {
    fn from(change: v1::BudgetChange) -> Self {
        let kind = match v1::BudgetChangeType::try_from(change.r#type) {
            Ok(v1::BudgetChangeType::Adjust) => "adjust",
            Ok(v1::BudgetChangeType::Reclaim) => "reclaim",
            Ok(v1::BudgetChangeType::Unspecified) | Err(_) => "unknown",
        };
        Self {
            at: time(change.change_time),
            principal: change.principal,
            change: kind,
            amount: change.amount,
            gateway: change.gateway,
            reason: change.reason,
        }
    }
}
