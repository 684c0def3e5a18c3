//! The table of charges.

use gateway_protocol::mcp::Era;
use registry_core::{Document, Entity, Kind};
use serde_json::{json, value::to_raw_value};

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
fn price(price: Value) -> Price {
    let document = json!({ "name": "p", "version": "1.0.0", "price": price });
    let document = Document::parse(Kind::Policy, &document).unwrap();
    let Entity::Policy(policy) = document.entity() else { panic!("{document:?}") };
    policy.price.clone().unwrap()
}

fn result(content: &Value, result_type: ResultType, is_error: bool) -> RawResult {
    let result = to_raw_value(content).unwrap();
    RawResult { result, is_error, result_type, has_meta: true, era: Era::Modern }
}

/// The charges for a complete result, an error result, an error response, an unknown outcome, a
/// round of input, a task, and a call that was not sent.
fn charges(price: &Price) -> [String; 7] {
    let content = json!({ "_meta": { "cost": "0.2" } });
    let complete = result(&content, ResultType::Complete, false);
    let failed = result(&content, ResultType::Absent, true);
    let asks = result(&content, ResultType::InputRequired, false);
    let task = result(&content, ResultType::Task, false);
    [
        Outcome::Result(&complete),
        Outcome::Result(&failed),
        Outcome::Failed,
        Outcome::Sent,
        Outcome::Result(&asks),
        Outcome::Result(&task),
        Outcome::NotSent,
    ]
    .map(|outcome| charge(price, outcome).to_string())
}

#[test]
fn fixed_price_is_charged_by_outcome() {
    let charged = charges(&price(json!({ "perCall": "0.015" })));
    assert_eq!(charged, ["0.015", "0.015", "0.015", "0.015", "0", "0.015", "0"]);
    let free = json!({ "perCall": "0.015", "failures": "free", "perRound": "0.001" });
    assert_eq!(
        charges(&price(free)),
        ["0.015", "0", "0", "0.015", "0.001", "0.015", "0"],
        "unknown outcomes are never free"
    );
}

#[test]
fn reported_price_replaces_reservation() {
    let reported = json!({ "reportedBy": "_meta.cost", "maximum": "0.5", "perCall": "0.1" });
    let charged = charges(&price(reported));
    assert_eq!(charged, ["0.2", "0.2", "0.1", "0.5", "0", "0.5", "0"]);
}

#[test]
fn unusable_report_costs_default() {
    let reported = |more: Value| {
        let mut members = json!({ "reportedBy": "_meta.cost", "maximum": "0.5" });
        members.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        price(members)
    };
    let (maximum, default) = (reported(json!({})), reported(json!({ "perCall": "0.1" })));
    for cost in [json!("-0.1"), json!(-1), json!("NaN"), json!(1e-7), json!("0.0000001"), json!([])]
    {
        let found = result(&json!({ "_meta": { "cost": cost } }), ResultType::Complete, false);
        assert_eq!(charge(&maximum, Outcome::Result(&found)).to_string(), "0.5", "{cost}");
        assert_eq!(charge(&default, Outcome::Result(&found)).to_string(), "0.1", "{cost}");
    }
    for (cost, charged) in [(json!(0.25), "0.25"), (json!(0), "0"), (json!("7"), "0.5")] {
        let found = result(&json!({ "_meta": { "cost": cost } }), ResultType::Complete, false);
        assert_eq!(charge(&default, Outcome::Result(&found)).to_string(), charged, "{cost}");
    }
}
