//! The agents of the demo backend, as the example registers them: in both versions, and one with a
//! token.

use std::process::{Command, Stdio};

use acceptance::{Backend, Gateway, GatewayOptions, ModernClient, binary, root};
use serde_json::json;

use super::{Caller, message};

struct Demo {
    gateway: Gateway,
    _backend: Backend,
}

impl Demo {
    async fn start() -> Self {
        let backend = Backend::start();
        let gateway = Gateway::start(&GatewayOptions {
            source: format!("file://{}", root().join("examples/registry-v2.json").display()),
            targets: backend.agent_targets(),
            runtime: Some("{ inputValidation: deny, unknownCaller: allow }".to_owned()),
            more: String::new(),
        });
        gateway.ready().await;
        gateway.upstreams_up(3).await;
        Self { gateway, _backend: backend }
    }

    /// A caller of an agent. `orchestrator-agent` declares the others.
    fn caller(&self, name: &'static str, agent: &str) -> Caller {
        let url = format!("{}/a2a/{agent}", self.gateway.url());
        Caller { http: reqwest::Client::new(), url, name }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn composition_uses_agents_of_both_versions() {
    let demo = Demo::start().await;
    let client = ModernClient::anonymous(&demo.gateway.mcp_url());
    let answer = client.call("research_and_summarize", json!({ "topic": "tea" })).await;
    assert!(!answer.is_tool_error(), "{answer:?}");
    let both = &answer.result()["structuredContent"];
    assert!(both["research"]["findings"].is_array(), "{both}");
    assert!(both["executiveSummary"]["wordCount"].is_u64(), "{both}");
}

#[tokio::test(flavor = "multi_thread")]
async fn data_is_validated_against_the_skill() {
    let demo = Demo::start().await;
    let caller = demo.caller("orchestrator-agent", "research-agent");
    let mut params = message("research_topic", "");
    let part = |depth: &str| json!([{ "data": { "topic": "tea", "depth": depth } }]);
    params["message"]["parts"] = part("deep");
    let answer = caller.call("SendMessage", &params).await;
    assert_eq!(answer.task()["status"]["state"], "TASK_STATE_COMPLETED", "{answer:?}");
    params["message"]["parts"] = part("bottomless");
    let refused = caller.call("SendMessage", &params).await;
    assert_eq!(refused.code(), -32602, "{refused:?}");
    let pointer = &refused.message["error"]["data"][0]["metadata"]["pointer"];
    assert_eq!(pointer, "/message/parts/0/data/depth", "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_in_0_3_streams_to_client_of_1_0() {
    let demo = Demo::start().await;
    let caller = demo.caller("orchestrator-agent", "summarizer-agent");
    let mut params = message("summarize", "");
    params["message"]["parts"] = json!([{ "data": { "content": "One. Two." } }]);
    let events = super::Events::of(caller.open("SendStreamingMessage", &params).await);
    let kinds = events.rest().await.into_iter().map(|mut message| {
        let result = message["result"].take();
        let kind = result.as_object().and_then(|result| result.keys().next().cloned());
        kind.unwrap_or_default()
    });
    assert_eq!(kinds.collect::<Vec<_>>(), ["task", "artifactUpdate", "statusUpdate"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_authenticates_to_agent_and_cancels_its_task() {
    let demo = Demo::start().await;
    let caller = demo.caller("", "orchestrator-agent");
    let task = caller.begin("complex_task", "Prepare the launch").await;
    let canceled = caller.call("CancelTask", &json!({ "id": task })).await;
    assert_eq!(canceled.state(), "TASK_STATE_CANCELED");
    assert_eq!(caller.get(&task).await.state(), "TASK_STATE_CANCELED");
}

#[tokio::test(flavor = "multi_thread")]
async fn demo_client_ends_without_reader() {
    let demo = Demo::start().await;
    let mut client = Command::new(binary("demo-a2a-client"));
    client.args(["--url", &demo.gateway.url(), "--agent", "orchestrator-agent@1.0.0", "list"]);
    let mut client =
        client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the client starts");
    drop(client.stdout.take());
    let output = client.wait_with_output().expect("an end");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_commands_succeed() {
    let demo = Demo::start().await;
    let page = std::fs::read_to_string(root().join("docs/a2a.md")).expect("the page");
    let commands = page.lines().filter_map(|line| line.strip_prefix("demo-a2a-client "));
    let (client, url) = (binary("demo-a2a-client"), demo.gateway.url());
    let scripts: Vec<_> =
        commands.map(|words| format!("{} --url {url} {words}", client.display())).collect();
    assert!(!scripts.is_empty(), "no command in the page");
    for script in scripts {
        let output = Command::new("sh").args(["-c", &script]).output().expect("a shell");
        assert!(output.status.success() && !output.stdout.is_empty(), "{script}: {output:?}");
    }
}
