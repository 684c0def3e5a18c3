//! An upstream whose tools behave according to their arguments.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use gateway_testkit::{McpServer, Received, Reply, Server, raw_reply};
use serde_json::{Value, json};
use tokio::{sync::Notify, time::timeout};

/// The recorded events.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// All calls: the tool and its arguments.
    pub(super) calls: Vec<(String, Value)>,
    /// The running calls, and their maximum.
    pub(super) running: usize,
    pub(super) most: usize,
    /// The cancelled calls.
    pub(super) cancelled: usize,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Scripted {
    seen: Arc<Mutex<Seen>>,
    /// Notified of each change of `seen`.
    changed: Arc<Notify>,
}

struct Running(Scripted, bool);

impl Drop for Running {
    fn drop(&mut self) {
        let mut seen = self.0.seen();
        seen.running -= 1;
        seen.cancelled += usize::from(!self.1);
        drop(seen);
        self.0.changed.notify_waiters();
    }
}

impl Scripted {
    pub(super) async fn start() -> (Self, Server) {
        let upstream = Self::default();
        let scripted = upstream.clone();
        let server = McpServer::modern().serve(move |received| {
            let scripted = scripted.clone();
            async move { scripted.reply(&received).await }
        });
        (upstream, server.await)
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// The arguments of all calls of a tool.
    pub(super) fn calls(&self, tool: &str) -> Vec<Value> {
        let seen = self.seen();
        seen.calls.iter().filter(|(t, _)| t == tool).map(|(_, a)| a.clone()).collect()
    }

    /// Waits until the calls satisfy a condition.
    pub(super) async fn until(&self, condition: impl Fn(&Seen) -> bool) {
        let met = async {
            loop {
                let changed = self.changed.notified();
                if condition(&self.seen()) {
                    return;
                }
                changed.await;
            }
        };
        let met = timeout(Duration::from_secs(10), met).await;
        assert!(met.is_ok(), "the condition was not met: {:?}", self.seen());
    }

    async fn reply(&self, received: &Received) -> Reply {
        if received.rpc_method() != "tools/call" {
            return received.unknown_method();
        }
        let Some(mut result) = self.called(&received.body["params"]).await else {
            return raw_reply(200, "application/json", b"nonsense");
        };
        result["resultType"] = json!("complete");
        received.result(&result)
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
        self.changed.notify_waiters();
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
            // It ran, but returns an invalid response.
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
