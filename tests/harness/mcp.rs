//! Raw MCP requests of both eras, with access to the exact bytes.

use serde_json::{Value, json};

/// The revision of the stateless era.
pub const MODERN: &str = "2026-07-28";
/// The revision of the session-based era.
pub const LEGACY: &str = "2025-11-25";

/// A modern client that sends its agent name in headers.
#[derive(Debug, Clone)]
pub struct ModernClient {
    http: reqwest::Client,
    url: String,
    agent: Option<(String, String)>,
    program: Option<Value>,
    capabilities: Value,
}

/// A response with HTTP status and JSON-RPC message.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The header `WWW-Authenticate`, or empty.
    pub challenge: String,
    /// The JSON-RPC message, or null.
    pub message: Value,
    /// The message as raw text.
    pub text: String,
}

impl Answer {
    /// The result. Panics without one.
    pub fn result(&self) -> &Value {
        self.message.get("result").unwrap_or_else(|| panic!("no result in {self:?}"))
    }

    /// The error code. Panics without one.
    pub fn error_code(&self) -> i64 {
        self.message["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error in {self:?}"))
    }

    /// The reason of a failed composition. Null without one.
    pub fn failure_reason(&self) -> &Value {
        &self.result()["_meta"]["registry/failure"]["reason"]
    }

    /// Whether it is a tool result with `isError`.
    pub fn is_tool_error(&self) -> bool {
        self.result()["isError"] == true
    }

    /// The first text block of a tool result.
    pub fn text(&self) -> &str {
        self.result()["content"][0]["text"].as_str().unwrap_or_default()
    }
}

impl ModernClient {
    /// A client without an identity.
    pub fn anonymous(url: &str) -> Self {
        let (http, url) = (reqwest::Client::new(), url.to_owned());
        Self { http, url, agent: None, program: None, capabilities: json!({}) }
    }

    /// A client that sends the headers of a registered agent.
    pub fn agent(url: &str, name: &str, version: &str) -> Self {
        let agent = Some((name.to_owned(), version.to_owned()));
        Self { agent, ..Self::anonymous(url) }
    }

    /// Uses another HTTP client.
    pub fn over(self, http: reqwest::Client) -> Self {
        Self { http, ..self }
    }

    /// Sends this name and version in `clientInfo`.
    pub fn introduced_as(self, name: &str, version: &str) -> Self {
        Self { program: Some(json!({ "name": name, "version": version })), ..self }
    }

    /// Sends these client capabilities.
    pub fn declaring(self, capabilities: Value) -> Self {
        Self { capabilities, ..self }
    }

    /// Sends one request with all headers that the specification requires.
    pub async fn request(&self, method: &str, params: Value) -> Result<Answer, reqwest::Error> {
        let mut params = params;
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
        });
        if let Some(program) = &self.program {
            meta["io.modelcontextprotocol/clientInfo"] = program.clone();
        }
        let name = ["name", "uri", "taskId"].into_iter().find_map(|key| params.get(key));
        let name = name.and_then(Value::as_str).map(str::to_owned);
        params.as_object_mut().expect("params are an object").insert("_meta".to_owned(), meta);
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut request = self
            .http
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", MODERN)
            .header("mcp-method", method);
        if let Some(name) = name {
            request = request.header("mcp-name", name);
        }
        if let Some((name, version)) = &self.agent {
            request = request.header("x-agent-name", name).header("x-agent-version", version);
        }
        let response = request.body(body.to_string()).send().await?;
        let status = response.status().as_u16();
        let challenge = response.headers().get("www-authenticate");
        let challenge = challenge.map(|text| text.to_str().expect("text").to_owned());
        let body = response.text().await?;
        let text = last_event(&body).to_owned();
        let message = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Answer { status, challenge: challenge.unwrap_or_default(), message, text })
    }

    /// The sorted names of all listed tools.
    pub async fn tool_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for tool in self.tools().await {
            names.push(tool["name"].as_str().expect("a tool has a name").to_owned());
        }
        names.sort_unstable();
        names
    }

    /// All listed tools.
    pub async fn tools(&self) -> Vec<Value> {
        let (mut tools, mut params) = (Vec::new(), json!({}));
        loop {
            let answer = self.request("tools/list", params).await.expect("the gateway answers");
            let page = answer.result()["tools"].as_array().expect("tools are a list");
            tools.extend(page.iter().cloned());
            match answer.result().get("nextCursor") {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => return tools,
            }
        }
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
            .await
            .expect("the gateway answers")
    }
}

/// The data of the last event of a stream, or the whole text of another response.
fn last_event(text: &str) -> &str {
    text.lines().rev().find_map(|line| line.strip_prefix("data:")).unwrap_or(text)
}
