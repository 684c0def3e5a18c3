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
        "rates": [{ "per": ["agent", "tool"], "limit": 100, "window": "PT1M", "burst": 20 }],
        "limits": { "trace": { "calls": 200, "hops": 8 } },
        "maxStaleness": "PT1H",
    });
    let entity = Entity::parse(Kind::Policy, &document).unwrap();
    assert_eq!(entity.to_value(), document);
}

#[test]
fn defaults_are_omitted_from_canonical_form() {
    let written = json!({ "name": "p", "version": "1.0.0", "mode": "enforce", "default": "allow",
        "appliesTo": {}, "rates": [] });
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
        (json!({ "maxStaleness": "PT24S" }), "/maxStaleness"),
        (json!({ "rates": [{ "window": "PT1M" }] }), "/rates/0"),
        (json!({ "rates": [{ "limit": -1, "window": "PT1M" }] }), "/rates/0/limit"),
        (json!({ "rates": [{ "limit": 1, "window": "P1M" }] }), "/rates/0/window"),
        (
            json!({ "rates": [{ "limit": 1, "window": "PT1S", "reach": "fleet" }] }),
            "/rates/0/reach",
        ),
        (json!({ "rates": [{ "limit": 1, "window": "PT1S", "per": ["team"] }] }), "/rates/0/per/0"),
        (json!({ "limits": { "trace": { "hops": 1.5 } } }), "/limits/trace/hops"),
        (json!({ "appliesTo": { "tools": [] } }), "/appliesTo"),
        (json!({ "appliesTo": { "callers": [] } }), "/appliesTo/callers"),
        (json!({ "appliesTo": { "callers": ["tag:"] } }), "/appliesTo/callers/0"),
        (json!({ "appliesTo": { "tools": ["a b"] } }), "/appliesTo/tools/0"),
        (json!({ "appliesTo": { "tools": vec!["a"; 100_000] } }), "/appliesTo/tools"),
        (json!({ "budgets": [] }), "/budgets"),
    ] {
        let found = parse(&members).unwrap_err();
        assert_eq!(found.first().map(String::as_str), Some(pointer), "{members}");
    }
}

#[test]
fn shortest_staleness_is_accepted() {
    let policy = parse(&json!({ "maxStaleness": "PT25S" })).unwrap();
    assert_eq!(policy.max_staleness, Some(Duration::from_secs(25)));
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
