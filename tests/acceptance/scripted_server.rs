//! Servers with scripted raw replies.

use std::sync::{Arc, Mutex};

use gateway_testkit::{McpServer, Received, Reply, Server};
use serde_json::{Value, json};

/// The reply to the head and body of a request. `None` sends no reply.
pub(crate) type Script = Arc<dyn Fn(&str, &str) -> Option<String> + Send + Sync>;

pub(crate) struct ScriptedServer {
    pub(crate) url: String,
    server: Server,
}

impl ScriptedServer {
    /// Starts a server for all requests. A script may block its own request.
    pub(crate) async fn start(script: Script) -> Self {
        Self::of(Server::serve(move |received| scripted(Arc::clone(&script), received)).await)
    }

    /// Starts an MCP server whose calls are scripted.
    pub(crate) async fn mcp(mcp: McpServer, calls: Script) -> Self {
        Self::of(mcp.serve(move |received| scripted(Arc::clone(&calls), received)).await)
    }

    fn of(server: Server) -> Self {
        Self { url: server.url(), server }
    }

    /// All requests as received, followed by one [`HUNG_UP`] for each connection that the client
    /// closed during a reply.
    pub(crate) fn seen(&self) -> String {
        let requests = self.server.all_seen();
        let texts = requests.iter().flat_map(|request| [&request.head, &request.text, "\n"]);
        let mut seen: String = texts.collect();
        seen.push_str(&HUNG_UP.repeat(self.server.cut_off()));
        seen
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.server.stop();
    }
}

async fn scripted(script: Script, received: Arc<Received>) -> Reply {
    let reply = tokio::task::spawn_blocking(move || script(&received.head, &received.text));
    match reply.await {
        Ok(Some(reply)) if reply == RESET => Reply::Reset,
        Ok(Some(reply)) => match reply.strip_suffix(STAY) {
            Some(begun) => Reply::Hang(begun.into()),
            None => Reply::Close(reply.into()),
        },
        Ok(None) => Reply::stall(),
        // The script panicked.
        Err(_) => Reply::Close(Vec::new()),
    }
}

/// As a reply: resets the connection.
pub(crate) const RESET: &str = "(reset)";
/// At the end of a reply: sends no more and keeps the connection open.
pub(crate) const STAY: &str = "(stay)";
/// In the received text: the client closed a connection before a complete reply.
pub(crate) const HUNG_UP: &str = "(hung up)\n";

/// Always replies with the same bytes.
pub(crate) fn text(answer: &'static str) -> Script {
    Arc::new(move |_, _| Some(answer.to_owned()))
}

/// Never replies.
pub(crate) fn silent() -> Script {
    Arc::new(|_, _| None)
}

/// A response with this JSON body.
pub(crate) fn json_answer(value: &Value) -> String {
    let body = value.to_string();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A response without a body.
pub(crate) fn status(line: &str) -> String {
    format!("HTTP/1.1 {line}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
}

/// An MCP server of this version that lists tools in these pages, and repeats the last page.
pub(crate) fn pages(version: &'static str, pages: Vec<Value>) -> Script {
    let next = Mutex::new(0_usize);
    Arc::new(move |head, body| {
        if !head.starts_with("POST") {
            return Some(status("405 Method Not Allowed"));
        }
        let request: Value = serde_json::from_str(body).ok()?;
        let Some(id) = request.get("id") else { return Some(status("202 Accepted")) };
        let result = match request["method"].as_str()? {
            "initialize" => json!({
                "protocolVersion": version, "capabilities": { "tools": {} },
                "serverInfo": { "name": "scripted", "version": "1.0.0" },
            }),
            "tools/list" => {
                let mut next = next.lock().ok()?;
                let first = request.pointer("/params/cursor").is_none();
                *next = if first { 0 } else { (*next + 1).min(pages.len() - 1) };
                pages[*next].clone()
            }
            _ => {
                let error = json!({ "code": -32601, "message": "no such method" });
                return Some(json_answer(&json!({ "jsonrpc": "2.0", "id": id, "error": error })));
            }
        };
        Some(json_answer(&json!({ "jsonrpc": "2.0", "id": id, "result": result })))
    })
}

/// A modern server with these tools. `call` maps parameters to a result, or `None` for no reply.
/// Other requests are accepted.
pub(crate) fn tools(
    names: &'static [&'static str],
    call: impl Fn(&Value) -> Option<Value> + Send + Sync + 'static,
) -> Script {
    Arc::new(move |_, body| {
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let tool = |name: &&str| json!({ "name": name, "inputSchema": { "type": "object" } });
        let tools: Vec<_> = names.iter().map(tool).collect();
        let mut result = match asked["method"].as_str() {
            Some("server/discover") => {
                json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } })
            }
            Some("tools/list") => json!({ "tools": tools }),
            Some("tools/call") => call(&asked["params"])?,
            Some(_) => {
                let error = json!({ "code": -32601, "message": "no such method" });
                let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error });
                return Some(json_answer(&answer));
            }
            None => json!({}),
        };
        result["resultType"] = "complete".into();
        result["ttlMs"] = 0.into();
        result["cacheScope"] = "private".into();
        Some(json_answer(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })))
    })
}
