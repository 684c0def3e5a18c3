//! The registered tools and the policy of a history with approvals, and the arguments of calls.

use registry_core::{Kind, rules::Proposed};
use serde_json::{Value, json};

use crate::fleet::{VERSION, agents, bank, register};

/// A tool that answers.
pub(super) const PAY_TOOL: &str = "pay";
/// A tool that mostly asks for input first.
pub(super) const ASK_TOOL: &str = "ask";
pub(super) const TOOLS: [&str; 2] = [PAY_TOOL, ASK_TOOL];

/// The server, its tools, the agents, and a policy that demands approvals of all calls.
pub(super) fn entities() -> Vec<Proposed> {
    let properties = json!({ "id": { "type": "string" }, "amount": { "type": "integer" } });
    let mut entities = bank(&TOOLS, &json!({ "type": "object", "properties": properties }));
    entities.extend(agents(&TOOLS));
    let policy = json!({ "name": "people", "version": VERSION,
        "appliesTo": { "tools": TOOLS }, "approval": { "approvers": ["role:approver"] } });
    entities.push(register(Kind::Policy, &policy));
    entities
}

/// The arguments of an order, which one agent calls one tool with.
pub(super) fn order(agent: &str, tool: &str, number: u64) -> Value {
    json!({ "id": format!("{agent}-{tool}-{number}"), "amount": number })
}

/// Whether the arguments are those of an order of the agent.
pub(super) fn is_own_order(agent: &str, arguments: &Value) -> bool {
    let owner = arguments["id"].as_str().and_then(|id| id.split('-').next());
    owner == Some(agent)
}
