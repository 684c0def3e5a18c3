//! The registered tools, agents and policies of a history with budgets.

use history_check::{
    BudgetEvent,
    budget_event::{Book, BudgetId},
};
use registry_core::{Amount, Kind, rules::Proposed};
use serde_json::{Value, json};

use crate::fleet::{VERSION, agents, bank, dependency, register};

/// The price of a call in micro-units: $0.015.
pub(super) const PRICE: i64 = 15_000;
/// The price and the limit of the tool that one call exhausts: $10.
const ONCE: i64 = 10_000_000;

/// The name of each budget in its policy.
const BUDGET: &str = "limit";
pub(super) const TOOLS: [&str; 9] =
    ["pay", "rent", "both", "lend", ONCE_TOOL, METER_TOOL, HOLD_TOOL, BREAK_TOOL, UNDO_TOOL];
/// The tool of the budget that pays one call.
pub(super) const ONCE_TOOL: &str = "buy";
/// The tool whose results report their prices.
pub(super) const METER_TOOL: &str = "meter";
/// A saga: `hold` runs without a price, `break` fails, and `undo` compensates `hold`.
pub(super) const SAGA: &str = "order";
pub(super) const HOLD_TOOL: &str = "hold";
pub(super) const BREAK_TOOL: &str = "break";
const UNDO_TOOL: &str = "undo";

/// A policy with one budget.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    name: &'static str,
    tools: &'static [&'static str],
    per: &'static str,
    window: &'static str,
    price: i64,
    /// Whether results report the price, at most `price`.
    is_reported: bool,
    pub(super) limit: i64,
    /// The spending of a gateway that is allowed without the ledger.
    allowance: i64,
}

/// The policy whose limit changes.
pub(super) const TOTAL: Policy = Policy {
    name: "total",
    tools: &["pay", "both"],
    per: "fleet",
    window: "total",
    price: PRICE,
    is_reported: false,
    // The rest does not pay a call.
    limit: 40 * PRICE + 7_000,
    allowance: 0,
};

static POLICIES: [Policy; 6] = [
    TOTAL,
    Policy {
        name: "short",
        tools: &["rent", "both"],
        per: "agent",
        window: "PT4S",
        limit: 12 * PRICE,
        ..TOTAL
    },
    Policy { name: "spare", tools: &["lend"], limit: 30 * PRICE, allowance: 4 * PRICE, ..TOTAL },
    Policy { name: "once", tools: &[ONCE_TOOL], price: ONCE, limit: ONCE, ..TOTAL },
    Policy { name: "meter", tools: &[METER_TOOL], is_reported: true, limit: 20 * PRICE, ..TOTAL },
    // Compensations exceed the limit.
    Policy { name: "undo", tools: &[UNDO_TOOL], limit: 2 * PRICE, ..TOTAL },
];

impl Policy {
    fn document(&self, version: u64) -> Proposed {
        let amount = |micros: i64| Amount::from_micros(micros).to_string();
        let on_unavailable = match self.allowance {
            0 => json!("deny"),
            allowance => json!({ "allow": amount(allowance) }),
        };
        let budget = json!({
            "name": BUDGET, "per": self.per, "limit": amount(self.limit), "window": self.window,
            "onUnavailable": on_unavailable,
        });
        let price = if self.is_reported {
            json!({ "reportedBy": "_meta.cost", "maximum": amount(self.price) })
        } else {
            json!({ "perCall": amount(self.price) })
        };
        register(
            Kind::Policy,
            &json!({
                "name": self.name, "version": format!("1.0.{version}"),
                "appliesTo": { "tools": self.tools },
                "price": price, "budgets": [budget],
            }),
        )
    }

    fn rule(&self) -> BudgetEvent {
        BudgetEvent::Rule {
            policy: self.name.to_owned(),
            budget: BUDGET.to_owned(),
            limit: self.limit,
            price: self.price,
            allowance: self.allowance,
        }
    }

    fn id(&self, agent: &str) -> BudgetId {
        let subject = if self.per == "agent" { agent } else { self.per };
        BudgetId {
            policy: self.name.to_owned(),
            budget: BUDGET.to_owned(),
            subject: subject.to_owned(),
        }
    }
}

/// The budget whose limit changes.
pub(super) fn total_book() -> Book {
    Book { id: TOTAL.id(""), window: TOTAL.window.to_owned() }
}

/// A version of the policy with another limit.
pub(super) fn total_with_limit(limit: i64, version: u64) -> Proposed {
    Policy { limit, ..TOTAL }.document(version)
}

/// The rules of all budgets.
pub(super) fn rules() -> impl Iterator<Item = BudgetEvent> {
    POLICIES.iter().map(Policy::rule)
}

/// The price of a call, or of its compensation.
pub(super) fn price(tool: &str) -> i64 {
    if tool == ONCE_TOOL { ONCE } else { PRICE }
}

/// The budgets that a call of an agent, or its compensation, charges.
pub(super) fn budgets(tool: &str, agent: &str) -> Vec<BudgetId> {
    let tool = if tool == SAGA { UNDO_TOOL } else { tool };
    let charged = POLICIES.iter().filter(|policy| policy.tools.contains(&tool));
    charged.map(|policy| policy.id(agent)).collect()
}

/// The server, its tools, the agents and the first versions of the policies.
pub(super) fn entities() -> Vec<Proposed> {
    let mut entities = bank(&TOOLS, &id_schema());
    entities.push(register(Kind::Tool, &saga()));
    let tools: Vec<_> = TOOLS.into_iter().chain([SAGA]).collect();
    entities.extend(agents(&tools));
    entities.extend(POLICIES.iter().map(|policy| policy.document(0)));
    entities
}

/// A saga whose second step fails.
fn saga() -> Value {
    let hold = json!({ "id": "hold", "name": "hold", "action": { "tool": HOLD_TOOL },
        "compensate": { "tool": UNDO_TOOL }, "compensateOnUnknown": true });
    let fail = json!({ "id": "break", "name": "break", "action": { "tool": BREAK_TOOL } });
    let depends = [HOLD_TOOL, BREAK_TOOL, UNDO_TOOL].map(dependency);
    json!({
        "name": SAGA, "version": VERSION, "description": "fails", "inputSchema": id_schema(),
        "depends": depends,
        "spec": { "saga": { "steps": [hold, fail] } },
    })
}

/// Arguments with the id of the call.
fn id_schema() -> Value {
    json!({ "type": "object", "properties": { "id": { "type": "string" } } })
}
