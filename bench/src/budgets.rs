//! Budgets: priced calls, grants of the ledger, a budget that 100 gateways share, and idle rights.

mod bank;
mod gateway;
mod grants;
mod idle;
mod shared;

use acceptance::mcp::MODERN;
use ledger::BudgetKey;
use registry_core::Amount;
use registry_proto::v1::{self, PolicyBudgetScope, policy_budget::Window};

use self::bank::Bank;
use crate::{
    report::{Report, Row},
    sample,
    turns::{self, CONNECTIONS, Case},
};

const PAYLOAD_BYTES: usize = 40;
/// The policy of all budgets except those of calls through gateways.
const POLICY: &str = "bench";
/// The price of a call.
const PRICE: Amount = Amount::from_micros(15_000);
/// A limit that no load reaches.
pub(crate) const AMPLE: Amount = Amount::from_micros(1_000_000_000_000_000);

/// Measures calls, then the ledger.
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    priced_calls(report, seconds).await;
    grants::measure(report, seconds).await;
    let bank = Bank::start(vec![
        budget(shared::AMPLE_BUDGET, PolicyBudgetScope::Fleet, AMPLE),
        budget(shared::SCARCE_BUDGET, PolicyBudgetScope::Fleet, shared::scarce_limit(seconds)),
        budget(idle::BUDGET, PolicyBudgetScope::Agent, idle::LIMIT),
    ])
    .await;
    shared::measure(report, &bank, seconds).await;
    idle::measure(report, &bank, seconds).await;
}

/// A budget without an end.
pub(crate) fn budget(name: &str, per: PolicyBudgetScope, limit: Amount) -> v1::PolicyBudget {
    v1::PolicyBudget {
        name: name.to_owned(),
        per: per.into(),
        limit: limit.to_string(),
        window: Some(Window::Period(v1::PolicyBudgetPeriod::Total.into())),
        ..Default::default()
    }
}

pub(crate) fn with_budgets(policy: v1::Policy, budgets: Vec<v1::PolicyBudget>) -> v1::Policy {
    let price = v1::PolicyPrice { per_call: Some(PRICE.to_string()), ..Default::default() };
    v1::Policy { price: Some(price), budgets, ..policy }
}

/// A budget of [`POLICY`]. The ledger accepts any subject.
fn key(budget: &str, subject: &str) -> BudgetKey {
    BudgetKey { policy: POLICY.into(), budget: budget.into(), subject: subject.into() }
}

async fn priced_calls(report: &mut Report, seconds: u64) {
    let priced = |agent, scopes: &[PolicyBudgetScope]| {
        let budgets = scopes.iter().map(|per| budget(per.as_str_name(), *per, AMPLE)).collect();
        Case { agent, policy: Some(with_budgets(sample::policy(agent, agent, "echo"), budgets)) }
    };
    let [agent, team, fleet] =
        [PolicyBudgetScope::Agent, PolicyBudgetScope::Team, PolicyBudgetScope::Fleet];
    let cases = [
        Case { agent: "ungoverned", policy: None },
        priced("one-budget", &[agent]),
        priced("three-budgets", &[agent, team, fleet]),
    ];
    let [none, one, three] = turns::cpu_per_call(&cases, PAYLOAD_BYTES, seconds).await;
    let what =
        format!("CPU per tools/call of {MODERN}, {PAYLOAD_BYTES} B, {CONNECTIONS} connections");
    for (budgets, cpu, limit) in
        [("one budget", one, "≤ 1.1 × without policies"), ("three budgets", three, "")]
    {
        report.add(Row {
            path: format!("{what}, with a price and {budgets}"),
            value: format!("{cpu:.1} µs"),
            baseline: format!("without policies {none:.1} µs"),
            ratio: Some(cpu / none),
            budget: limit,
        });
    }
}
