//! Registrations in both forms.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(params: &Value) -> Result<Registration, Failure> {
    let text = params.to_string();
    let raw: &RawValue = serde_json::from_str(&text).unwrap();
    Registration::read(Some(raw))
}

/// The pointer of the error.
fn pointer(params: &Value) -> String {
    let failure = read(params).unwrap_err();
    assert_eq!(failure.reason, "INVALID_PARAMS", "{failure:?}");
    failure.data["pointer"].as_str().unwrap().to_owned()
}

fn flat() -> Value {
    json!({ "agent_id": "a", "tools": ["f"], "schema": { "f": { "input": { "x": "string" } } } })
}

fn with(name: &str, value: Value) -> Value {
    let mut params = flat();
    params[name] = value;
    params
}

#[test]
fn forms_are_equal() {
    let capabilities = json!({
        "tools": ["f"], "resources": ["r"], "constraints": { "timeout": 0.5, "region": "eu" },
        "schema": { "f": { "input": {}, "output": { "y": "list[float]" }, "description": "d" } },
    });
    let mut flat = capabilities.clone();
    flat["agent_id"] = json!("a");
    let nested = json!({ "agent_id": "a", "capabilities": capabilities });
    let registration = read(&flat).unwrap();
    assert_eq!(registration, read(&nested).unwrap());
    assert_eq!(registration.heartbeat_interval, HEARTBEAT);
    assert_eq!(registration.constraints.timeout, Some(Duration::from_millis(500)));
    assert_eq!(registration.constraints.sent["region"], "eu");
    assert_eq!(registration.functions[0].tool.as_str(), "a.f");
    assert_eq!(registration.functions[0].description.as_deref(), Some("d"));
}

#[test]
fn constraints_may_stand_beside_capabilities() {
    let mut params = json!({ "agent_id": "a", "constraints": { "memory": "1MB" } });
    params["capabilities"] = json!({ "tools": ["f"], "schema": { "f": { "input": {} } } });
    assert_eq!(read(&params).unwrap().constraints.memory_bytes, Some(1_000_000));
    params["capabilities"]["constraints"] = json!({});
    assert_eq!(pointer(&params), "/constraints");
}

#[test]
fn invalid_members_are_rejected_with_pointer() {
    for (name, value, expected) in [
        ("agent_id", json!(null), "/agent_id"),
        ("agent_id", json!("a.b"), "/agent_id"),
        ("agent_id", json!("acme/a"), "/agent_id"),
        ("agent_id", json!("a".repeat(65)), "/agent_id"),
        ("agent_id", json!("größe"), "/agent_id"),
        ("tools", json!([]), "/tools"),
        ("tools", json!("f"), "/tools"),
        ("tools", json!([1]), "/tools"),
        ("tools", json!(["f", "f"]), "/tools"),
        ("tools", json!(["g"]), "/schema/f"),
        ("tools", json!(["f", "g"]), "/schema/g"),
        ("tools", json!(["f", "g h"]), "/schema/g h"),
        ("tools", json!(vec!["f"; 1_001]), "/tools"),
        ("schema", json!(null), "/schema"),
        ("schema", json!({ "f": "string" }), "/schema/f"),
        ("schema", json!({ "f": {} }), "/schema/f/input"),
        ("schema", json!({ "f": { "input": "string" } }), "/schema/f/input"),
        ("schema", json!({ "f": { "input": {}, "output": "list[float]" } }), "/schema/f/output"),
        ("schema", json!({ "f": { "input": { "x": { "y": "int" } } } }), "/schema/f/input/x/y"),
        ("schema", json!({ "f": { "input": {}, "returns": {} } }), "/schema/f/returns"),
        ("resources", json!("r"), "/resources"),
        ("resources", json!(["\n"]), "/resources"),
        ("constraints", json!([]), "/constraints"),
        ("constraints", json!({ "timeout": 0 }), "/constraints/timeout"),
        ("constraints", json!({ "memory": "much" }), "/constraints/memory"),
        ("constraints", json!({ "x": "a".repeat(9_000) }), "/constraints"),
        ("heartbeat_interval", json!(0.5), "/heartbeat_interval"),
        ("heartbeat_interval", json!("60"), "/heartbeat_interval"),
        ("endpoint", json!("a\u{0}"), "/endpoint"),
        ("description", json!("a".repeat(9_000)), "/description"),
        ("capabilities", json!([]), "/capabilities"),
        ("capabilities", json!({ "tools": ["f"] }), "/tools"),
        ("capabilities", json!({ "x": 1 }), "/capabilities/x"),
        ("owner", json!("me"), "/owner"),
    ] {
        assert_eq!(pointer(&with(name, value.clone())), expected, "{name}: {value}");
    }
    assert!(read(&flat()).is_ok());
}

#[test]
fn tool_names_are_at_most_128_characters() {
    let params = |function: &str| json!({ "agent_id": "a", "tools": [function], "schema": { function: { "input": {} } } });
    assert!(read(&params(&"f".repeat(126))).is_ok());
    assert!(read(&params(&"f".repeat(127))).is_err());
}

#[test]
fn repeated_members_are_rejected() {
    for params in [
        r#"{"agent_id":"a","agent_id":"b","tools":["f"],"schema":{"f":{"input":{}}}}"#,
        r#"{"agent_id":"a","tools":["f"],"schema":{"f":{"input":{}},"f":{"input":{}}}}"#,
        r#"{"agent_id":"a","tools":["f"],"schema":{"f":{"input":{"x":"string","x":"float"}}}}"#,
        r#"{"agent_id":"a","tools":["f"],"schema":{"f":{"input":{}}},"constraints":{"x":1,"x":2}}"#,
    ] {
        let raw: &RawValue = serde_json::from_str(params).unwrap();
        assert!(Registration::read(Some(raw)).is_err(), "{params}");
    }
}

proptest! {
    #[test]
    fn tool_name_has_one_agent(agent in "[A-Za-z0-9_.-]{1,12}", function in "[A-Za-z0-9_.-]{1,12}") {
        let Some(id) = AgentId::parse(&agent) else {
            prop_assert!(agent.contains('.'));
            return Ok(());
        };
        let params = json!({ "agent_id": agent, "tools": [function], "schema": { function.as_str(): { "input": {} } } });
        let registration = read(&params).unwrap();
        let tool = registration.functions[0].tool.as_str();
        prop_assert_eq!(tool.split_once('.'), Some((id.as_str(), function.as_str())));
    }
}
