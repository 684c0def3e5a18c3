//! Results of compositions that a gateway runs: aggregation, keys, late targets, and the error that
//! compensations receive.
//!
//! `composition_checks.rs` tests the static checks.

use std::sync::{Arc, Mutex};

use acceptance::{Gateway, GatewayOptions, ModernClient, Registry, eventually};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::scripted_server::{self, ScriptedServer};

/// The tools of the server. `give` returns its argument `value`, `wait` never answers, `fail` fails.
const TOOLS: [&str; 4] = ["give", "wait", "fail", "undo"];
/// A time limit that `give` meets and `wait` does not, in milliseconds.
const LIMIT: u64 = 2000;

/// A registry with compositions, a gateway, and the server of their tools.
struct Scene {
    gateway: Gateway,
    calls: Arc<Mutex<Vec<(String, Value)>>>,
    _registry: Registry,
    _server: ScriptedServer,
    _dir: TempDir,
}

impl Scene {
    /// Registers these compositions by name.
    async fn start(compositions: &[(&str, Value)]) -> Self {
        let calls = Arc::<Mutex<Vec<(String, Value)>>>::default();
        let log = Arc::clone(&calls);
        let server = ScriptedServer::start(scripted_server::tools(&TOOLS, move |params| {
            let (name, arguments) = (params["name"].as_str()?, params["arguments"].clone());
            let value = arguments["value"].to_string();
            log.lock().expect("not poisoned").push((name.to_owned(), arguments));
            if name == "wait" {
                return None;
            }
            Some(json!({ "content": [{ "type": "text", "text": value }], "isError": name == "fail" }))
        }))
        .await;
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("registry.json");
        std::fs::write(&file, document(compositions).to_string()).expect("written");
        let registry = Registry::start();
        registry.apply_file(&file);
        let gateway = Gateway::start(&GatewayOptions {
            source: format!("grpc://{}", registry.address),
            targets: format!(
                "targets: [{{ server: s, version: 1.0.0, http: \"{}\" }}]\n",
                server.url
            ),
            runtime: None,
            more: String::new(),
        });
        gateway.ready().await;
        gateway.upstreams_up(1).await;
        Self { gateway, calls, _registry: registry, _server: server, _dir: dir }
    }

    fn client(&self) -> ModernClient {
        ModernClient::anonymous(&self.gateway.mcp_url())
    }

    /// The result of a call that succeeds.
    async fn value(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.client().call(tool, arguments).await;
        assert!(!answer.is_tool_error(), "{tool}: {answer:?}");
        answer.result()["structuredContent"].clone()
    }

    /// The arguments of all calls of a tool.
    fn calls(&self, tool: &str) -> Vec<Value> {
        let calls = self.calls.lock().expect("not poisoned");
        calls
            .iter()
            .filter(|(name, _)| name == tool)
            .map(|(_, arguments)| arguments.clone())
            .collect()
    }
}

fn document(compositions: &[(&str, Value)]) -> Value {
    let reference = |name: &str| json!({ "tool": name, "version": "1.0.0" });
    let mut tools: Vec<_> = TOOLS
        .iter()
        .map(|name| {
            json!({ "name": name, "version": "1.0.0", "description": name,
                "inputSchema": { "type": "object" },
                "source": { "server": "s", "serverVersion": "1.0.0", "tool": name } })
        })
        .collect();
    for (name, spec) in compositions {
        let text = spec.to_string();
        let is_used = |tool: &&&str| text.contains(&format!("\"{tool}\""));
        let depends: Vec<_> = TOOLS
            .iter()
            .filter(is_used)
            .map(|tool| json!({ "type": "tool", "name": tool, "version": "1.0.0" }))
            .collect();
        tools.push(json!({ "name": name, "version": "1.0.0", "description": name, "spec": spec,
            "depends": depends, "inputSchema": { "type": "object" } }));
    }
    json!({ "schemaVersion": "2.0", "tools": tools, "servers": [
        { "name": "s", "version": "1.0.0", "provides": TOOLS.map(reference) }] })
}

/// Targets that return these values, gathered by these operations.
fn gather(values: &[Value], ops: &Value) -> Value {
    let targets: Vec<_> = values
        .iter()
        .map(|value| json!({ "tool": "give", "input": { "constant": { "value": value } } }))
        .collect();
    json!({ "scatterGather": { "targets": targets, "failFast": true, "aggregation": { "ops": ops } } })
}

#[tokio::test(flavor = "multi_thread")]
async fn concat_keeps_one_item_per_target() {
    let values = [json!([1, 2]), json!([[3]]), json!({ "n": 4 })];
    let concat = json!({ "concat": true });
    let flatten = json!({ "flatten": true });
    let scene = Scene::start(&[
        ("none", gather(&values, &json!([]))),
        ("concat", gather(&values, &json!([concat]))),
        ("flatten", gather(&values, &json!([flatten]))),
        ("both", gather(&values, &json!([concat, flatten, concat]))),
    ])
    .await;
    let kept = json!([[1, 2], [[3]], { "n": 4 }]);
    let flat = json!([1, 2, [3], { "n": 4 }]);
    for (tool, expected) in
        [("none", &kept), ("concat", &kept), ("flatten", &flat), ("both", &flat)]
    {
        assert_eq!(&scene.value(tool, json!({})).await, expected, "{tool}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dedupe_distinguishes_null_from_missing() {
    let values = [
        json!({ "id": null, "at": 0 }),
        json!({ "at": 1 }),
        json!({ "id": null, "at": 2 }),
        json!({ "at": 3 }),
        json!({ "id": 7, "at": 4 }),
        json!({ "id": 7, "at": 5 }),
    ];
    let ops = json!([{ "dedupe": { "field": "$.id" } }]);
    let scene = Scene::start(&[("distinct", gather(&values, &ops))]).await;
    let kept = scene.value("distinct", json!({})).await;
    let kept: Vec<_> = kept.as_array().expect("items").iter().map(|item| &item["at"]).collect();
    assert_eq!(kept, [0, 1, 3, 4], "one item of each value, and all items without the field");
}

/// `[1,2]` has two matches of `$.value[*]`, and `[[1,2]]` has one.
#[tokio::test(flavor = "multi_thread")]
async fn key_path_distinguishes_nested_arrays() {
    let keys = json!(["$.value[*]"]);
    let inner = json!({ "tool": "give" });
    let step = json!({ "id": "a", "name": "a", "action": inner });
    let scene = Scene::start(&[
        ("cached", json!({ "cache": { "inner": inner, "keyPaths": keys, "ttlSeconds": 600 } })),
        (
            "once",
            json!({ "idempotent": { "inner": inner, "keyPaths": keys, "onDuplicate": "cached" } }),
        ),
        (
            "saga",
            json!({ "saga": { "steps": [step], "sagaIdPath": "$.value[*]",
            "output": { "step": { "stepId": "a", "path": "$" } } } }),
        ),
    ])
    .await;
    let (flat, nested) = (json!([1, 2]), json!([[1, 2]]));
    for tool in ["cached", "once", "saga"] {
        let before = scene.calls("give").len();
        for (value, calls) in [(&flat, 1), (&nested, 2), (&flat, 2), (&nested, 2)] {
            let result = scene.value(tool, json!({ "value": value })).await;
            assert_eq!(&result, value, "{tool}: the result of another key");
            assert_eq!(scene.calls("give").len() - before, calls, "{tool} {value}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn late_target_is_listed_as_dropped() {
    let spec = |fail_fast: bool| {
        let give = json!({ "tool": "give", "input": { "constant": { "value": 7 } } });
        json!({ "scatterGather": { "targets": [{ "tool": "wait" }, give], "timeoutMs": LIMIT,
            "failFast": fail_fast, "aggregation": { "ops": [] } } })
    };
    let failing = json!({ "scatterGather": { "targets": [{ "tool": "fail" }, { "tool": "give",
        "input": { "constant": { "value": 7 } } }], "aggregation": { "ops": [] } } });
    let scene =
        Scene::start(&[("late", spec(false)), ("fast", spec(true)), ("failing", failing)]).await;
    for (tool, reason) in [("late", "timeout"), ("fast", "timeout"), ("failing", "tool-error")] {
        let answer = scene.client().call(tool, json!({})).await;
        assert!(!answer.is_tool_error(), "{tool}: {answer:?}");
        assert_eq!(answer.result()["structuredContent"], json!([7]), "{tool}: {answer:?}");
        let dropped = &answer.result()["_meta"]["registry/steps"]["dropped"];
        assert_eq!(dropped.as_array().map(Vec::len), Some(1), "{tool}: {answer:?}");
        assert_eq!(dropped[0]["step"], "targets/0", "{tool}: {dropped}");
        assert_eq!(dropped[0]["reason"], reason, "{tool}: {dropped}");
    }
}

/// A saga whose second step never ends. Its compensation gets the name of the composition and the error.
fn endless(name: &str, more: &Value) -> Value {
    let undo = json!({ "construct": { "fields": {
        "name": { "constant": name }, "error": { "error": { "path": "$" } } } } });
    let first = json!({ "id": "a", "name": "a", "action": { "tool": "give" },
        "compensate": { "tool": "undo" }, "compensateInput": undo, "compensateOnUnknown": true });
    let second = json!({ "id": "b", "name": "b", "action": { "tool": "wait" },
        "input": { "constant": {} } });
    let mut saga = json!({ "steps": [first, second] });
    saga.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
    json!({ "saga": saga })
}

/// Compositions with a time limit, of the saga or around it.
fn cut_off() -> [(&'static str, Value); 5] {
    let inner = |name: &str| json!({ "pattern": endless(name, &json!({})) });
    let fixed = json!({ "fixed": { "delayMs": 1 } });
    let outer = json!({ "id": "o", "name": "o", "action": inner("outer") });
    [
        ("own", endless("own", &json!({ "timeoutMs": LIMIT }))),
        ("timeout", json!({ "timeout": { "inner": inner("timeout"), "durationMs": LIMIT } })),
        (
            "attempt",
            json!({ "retry": { "inner": inner("attempt"), "maxAttempts": 1, "backoff": fixed,
                "attemptTimeoutMs": LIMIT } }),
        ),
        (
            "scatter",
            json!({ "scatterGather": { "targets": [inner("scatter")], "timeoutMs": LIMIT,
                "aggregation": { "ops": [] } } }),
        ),
        ("outer", json!({ "saga": { "steps": [outer], "timeoutMs": LIMIT } })),
    ]
}

impl Scene {
    /// The error that the compensation of a composition receives.
    async fn compensated(&self, name: &str) -> Value {
        let of = |arguments: &Value| arguments["name"] == name;
        eventually("the saga is compensated", || async { self.calls("undo").iter().any(of) }).await;
        let calls: Vec<_> = self.calls("undo").into_iter().filter(of).collect();
        assert_eq!(calls.len(), 1, "{name} is compensated once");
        calls[0]["error"].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn saga_cut_off_by_limit_reports_timeout() {
    let compositions = cut_off();
    let scene = Scene::start(&compositions).await;
    let client = &scene.client();
    let calls = compositions.iter().map(|(name, _)| async move {
        let answer = client.call(name, json!({})).await;
        assert!(answer.is_tool_error(), "{name}: {answer:?}");
    });
    join_all(calls).await;
    for (name, _) in &compositions {
        let error = scene.compensated(name).await;
        assert_eq!(error["reason"], "timeout", "{name}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn saga_of_disconnected_caller_reports_canceled() {
    let scene = Scene::start(&[("left", endless("left", &json!({})))]).await;
    let client = scene.client();
    tokio::select! {
        answer = client.call("left", json!({})) => panic!("the call never ends: {answer:?}"),
        () = eventually("the second step runs", || async { !scene.calls("wait").is_empty() }) => {}
    }
    let error = scene.compensated("left").await;
    assert_eq!(error["reason"], "cancelled", "{error}");
}
