//! A2A agents as composition steps. The agent uses the official A2A SDK in each protocol version,
//! behind a gateway that follows a registry.

use std::{fs, path::PathBuf, process::Command, sync::Arc};

use acceptance::{
    Gateway, GatewayOptions, ModernClient, Process, Registry, eventually, mcp::LEGACY, root,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::conformance::official;

struct Scene {
    client: Arc<ModernClient>,
    gateway: Gateway,
    notes: PathBuf,
    registry: Registry,
    _agent: Process,
    dir: TempDir,
}

fn fixture(file: &str) -> PathBuf {
    root().join("tests/acceptance/agents").join(file)
}

impl Scene {
    async fn start(version: &str) -> Self {
        Self::with(version, "admin: 127.0.0.1:0\n").await
    }

    /// `more` is appended to the gateway's configuration.
    async fn with(version: &str, more: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let notes = dir.path().join("notes");
        let mut command: Command = official().python();
        command.arg(fixture("agent.py")).arg(version).arg(&notes);
        let agent = Process::run("agent", dir.path(), command).expect("the agent starts");
        let registry = Registry::start();
        registry.apply_file(&fixture("registry.json"));
        let gateway = Gateway::start(&GatewayOptions {
            source: registry.url().replace("http", "grpc"),
            targets: format!(
                "targets:\n  - {{ agent: office/writer, version: 1.0.0, http: \"http://{}/\" }}\n",
                agent.address()
            ),
            runtime: Some("{ inputValidation: deny, outputValidation: deny }".to_owned()),
            more: more.to_owned(),
        });
        gateway.ready().await;
        let client = Arc::new(ModernClient::anonymous(&gateway.mcp_url()));
        eventually("the catalog is loaded", || async { client.tools().await.len() == 8 }).await;
        Self { client, gateway, notes, registry, _agent: agent, dir }
    }

    async fn value(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.client.call(tool, arguments).await;
        assert!(!answer.is_tool_error(), "{answer:?}");
        answer.result()["structuredContent"].clone()
    }

    /// The `registry/failure` of a composition.
    async fn failure(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.client.call(tool, arguments).await;
        assert!(answer.is_tool_error(), "{answer:?}");
        answer.result()["_meta"]["registry/failure"].clone()
    }

    /// The number of tasks that the agent canceled.
    fn canceled(&self) -> usize {
        self.noted("canceled")
    }

    fn noted(&self, what: &str) -> usize {
        let notes = fs::read_to_string(&self.notes).unwrap_or_default();
        notes.lines().filter(|line| line.starts_with(what)).count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn skill_steps_run_in_both_protocol_versions() {
    for version in ["1.0", "0.3"] {
        let scene = Scene::start(version).await;
        let report = scene.value("report", json!({ "topic": "tea" })).await;
        assert_eq!(report, "ON ALL ABOUT TEA. THE END.");
        let targets = scene.gateway.targets().await;
        assert!(targets.contains(&format!("a2a-{version}")), "{targets}");

        // The composition accepts the input of its first skill, and the skill's result is
        // validated.
        let refused = scene.client.call("report", json!({ "subject": "tea" })).await;
        assert!(refused.is_tool_error() && refused.text().contains("topic"), "{refused:?}");
        let otherwise = scene.failure("answers", json!({ "any": 1 })).await;
        assert_eq!(otherwise["reason"], "invalid-output", "{otherwise}");

        let undone = scene.failure("safely", json!({ "text": "ink" })).await;
        assert_eq!(
            (&undone["reason"], &undone["failedStep"]),
            (&"saga-failed".into(), &"print".into())
        );
        let message = undone["message"].as_str().expect("a text");
        assert!(message.contains("out-of-ink"), "the words of the agent: {undone}");
        assert_eq!(undone["steps"][0]["outcome"], "compensated");

        // Text results stay unchanged, and a result with only files is a success.
        assert_eq!(scene.value("costs", json!({ "text": "tea" })).await, "1.10");
        let undone = scene.failure("pictures", json!({ "text": "a cat" })).await;
        assert_eq!(undone["failedStep"], "frame", "{undone}");
        assert_eq!(undone["steps"][0]["outcome"], "compensated");
    }
}

/// The call of a skill that needs an answer.
fn asking_call() -> Value {
    json!({ "name": "agent__office__writer__ask", "arguments": { "text": "a poster" } })
}

fn answer() -> Value {
    json!({ "action": "accept", "content": { "answer": "blue" } })
}

/// Calls with a session of 2025-11-25 and answers the question on the event stream of the call.
async fn result_in_session(url: &str) -> Value {
    let http = reqwest::Client::new();
    let post = |session: &str, message: &Value| {
        let request = http.post(url).header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream");
        let request = request.header("x-agent-name", "asker").body(message.to_string());
        let request = match session {
            "" => request,
            session => {
                request.header("mcp-session-id", session).header("mcp-protocol-version", LEGACY)
            }
        };
        async { request.send().await.expect("the gateway answers") }
    };
    let about = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": LEGACY, "capabilities": { "elicitation": {} },
        "clientInfo": about });
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let opened = post("", &initialize).await;
    let session = opened.headers()["mcp-session-id"].to_str().expect("text").to_owned();
    let call =
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asking_call() });
    let mut stream = post(&session, &call).await;
    let mut text = String::new();
    let mut is_answered = false;
    while let Some(chunk) = stream.chunk().await.expect("more events") {
        text.push_str(std::str::from_utf8(&chunk).expect("text"));
        let mut events = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let Some(last) = events.next_back() else { continue };
        let Ok(last) = serde_json::from_str::<Value>(last) else { continue };
        if last["method"] == "elicitation/create" && !is_answered {
            assert_eq!(last["params"]["message"], "which colour?");
            let reply = json!({ "jsonrpc": "2.0", "id": last["id"], "result": answer() });
            assert_eq!(post(&session, &reply).await.status(), 202);
            is_answered = true;
        } else if last.get("result").is_some() {
            return last["result"].clone();
        }
    }
    panic!("the stream ended without a result: {text}")
}

#[tokio::test(flavor = "multi_thread")]
async fn client_answers_question_of_agent_in_each_era() {
    for version in ["1.0", "0.3"] {
        let more = "admin: 127.0.0.1:0\nagents: { asTools: true }\n";
        let scene = Scene::with(version, more).await;
        let url = scene.gateway.mcp_url();
        let client = ModernClient::agent(&url, "asker", "1.0.0");
        let client = client.declaring(json!({ "elicitation": {} }));
        let request = async |params| {
            let answer = client.request("tools/call", params).await.expect("an answer");
            answer.result().clone()
        };
        let asked = request(asking_call()).await;
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let question = &asked["inputRequests"]["input"];
        assert_eq!(question["params"]["message"], "which colour?");
        let mut again = asking_call();
        again["requestState"] = asked["requestState"].clone();
        again["inputResponses"] = json!({ "input": answer() });
        for result in [request(again).await, result_in_session(&url).await] {
            assert_eq!(result["structuredContent"], "a blue poster", "{version}: {result}");
        }
        assert_eq!(scene.canceled(), 0);

        let unable = ModernClient::agent(&url, "asker", "1.0.0");
        let refused = unable.request("tools/call", asking_call()).await.expect("an answer");
        assert!(refused.is_tool_error() && refused.text().contains("colour"), "{refused:?}");
        eventually("the task is canceled", || async { scene.canceled() == 1 }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_task_is_canceled_at_agent() {
    for version in ["1.0", "0.3"] {
        let scene = Scene::start(version).await;
        let asks = scene.failure("asks", json!({ "text": "a poster" })).await;
        let message = asks["message"].as_str().expect("a text");
        assert!(message.contains("input-required") && message.contains("colour"), "{asks}");
        eventually("the failure is logged", || async { scene.canceled() == 1 }).await;
        let late = scene.failure("patient", json!({ "text": "hurry" })).await;
        assert_eq!(late["reason"], "timeout", "{late}");
        eventually("the failure is logged", || async { scene.canceled() == 2 }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_gateway_cancels_tasks_of_calls_that_time_out() {
    let more = "admin: 127.0.0.1:0\ndrainNotice: 0s\n\
                limits: { callTimeoutMs: 4000, connectTimeoutMs: 1000 }\n";
    let mut scene = Scene::with("1.0", more).await;
    let client = Arc::clone(&scene.client);
    let params = json!({ "name": "endless", "arguments": { "text": "x" } });
    let call = tokio::spawn(async move { client.request("tools/call", params).await });
    eventually("it is under way", || async { scene.noted("dawdles") == 1 }).await;
    assert!(scene.gateway.process.stop().success());
    assert_eq!(scene.canceled(), 1);
    let answer = call.await.unwrap().expect("an answer before the gateway stops");
    assert!(answer.is_tool_error(), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_denies_skill_of_step() {
    let scene = Scene::start("1.0").await;
    let cedar = "forbid (principal, action == Action::\"send\", resource) when { \
        context.arguments.topic == \"secrets\" };";
    let policy = json!({ "schemaVersion": "2.0", "policies": [{ "name": "topics",
        "version": "1.0.0", "appliesTo": { "skills": ["office/writer/research"] },
        "authorization": { "cedar": cedar } }] });
    let file = scene.dir.path().join("policy.json");
    fs::write(&file, policy.to_string()).expect("a file");
    scene.registry.apply_file(&file);
    eventually("the policy is in force", || async {
        let answer = scene.client.call("report", json!({ "topic": "secrets" })).await;
        answer.is_tool_error()
    })
    .await;
    let failure = scene.failure("report", json!({ "topic": "secrets" })).await;
    assert_eq!([&failure["step"], &failure["reason"]], ["find", "denied"]);
    assert!(scene.value("report", json!({ "topic": "rivers" })).await.is_string());
}
