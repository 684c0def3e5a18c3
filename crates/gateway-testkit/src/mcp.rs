//! The part of an MCP server that most tests do not care about.

use std::{future::Future, sync::Arc};

use serde_json::{Value, json};

use crate::{Received, Reply, Server, empty, json_reply, raw_reply};

/// The only version of the modern era.
const MODERN: &str = "2026-07-28";
/// The last version with sessions.
const LEGACY: &str = "2025-11-25";

/// An MCP server of one era with a list of tools.
#[derive(Debug, Clone)]
pub struct McpServer {
    version: &'static str,
    capabilities: Value,
    /// JSON text, so that the order of members is the test's.
    tools: String,
}

impl McpServer {
    /// A server without sessions.
    pub fn modern() -> Self {
        let capabilities = json!({ "tools": {} });
        Self { version: MODERN, capabilities, tools: "[]".to_owned() }
    }

    /// A server with sessions. It refuses `server/discover`.
    pub fn legacy() -> Self {
        Self { version: LEGACY, ..Self::modern() }
    }

    /// The same server with this list of tools, as JSON text.
    pub fn with_tools(self, tools: impl Into<String>) -> Self {
        Self { tools: tools.into(), ..self }
    }

    /// The same server with these capabilities.
    pub fn with_capabilities(self, capabilities: Value) -> Self {
        Self { capabilities, ..self }
    }

    /// The same server with tools of these names.
    pub fn with_tool_names(self, names: &[&str]) -> Self {
        let tool = |name: &&str| json!({ "name": name, "inputSchema": { "type": "object" } });
        let tools: Value = names.iter().map(tool).collect();
        self.with_tools(tools.to_string())
    }

    /// Starts the server. `rest` replies to calls and to methods without a reply of [`McpServer::reply`].
    pub async fn start(self, rest: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Server {
        Server::start(move |received| self.reply(received).unwrap_or_else(|| rest(received))).await
    }

    /// Starts the server with an asynchronous script.
    pub async fn serve<F: Future<Output = Reply> + Send + 'static>(
        self,
        rest: impl Fn(Arc<Received>) -> F + Send + Sync + 'static,
    ) -> Server {
        let scripted = move |received: Arc<Received>| {
            let reply = self.reply(&received);
            let rest = reply.is_none().then(|| rest(received));
            async move {
                match (reply, rest) {
                    (Some(reply), _) => reply,
                    (None, Some(rest)) => rest.await,
                    (None, None) => Reply::stall(),
                }
            }
        };
        Server::serve(scripted).await
    }

    /// The reply to requests other than calls. The server has no streams of notifications.
    pub fn reply(&self, received: &Received) -> Option<Reply> {
        let is_modern = self.version == MODERN;
        match received.rpc_method() {
            _ if received.http_method == "GET" => Some(empty(405)),
            "server/discover" if is_modern => Some(received.result(&json!({
                "resultType": "complete", "supportedVersions": [MODERN],
                "capabilities": self.capabilities, "ttlMs": 0, "cacheScope": "private"
            }))),
            "server/discover" => Some(json_reply(400, &json!({ "error": "unknown method" }))),
            "initialize" if !is_modern => {
                let result = json!({ "protocolVersion": LEGACY, "capabilities": self.capabilities,
                    "serverInfo": { "name": "scripted", "version": "1.0.0" } });
                Some(received.result(&result).with_header("Mcp-Session-Id", "s-1"))
            }
            "tools/list" => {
                let (id, tools) = (&received.body["id"], &self.tools);
                let complete = if is_modern { r#""resultType":"complete","# } else { "" };
                let text = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{{complete}"tools":{tools}}}}}"#
                );
                Some(raw_reply(200, "application/json", text.as_bytes()))
            }
            method if method.starts_with("notifications/") => Some(empty(202)),
            // The answer to a question, or the end of a session.
            "" if !is_modern => Some(empty(202)),
            _ => None,
        }
    }
}
