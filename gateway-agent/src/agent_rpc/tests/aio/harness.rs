//! A gateway with the server `agent`, tools of `math_agent` and `llm_agent`, and the agent of A2A
//! `writer`; and requests to it.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Router,
    body::{Body, to_bytes},
};
use gateway_testkit::{McpServer, Received, Reply, Server, json_reply};
use gateway_upstream::{Definitions, UpstreamLimits};
use http::{Request, StatusCode};
use registry_core::{Key, Kind};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{
    agent_rpc::AgentRpc,
    mcp::tests::harness::{Bench, Setup, http},
    testing::{Registered, agent, registered, server, tool},
};

/// The id of a task of the agent.
const OWN_TASK: &str = "task-of-the-writer";

pub(super) struct AioBench {
    pub(super) bench: Bench,
    pub(super) router: Router,
    /// The server of all tools, prompts and resources.
    pub(super) mcp: Server,
    /// The agent of A2A.
    pub(super) writer: Server,
    /// Whether the tasks of the agent have ended.
    pub(super) has_ended: Arc<AtomicBool>,
}

impl AioBench {
    pub(super) async fn start(policies: impl IntoIterator<Item = Registered>) -> Self {
        Self::start_with(Setup::default(), policies).await
    }

    pub(super) async fn start_with(
        setup: Setup,
        policies: impl IntoIterator<Item = Registered>,
    ) -> Self {
        let has_ended = Arc::<AtomicBool>::default();
        let ended = Arc::clone(&has_ended);
        let writer = Server::serve(move |received| ready(write(&received, &ended))).await;
        let mcp = mcp_server().await;
        let own: Key = "server/agent@1.0.0".parse().unwrap();
        let agents =
            vec![(own.clone(), http(&mcp)), ("agent/writer@1.0.0".parse().unwrap(), http(&writer))];
        let limits =
            UpstreamLimits { sessions: 16, call_timeout_ms: 2_000, ..UpstreamLimits::default() };
        let setup = Setup { transport: Some(http(&mcp)), agents, limits, ..setup };
        let bench = Bench::start(setup, entities(policies)).await;
        // Views use compared definitions, which follow those of the upstreams.
        let mut definitions = bench.contracts.definitions();
        let has_features = |all: &Arc<Definitions>| {
            let features = all.features(&own);
            features.is_some_and(|features| {
                !features.prompts().is_empty() && !features.resources().is_empty()
            })
        };
        definitions.wait_for(has_features).await.unwrap();
        let router = AgentRpc::new(bench.handle.clone()).router();
        Self { bench, router, mcp, writer, has_ended }
    }

    pub(super) fn publish(&self, policies: impl IntoIterator<Item = Registered>) {
        self.bench.publish(2, entities(policies));
    }

    /// The answer to a body that the agent `a` sends.
    pub(super) async fn sent(&self, body: &str) -> Value {
        self.sent_by("a", body).await
    }

    pub(super) async fn sent_by(&self, caller: &str, body: &str) -> Value {
        let request = Request::post("/rpc").header("content-type", "application/json");
        let (status, text) = self.got(caller, request, body).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// The answer to a call with an id and a trace.
    pub(super) async fn called(&self, trace: &str, id: u32, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": id, "trace_id": trace, "method": method,
            "params": params });
        self.sent(&body.to_string()).await
    }

    /// The result of a call without an id.
    pub(super) async fn result(&self, method: &str, params: Value) -> Value {
        let answer = self.sent(&json!({ "method": method, "params": params }).to_string()).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The code and the reason of a call that fails.
    pub(super) async fn refused(&self, method: &str, params: Value) -> (i64, String) {
        let answer = self.sent(&json!({ "method": method, "params": params }).to_string()).await;
        reason(&answer)
    }

    /// The graph of a trace as a caller gets it.
    pub(super) async fn graph(&self, caller: &str, trace: &str) -> (StatusCode, Value) {
        let request = Request::get(format!("/traces/{trace}"));
        let (status, text) = self.got(caller, request, "").await;
        (status, serde_json::from_str(&text).unwrap())
    }

    async fn got(
        &self,
        caller: &str,
        request: http::request::Builder,
        body: &str,
    ) -> (StatusCode, String) {
        let request = request.header("host", "localhost:7080");
        let request =
            if caller.is_empty() { request } else { request.header("x-agent-name", caller) };
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }
}

/// The code and the reason of an error.
pub(super) fn reason(answer: &Value) -> (i64, String) {
    let error = &answer["error"];
    let reason = error["data"]["reason"].as_str();
    (error["code"].as_i64().unwrap_or_default(), reason.unwrap_or_default().to_owned())
}

fn entities(policies: impl IntoIterator<Item = Registered>) -> Vec<Registered> {
    let numbers = json!({ "type": "object", "additionalProperties": { "type": "number" } });
    let of_agent = json!({ "source": { "server": "agent", "tool": "ping" } });
    let area = json!({ "source": { "tool": "echo" }, "inputSchema": numbers,
        "description": "Calculates an area." });
    let chat = json!({ "source": { "tool": "chat" }, "metadata": { "sampling": true } });
    let fails = json!({ "source": { "tool": "fails" } });
    let pictures = json!({ "source": { "tool": "pictures" } });
    let hidden = json!({ "source": { "tool": "echo" } });
    let mut entities = vec![
        server("agent", &["ping"], &["prompts", "resources"]),
        server("up", &[], &[]),
        tool("ping", "1.0.0", of_agent),
        tool("math_agent.calculate_area", "1.0.0", area),
        tool("math_agent.fails", "1.0.0", fails),
        tool("math_agent.hidden", "1.0.0", hidden),
        tool("math_agent.pictures", "1.0.0", pictures),
        tool("llm_agent.chat", "1.0.0", chat),
        twice(),
        writer(),
        caller("a"),
        caller("b"),
        agent("stranger", "1.0.0", &[]),
    ];
    entities.extend(policies);
    entities
}

/// A composition that calculates an area twice.
fn twice() -> Registered {
    let step = |id: &str| json!({ "id": id, "operation": { "tool": { "name": "math_agent.calculate_area" } } });
    let depends =
        json!([{ "type": "tool", "name": "math_agent.calculate_area", "version": "1.0.0" }]);
    let document = json!({ "name": "twice", "version": "1.0.0", "depends": depends,
        "spec": { "pipeline": { "steps": [step("first"), step("second")] } } });
    registered(Kind::Tool, document)
}

/// `writer` with one skill for text and one for data.
fn writer() -> Registered {
    let mut writer = agent("writer", "1.0.0", &[]);
    let document = &mut writer.document;
    document["description"] = json!("Writes.");
    document["skills"] = json!([
        { "id": "draft", "name": "Draft", "description": "Drafts a text.", "tags": ["text"],
            "inputModes": ["text/plain", "image/*"], "outputModes": ["text/plain"] },
        { "id": "count", "name": "Count", "description": "Counts words.", "tags": ["text"],
            "inputModes": ["application/json"], "inputSchema": { "type": "object",
            "properties": { "n": { "type": "number" } }, "required": ["n"] } },
    ]);
    writer
}

/// An agent that declares all tools but one, and the skills of `writer`.
fn caller(name: &str) -> Registered {
    let tools = [
        "ping",
        "math_agent.calculate_area",
        "math_agent.fails",
        "math_agent.pictures",
        "llm_agent.chat",
        "twice",
    ];
    let mut caller = agent(name, "1.0.0", &tools.map(|tool| (tool, "1.0.0")));
    let depends = &mut caller.document["capabilities"]["extensions"][0]["params"]["depends"];
    for skill in ["draft", "count"] {
        depends.as_array_mut().unwrap().push(json!(
            { "type": "agent", "name": "writer", "version": "1.0.0", "skill": skill }));
    }
    caller
}

async fn mcp_server() -> Server {
    let capabilities = json!({ "tools": {}, "prompts": {}, "resources": {} });
    McpServer::modern()
        .with_tool_names(&["echo", "fails", "chat", "pictures", "ping"])
        .with_capabilities(capabilities)
        .start(serve)
        .await
}

fn serve(received: &Received) -> Reply {
    let params = &received.body["params"];
    let complete = |mut result: Value| {
        result["resultType"] = json!("complete");
        received.result(&result)
    };
    match received.rpc_method() {
        "resources/list" => complete(json!({ "resources": [{ "uri": "doc-001", "name": "spec",
            "title": "Spec Sheet", "mimeType": "application/pdf" }] })),
        "resources/templates/list" => complete(json!({ "resourceTemplates": [] })),
        "resources/read" => complete(json!({ "contents": [{ "uri": params["uri"],
            "mimeType": "application/pdf", "blob": "JVBERi0xLjc=" }] })),
        "prompts/list" => {
            complete(json!({ "prompts": [{ "name": "greet", "title": "Greeting" }] }))
        }
        "prompts/get" => {
            let content = json!({ "type": "text", "text": params["arguments"].to_string() });
            complete(json!({ "description": "Greets.",
                "messages": [{ "role": "user", "content": content }] }))
        }
        "tools/call" => called(received),
        _ => received.unknown_method(),
    }
}

fn called(received: &Received) -> Reply {
    let params = &received.body["params"];
    let arguments = &params["arguments"];
    received.result(&match params["name"].as_str().unwrap() {
        "fails" => json!({ "resultType": "complete", "isError": true,
            "content": [{ "type": "text", "text": "no luck" }] }),
        "pictures" => json!({ "resultType": "complete", "content": [
            { "type": "image", "mimeType": "image/png", "data": "iVBORw==" },
            { "type": "resource_link", "uri": "https://x.example/a.mp3", "name": "a",
                "mimeType": "audio/mpeg" },
            { "type": "smell", "n": 1 }] }),
        "chat" => {
            let said = &arguments["input"]["text"];
            let turn = if arguments["session"].is_null() { "1" } else { "2" };
            let text = format!("{turn}: {}", said.as_str().unwrap_or_default());
            json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }],
                "structuredContent": { "session": "own", "done": turn == "2" } })
        }
        _ => json!({ "resultType": "complete", "structuredContent": arguments,
            "content": [{ "type": "text", "text": arguments.to_string() }] }),
    })
}

/// The agent: it asks for more after `ask`, works after `long`, and fails after `fail`.
fn write(received: &Received, has_ended: &AtomicBool) -> Reply {
    let message = &received.body["params"]["message"];
    let part = &message["parts"][0];
    let state = match part["text"].as_str() {
        Some("ask") => "TASK_STATE_INPUT_REQUIRED",
        Some("long") => "TASK_STATE_WORKING",
        Some("fail") => "TASK_STATE_FAILED",
        _ => "TASK_STATE_COMPLETED",
    };
    let task = |state: &str| {
        let parts = if part.is_null() { json!([]) } else { json!([part]) };
        json!({ "id": OWN_TASK, "contextId": "context-of-the-writer", "status": { "state": state },
            "artifacts": [{ "artifactId": "r", "parts": parts }] })
    };
    match received.rpc_method() {
        "SendMessage" => received.result(&json!({ "task": task(state) })),
        "GetTask" if has_ended.load(Ordering::Relaxed) => {
            received.result(&task("TASK_STATE_COMPLETED"))
        }
        "GetTask" => received.result(&task("TASK_STATE_WORKING")),
        _ => json_reply(404, &json!({})),
    }
}
