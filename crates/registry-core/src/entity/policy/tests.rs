//! Tests of reading policies.

use serde_json::{Value, json};

use super::*;
use crate::Entity;

fn parse(members: &Value) -> Result<Policy, Vec<String>> {
    let mut document = json!({ "name": "p", "version": "1.0.0" });
    document.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    match Entity::parse(Kind::Policy, &document) {
        Ok(Entity::Policy(policy)) => Ok(*policy),
        Ok(other) => panic!("{other:?}"),
        Err(found) => Err(found.iter().map(|d| d.pointer.clone()).collect()),
    }
}

#[test]
fn policy_keeps_its_canonical_form() {
    let document = json!({
        "name": "payments", "version": "1.0.0", "description": "Limits payments.",
        "appliesTo": {
            "callers": ["research-agent", "team/*", "tag:prod"], "tools": ["payment_*"],
            "destructive": true,
        },
        "mode": "audit", "default": "deny",
        "authorization": { "cedar": "permit (principal, action, resource);" },
        "price": {
            "reportedBy": "_meta.cost", "maximum": "0.5", "perCall": "0.015",
            "failures": "free", "perRound": "0.001",
        },
        "budgets": [
            { "name": "agent-total", "per": "agent", "limit": "10", "window": "total",
              "onUnavailable": { "allow": "0.5" }, "alertAt": [0.5, 0.8, 1] },
            { "name": "team-month", "per": "team", "limit": "500", "window": "month",
              "timeZone": "Europe/Berlin", "unpriced": "deny" },
            { "name": "fleet-sprint", "per": "fleet", "limit": "0", "window": "P14D",
              "anchor": "2026-01-05T00:00:00.000Z" },
        ],
        "rates": [{ "per": ["agent", "tool"], "limit": 100, "window": "PT1M", "burst": 20,
            "reach": "fleet" }],
        "limits": { "trace": { "calls": 200, "hops": 8, "cost": "5" } },
        "inspection": {
            "arguments": { "credential": "block", "contact": "log" },
            "results": {
                "credential": "redact", "governmentId": "redact", "contact": "tokenize",
                "network": "log",
            },
            "except": [{ "tool": "payment_charge", "pointer": "/card/number" }],
            "restoreFor": ["mail_*"],
            "binary": "block",
        },
        "maxStaleness": "PT1H",
    });
    let entity = Entity::parse(Kind::Policy, &document).unwrap();
    assert_eq!(entity.to_value(), document);
}

#[test]
fn defaults_are_omitted_from_canonical_form() {
    let written = json!({ "name": "p", "version": "1.0.0", "mode": "enforce", "default": "allow",
        "appliesTo": {}, "rates": [], "budgets": [] });
    let entity = Entity::parse(Kind::Policy, &written).unwrap();
    assert_eq!(entity.to_value(), json!({ "name": "p", "version": "1.0.0" }));
}

#[test]
fn invalid_members_are_reported_at_their_pointer() {
    for (members, pointer) in [
        (json!({ "mode": "warn" }), "/mode"),
        (json!({ "default": true }), "/default"),
        (json!({ "authorization": {} }), "/authorization"),
        (json!({ "authorization": { "cedar": 7 } }), "/authorization/cedar"),
        (json!({ "authorization": { "cedar": "x".repeat(65_537) } }), "/authorization/cedar"),
        (json!({ "maxStaleness": "1h" }), "/maxStaleness"),
        (json!({ "maxStaleness": "PT0S" }), "/maxStaleness"),
        (json!({ "rates": [{ "window": "PT1M" }] }), "/rates/0"),
        (json!({ "rates": [{ "limit": -1, "window": "PT1M" }] }), "/rates/0/limit"),
        (json!({ "rates": [{ "limit": 1, "window": "P1M" }] }), "/rates/0/window"),
        (
            json!({ "rates": [{ "limit": 1, "window": "PT1S", "reach": "region" }] }),
            "/rates/0/reach",
        ),
        (json!({ "rates": [{ "limit": 1, "window": "PT1S", "per": ["team"] }] }), "/rates/0/per/0"),
        (json!({ "limits": { "trace": { "hops": 1.5 } } }), "/limits/trace/hops"),
        (json!({ "limits": { "trace": { "cost": 5 } } }), "/limits/trace/cost"),
        (json!({ "appliesTo": { "tools": [] } }), "/appliesTo"),
        (json!({ "appliesTo": { "callers": [] } }), "/appliesTo/callers"),
        (json!({ "appliesTo": { "callers": ["tag:"] } }), "/appliesTo/callers/0"),
        (json!({ "appliesTo": { "tools": ["a b"] } }), "/appliesTo/tools/0"),
        (json!({ "appliesTo": { "tools": vec!["a"; 100_000] } }), "/appliesTo/tools"),
        (json!({ "quotas": [] }), "/quotas"),
        (json!({ "approval": { "quorum": 0 } }), "/approval/quorum"),
    ] {
        let found = parse(&members).unwrap_err();
        assert_eq!(found.first().map(String::as_str), Some(pointer), "{members}");
    }
}

#[test]
fn defaults_of_budgets_are_omitted() {
    let written = json!({
        "price": { "perCall": "0.0150", "failures": "charged" },
        "budgets": [
            { "name": "a", "per": "tool", "limit": "10.00", "window": "day", "timeZone": "UTC",
              "unpriced": "allow", "onUnavailable": "deny", "alertAt": [] },
            { "name": "b", "per": "principal", "limit": "1", "window": "hour",
              "anchor": "1970-01-01T00:00:00Z" },
        ],
        "rates": [{ "limit": 1, "window": "PT1S", "reach": "gateway" }],
    });
    let policy = Entity::Policy(Box::new(parse(&written).unwrap()));
    let expected = json!({
        "name": "p", "version": "1.0.0",
        "price": { "perCall": "0.015" },
        "budgets": [
            { "name": "a", "per": "tool", "limit": "10", "window": "day" },
            { "name": "b", "per": "principal", "limit": "1", "window": "PT1H" },
        ],
        "rates": [{ "limit": 1, "window": "PT1S" }],
    });
    assert_eq!(policy.to_value(), expected);
}

#[test]
fn invalid_prices_are_reported_at_their_pointer() {
    for (price, pointer) in [
        (json!({}), "/price"),
        (json!({ "perCall": 0.015 }), "/price/perCall"),
        (json!({ "perCall": "-0.015" }), "/price/perCall"),
        (json!({ "perCall": "NaN" }), "/price/perCall"),
        (json!({ "perCall": "0.01500000000000000000" }), "/price/perCall"),
        (json!({ "perCall": "9223372036854.775808" }), "/price/perCall"),
        (json!({ "perCall": "1", "maximum": "2" }), "/price/maximum"),
        (json!({ "perCall": "1", "perRound": "1.000001" }), "/price/perRound"),
        (json!({ "perCall": "1", "failures": "never" }), "/price/failures"),
        (json!({ "perCall": "1", "currency": "USD" }), "/price/currency"),
        (json!({ "reportedBy": "_meta.cost" }), "/price"),
        (json!({ "reportedBy": "_meta..cost", "maximum": "1" }), "/price/reportedBy"),
        (json!({ "reportedBy": "cost", "maximum": "1", "perCall": "1.000001" }), "/price/perCall"),
    ] {
        let found = parse(&json!({ "price": price })).unwrap_err();
        assert_eq!(found, [pointer], "{price}");
    }
}

#[test]
fn call_reserves_its_maximum_price() {
    let reserved = |price: Value| {
        let policy = parse(&json!({ "price": price })).unwrap();
        policy.price.unwrap().reserved().to_string()
    };
    assert_eq!(reserved(json!({ "perCall": "0.015" })), "0.015");
    let reported = json!({ "perCall": "0.015", "reportedBy": "_meta.cost", "maximum": "0.50" });
    assert_eq!(reserved(reported), "0.5");
    assert_eq!(reserved(json!({ "perCall": "9223372036854.775807" })), "9223372036854.775807");
}

/// A valid budget with these members replaced. `null` removes a member.
fn budget(members: &Value) -> Value {
    let mut budget = json!({ "name": "b", "per": "agent", "limit": "10", "window": "month" });
    budget.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    budget
}

#[test]
fn invalid_budgets_are_reported_at_their_pointer() {
    for (members, pointer) in [
        (json!({ "name": null }), "/budgets/0"),
        (json!({ "name": "team month" }), "/budgets/0/name"),
        (json!({ "per": null }), "/budgets/0"),
        (json!({ "per": "caller" }), "/budgets/0/per"),
        (json!({ "limit": null }), "/budgets/0"),
        (json!({ "limit": 10 }), "/budgets/0/limit"),
        (json!({ "limit": "-1" }), "/budgets/0/limit"),
        (json!({ "limit": "1e3" }), "/budgets/0/limit"),
        (json!({ "window": null }), "/budgets/0"),
        (json!({ "window": "fortnight" }), "/budgets/0/window"),
        (json!({ "window": "P1M" }), "/budgets/0/window"),
        (json!({ "window": "PT0S" }), "/budgets/0/window"),
        (json!({ "timeZone": "Mars/Olympus" }), "/budgets/0/timeZone"),
        (json!({ "timeZone": "europe/berlin" }), "/budgets/0/timeZone"),
        (json!({ "timeZone": "Etc/Unknown" }), "/budgets/0/timeZone"),
        (json!({ "timeZone": "UTC", "window": "total" }), "/budgets/0/timeZone"),
        (json!({ "timeZone": "UTC", "window": "P14D" }), "/budgets/0/timeZone"),
        (json!({ "anchor": "2026-01-01T00:00:00Z" }), "/budgets/0/anchor"),
        (json!({ "anchor": "2026-01-01", "window": "P14D" }), "/budgets/0/anchor"),
        (json!({ "unpriced": "ignore" }), "/budgets/0/unpriced"),
        (json!({ "onUnavailable": "allow" }), "/budgets/0/onUnavailable"),
        (json!({ "onUnavailable": {} }), "/budgets/0/onUnavailable"),
        (json!({ "onUnavailable": { "allow": "-1" } }), "/budgets/0/onUnavailable/allow"),
        (json!({ "alertAt": 0.5 }), "/budgets/0/alertAt"),
        (json!({ "alertAt": ["0.5"] }), "/budgets/0/alertAt/0"),
        (json!({ "alertAt": [0.5, 0] }), "/budgets/0/alertAt/1"),
        (json!({ "alertAt": [-0.5] }), "/budgets/0/alertAt/0"),
        (json!({ "alertAt": [0.00001] }), "/budgets/0/alertAt/0"),
        (json!({ "alertAt": [1000.1] }), "/budgets/0/alertAt/0"),
        (json!({ "alertAt": vec![0.5; 17] }), "/budgets/0/alertAt"),
        (json!({ "currency": "USD" }), "/budgets/0/currency"),
    ] {
        let found = parse(&json!({ "budgets": [budget(&members)] })).unwrap_err();
        assert_eq!(found, [pointer], "{members}");
    }
}

#[test]
fn budget_names_are_unique_in_a_policy() {
    let other = budget(&json!({ "name": "other" }));
    let found = parse(&json!({ "budgets": [budget(&json!({})), other, budget(&json!({}))] }));
    assert_eq!(found.unwrap_err(), ["/budgets/2/name"]);
}

#[test]
fn policy_has_at_most_100_budgets() {
    let budgets = |count: usize| {
        let named = |i: usize| budget(&json!({ "name": i.to_string() }));
        parse(&json!({ "budgets": (0..count).map(named).collect::<Vec<_>>() }))
    };
    assert_eq!(budgets(100).unwrap().budgets.len(), 100);
    assert_eq!(budgets(101).unwrap_err(), ["/budgets"]);
}

#[test]
fn alert_thresholds_are_sorted_and_unique() {
    let alerts = budget(&json!({ "alertAt": [1.0, 0.8, 0.5, 0.8, 0.0001, 1000] }));
    let policy = parse(&json!({ "budgets": [alerts] })).unwrap();
    let thresholds = policy.budgets[0].alert_at.iter().map(|at| at.ten_thousandths());
    assert_eq!(thresholds.collect::<Vec<_>>(), [1, 5_000, 8_000, 10_000, 10_000_000]);
}

#[test]
fn defaults_of_inspection_are_omitted() {
    let written = json!({ "inspection": {
        "arguments": { "financial": "block", "network": null }, "results": {}, "except": [],
        "restoreFor": [], "binary": "allow",
    } });
    let policy = Entity::Policy(Box::new(parse(&written).unwrap()));
    let expected = json!({
        "name": "p", "version": "1.0.0", "inspection": { "arguments": { "financial": "block" } },
    });
    assert_eq!(policy.to_value(), expected);
}

#[test]
fn invalid_inspection_is_reported_at_its_pointer() {
    for (inspection, pointer) in [
        (json!([]), "/inspection"),
        (json!({}), "/inspection"),
        (json!({ "results": { "contact": null }, "binary": "allow" }), "/inspection"),
        (json!({ "profile": "lax" }), "/inspection/profile"),
        (json!({ "profile": "strict", "results": {} }), "/inspection/results"),
        (json!({ "arguments": "block" }), "/inspection/arguments"),
        (json!({ "arguments": { "credentials": "block" } }), "/inspection/arguments/credentials"),
        (json!({ "arguments": { "contact": "redact" } }), "/inspection/arguments/contact"),
        (json!({ "arguments": { "contact": "tokenize" } }), "/inspection/arguments/contact"),
        (json!({ "results": { "contact": "mask" } }), "/inspection/results/contact"),
        (json!({ "results": { "a/b": "log" } }), "/inspection/results/a~1b"),
        (json!({ "binary": "block", "restoreFor": ["a b"] }), "/inspection/restoreFor/0"),
        (json!({ "binary": "drop" }), "/inspection/binary"),
        (json!({ "binary": "block", "exempt": [] }), "/inspection/exempt"),
    ] {
        let found = parse(&json!({ "inspection": inspection })).unwrap_err();
        assert_eq!(found.first().map(String::as_str), Some(pointer), "{inspection}");
    }
}

#[test]
fn invalid_exception_is_reported_at_its_pointer() {
    for (exception, pointer) in [
        (json!({ "tool": "pay" }), "/inspection/except/0"),
        (json!({ "pointer": "/card" }), "/inspection/except/0"),
        (json!({ "tool": "", "pointer": "/card" }), "/inspection/except/0/tool"),
        (json!({ "tool": "pay", "pointer": "card" }), "/inspection/except/0/pointer"),
        (json!({ "tool": "pay", "pointer": "" }), "/inspection/except/0/pointer"),
        (json!({ "tool": "pay", "pointer": "/a~2" }), "/inspection/except/0/pointer"),
    ] {
        let inspection = json!({ "arguments": { "contact": "log" }, "except": [exception] });
        let found = parse(&json!({ "inspection": inspection })).unwrap_err();
        assert_eq!(found, [pointer], "{exception}");
    }
}

#[test]
fn misspelled_class_gets_the_closest_name() {
    let document = json!({ "name": "p", "version": "1.0.0",
        "inspection": { "results": { "credentials": "block" } } });
    let found = Entity::parse(Kind::Policy, &document).unwrap_err();
    assert!(found[0].help.as_ref().unwrap().contains("`credential`"), "{found:?}");
}

#[test]
fn strict_profile_blocks_all_classes() {
    let policy = parse(&json!({ "inspection": { "profile": "strict" } })).unwrap();
    let inspection = policy.inspection.unwrap();
    for class in DataClass::ALL {
        assert_eq!(inspection.of_arguments(class), Some(InspectionAction::Block));
        assert_eq!(inspection.of_results(class), Some(InspectionAction::Block));
    }
}

#[test]
fn exception_covers_values_below_its_pointer() {
    let exception = InspectionException {
        tool: Pattern::read(&Problems::default(), &json!("pay_*"), Location::ROOT).unwrap(),
        pointer: "/card".into(),
    };
    let names = |name: &str| [name.to_owned(), "upstream".to_owned()];
    for (tool, pointer, is_covered) in [
        ("pay_now", "/card", true),
        ("pay_now", "/card/number", true),
        ("pay_now", "/cards", false),
        ("pay_now", "", false),
        ("refund", "/card", false),
    ] {
        assert_eq!(exception.covers(&names(tool), pointer), is_covered, "{tool} {pointer}");
    }
}

#[test]
fn stored_staleness_below_the_minimum_is_read() {
    let policy = parse(&json!({ "maxStaleness": "PT1S" })).unwrap();
    assert_eq!(policy.max_staleness, Some(Duration::from_secs(1)));
}

#[test]
fn invalid_selector_list_is_reported_once() {
    for (list, pointer) in
        [(json!(vec!["a"; 100_000]), ""), (json!(["a b"]), "/0"), (json!("a"), "")]
    {
        for name in ["callers", "tools"] {
            let found = parse(&json!({ "appliesTo": { name: list } })).unwrap_err();
            assert_eq!(found, [format!("/appliesTo/{name}{pointer}")]);
        }
    }
}

#[test]
fn empty_list_beside_another_selects_nothing_of_its_kind() {
    let policy = parse(&json!({ "appliesTo": { "tools": ["a"], "skills": [] } })).unwrap();
    assert!(policy.applies_to.names_resources());
}

#[test]
fn approval_has_defaults() {
    assert!(parse(&json!({ "approval": {} })).is_ok());
    assert!(parse(&json!({ "approval": null })).is_ok());
}
