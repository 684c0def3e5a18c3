//! `tools/list` through the endpoint.

use std::sync::Arc;

use registry_core::{Catalog, RegistryId};
use serde_json::{Value, json};

use super::harness::{Ask, Bench, Setup};
use crate::testing::{agent, tool};

fn names(result: &Value) -> Vec<&str> {
    result["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// The upstream's definition of the tool, in its own member order.
const LIVE: &str = r#"{"name":"t","title":"Live","description":"live","inputSchema":{"type":"object",
    "properties":{"b":{},"a":{},"secret":{}},"required":["secret"]},
    "outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},
    "icons":[{"src":"https://example.com/i.png"}],
    "execution":{"taskSupport":"forbidden"},
    "_meta":{"z.example/x":1,"a":2,"registry/version":"9","io.modelcontextprotocol/x":3}}"#;

#[tokio::test]
async fn unregistered_members_come_from_upstream() {
    let live: Value = serde_json::from_str(LIVE).unwrap();
    let alias = |name: &str, more: Value| {
        let mut document = json!({ "source": { "tool": "t" } });
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tool(name, "1.0.0", document)
    };
    let entities = vec![
        alias("plain", json!({})),
        alias(
            "own",
            json!({ "title": "Own", "annotations": {}, "inputSchema": { "type": "object" } }),
        ),
        tool("hides", "1.0.0", json!({ "source": { "tool": "t", "hideFields": ["secret"] } })),
        alias(
            "other",
            json!({ "source": { "server": "up", "serverVersion": "1.0.0", "tool": "unlisted" } }),
        ),
    ];
    let bench =
        Bench::start(Setup { lists: format!("[{LIVE}]"), ..Setup::default() }, entities).await;
    let got = bench.modern("", "tools/list", json!({})).await;
    let tools = got.result()["tools"].clone();
    let by_name = |name: &str| {
        tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap().clone()
    };
    let plain = by_name("plain");
    for (member, value) in live.as_object().unwrap() {
        if !matches!(&**member, "name" | "_meta") {
            assert_eq!(plain[member], *value, "{member}");
        }
    }
    let meta = json!({ "z.example/x": 1, "a": 2, "registry/version": "1.0.0" });
    assert_eq!(plain["_meta"], meta, "reserved keys are the gateway's own");
    let own = by_name("own");
    assert_eq!((&own["title"], &own["description"]), (&json!("Own"), &json!("live")));
    assert_eq!(
        (&own["annotations"], &own["inputSchema"]),
        (&json!({}), &json!({ "type": "object" }))
    );
    let hidden = json!({ "type": "object", "properties": { "a": {}, "b": {} } });
    assert_eq!(by_name("hides")["inputSchema"], hidden);
    for kept in [
        r#"{"b":{},"a":{},"secret":{}}"#,
        r#""properties":{"b":{},"a":{}}"#,
        r#""_meta":{"z.example/x":1,"a":2,"registry/version":"1.0.0"}"#,
    ] {
        assert!(got.text.contains(kept), "the upstream's order is kept: {}", got.text);
    }
    assert_eq!(by_name("other")["inputSchema"], json!({ "type": "object" }));
}

#[tokio::test]
async fn agents_see_declared_tools_in_both_eras() {
    let entities = vec![
        tool("a", "1.0.0", json!({})),
        tool("a", "2.0.0", json!({})),
        tool("b", "1.0.0", json!({})),
        agent("one", "1.0.0", &[("a", "1.0.0")]),
        agent("two", "1.0.0", &[("b", "1.0.0")]),
    ];
    let bench = Bench::strict(entities).await;
    for (agent, expected) in [("one", vec!["a"]), ("two", vec!["b"]), ("nobody", vec!["a", "b"])] {
        let modern = bench.modern(agent, "tools/list", json!({})).await.result();
        assert_eq!(names(&modern), expected);
        assert_eq!((&modern["ttlMs"], &modern["cacheScope"]), (&json!(0), &json!("private")));
        let session = bench.initialize(agent).await;
        let legacy = bench.legacy(&session, agent, ("tools/list", json!({}))).await.result();
        assert_eq!(legacy["tools"], modern["tools"]);
        let members: Vec<_> = legacy.as_object().unwrap().keys().collect();
        assert_eq!(members, ["tools"], "nothing of the other era");
    }
    let one = bench.modern("one", "tools/list", json!({})).await.result();
    assert_eq!(one["tools"][0]["_meta"]["registry/version"], "1.0.0");
    let versioned = Ask::modern("tools/list", json!({})).by("one").with("x-agent-version", "9.0.0");
    let unknown = bench.got(versioned.build()).await.result();
    assert_eq!(names(&unknown), [""; 0], "an unknown version of an agent sees nothing");
}

#[tokio::test]
async fn missing_catalog_is_an_error() {
    let bench = Bench::strict(vec![tool("a", "1.0.0", json!({}))]).await;
    bench.publish.send_replace(Arc::new(Catalog::empty(RegistryId::new(""))));
    let session = bench.initialize("").await;
    let call = json!({ "name": "a", "arguments": {} });
    for got in [
        bench.modern("", "tools/list", json!({})).await,
        bench.call("", "a", json!({})).await,
        bench.legacy(&session, "", ("tools/list", json!({}))).await,
        bench.legacy(&session, "", ("tools/call", call)).await,
    ] {
        assert_eq!(got.error(), (200, -32603), "{got:?}");
        assert!(got.text.contains("catalog"), "{got:?}");
    }
    bench.publish(1, vec![]);
    let list = bench.modern("", "tools/list", json!({})).await.result();
    assert_eq!(list["tools"], json!([]), "an empty registry has none");
}

#[tokio::test]
async fn cursors_lead_through_all_pages() {
    let entities = (0..700).map(|i| tool(&format!("t{i:03}"), "1.0.0", json!({}))).collect();
    let bench = Bench::strict(entities).await;
    let first = bench.modern("", "tools/list", json!({})).await.result();
    let params = json!({ "cursor": first["nextCursor"] });
    let second = bench.modern("", "tools/list", params.clone()).await.result();
    assert_eq!((names(&first).len(), names(&second).len()), (500, 200));
    assert!(second.get("nextCursor").is_none());
    let session = bench.initialize("").await;
    let legacy = bench.legacy(&session, "", ("tools/list", params)).await.result();
    assert_eq!(legacy["tools"], second["tools"]);
}

#[tokio::test]
async fn new_revision_is_visible_immediately() {
    let bench = Bench::strict(vec![tool("a", "1.0.0", json!({}))]).await;
    let version = async || {
        let result = bench.modern("", "tools/list", json!({})).await.result();
        result["tools"][0]["_meta"]["registry/version"].clone()
    };
    assert_eq!(version().await, "1.0.0");
    bench.publish(2, vec![tool("a", "1.0.0", json!({})), tool("a", "1.1.0", json!({}))]);
    assert_eq!(version().await, "1.1.0");
}
