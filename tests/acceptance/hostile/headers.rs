//! Header isolation: no header of a caller reaches an upstream, and no header of an upstream
//! reaches a caller.

use std::{collections::BTreeSet, fmt::Write as _, sync::Arc};

use serde_json::{Value, json};

use super::{LEGACY, MODERN, Scene, modern_call, page, result_of};
use crate::scripted_server::json_answer;

/// Headers that a caller, its proxies or an attacker may send.
const CALLERS: [(&str, &str); 24] = [
    ("authorization", "Bearer callers-own"),
    ("proxy-authorization", "Basic callers-own"),
    ("cookie", "callers=own"),
    ("x-api-key", "callers-own"),
    ("forwarded", "for=203.0.113.1;host=callers-own"),
    ("x-forwarded-for", "203.0.113.1"),
    ("x-forwarded-host", "callers-own"),
    ("x-forwarded-proto", "callers-own"),
    ("x-real-ip", "203.0.113.1"),
    ("via", "1.1 callers-own"),
    ("referer", "http://localhost/callers-own"),
    ("origin", "http://localhost"),
    ("user-agent", "callers-own/1"),
    ("accept-language", "callers-own"),
    ("accept-encoding", "gzip"),
    ("last-event-id", "callers-own"),
    ("mcp-param-evil", "callers-own"),
    ("x-agent-name", "callers-own"),
    ("x-agent-version", "1.0.0"),
    ("x-original-url", "/callers-own"),
    ("x-http-method-override", "DELETE"),
    ("te", "trailers"),
    ("if-none-match", "callers-own"),
    ("x-request-id", "callers-own"),
];

/// Response headers of an upstream about sessions, caches, authentication and redirects.
const UPSTREAMS: [(&str, &str); 18] = [
    ("Set-Cookie", "upstreams=own"),
    ("WWW-Authenticate", "Bearer realm=upstreams-own"),
    ("Proxy-Authenticate", "Basic realm=upstreams-own"),
    ("Authentication-Info", "upstreams-own"),
    ("Server", "upstreams-own"),
    ("X-Powered-By", "upstreams-own"),
    ("Via", "1.1 upstreams-own"),
    ("Location", "http://upstreams-own/"),
    ("Refresh", "0; url=http://upstreams-own/"),
    ("Link", "<http://upstreams-own/>; rel=x"),
    ("Alt-Svc", "h3=upstreams-own"),
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Allow-Credentials", "true"),
    ("Strict-Transport-Security", "max-age=1"),
    ("Clear-Site-Data", "\"*\""),
    ("ETag", "upstreams-own"),
    ("Mcp-Protocol-Version", "upstreams-own"),
    ("X-Request-Id", "upstreams-own"),
];

/// A response with all upstream headers.
fn verbose_response(line: &str, body: &Value) -> String {
    let mut headers = String::new();
    for (name, value) in UPSTREAMS {
        let _ = write!(headers, "{name}: {value}\r\n");
    }
    let answer = json_answer(body).replacen("200 OK", line, 1);
    answer.replacen("\r\n", &format!("\r\n{headers}Mcp-Session-Id: upstreams-own\r\n"), 1)
}

fn names(head: &str) -> BTreeSet<String> {
    let lines = head.lines().skip(1).take_while(|line| !line.is_empty());
    lines.filter_map(|line| Some(line.split_once(':')?.0.to_lowercase())).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The heads of the requests for this method at the upstream.
fn heads(scene: &Scene, method: &str) -> Vec<String> {
    let seen = scene.server.seen();
    let parts: Vec<_> = seen.split("POST /mcp HTTP/1.1").skip(1).map(str::to_owned).collect();
    let wanted = format!("\"method\":\"{method}\"");
    parts.into_iter().filter(|part| part.contains(&wanted)).collect()
}

fn post(scene: &Scene, body: &Value) -> reqwest::RequestBuilder {
    let request = reqwest::Client::new()
        .post(scene.gateway.mcp_url())
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .body(body.to_string());
    CALLERS.iter().fold(request, |request, (name, value)| request.header(*name, *value))
}

/// Calls as a client of this version and returns the response.
async fn call(scene: &Scene, version: &str) -> reqwest::Response {
    let (request, mut body) = (post(scene, &Value::Null), modern_call("http://x/"));
    if version == MODERN {
        let request = request.header("mcp-protocol-version", MODERN);
        let request = request.header("mcp-method", "tools/call").header("mcp-name", "fetch");
        // The session header of a modern client is ignored.
        let request = request.header("mcp-session-id", "callers-own");
        return request.body(body.to_string()).send().await.expect("an answer");
    }
    let params = json!({ "protocolVersion": version, "capabilities": {} });
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let answer = post(scene, &initialize).send().await.expect("an answer");
    let session = answer.headers()["mcp-session-id"].to_str().expect("text").to_owned();
    body["params"].as_object_mut().expect("an object").remove("_meta");
    let request = request.header("mcp-session-id", &session);
    request.body(body.to_string()).send().await.expect("an answer")
}

#[tokio::test]
async fn caller_headers_are_not_forwarded() {
    for upstream in [MODERN, LEGACY] {
        let call_of = Arc::new(|_: &str, message: &Value| {
            Some(verbose_response("200 OK", &result_of(message, &page())))
        });
        let scene = Scene::start(upstream, "", call_of).await;
        for client in [MODERN, LEGACY] {
            let before = heads(&scene, "tools/call").len();
            let answer = call(&scene, client).await;
            assert_eq!(answer.status(), 200, "{client} to {upstream}");
            let head = heads(&scene, "tools/call").split_off(before).remove(0);
            assert!(!head.contains("callers-own") && !head.contains("203.0.113.1"), "{head}");
            let mut expected =
                set(&["host", "accept", "content-type", "content-length", "user-agent"]);
            expected.insert("mcp-protocol-version".to_owned());
            expected.extend(if upstream == MODERN {
                set(&["mcp-method", "mcp-name", "traceparent"])
            } else {
                set(&["mcp-session-id"])
            });
            assert_eq!(names(&head), expected, "{client} to {upstream}");
            assert!(head.contains("user-agent: gateway-agent/"), "{head}");
            assert!(upstream == MODERN || head.contains("mcp-session-id: s-1"), "{head}");
        }
        let seen = scene.server.seen();
        assert!(!seen.contains("callers-own"), "neither did anything else: {seen}");
    }
}

#[tokio::test]
async fn upstream_headers_are_not_returned() {
    for upstream in [MODERN, LEGACY] {
        for line in ["200 OK", "401 Unauthorized", "403 Forbidden", "500 Oops", "302 Found"] {
            let call_of = Arc::new(move |_: &str, message: &Value| {
                let body = if line == "200 OK" {
                    result_of(message, &page())
                } else {
                    json!({ "error": "upstreams-own" })
                };
                Some(verbose_response(line, &body))
            });
            let scene = Scene::start(upstream, "", call_of).await;
            for client in [MODERN, LEGACY] {
                let answer = call(&scene, client).await;
                assert_eq!(answer.status(), 200, "{line}, {client} to {upstream}");
                let got: BTreeSet<_> =
                    answer.headers().keys().map(|name| name.as_str().to_owned()).collect();
                let own = [
                    "access-control-expose-headers",
                    "content-length",
                    "content-type",
                    "date",
                    "vary",
                    "x-request-id",
                ];
                let allowed = set(&own);
                assert_eq!(got, allowed, "{line}, {client} to {upstream}");
                let text = answer.text().await.expect("text");
                assert!(!text.contains("upstreams-own"), "{line}: {text}");
                assert_eq!(text.contains("\"isError\":true"), line != "200 OK", "{line}: {text}");
            }
        }
    }
}
