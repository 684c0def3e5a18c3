//! An upstream whose tools do what their arguments say.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use axum::{Json, Router, extract::State, response::IntoResponse as _};
use gateway_upstream::{Addresses, TransportConfig};
use serde_json::{Value, json};

/// What has happened at the upstream.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Every call: the tool and its arguments.
    pub(super) calls: Vec<(String, Value)>,
    /// Calls that are under way, and the most that were at once.
    pub(super) running: usize,
    pub(super) most: usize,
    /// Calls whose caller went away.
    pub(super) cancelled: usize,
}

/// The upstream.
#[derive(Debug, Clone, Default)]
pub(super) struct Scripted(Arc<Mutex<Seen>>);

/// A call under way.
struct Running(Scripted, bool);

impl Drop for Running {
    fn drop(&mut self) {
        let mut seen = self.0.seen();
        seen.running -= 1;
        if !self.1 {
            seen.cancelled += 1;
        }
    }
}

impl Scripted {
    pub(super) async fn start() -> (Self, TransportConfig) {
        let upstream = Self::default();
        let router = Router::new().route("/", axum::routing::post(answer));
        let router = router.with_state(upstream.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let (headers, addresses) = (BTreeMap::new(), Addresses::Usual);
        let http = TransportConfig::Http { url, headers, auth: None, tls: None, addresses };
        (upstream, http)
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap()
    }

    /// The arguments of all calls of a tool.
    pub(super) fn calls(&self, tool: &str) -> Vec<Value> {
        let seen = self.seen();
        seen.calls.iter().filter(|(t, _)| t == tool).map(|(_, a)| a.clone()).collect()
    }

    /// Waits until what the caller gave up has been noticed.
    pub(super) async fn until(&self, is_it: impl Fn(&Seen) -> bool) {
        for _ in 0..500 {
            if is_it(&self.seen()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it did not come to that: {:?}", self.seen());
    }

    async fn called(&self, params: &Value) -> Option<Value> {
        let (tool, arguments) = (params["name"].as_str().unwrap(), &params["arguments"]);
        let before = self.calls(tool).len();
        let mut running = {
            let mut seen = self.seen();
            seen.calls.push((tool.to_owned(), arguments.clone()));
            seen.running += 1;
            seen.most = seen.most.max(seen.running);
            Running(self.clone(), false)
        };
        let structured = |value: &Value| json!({ "structuredContent": value, "content": [] });
        let result = match tool {
            "say" => structured(&arguments["value"]),
            "text" => json!({ "content": [{ "type": "text", "text": arguments["text"] }] }),
            "fail" => {
                let text = arguments["message"].as_str().unwrap_or("no");
                json!({ "isError": true, "content": [{ "type": "text", "text": text }] })
            }
            "wait" => {
                let ms = arguments["ms"].as_u64().unwrap();
                tokio::time::sleep(Duration::from_millis(ms)).await;
                structured(&json!({ "waited": ms, "n": arguments["n"] }))
            }
            "flaky" if (before as u64) < arguments["failures"].as_u64().unwrap_or(2) => {
                json!({ "isError": true, "content": [{ "type": "text", "text": "not yet" }] })
            }
            "flaky" | "count" => structured(&json!({ "n": before + 1 })),
            // It did it, and says nothing that could be understood.
            "lose" => {
                running.1 = true;
                return None;
            }
            _ => structured(arguments),
        };
        running.1 = true;
        Some(result)
    }
}

async fn answer(
    State(upstream): State<Scripted>,
    Json(body): Json<Value>,
) -> axum::response::Response {
    let result = match body["method"].as_str().unwrap() {
        "server/discover" => json!({ "capabilities": {}, "supportedVersions": ["2026-07-28"],
            "ttlMs": 0, "cacheScope": "private" }),
        "tools/list" => json!({ "tools": [] }),
        "tools/call" => match upstream.called(&body["params"]).await {
            Some(result) => result,
            None => return ([("content-type", "application/json")], "nonsense").into_response(),
        },
        _ => {
            let error = json!({ "code": -32601, "message": "?" });
            let message = json!({ "jsonrpc": "2.0", "id": body["id"], "error": error });
            return (http::StatusCode::NOT_FOUND, Json(message)).into_response();
        }
    };
    let mut result = result;
    result["resultType"] = json!("complete");
    Json(json!({ "jsonrpc": "2.0", "id": body["id"], "result": result })).into_response()
}
