//! Agent cards: hostile ones of agents, and those that the gateway serves.

use std::sync::Arc;

use acceptance::ctl;
use gateway_testkit::{Received, Reply, Server, empty, json_reply, raw_reply};
use serde_json::{Value, json};

use super::{Agent, Caller, Scene, skill};

/// The kinds of hostile cards. Each agent speaks 1.0 over JSON-RPC at its configured URL.
const HOSTILE: [&str; 10] = [
    "names-another-server",
    "redirects",
    "floods",
    "hangs",
    "resets",
    "too-deep",
    "empty",
    "array",
    "wrong-types",
    "many-interfaces",
];

/// The reply to a request for the card.
fn card(kind: &str, trap: &str) -> Reply {
    let interface = json!({ "url": trap, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" });
    let card = |interfaces: Value| {
        json_reply(
            200,
            &json!({ "name": "a", "description": "d", "version": "1", "url": trap,
                "supportedInterfaces": interfaces, "skills": [], "capabilities": {} }),
        )
    };
    match kind {
        "names-another-server" => card(json!([interface])),
        "redirects" => empty(302).with_header("location", trap),
        "floods" => Reply::Flood(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
                .to_vec(),
        ),
        "hangs" => Reply::stall(),
        "resets" => Reply::Reset,
        "too-deep" => {
            let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
            raw_reply(200, "application/json", nested.as_bytes())
        }
        "empty" => raw_reply(200, "application/json", b""),
        "array" => json_reply(200, &json!([])),
        "wrong-types" => json_reply(
            200,
            &json!({ "name": 7, "url": [], "supportedInterfaces": "none", "skills": {},
                "protocolVersion": { "a": 1 } }),
        ),
        "many-interfaces" => card(Value::Array(vec![interface; 20_000])),
        other => panic!("`{other}`"),
    }
}

fn reply(kind: &str, trap: &str, received: &Received) -> Reply {
    match received.rpc_method() {
        "SendMessage" => received.result(&json!({ "message": { "messageId": "reply-1",
            "role": "ROLE_AGENT", "parts": [{ "text": "good" }] } })),
        "GetTask" => received.error(200, &json!({ "code": -32001, "message": "Task not found" })),
        "" if received.path.contains("/.well-known/") => card(kind, trap),
        _ => received.error(200, &json!({ "code": -32601, "message": "Method not found" })),
    }
}

async fn agent(kind: &'static str, trap: &Server) -> (Server, Agent) {
    let trap = Arc::<str>::from(format!("http://{}/trap", trap.address()));
    let server =
        Server::serve(move |received| std::future::ready(reply(kind, &trap, &received))).await;
    // The path belongs to the agent.
    let url = format!("http://{}/agents/{kind}", server.address());
    (server, Agent::new(&format!("hostile/{kind}"), &url, vec![skill("work")]))
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_card_never_redirects_the_gateway() {
    let trap = Server::serve(|_| std::future::ready(empty(200))).await;
    let (mut servers, mut agents) = (Vec::new(), Vec::new());
    for kind in HOSTILE {
        let (server, agent) = agent(kind, &trap).await;
        servers.push(server);
        agents.push(agent);
    }
    let scene = Scene::start(&agents, "limits: { connectTimeoutMs: 2000 }\n").await;
    let before = scene.gateway.process.resident_bytes();
    for (kind, server) in HOSTILE.into_iter().zip(&servers) {
        let caller = scene.caller("caller", &format!("hostile/{kind}"));
        let answer = caller.send("work", "hello").await;
        assert_eq!(answer.result()["message"]["parts"][0]["text"], "good", "{kind}: {answer:?}");
        let at_home = |request: &Received| request.path.starts_with(&format!("/agents/{kind}"));
        assert!(server.all_seen().iter().all(at_home), "{kind}: the path is kept");
    }
    assert_eq!(trap.connections(), 0);
    let grown = scene.gateway.process.peak_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
}

async fn get(caller: &Caller, url: &str, headers: &[(&str, &str)]) -> reqwest::Response {
    let mut request = caller.http.get(url).header("x-agent-name", caller.name);
    request = request.header("x-agent-version", "1.0.0");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.expect("the gateway answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn served_card_reveals_no_address_of_the_agent() {
    let trap = Server::serve(|_| std::future::ready(empty(200))).await;
    let (server, agent) = agent("names-another-server", &trap).await;
    let name = agent.name.clone();
    let scene = Scene::start(&[agent], "").await;
    let caller = scene.caller("caller", &name);
    for (version, member) in [("1.0", "supportedInterfaces"), ("0.3", "additionalInterfaces")] {
        for file in ["agent-card.json", "agent.json"] {
            let url = format!("{}/.well-known/{file}", caller.url);
            let answer = get(&caller, &url, &[("a2a-version", version)]).await;
            assert_eq!(answer.status(), 200, "{url}");
            let etag = answer.headers()["etag"].to_str().expect("text").to_owned();
            let text = answer.text().await.expect("text");
            for hidden in [server.address(), trap.address()] {
                assert!(!text.contains(&hidden.to_string()), "{version}: {text}");
            }
            assert!(!text.contains("registered.example"), "{version}: {text}");
            let card: Value = serde_json::from_str(&text).expect("JSON");
            let interfaces = card[member].as_array().expect("a list");
            let is_ours = |interface: &Value| {
                let is_grpc = interface["protocolBinding"] == "GRPC";
                let url = interface["url"].as_str().unwrap_or_default();
                if is_grpc { url == scene.gateway.url() } else { url.starts_with(&caller.url) }
            };
            assert!(!interfaces.is_empty() && interfaces.iter().all(is_ours), "{version}: {text}");
            let validators = [("a2a-version", version), ("if-none-match", &*etag)];
            assert_eq!(get(&caller, &url, &validators).await.status(), 304, "{version}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_discovers_the_agents_that_it_declares() {
    let trap = Server::serve(|_| std::future::ready(empty(200))).await;
    let (_server, agent) = agent("names-another-server", &trap).await;
    let name = agent.name.clone();
    let scene = Scene::start(&[agent], "").await;
    let list = format!("{}/.well-known/agents", scene.gateway.url());
    for (caller, is_found) in [("caller", true), ("stranger", false)] {
        let caller = scene.caller(caller, &name);
        let found = get(&caller, &list, &[]).await;
        assert_eq!(found.status(), 200, "{}", caller.name);
        let text = found.text().await.expect("text");
        assert_eq!(text.contains(&name), is_found, "{}: {text}", caller.name);
        let card = format!("{}/.well-known/agent-card.json", caller.url);
        let status = if is_found { 200 } else { 404 };
        assert_eq!(get(&caller, &card, &[]).await.status(), status, "{}", caller.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_card_of_gateway_is_verified_by_import() {
    let trap = Server::serve(|_| std::future::ready(empty(200))).await;
    let (_server, agent) = agent("names-another-server", &trap).await;
    let name = agent.name.clone();
    let scene = Scene::start(&[agent], "a2a: { url: \"https://gateway.example\" }\n").await;
    let keys = format!("{}/.well-known/jwks.json", scene.gateway.url());
    let url = scene.url(&name);
    let identity = ["--header", "x-agent-name: caller", "--header", "x-agent-version: 1.0.0"];
    let import = ["import", "a2a", &url, "--card-keys", &keys, "--output", "json"];
    let imported = ctl("http://127.0.0.1:1", &[&import[..], &identity[..]].concat());
    assert!(imported.success(), "{imported:?}");
    let provenance = &imported.json()["file"]["agents"][0]["metadata"]["cardProvenance"];
    assert!(provenance["verifiedKid"].is_string(), "{provenance}");
}
