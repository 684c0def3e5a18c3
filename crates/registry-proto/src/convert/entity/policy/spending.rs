//! Reads prices and budgets.

use registry_core::entity::policy::{BudgetScope, CalendarPeriod, FailureCharge};
use serde_json::Value;

use super::{decision_value, duration_value, object};
use crate::{
    convert::time::read_timestamp,
    v1::{self, policy_budget::Window},
};

pub(super) fn price_value(price: v1::PolicyPrice) -> Value {
    let v1::PolicyPrice { per_call, reported_by, maximum, failures, per_round } = price;
    object([
        ("perCall", per_call.into()),
        ("reportedBy", reported_by.into()),
        ("maximum", maximum.into()),
        ("failures", failures_value(failures)),
        ("perRound", per_round.into()),
    ])
}

pub(super) fn budget_value(budget: v1::PolicyBudget) -> Value {
    let v1::PolicyBudget {
        name,
        per,
        limit,
        window,
        anchor,
        time_zone,
        unpriced,
        unavailable_allowance,
        alert_at,
    } = budget;
    let allow = |amount: String| object([("allow", amount.into())]);
    object([
        ("name", name.into()),
        ("per", scope_value(per)),
        ("limit", limit.into()),
        ("window", window.map(window_value).into()),
        ("anchor", anchor.map(timestamp_value).into()),
        ("timeZone", time_zone.into()),
        ("unpriced", decision_value(unpriced)),
        ("onUnavailable", unavailable_allowance.map(allow).into()),
        ("alertAt", alert_at.into()),
    ])
}

// The reader of documents rejects the text of an unknown number.

fn failures_value(number: i32) -> Value {
    match v1::PolicyFailureCharge::try_from(number) {
        Ok(v1::PolicyFailureCharge::Unspecified) => Value::Null,
        Ok(v1::PolicyFailureCharge::Charged) => FailureCharge::Charged.as_str().into(),
        Ok(v1::PolicyFailureCharge::Free) => FailureCharge::Free.as_str().into(),
        Err(_) => number.to_string().into(),
    }
}

fn scope_value(number: i32) -> Value {
    match v1::PolicyBudgetScope::try_from(number) {
        Ok(v1::PolicyBudgetScope::Agent) => BudgetScope::Agent.as_str().into(),
        Ok(v1::PolicyBudgetScope::Team) => BudgetScope::Team.as_str().into(),
        Ok(v1::PolicyBudgetScope::Principal) => BudgetScope::Principal.as_str().into(),
        Ok(v1::PolicyBudgetScope::Tool) => BudgetScope::Tool.as_str().into(),
        Ok(v1::PolicyBudgetScope::Fleet) => BudgetScope::Fleet.as_str().into(),
        Ok(v1::PolicyBudgetScope::Unspecified) | Err(_) => number.to_string().into(),
    }
}

fn window_value(window: Window) -> Value {
    let number = match window {
        Window::Length(length) => return duration_value(length),
        Window::Period(number) => number,
    };
    match v1::PolicyBudgetPeriod::try_from(number) {
        Ok(v1::PolicyBudgetPeriod::Total) => "total".into(),
        Ok(v1::PolicyBudgetPeriod::Day) => CalendarPeriod::Day.as_str().into(),
        Ok(v1::PolicyBudgetPeriod::Week) => CalendarPeriod::Week.as_str().into(),
        Ok(v1::PolicyBudgetPeriod::Month) => CalendarPeriod::Month.as_str().into(),
        Ok(v1::PolicyBudgetPeriod::Year) => CalendarPeriod::Year.as_str().into(),
        Ok(v1::PolicyBudgetPeriod::Unspecified) | Err(_) => number.to_string().into(),
    }
}

/// The text of a time. The reader of documents rejects the text of a time outside of its range.
fn timestamp_value(time: prost_types::Timestamp) -> Value {
    match read_timestamp(time) {
        Ok(time) => time.to_string().into(),
        Err(_) => format!("{}.{:09}", time.seconds, time.nanos).into(),
    }
}
