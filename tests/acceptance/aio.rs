//! AIO over HTTP with real servers and agents of the demo backend.

use acceptance::{Backend, Gateway, GatewayOptions, Registry, eventually, root};
use serde_json::{Value, json};

const TRACE: &str = "AIO-TR-20250326-0001";

struct Scene {
    gateway: Gateway,
    http: reqwest::Client,
}

impl Scene {
    /// A gateway without a registry.
    async fn start(backend: &Backend) -> Self {
        Self::start_with(backend, "").await
    }

    /// A gateway without a registry, with this `agents` section.
    async fn start_with(backend: &Backend, agents_section: &str) -> Self {
        let source = format!("file://{}", root().join("examples/registry-v2.json").display());
        Self::of(source, backend, agents_section).await
    }

    async fn of(source: String, backend: &Backend, agents_section: &str) -> Self {
        let servers = backend.targets();
        let agents = backend.agent_targets();
        let agents = agents.strip_prefix("targets:\n").expect("a block of targets");
        let gateway = Gateway::start(&GatewayOptions {
            source,
            targets: format!("{servers}{agents}"),
            runtime: Some("{ inputValidation: deny, unknownCaller: allow }".to_owned()),
            more: format!("admin: 127.0.0.1:0\n{agents_section}"),
        });
        gateway.ready().await;
        gateway.upstreams_up(14).await;
        Self { gateway, http: reqwest::Client::new() }
    }

    /// The answer to a body of `orchestrator-agent`.
    async fn sent(&self, body: &Value) -> Value {
        self.sent_to("/rpc", body).await
    }

    async fn sent_to(&self, path: &str, body: &Value) -> Value {
        let request = self.http.post(format!("{}{path}", self.gateway.url()));
        let request = request
            .header("content-type", "application/json")
            .header("x-agent-name", "orchestrator-agent")
            .body(body.to_string());
        let answer = request.send().await.expect("the gateway answers");
        assert_eq!(answer.status(), 200);
        let text = answer.text().await.expect("a body");
        serde_json::from_str(&text).expect("JSON")
    }

    async fn called(&self, id: u32, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": id, "trace_id": TRACE, "method": method,
            "params": params });
        let answer = self.sent(&body).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        assert_eq!((&answer["id"], &answer["trace_id"]), (&json!(id), &json!(TRACE)));
        answer["result"].clone()
    }

    /// The status and the graph of [`TRACE`] for a caller.
    async fn graph(&self, caller: &str) -> (u16, Value) {
        let request = self.http.get(format!("{}/traces/{TRACE}", self.gateway.url()));
        let answer = request.header("x-agent-name", caller).send().await.expect("an answer");
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("a body");
        (status, serde_json::from_str(&text).expect("JSON"))
    }
}

/// Id, agent, method, protocol and status of each call of a graph.
fn facts(graph: &Value) -> Vec<[Value; 5]> {
    let names = ["id", "agent", "method", "protocol", "status"];
    let calls = graph["calls"].as_array().expect("calls").iter();
    calls.map(|call| names.map(|name| call[name].clone())).collect()
}

fn call(id: impl Into<Value>, agent: &str, method: &str, protocol: &str) -> [Value; 5] {
    [id.into(), agent.into(), method.into(), protocol.into(), "ok".into()]
}

#[tokio::test(flavor = "multi_thread")]
async fn trace_of_agents_and_composition_is_one_graph() {
    let backend = Backend::start();
    let scene = Scene::start(&backend).await;
    let help = scene.called(1, "research-agent::help", json!({})).await;
    assert_eq!((&help["type"], &help["mcp"]["sampling"]), (&json!("http"), &json!(true)), "{help}");
    let found = scene.called(2, "research-agent::research_topic", json!({ "topic": "tea" })).await;
    assert_eq!(found["output"][0]["type"], "file", "{found}");
    let short = json!({ "input": { "type": "file", "value": { "content": "One. Two." } } });
    let short = scene.called(3, "summarizer-agent::input", short).await;
    assert_eq!(short["output"][0]["type"], "file", "{short}");
    let both = json!({ "tool": "research_and_summarize", "args": { "topic": "tea" } });
    let both = scene.called(4, "gateway::tools.call", both).await;
    assert!(both["structuredContent"]["research"]["findings"].is_array(), "{both}");
    let (status, graph) = scene.graph("orchestrator-agent").await;
    assert_eq!((status, &graph["trace_id"]), (200, &json!(TRACE)), "{graph}");
    assert_eq!(
        facts(&graph),
        [
            call(1, "research-agent", "help", "aio"),
            call(2, "research-agent", "research_topic", "aio"),
            call(3, "summarizer-agent", "input", "aio"),
            call(4, "gateway", "tools.call", "aio"),
            call(Value::Null, "research-agent", "research_topic", "composition"),
            call(Value::Null, "summarizer-agent", "summarize", "composition"),
        ]
    );
    assert_eq!(
        (&graph["calls"][4]["parent"], &graph["calls"][5]["type"]),
        (&json!(4), &json!("http"))
    );
    assert_eq!(scene.graph("research-agent").await.0, 404);
    let url = format!("{}/admin/graphs/{TRACE}", scene.gateway.admin_url());
    let audited = reqwest::get(url).await.expect("an answer").text().await.expect("a body");
    let audited: Value = serde_json::from_str(&audited).expect("JSON");
    assert_eq!(audited["graphs"], json!([graph]));
}

#[tokio::test(flavor = "multi_thread")]
async fn trace_of_two_gateways_is_one_graph() {
    let registry = Registry::start();
    registry.apply_example();
    let backend = Backend::start();
    let source = format!("grpc://{}", registry.address);
    let mut first = Scene::of(source.clone(), &backend, "").await;
    let second = Scene::of(source, &backend, "").await;
    first.called(1, "research-agent::research_topic", json!({ "topic": "tea" })).await;
    let both = json!({ "tool": "research_and_summarize", "args": { "topic": "tea" } });
    second.called(2, "gateway::tools.call", both).await;
    let execute = json!({ "id": 3, "trace_id": TRACE, "method": "agent.execute", "params": {
        "agent_id": "absent", "function": "f", "input": {}, "meta": { "task_id": "t" } } });
    let refused = first.sent(&execute).await;
    assert_eq!(refused["trace_id"], TRACE, "{refused}");
    let failed = ["absent", "f", "agent.execute", "error"].map(Value::from);
    let [agent, function, protocol, status] = failed;
    let expected = [
        call(1, "research-agent", "research_topic", "aio"),
        call(2, "gateway", "tools.call", "aio"),
        call(Value::Null, "research-agent", "research_topic", "composition"),
        call(Value::Null, "summarizer-agent", "summarize", "composition"),
        [json!(3), agent, function, protocol, status],
    ];
    for scene in [&first, &second] {
        let is_whole = || async { facts(&scene.graph("orchestrator-agent").await.1) == expected };
        eventually("the graph has the calls of both gateways", is_whole).await;
    }
    assert_eq!(second.graph("research-agent").await.0, 404, "another account");
    // The calls outlive their gateway.
    first.gateway.process.stop();
    let (_, graph) = second.graph("orchestrator-agent").await;
    assert_eq!(facts(&graph), expected);
    let graphs = registry.json(&["trace", TRACE]);
    assert_eq!(graphs[0]["subject"], "orchestrator-agent", "{graphs}");
    assert_eq!(facts(&graphs[0]), expected);
    let table = registry.run(&["trace", TRACE]);
    assert_eq!(table.lines().count(), 1 + expected.len(), "{table}");
    let absent = registry.run(&["trace", "0af7651916cd43dd8448eb211c80319c"]);
    insta::assert_snapshot!(absent, @"no AIO calls with this trace id; they can be older than --trace-retention of the registry, or belong to another account. For other calls, see `trace_id` in the audit log of the gateways, or `GET /admin/traces/ID` of a gateway");
}

#[tokio::test(flavor = "multi_thread")]
async fn graph_without_registry_is_incomplete() {
    let mut registry = Registry::start();
    registry.apply_example();
    let backend = Backend::start();
    let scene = Scene::of(format!("grpc://{}", registry.address), &backend, "").await;
    registry.process.kill_9();
    scene.called(1, "research-agent::help", json!({})).await;
    let (status, graph) = scene.graph("orchestrator-agent").await;
    assert_eq!((status, &graph["incomplete"]), (200, &json!(true)), "{graph}");
    assert_eq!(facts(&graph), [call(1, "research-agent", "help", "aio")]);
    registry.restart();
    let is_reported = || async { call_count(&registry.json(&["trace", TRACE])) == 1 };
    eventually("the call is reported after the failure", is_reported).await;
}

/// The number of calls of the first graph.
fn call_count(graphs: &Value) -> usize {
    graphs[0]["calls"].as_array().map_or(0, Vec::len)
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_called_by_name_of_server() {
    let backend = Backend::start();
    let scene = Scene::start(&backend).await;
    let tools = scene.called(1, "task-service::tools.list", json!({})).await;
    let names: Vec<_> =
        tools["tools"].as_array().expect("tools").iter().map(|t| &t["name"]).collect();
    assert_eq!(names, ["create_task"], "only declared tools");
    let task = json!({ "tool": "create_task", "args": { "title": "Buy tea" } });
    let task = scene.called(2, "task-service::tools.call", task).await;
    assert_eq!(task["content"][0]["type"], "text", "{task}");
    let body = json!({ "id": 3, "method": "task-service::list_tasks" });
    let refused = scene.sent(&body).await;
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    let methods = json!(["help", "tools.list", "tools.call"]);
    assert_eq!(refused["error"]["data"]["available_methods"], methods);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_requests_are_rejected() {
    let backend = Backend::start();
    let scene = Scene::start(&backend).await;
    let long = "x".repeat(1024 * 1024);
    for (body, code) in [
        (json!({ "method": "task-service::help", "trace_id": long }), -32600),
        (json!({ "method": "task-service::help", "trace_id": "a\u{7}" }), -32600),
        (json!({ "method": "a::b::c" }), -32600),
        (
            json!({ "method": "research-agent::input",
            "params": { "input": { "type": "image", "value": "%%%" } } }),
            -32602,
        ),
    ] {
        let refused = scene.sent(&body).await;
        assert_eq!(refused["error"]["code"], code, "{refused}");
    }
    scene.called(1, "task-service::help", json!({})).await;
    let again = json!({ "id": 1, "trace_id": TRACE, "method": "task-service::help" });
    let refused = scene.sent(&again).await;
    assert_eq!(refused["error"]["data"]["reason"], "ID_IN_USE", "{refused}");
}

/// The skill `research_topic` of `research-agent` as a tool.
const SKILL: &str = "agent__research-agent__research_topic";

#[tokio::test(flavor = "multi_thread")]
async fn skill_is_a_tool_of_execute_only_with_bridge() {
    let backend = Backend::start();
    let scene = Scene::start(&backend).await;
    for tool in [SKILL, "research_topic", "research-agent.research_topic"] {
        let body = json!({ "tool": tool, "params": { "topic": "tea" } });
        let refused = scene.sent_to("/execute", &body).await;
        assert_eq!(refused["code"], "TOOL_NOT_FOUND", "{tool}: {refused}");
    }
    let scene = Scene::start_with(&backend, "agents: { asTools: true }\n").await;
    let body = json!({ "tool": SKILL, "params": { "topic": "tea" } });
    let researched = scene.sent_to("/execute", &body).await;
    assert_eq!(researched["success"], true, "{researched}");
}
