//! The gateway is killed at every record of a saga's journal: each reservation is released or
//! committed exactly once.

mod operators;
mod order_backend;

use std::time::Duration;

use acceptance::{Gateway, GatewayOptions, ModernClient, eventually};
use gateway_testkit::McpServer;
use serde_json::{Value, json};
use tempfile::TempDir;

use self::order_backend::{OrderBackend, When};
use crate::scripted_server::ScriptedServer;

/// A gateway with one saga, `order`, and the backend of its tools.
struct Scene {
    gateway: Gateway,
    options: GatewayOptions,
    backend: OrderBackend,
    _server: ScriptedServer,
    _dir: TempDir,
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "version": "1.0.0", "description": name, "inputSchema": { "type": "object" },
        "source": { "server": "backend", "serverVersion": "1.0.0", "tool": name } })
}

fn step(id: &str, action: &str, undo: &str) -> Value {
    let input = json!({ "construct": { "fields": {
        "order": { "path": "$.order" }, "item": { "constant": id }, "fails": { "path": "$.fails" } } } });
    json!({ "id": id, "name": id, "action": { "tool": action }, "compensate": { "tool": undo },
        "compensateOnUnknown": true, "input": input })
}

fn registry() -> Value {
    let names = ["reserve", "release", "commit", "revert"];
    let depends: Vec<_> = names
        .iter()
        .map(|name| json!({ "type": "tool", "name": name, "version": "1.0.0" }))
        .collect();
    let provides: Vec<_> =
        names.iter().map(|name| json!({ "tool": name, "version": "1.0.0" })).collect();
    let steps = [
        step("apples", "reserve", "release"),
        step("pears", "reserve", "release"),
        step("all", "commit", "revert"),
    ];
    let order = json!({ "name": "order", "version": "1.0.0", "description": "x", "depends": depends,
        "inputSchema": { "type": "object" },
        "spec": { "saga": { "steps": steps, "sagaIdPath": "$.order" } } });
    let mut tools: Vec<_> = names.iter().map(|name| tool(name)).collect();
    tools.push(order);
    json!({ "schemaVersion": "2.0", "schemas": [], "agents": [], "tools": tools,
        "servers": [{ "name": "backend", "version": "1.0.0", "provides": provides }] })
}

/// A policy with a price of 1 for calls of a tool, and one budget.
fn costs(tool: &str, limit: &str) -> Value {
    let budget = json!({ "name": "b", "per": "fleet", "limit": limit, "window": "total" });
    json!({ "name": tool, "version": "1.0.0", "appliesTo": { "tools": [tool] },
        "price": { "perCall": "1" }, "budgets": [budget] })
}

impl Scene {
    async fn start() -> Self {
        Self::start_with(registry()).await
    }

    async fn start_with(registry: Value) -> Self {
        let backend = OrderBackend::default();
        let server = ScriptedServer::mcp(McpServer::modern(), backend.script()).await;
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("registry.json");
        std::fs::write(&file, registry.to_string()).expect("written");
        let options = GatewayOptions {
            source: format!("file://{}", file.display()),
            targets: format!(
                "targets: [{{ server: backend, version: 1.0.0, http: \"{}\" }}]\n",
                server.url
            ),
            runtime: None,
            more: "admin: 127.0.0.1:0\n".to_owned(),
        };
        let gateway = Gateway::start(&options);
        let scene = Self { gateway, options, backend, _server: server, _dir: dir };
        scene.up().await;
        scene
    }

    async fn up(&self) {
        self.gateway.ready().await;
        eventually("the backend is reached", || async {
            self.gateway.targets().await.contains(r#""state":"up""#)
        })
        .await;
    }

    fn client(&self) -> ModernClient {
        ModernClient::anonymous(&self.gateway.mcp_url())
    }

    /// Calls the saga while its gateway is killed.
    async fn order_until_killed(&mut self, arguments: Value) {
        let client = self.client();
        let call = client.request("tools/call", json!({ "name": "order", "arguments": arguments }));
        assert!(call.await.is_err(), "the gateway was killed");
        self.gateway.process.kill_9();
    }

    async fn restart(&mut self) {
        self.gateway.restart(&self.options);
        self.up().await;
    }

    /// The state of the only saga.
    async fn status(&self) -> Value {
        let sagas = self.sagas().await["sagas"].clone();
        assert_eq!(sagas.as_array().map(Vec::len), Some(1), "{sagas}");
        sagas[0]["status"].clone()
    }

    async fn sagas(&self) -> Value {
        self.admin("sagas").await
    }

    /// The answer of a route of the admin address.
    async fn admin(&self, route: &str) -> Value {
        let answer = reqwest::get(format!("{}/admin/{route}", self.gateway.admin_url())).await;
        let text = answer.expect("an answer").text().await.expect("text");
        serde_json::from_str(&text).expect("JSON")
    }
}

/// Every call of the saga in order, and whether the last step fails.
const CALLS: [(&str, bool); 8] = [
    ("reserve apples", false),
    ("reserve pears", false),
    ("commit all", false),
    ("reserve apples", true),
    ("reserve pears", true),
    ("commit all", true),
    ("release pears", true),
    ("release apples", true),
];

#[tokio::test(flavor = "multi_thread")]
async fn killed_gateway_compensates_saga_once() {
    for (call, fails) in CALLS {
        for when in [When::Before, When::After] {
            let told = format!("killed at `{call}` {when:?} its effect, failing: {fails}");
            let mut scene = Scene::start().await;
            scene.backend.kill(scene.gateway.process.id(), (call, when));
            scene.order_until_killed(json!({ "order": 7, "fails": fails })).await;
            scene.restart().await;
            eventually(&told, || async { scene.status().await == "compensated" }).await;
            scene.backend.check_undone(&told);

            // A compensated saga can run again.
            let again = scene.client().call("order", json!({ "order": 7 })).await;
            assert!(!again.is_tool_error(), "{told}: {again:?}");
            scene.backend.check_committed(&told);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recovered_saga_charges_its_compensations_only() {
    let mut registry = registry();
    registry["policies"] = json!([costs("order", "1"), costs("release", "10")]);
    let mut scene = Scene::start_with(registry).await;
    scene.backend.kill(scene.gateway.process.id(), ("reserve pears", When::Before));
    scene.order_until_killed(json!({ "order": 7 })).await;
    scene.restart().await;
    eventually("it is undone", || async { scene.status().await == "compensated" }).await;
    let budgets = scene.admin("budgets").await["budgets"].clone();
    let mut released = budgets.as_array().expect("a list").iter();
    let released = released.find(|budget| budget["policy"] == "release").expect("a budget");
    assert_eq!(released["gateway"]["spent"], "2");
    let denied = scene.client().call("order", json!({ "order": 7 })).await.result().clone();
    let denial = &denied["_meta"]["registry/governance"];
    let details = &denial["error"]["details"];
    assert_eq!([&denial["reason"], &details["spent"]], ["BUDGET_EXCEEDED", "1"], "{denied}");
}

#[tokio::test(flavor = "multi_thread")]
async fn completed_saga_is_not_repeated_after_crash() {
    let mut scene = Scene::start().await;
    let order = json!({ "order": "a-1" });
    let first = scene.client().call("order", order.clone()).await;
    assert!(!first.is_tool_error(), "{first:?}");
    scene.gateway.process.kill_9();
    scene.restart().await;
    assert_eq!(scene.status().await, "completed");
    let calls = scene.backend.calls();
    let second = scene.client().call("order", order).await;
    assert_eq!(second.result()["structuredContent"], first.result()["structuredContent"]);
    assert_eq!(scene.backend.calls(), calls);
}

/// 1234567890123456789 and its successor are equal as doubles.
#[tokio::test(flavor = "multi_thread")]
async fn large_ids_name_two_sagas_across_restart() {
    let mut scene = Scene::start().await;
    let url = scene.gateway.mcp_url();
    let (alice, bob) =
        (ModernClient::agent(&url, "alice", "1.0.0"), ModernClient::agent(&url, "bob", "1.0.0"));
    let order = |id: u64| json!({ "order": id });
    let (large, next) = (1_234_567_890_123_456_789, 1_234_567_890_123_456_790);
    assert!(!alice.call("order", order(large)).await.is_tool_error());
    let calls = scene.backend.calls();
    let second = bob.call("order", order(next)).await;
    assert!(!second.is_tool_error(), "{second:?}");
    assert_eq!(scene.backend.calls(), 2 * calls, "another id is another saga");
    let instances = async |scene: &Scene| {
        let sagas = scene.sagas().await["sagas"].clone();
        let each = sagas.as_array().expect("a list").iter();
        let mut ids: Vec<_> = each.map(|saga| saga["instance"].to_string()).collect();
        ids.sort();
        ids
    };
    let expected = [format!("\"{large}\""), format!("\"{next}\"")];
    assert_eq!(instances(&scene).await, expected);

    scene.gateway.process.kill_9();
    scene.restart().await;
    assert_eq!(instances(&scene).await, expected);
    for id in [large, next] {
        let again =
            ModernClient::anonymous(&scene.gateway.mcp_url()).call("order", order(id)).await;
        assert!(!again.is_tool_error(), "{again:?}");
    }
    assert_eq!(scene.backend.calls(), 2 * calls, "a completed saga is not done again");
    let inexact = json!({ "order": 1e20 });
    let refused = scene.client().call("order", inexact).await;
    assert_eq!(refused.failure_reason(), "inexact-key", "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_waits_for_running_compensation() {
    let mut scene = Scene::start().await;
    scene.backend.kill(scene.gateway.process.id(), ("commit all", When::Before));
    scene.order_until_killed(json!({ "order": 7 })).await;
    scene.backend.be_slow(Duration::from_millis(500));
    scene.restart().await;
    let answer = scene.client().call("order", json!({ "order": 7 })).await;
    assert!(answer.is_tool_error(), "{answer:?}");
    assert_eq!(answer.failure_reason(), "saga-failed", "{answer:?}");
    scene.backend.check_undone("by the waiting caller");
}

#[tokio::test(flavor = "multi_thread")]
async fn torn_journal_continues_and_damage_is_reported() {
    let mut scene = Scene::start().await;
    scene.backend.kill(scene.gateway.process.id(), ("commit all", When::After));
    scene.order_until_killed(json!({ "order": 7 })).await;
    let mut journal = scene.gateway.cache().into_os_string();
    journal.push(".sagas");
    let mut bytes = std::fs::read(&journal).expect("a journal");
    bytes.extend_from_slice(b"0123456789abcdef {\"sag");
    std::fs::write(&journal, &bytes).expect("written");
    scene.restart().await;
    eventually("it is undone", || async { scene.status().await == "compensated" }).await;
    scene.backend.check_undone("torn");
    assert_eq!(scene.gateway.process.logged(&["WARN gateway_compose", ".sagas"]).len(), 1);
    assert_eq!(scene.sagas().await["damagedLines"], 0);

    scene.gateway.process.kill_9();
    let mut bytes = std::fs::read(&journal).expect("a journal");
    bytes[40] ^= 1;
    std::fs::write(&journal, &bytes).expect("written");
    scene.restart().await;
    assert!(scene.sagas().await["damagedLines"].as_u64().is_some_and(|lines| lines > 0));
    assert!(!scene.gateway.process.logged(&["ERROR gateway_compose", "kept="]).is_empty());
    let answer = scene.client().call("order", json!({ "order": 8 })).await;
    assert!(!answer.is_tool_error(), "other sagas go on: {answer:?}");
}
