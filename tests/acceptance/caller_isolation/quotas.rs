//! Per-caller quotas: upstream capacity during elicitation, calls that wait for input, and resource
//! subscriptions.

use acceptance::{GatewayOptions, ModernClient, eventually, mcp::Answer};
use serde_json::{Value, json};

use super::{DECLARING, LEGACY, OTHER, Scene, elicitation_capabilities, eliciting_server};
use crate::scripted_server::ScriptedServer;

async fn call(client: &ModernClient, url: &str) -> Answer {
    client.call("fetch", json!({ "url": url })).await
}

fn is_elicited(answer: &Answer) -> bool {
    answer.result()["resultType"] == "input_required"
}

async fn metric(scene: &Scene, name: &str) -> u64 {
    let url = format!("{}/metrics", scene.gateway.url());
    let text = reqwest::get(url).await.expect("metrics").text().await.expect("text");
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or_default()
}

#[tokio::test]
async fn pending_questions_use_limited_upstream_share() {
    let scene = Scene::start(eliciting_server(), "limits: { upstreamRequests: 8 }\n").await;
    let [one, other, anonymous] =
        [DECLARING, OTHER, ""].map(|agent| scene.client(agent, elicitation_capabilities()));
    let first = call(&one, "http://asks/").await;
    assert!(is_elicited(&first) && is_elicited(&call(&one, "http://asks/").await), "{first:?}");
    let refused = call(&one, "http://asks/").await;
    assert!(refused.is_tool_error(), "{refused:?}");
    // Its elicitation quota is used up, but its calls are served, and other callers can receive elicitations.
    assert_eq!(call(&one, "http://page/").await.text(), "a page");
    assert!(is_elicited(&call(&other, "http://asks/").await));
    // Anonymous callers and callers with an unverified name share one quota.
    assert!(is_elicited(&call(&anonymous, "http://asks/").await));
    let unknown =
        ["x@1.0.0", "y@1.0.0"].map(|agent| scene.client(agent, elicitation_capabilities()));
    assert!(is_elicited(&call(&unknown[0], "http://asks/").await));
    assert!(call(&unknown[1], "http://asks/").await.is_tool_error());

    let busy = |line: &&String| line.contains("upstream-busy");
    assert_eq!(scene.audited("tools/call").iter().filter(busy).count(), 2);
    let counted = r#"gateway_tool_calls_total{era="modern",outcome="upstream-busy"}"#;
    assert_eq!(metric(&scene, counted).await, 2);

    let answer = json!({ "name": "fetch", "arguments": { "url": "http://asks/" },
        "requestState": first.result()["requestState"],
        "inputResponses": { "input": { "action": "accept" } } });
    let answered = one.request("tools/call", answer).await.expect("an answer");
    assert_eq!(answered.text(), "a page", "{answered:?}");
    assert!(is_elicited(&call(&one, "http://asks/").await), "there is room again");
}

#[tokio::test]
async fn held_calls_are_limited_per_caller() {
    let scene = Scene::start(eliciting_server(), "limits: { upstreamRequests: 4000 }\n").await;
    let [one, other] =
        [DECLARING, OTHER].map(|agent| scene.client(agent, elicitation_capabilities()));
    for number in 0..250 {
        assert!(is_elicited(&call(&one, "http://stays/").await), "{number}");
    }
    let refused = call(&one, "http://stays/").await;
    assert!(refused.is_tool_error(), "{refused:?}");
    assert!(is_elicited(&call(&other, "http://stays/").await));
    let busy = |line: &&String| line.contains("upstream-busy");
    assert_eq!(scene.audited("tools/call").iter().filter(busy).count(), 1);
}

/// A client with a session that can subscribe.
struct Watcher {
    http: reqwest::Client,
    url: String,
    agent: &'static str,
    session: String,
}

impl Watcher {
    async fn start(scene: &Scene, agent: &'static str) -> Self {
        let (http, url) = (reqwest::Client::new(), scene.gateway.mcp_url());
        let mut watcher = Self { http, url, agent, session: String::new() };
        let params = json!({ "protocolVersion": LEGACY, "capabilities": {},
            "clientInfo": { "name": "t", "version": "1" } });
        let answer = watcher.send("initialize", params).await;
        let session = answer.headers()["mcp-session-id"].to_str().expect("text");
        session.clone_into(&mut watcher.session);
        watcher
    }

    async fn send(&self, method: &str, params: Value) -> reqwest::Response {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (name, version) = self.agent.split_once('@').unwrap_or_default();
        let mut request = self
            .http
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json");
        if !name.is_empty() {
            request = request.header("x-agent-name", name).header("x-agent-version", version);
        }
        if !self.session.is_empty() {
            request = request.header("mcp-session-id", &self.session);
        }
        request.body(body.to_string()).send().await.expect("an answer")
    }

    async fn watch(&self, number: usize) -> Value {
        let uri = format!("fetch-server+test://{number}");
        let answer = self.send("resources/subscribe", json!({ "uri": uri })).await;
        serde_json::from_str(&answer.text().await.expect("text")).expect("JSON")
    }
}

#[tokio::test]
async fn resource_subscriptions_are_limited_per_caller() {
    let scene = Scene::start(eliciting_server(), "").await;
    let [one, again] =
        [Watcher::start(&scene, DECLARING).await, Watcher::start(&scene, DECLARING).await];
    for number in 0..250 {
        let watched = one.watch(number).await;
        assert!(watched["result"].is_object(), "{number}: {watched}");
    }
    assert!(again.watch(7).await["result"].is_object(), "it watches that already");
    for session in [&one, &again] {
        let refused = session.watch(250).await;
        assert_eq!(refused["error"]["code"], -32603, "{refused}");
        let told = refused["error"]["message"].as_str().expect("words");
        assert!(told.contains(" 250 "), "the limit is named: {told}");
    }
    let anonymous = Watcher::start(&scene, "").await;
    assert!(anonymous.watch(250).await["result"].is_object(), "others do");
}

#[tokio::test]
async fn subscriptions_survive_removal_of_other_target() {
    let scene = Scene::start(eliciting_server(), "").await;
    let watcher = Watcher::start(&scene, DECLARING).await;
    assert!(watcher.watch(1).await["result"].is_object());
    let other = ScriptedServer::start(eliciting_server()).await;
    let target = |server: &str, version: &str, url: &str| {
        format!("{{ server: {server}, version: {version}, http: \"{url}\" }}")
    };
    let fetching = target("fetch-server", "1.2.3", &scene.server.url);
    let both = format!("{fetching}, {}", target("time-server", "1.0.0", &other.url));
    let configure = async |number: usize, targets: &str| {
        scene.gateway.configure(&GatewayOptions {
            source: format!("file://{}", scene.catalog().display()),
            targets: format!("targets: [{targets}]\n"),
            runtime: None,
            more: String::new(),
        });
        let reloaded = format!("gateway_config_reloads_total{{outcome=\"applied\"}} {number}");
        eventually("it is taken over", || scene.gateway.has_metric(&reloaded)).await;
    };
    configure(1, &both).await;
    configure(2, &fetching).await;
    eventually("the other is let go", || async {
        let server = "target.server=server/time-server@1.0.0";
        scene.gateway.process.logged(&[server]).iter().any(|line| line.ends_with(server))
    })
    .await;
    assert!(watcher.watch(2).await["result"].is_object());
    let count = |method: &str| scene.server.seen().matches(&format!("\"{method}\"")).count();
    assert_eq!((count("resources/subscribe"), count("resources/unsubscribe")), (2, 0));
    // The replacement upstream receives all subscriptions.
    configure(3, &target("fetch-server", "1.2.3", &format!("{}?again", scene.server.url))).await;
    eventually("both are watched there", || async { count("resources/subscribe") == 4 }).await;
}
