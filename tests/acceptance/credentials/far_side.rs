//! The far side: an MCP server that lets in who shows the right header, and a token endpoint. Both
//! note what they get.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::SECRET;
use crate::liar::{Liar, json_answer};

/// A request as an MCP server got it.
#[derive(Debug, Clone)]
pub(super) struct Got {
    pub(super) method: String,
    pub(super) authorization: String,
    pub(super) session: String,
    pub(super) status: u16,
}

#[derive(Default)]
struct Notes {
    got: Vec<Got>,
    /// What is let in; empty: everything.
    good: Vec<String>,
    /// The same for calls.
    good_for_calls: Vec<String>,
    sessions: u64,
}

/// An MCP server with the tool `fetch`.
pub(super) struct Upstream {
    pub(super) url: String,
    notes: Arc<Mutex<Notes>>,
    liar: Liar,
}

impl Upstream {
    pub(super) async fn modern() -> Self {
        Self::start(|method| (method == "server/discover").then(discovered)).await
    }

    /// One with sessions.
    pub(super) async fn legacy() -> Self {
        let initialized = || {
            json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "far", "version": "1.0.0" } })
        };
        Self::start(move |method| (method == "initialize").then(initialized)).await
    }

    async fn start(greeted: impl Fn(&str) -> Option<Value> + Send + Sync + 'static) -> Self {
        let notes = Arc::<Mutex<Notes>>::default();
        let shared = Arc::clone(&notes);
        let liar = Liar::start(Arc::new(move |head, body| {
            let mut notes = shared.lock().expect("not poisoned");
            let asked: Value = serde_json::from_str(body).unwrap_or_default();
            let method = asked["method"].as_str().unwrap_or_default().to_owned();
            let authorization = header(head, "authorization");
            let is_in = |good: &[String]| good.is_empty() || good.contains(&authorization);
            let is_good =
                is_in(&notes.good) && (method != "tools/call" || is_in(&notes.good_for_calls));
            let session = header(head, "mcp-session-id");
            let status = if is_good { 200 } else { 401 };
            notes.got.push(Got { method: method.clone(), authorization, session, status });
            if !is_good {
                return Some(empty("401 Unauthorized"));
            }
            if !head.starts_with("POST") {
                return Some(empty("405 Method Not Allowed"));
            }
            let Some(id) = asked.get("id") else { return Some(empty("202 Accepted")) };
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
            notes.sessions += 1;
            let named = format!("\r\nmcp-session-id: session-{}\r\n", notes.sessions);
            Some(answer.replacen("\r\n", &named, 1))
        }))
        .await;
        Self { url: liar.url.clone(), notes, liar }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("not poisoned")
    }

    /// From now on only these values of `Authorization` are let in.
    pub(super) fn let_in(&self, good: &[&str]) {
        self.notes().good = good.iter().map(|value| (*value).to_owned()).collect();
    }

    /// The same, of calls only.
    pub(super) fn let_call(&self, good: &[&str]) {
        self.notes().good_for_calls = good.iter().map(|value| (*value).to_owned()).collect();
    }

    pub(super) fn got(&self) -> Vec<Got> {
        self.notes().got.clone()
    }

    /// What it got of this method.
    pub(super) fn got_of(&self, method: &str) -> Vec<Got> {
        self.got().into_iter().filter(|got| got.method == method).collect()
    }

    /// The last call that it got.
    pub(super) fn last_call(&self) -> Got {
        self.got_of("tools/call").pop().expect("a call")
    }

    /// Everything that it got, as it came.
    pub(super) fn seen(&self) -> String {
        self.liar.seen()
    }

    /// No byte of these came here.
    pub(super) fn assert_never_saw(&self, secrets: &[&str]) {
        let seen = self.liar.seen();
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

/// A request as the token endpoint got it.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) client: Option<(String, String)>,
    pub(super) form: BTreeMap<String, String>,
}

/// What the token endpoint does, given the request and how many tokens it gave already; `None`:
/// nothing, ever.
pub(super) type Manner = Box<dyn Fn(&Asked, usize) -> Option<String> + Send>;

/// A token endpoint that gives `token-1`, `token-2` … to the client that knows the secret.
pub(super) struct Tokens {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    manner: Arc<Mutex<Manner>>,
    _liar: Liar,
}

impl Tokens {
    pub(super) async fn start() -> Self {
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let manner: Arc<Mutex<Manner>> = Arc::new(Mutex::new(good_for(600)));
        let (noted, rule) = (Arc::clone(&asked), Arc::clone(&manner));
        let liar = Liar::start(Arc::new(move |head, body| {
            let asked = Asked::read(head, body);
            let number = {
                let mut noted = noted.lock().expect("not poisoned");
                noted.push(asked.clone());
                noted.len()
            };
            let rule = rule.lock().expect("not poisoned");
            rule(&asked, number)
        }))
        .await;
        Self { url: liar.url.replace("/mcp", "/token?tenant=t"), asked, manner, _liar: liar }
    }

    /// From now on it does this.
    pub(super) fn behave(&self, manner: Manner) {
        *self.manner.lock().expect("not poisoned") = manner;
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("not poisoned").clone()
    }
}

impl Asked {
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

    pub(super) fn says(&self, name: &str) -> &str {
        self.form.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Whether the client proved itself.
    fn is_good(&self) -> bool {
        let posted = (self.says("client_id").to_owned(), self.says("client_secret").to_owned());
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

/// Tokens that live so many seconds.
pub(super) fn good_for(seconds: u64) -> Manner {
    Box::new(move |asked, number| {
        if !asked.is_good() {
            return Some(refusal("401 Unauthorized", "invalid_client"));
        }
        let token = format!("token-{number}");
        Some(json_answer(&json!({ "access_token": token, "token_type": "Bearer",
            "expires_in": seconds, "issued_token_type": ISSUED })))
    })
}

const ISSUED: &str = "urn:ietf:params:oauth:token-type:access_token";

/// A refusal that repeats the secret where only people look.
pub(super) fn refusal(status: &str, code: &str) -> String {
    let body = json!({ "error": code, "error_description": SECRET });
    json_answer(&body).replacen("200 OK", status, 1)
}
