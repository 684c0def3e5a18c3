//! Prices and budgets at registration.

use acceptance::Registry;
use serde_json::{Value, json};

use super::{agent, applied, apply, bank, example_policy, findings, limit};

const EXAMPLE: &str = "examples/policies/seed-004.yaml";

fn budget(members: &Value) -> Value {
    let mut budget = json!({ "name": "b", "per": "agent", "limit": "10", "window": "month" });
    let members = members.as_object().expect("an object").clone();
    budget.as_object_mut().expect("an object").extend(members);
    budget
}

/// A policy with a price and one budget.
fn limited(version: &str, members: &Value) -> Value {
    let price = json!({ "perCall": "0.015" });
    limit(version, &json!({ "price": price, "budgets": [budget(members)] }))
}

#[test]
fn seed_004_example_is_valid_and_applied() {
    let document = example_policy(EXAMPLE, "policy/seed-004");
    assert_eq!(document["price"], json!({ "perCall": "0.015" }));
    let expected = json!([{
        "name": "agent-total", "per": "agent", "limit": "10", "window": "total",
        "unpriced": "deny", "alertAt": [0.5, 0.8, 1],
    }]);
    assert_eq!(document["budgets"], expected);
}

#[test]
fn invalid_amounts_and_windows_are_rejected() {
    let registry = Registry::start();
    let priced = |amount: Value| limit("1.0.0", &json!({ "price": { "perCall": amount } }));
    let budgeted = |members: Value| limited("1.0.0", &members);
    for (file, pointer) in [
        (priced(json!("-0.015")), "/policies/0/price/perCall"),
        (priced(json!("0.01500000000000000000")), "/policies/0/price/perCall"),
        (priced(json!("NaN")), "/policies/0/price/perCall"),
        (priced(json!(0.015)), "/policies/0/price/perCall"),
        (budgeted(json!({ "limit": "9223372036854.775808" })), "/policies/0/budgets/0/limit"),
        (budgeted(json!({ "window": "fortnight" })), "/policies/0/budgets/0/window"),
        (budgeted(json!({ "timeZone": "Mars/Olympus" })), "/policies/0/budgets/0/timeZone"),
    ] {
        let output = apply(&registry, &file, &[]);
        assert_eq!(output.code, 1, "{output:?}");
        let expected = ("document-invalid".to_owned(), pointer.to_owned());
        assert_eq!(findings(&output), [expected]);
    }
}

#[test]
fn budget_keeps_its_definition_in_new_versions() {
    let registry = Registry::start();
    applied(&registry, &bank());
    applied(&registry, &limited("1.0.0", &json!({})));
    let week = json!({ "window": "week" });
    let output = apply(&registry, &limited("1.1.0", &week), &[]);
    assert_eq!(output.code, 1, "{output:?}");
    let expected = ("budget-redefined".to_owned(), "/policies/0/budgets/0/window".to_owned());
    assert_eq!(findings(&output), [expected]);
    applied(&registry, &limited("1.1.0", &json!({ "limit": "20" })));
    applied(&registry, &limited("1.2.0", &json!({ "name": "weekly", "window": "week" })));
}

#[test]
fn price_for_some_callers_is_named_in_warning() {
    let registry = Registry::start();
    applied(&registry, &bank());
    let members = json!({ "appliesTo": { "callers": ["clerk"], "tools": ["pay"] },
        "price": { "perCall": "1" } });
    let mut price = limit("1.0.0", &members);
    price["policies"][0]["name"] = "fees".into();
    price["agents"] = json!([agent("clerk", &[("pay", "1.0.0")])]);
    applied(&registry, &price);
    let budgets = [budget(&json!({ "unpriced": "deny" }))];
    let limited = json!({ "appliesTo": { "tools": ["pay"] }, "budgets": budgets });
    let output = apply(&registry, &limit("1.0.0", &limited), &[]);
    assert!(output.success(), "{output:?}");
    let found = output.json()["diagnostics"].clone();
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{found}");
    insta::assert_snapshot!(
        found[0]["message"].as_str().expect("a message"),
        @"the budget `b` selects tool/pay@1.0.0 with a price for some callers only; calls of other callers are denied"
    );
}

#[test]
fn doubtful_prices_and_budgets_are_warnings() {
    let registry = Registry::start();
    applied(&registry, &bank());
    let unpriced = limit("1.0.0", &json!({ "budgets": [budget(&json!({ "alertAt": [1.5] }))] }));
    let output = apply(&registry, &unpriced, &[]);
    assert!(output.success(), "{output:?}");
    let finding = |code: &str, pointer: &str| (code.to_owned(), pointer.to_owned());
    let expected = [
        finding("budget-alert-above-limit", "/policies/0/budgets/0/alertAt"),
        finding("budget-unpriced", "/policies/0/budgets/0"),
    ];
    assert_eq!(findings(&output), expected);
    let price = |name: &str| {
        let mut file = limit("1.0.0", &json!({ "price": { "perCall": "1" } }));
        file["policies"][0]["name"] = name.into();
        file
    };
    assert!(findings(&apply(&registry, &price("fees"), &[])).is_empty());
    let expected = [finding("price-overlap", "/policies/0/price")];
    assert_eq!(findings(&apply(&registry, &price("more"), &[])), expected);
}
