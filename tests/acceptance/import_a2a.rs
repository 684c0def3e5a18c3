//! `registryctl import a2a`: agent cards of local servers.

use std::sync::Arc;

use acceptance::{Registry, ctl};
use serde_json::{Value, json};

use crate::scripted_server::{self, Script, ScriptedServer};

fn card() -> Value {
    json!({
        "name": "Research Agent", "version": "2.1.0", "description": "Finds things out",
        "url": "https://r.example/mcp", "protocolVersion": "0.3.0",
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{ "id": "r", "name": "R", "description": "Finds", "tags": ["x"] }],
        "capabilities": { "extensions": [{ "uri": "urn:agentgateway:sbom", "params": { "depends": [
            { "type": "tool", "name": "fetch", "version": "1.2.3" } ] } }] },
    })
}

/// Serves the card at one path only.
fn at(path: &'static str) -> Script {
    card_at(path, card())
}

fn card_at(path: &'static str, card: Value) -> Script {
    Arc::new(move |head, _| {
        let is_here = head.starts_with(&format!("GET {path} "));
        let missing = || {
            "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned()
        };
        Some(if is_here { scripted_server::json_answer(&card) } else { missing() })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn card_is_registered_with_dependencies() {
    let registry = Registry::start();
    registry.apply_example();
    for path in [
        "/mcp/.well-known/agent-card.json",
        "/mcp/.well-known/agent.json",
        "/.well-known/agent-card.json",
        "/.well-known/agent.json",
    ] {
        let server = ScriptedServer::start(at(path)).await;
        let done = registry.ctl(&["import", "a2a", &server.url, "--apply", "--yes"]);
        assert!(done.success(), "{path}: {done:?}");
        assert!(done.stderr.contains("repaired: "), "{done:?}");
    }
    let agent = registry.ctl(&["get", "agent/Research-Agent@2.1.0", "--document"]).stdout;
    let agent: Value = serde_json::from_str(&agent).expect("a document");
    let depends = &agent["capabilities"]["extensions"][0]["params"]["depends"][0];
    assert_eq!(depends["name"], "fetch");
    assert_eq!(agent["metadata"]["title"], "Research Agent");
}

#[tokio::test(flavor = "multi_thread")]
async fn root_card_of_other_agent_is_rejected() {
    let registry = Registry::start();
    let own = ScriptedServer::start(at("/mcp/.well-known/agent-card.json")).await;
    registry.apply_example();
    registry.run(&["import", "a2a", &own.url, "--apply", "--yes"]);
    let mut other = card();
    other["url"] = json!("https://r.example/other");
    let server = ScriptedServer::start(card_at("/.well-known/agent-card.json", other)).await;
    let failed = registry.ctl(&["import", "a2a", &server.url, "--name", "office/typo"]);
    assert_eq!((failed.code, failed.stdout.as_str()), (4, ""), "{failed:?}");
    let root = server.url.trim_end_matches("/mcp");
    assert!(failed.stderr.contains(&format!("{root}/.well-known/agent-card.json")), "{failed:?}");
    let target = format!("agent:Research-Agent@2.1.0={}", server.url);
    let drift = registry.ctl(&["drift", "--target", &target, "--output", "json"]);
    assert_eq!(drift.code, 4, "{drift:?}");
    let compared = &drift.json()["servers"][0];
    assert!(compared["error"].is_string(), "{compared}");
    assert_eq!(compared["differences"], json!([]));
    // An explicit URL of the root means its agent.
    let of_root = registry.ctl(&["import", "a2a", root, "--name", "office/other"]);
    assert!(of_root.success(), "{of_root:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn target_of_agent_has_no_secret() {
    let server = ScriptedServer::start(at("/mcp/.well-known/agent-card.json")).await;
    let words =
        ["import", "a2a", &server.url, "--name", "office/writer", "--header", "X-Key: secret"];
    let done = ctl("http://127.0.0.1:1", &words);
    let target = done.stderr.lines().last().unwrap_or_default().trim_start();
    insta::assert_snapshot!(
        target,
        @r#"- { agent: office/writer, version: "2.1.0", http: "https://r.example/mcp", headers: { "X-Key": { env: X_KEY } }, timeout: 30000ms }"#
    );
    let words = [&words[..], &["--output", "json"]].concat();
    let done = ctl("http://127.0.0.1:1", &words);
    let result: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!(target.trim_start_matches([' ', '-']), result["target"].as_str().expect("a target"));
    assert!(result.get("found").is_none(), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn card_url_query_is_sent() {
    let server = ScriptedServer::start(at("/mcp/card.json?key=S")).await;
    let url = format!("{}/card.json?key=S", server.url);
    let done = ctl("http://127.0.0.1:1", &["import", "a2a", &url]);
    assert!(done.success() && done.stdout.contains("Research-Agent"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_card_is_rejected() {
    for (script, expected) in [
        (at("/elsewhere"), "no card: neither"),
        (scripted_server::text("HTTP/1.1 200 OK\r\n\r\n{ \"name\": "), "not valid JSON"),
        (
            scripted_server::text("HTTP/1.1 200 OK\r\n\r\n{ \"name\": 1, \"name\": 2 }"),
            "not valid JSON",
        ),
        (
            scripted_server::text("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\n\r\n"),
            "302",
        ),
        (scripted_server::text("HTTP/1.1 500 Oops\r\n\r\n"), "500"),
        (scripted_server::silent(), "timeout after 2 s"),
        (
            Arc::new(|_: &str, _: &str| {
                Some(format!("HTTP/1.1 200 OK\r\n\r\n{}", " ".repeat(17 << 20)))
            }) as Script,
            "exceeds 16 MiB",
        ),
    ] {
        let server = ScriptedServer::start(script).await;
        let failed = ctl("http://127.0.0.1:1", &["import", "a2a", &server.url, "--timeout", "2"]);
        assert!(matches!(failed.code, 3 | 4), "{expected}: {failed:?}");
        assert!(failed.stderr.contains(expected), "{expected}: {failed:?}");
    }
    let odd = ctl("http://127.0.0.1:1", &["import", "a2a", "ftp://x"]);
    assert_eq!(odd.code, 2, "{odd:?}");
}
