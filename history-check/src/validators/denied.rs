//! A denied call is not sent, and its denial states the budget and the price. A budget for exactly
//! one call admits one.

use serde_json::Value;

use super::Violation;
use crate::{
    budget_event::{BudgetEvent, BudgetId, Payment},
    event::Event,
    history::History,
    spending::{Call, Spending},
};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let spending = Spending::new(&history.lines);
    let mut found = Vec::new();
    for (name, call) in &spending.calls {
        let Some(Payment::Denied { reason, details }) = call.answer else { continue };
        let mut wrong = |what: &str| {
            found
                .push(Violation::new([call.line], format!("{name} was denied ({reason}): {what}")));
        };
        if call.executions > 0 {
            wrong("the tool executed it");
        }
        if reason != "BUDGET_EXCEEDED" {
            wrong("only budgets deny calls here");
        } else if !names_budget(call, details) {
            wrong("the details name no budget of the call");
        } else if micros(&details["requested"]) != Some(call.price) {
            wrong("the details have another price");
        } else if !has_amounts(details) {
            wrong("an amount is missing or negative");
        }
    }
    for id in spending.budgets() {
        let rule = spending.rule(id);
        if rule.is_none_or(|rule| rule.limit != rule.price) || is_changed(history, id) {
            continue;
        }
        // A compensation can use up the limit before the call.
        if spending.calls_of(id).any(|call| call.is_compensation) {
            continue;
        }
        let executions: i128 = spending.calls_of(id).map(|call| call.executions).sum();
        if executions != 1 {
            let lines = spending.calls_of(id).map(|call| call.line);
            let what = format!("{id:?} covers one call, the tool executed {executions}");
            found.push(Violation::new(lines, what));
        }
    }
    found
}

fn names_budget(call: &Call<'_>, details: &Value) -> bool {
    call.budgets.iter().any(|id| details["policy"] == id.policy && details["budget"] == id.budget)
}

/// A gateway without an answer of the ledger knows only the limit.
fn has_amounts(details: &Value) -> bool {
    let used = ["spent", "reserved", "inDoubt"].map(|name| &details[name]);
    let is_amount = |amount: &Value| micros(amount).is_some_and(|amount| amount >= 0);
    is_amount(&details["limit"])
        && (used.iter().all(|amount| is_amount(amount))
            || used.iter().all(|amount| amount.is_null()))
}

fn is_changed(history: &History, id: &BudgetId) -> bool {
    history.lines.iter().any(|line| {
        matches!(&line.event,
            Event::Budget { budget: BudgetEvent::LimitRequested { book, .. } } if book.id == *id)
    })
}

/// Micro-units of a decimal text.
fn micros(amount: &Value) -> Option<i128> {
    let text = amount.as_str()?;
    let (units, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 6 || fraction.contains(['-', '+']) {
        return None;
    }
    let sign = if units.starts_with('-') { -1 } else { 1 };
    let fraction: i128 = format!("{fraction:0<6}").parse().ok()?;
    units.parse::<i64>().ok().map(|units| i128::from(units) * 1_000_000 + sign * fraction)
}
