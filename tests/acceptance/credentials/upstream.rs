//! An MCP server that checks the `Authorization` header, and a token endpoint. Both record their
//! requests.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::SECRET;
use crate::scripted_server::{ScriptedServer, json_answer};

/// A request to the MCP server.
#[derive(Debug, Clone)]
pub(super) struct ReceivedRequest {
    pub(super) method: String,
    pub(super) authorization: String,
    pub(super) session: String,
    pub(super) status: u16,
}

#[derive(Default)]
struct RecordedRequests {
    received: Vec<ReceivedRequest>,
    /// Accepted values of `Authorization`; empty accepts all.
    accepted: Vec<String>,
    /// The same for `tools/call`.
    accepted_for_calls: Vec<String>,
    sessions: u64,
}

/// An MCP server with the tool `fetch`.
pub(super) struct Upstream {
    pub(super) url: String,
    recorded: Arc<Mutex<RecordedRequests>>,
    server: ScriptedServer,
}

impl Upstream {
    pub(super) async fn modern() -> Self {
        Self::start(|method| (method == "server/discover").then(discovered)).await
    }

    /// Starts a server with sessions.
    pub(super) async fn legacy() -> Self {
        let initialized = || {
            json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "far", "version": "1.0.0" } })
        };
        Self::start(move |method| (method == "initialize").then(initialized)).await
    }

    async fn start(greeted: impl Fn(&str) -> Option<Value> + Send + Sync + 'static) -> Self {
        let recorded = Arc::<Mutex<RecordedRequests>>::default();
        let shared = Arc::clone(&recorded);
        let server = ScriptedServer::start(Arc::new(move |head, body| {
            let mut recorded = shared.lock().expect("not poisoned");
            let request: Value = serde_json::from_str(body).unwrap_or_default();
            let method = request["method"].as_str().unwrap_or_default().to_owned();
            let authorization = header(head, "authorization");
            let is_in = |good: &[String]| good.is_empty() || good.contains(&authorization);
            let is_good = is_in(&recorded.accepted)
                && (method != "tools/call" || is_in(&recorded.accepted_for_calls));
            let session = header(head, "mcp-session-id");
            let status = if is_good { 200 } else { 401 };
            recorded.received.push(ReceivedRequest {
                method: method.clone(),
                authorization,
                session,
                status,
            });
            if !is_good {
                return Some(empty("401 Unauthorized"));
            }
            if !head.starts_with("POST") {
                return Some(empty("405 Method Not Allowed"));
            }
            let Some(id) = request.get("id") else { return Some(empty("202 Accepted")) };
            let result = greeted(&method).or_else(|| result(&method));
            let answer = match result {
                Some(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
                None => json!({ "jsonrpc": "2.0", "id": id,
                    "error": { "code": -32601, "message": "no such method" } }),
            };
            let answer = json_answer(&answer);
            if method != "initialize" {
                return Some(answer);
            }
            recorded.sessions += 1;
            let named = format!("\r\nmcp-session-id: session-{}\r\n", recorded.sessions);
            Some(answer.replacen("\r\n", &named, 1))
        }))
        .await;
        Self { url: server.url.clone(), recorded, server }
    }

    fn recorded(&self) -> MutexGuard<'_, RecordedRequests> {
        self.recorded.lock().expect("not poisoned")
    }

    /// Accepts only these values of `Authorization` from now on.
    pub(super) fn accept_only(&self, good: &[&str]) {
        self.recorded().accepted = good.iter().map(|value| (*value).to_owned()).collect();
    }

    /// Accepts calls only with these values.
    pub(super) fn accept_calls_only(&self, good: &[&str]) {
        self.recorded().accepted_for_calls = good.iter().map(|value| (*value).to_owned()).collect();
    }

    pub(super) fn received(&self) -> Vec<ReceivedRequest> {
        self.recorded().received.clone()
    }

    /// Requests of one method.
    pub(super) fn received_of(&self, method: &str) -> Vec<ReceivedRequest> {
        self.received().into_iter().filter(|received| received.method == method).collect()
    }

    pub(super) fn last_call(&self) -> ReceivedRequest {
        self.received_of("tools/call").pop().expect("a call")
    }

    /// All requests as raw text.
    pub(super) fn seen(&self) -> String {
        self.server.seen()
    }

    /// Asserts that no request contained one of these secrets.
    pub(super) fn assert_never_saw(&self, secrets: &[&str]) {
        let seen = self.server.seen();
        for secret in secrets {
            assert!(!seen.contains(secret), "{secret} went upstream");
        }
    }
}

fn discovered() -> Value {
    json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
        "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } })
}

fn result(method: &str) -> Option<Value> {
    let mut result = match method {
        "tools/list" => {
            json!({ "tools": [{ "name": "fetch", "inputSchema": { "type": "object" } }] })
        }
        "tools/call" => json!({ "content": [{ "type": "text", "text": "fetched" }] }),
        "ping" => json!({}),
        _ => return None,
    };
    result["resultType"] = "complete".into();
    result["ttlMs"] = 0.into();
    result["cacheScope"] = "private".into();
    Some(result)
}

fn header(head: &str, name: &str) -> String {
    let line = head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_default().to_owned()
}

fn empty(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
}

/// A request to the token endpoint.
#[derive(Debug, Clone)]
pub(super) struct TokenRequest {
    pub(super) client: Option<(String, String)>,
    pub(super) form: BTreeMap<String, String>,
}

/// The response of the token endpoint, given the request and the number of the token. `None` sends
/// no response.
pub(super) type TokenBehavior = Box<dyn Fn(&TokenRequest, usize) -> Option<String> + Send>;

/// A token endpoint that issues `token-1`, `token-2` … to an authenticated client.
pub(super) struct TokenEndpoint {
    pub(super) url: String,
    requests: Arc<Mutex<Vec<TokenRequest>>>,
    behavior: Arc<Mutex<TokenBehavior>>,
    _server: ScriptedServer,
}

impl TokenEndpoint {
    pub(super) async fn start() -> Self {
        let requests = Arc::<Mutex<Vec<TokenRequest>>>::default();
        let behavior: Arc<Mutex<TokenBehavior>> = Arc::new(Mutex::new(valid_for(600)));
        let (recorded, current) = (Arc::clone(&requests), Arc::clone(&behavior));
        let server = ScriptedServer::start(Arc::new(move |head, body| {
            let request = TokenRequest::read(head, body);
            let number = {
                let mut recorded = recorded.lock().expect("not poisoned");
                recorded.push(request.clone());
                recorded.len()
            };
            let behavior = current.lock().expect("not poisoned");
            behavior(&request, number)
        }))
        .await;
        Self {
            url: server.url.replace("/mcp", "/token?tenant=t"),
            requests,
            behavior,
            _server: server,
        }
    }

    pub(super) fn set_behavior(&self, behavior: TokenBehavior) {
        *self.behavior.lock().expect("not poisoned") = behavior;
    }

    pub(super) fn requests(&self) -> Vec<TokenRequest> {
        self.requests.lock().expect("not poisoned").clone()
    }
}

impl TokenRequest {
    fn read(head: &str, body: &str) -> Self {
        assert!(head.starts_with("POST /token?tenant=t "), "{head}");
        assert_eq!(header(head, "content-type"), "application/x-www-form-urlencoded");
        let form = pairs(body);
        let basic = header(head, "authorization");
        let client = basic.strip_prefix("Basic ").map(|encoded| {
            let pair = BASE64_STANDARD.decode(encoded).expect("base64");
            let pair = String::from_utf8(pair).expect("text");
            let (id, secret) = pair.split_once(':').expect("a pair");
            (decoded(id), decoded(secret))
        });
        Self { client, form }
    }

    pub(super) fn field(&self, name: &str) -> &str {
        self.form.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Whether the client is authenticated.
    fn is_authenticated(&self) -> bool {
        let posted = (self.field("client_id").to_owned(), self.field("client_secret").to_owned());
        let client = self.client.clone().unwrap_or(posted);
        client == ("gate way".to_owned(), SECRET.to_owned())
    }
}

fn pairs(body: &str) -> BTreeMap<String, String> {
    let url = reqwest::Url::parse(&format!("http://x/?{body}")).expect("a form");
    let mut pairs = BTreeMap::new();
    for (name, value) in url.query_pairs() {
        let joined = pairs.entry(name.into_owned()).or_insert_with(String::new);
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(&value);
    }
    pairs
}

fn decoded(text: &str) -> String {
    pairs(&format!("x={text}"))["x"].clone()
}

/// Issues tokens that are valid for this time.
pub(super) fn valid_for(seconds: u64) -> TokenBehavior {
    Box::new(move |request, number| {
        if !request.is_authenticated() {
            return Some(token_error("401 Unauthorized", "invalid_client"));
        }
        let token = format!("token-{number}");
        Some(json_answer(&json!({ "access_token": token, "token_type": "Bearer",
            "expires_in": seconds, "issued_token_type": ISSUED })))
    })
}

const ISSUED: &str = "urn:ietf:params:oauth:token-type:access_token";

/// An error whose description repeats the secret.
pub(super) fn token_error(status: &str, code: &str) -> String {
    let body = json!({ "error": code, "error_description": SECRET });
    json_answer(&body).replacen("200 OK", status, 1)
}
