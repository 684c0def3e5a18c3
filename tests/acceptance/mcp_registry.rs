//! The MCP registry API over HTTP, and the commands that write to it.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod clients;
mod faults;
mod import;
mod lists;
mod parameters;
mod publish;
mod shape;

use std::sync::LazyLock;

use acceptance::{Registry, root};
use reqwest::{Method, StatusCode, header::HeaderMap};
use serde_json::{Value, json};

const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";
const OURS: &str = "local.registry/entity";

/// A registry and its HTTP API.
struct Api {
    registry: Registry,
    url: String,
    client: reqwest::Client,
}

#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// `name@version` of each server of a list.
    fn listed(&self) -> Vec<String> {
        assert_eq!(self.status, 200, "{self:?}");
        let list = self.json();
        let servers = list["servers"].as_array().expect("servers is an array");
        assert_eq!(list["metadata"]["count"], servers.len());
        servers.iter().map(|item| called(&item["server"])).collect()
    }

    fn cursor(&self) -> Option<String> {
        self.json()["metadata"].get("nextCursor").map(|text| text.as_str().unwrap().to_owned())
    }
}

fn called(server: &Value) -> String {
    format!("{}@{}", server["name"].as_str().unwrap(), server["version"].as_str().unwrap())
}

impl Api {
    fn start() -> Self {
        Self::of(Registry::start())
    }

    fn of(registry: Registry) -> Self {
        // A rejection may close its connection, which another request must not reuse.
        let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
        Self { url: registry.url(), registry, client }
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let url = format!("{}{path}", self.url);
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = self.client.request(method, url).body(body.to_owned());
        let request = headers.iter().fold(request, |r, (name, value)| r.header(*name, *value));
        let answer = request.send().await.expect("an answer");
        let (status, headers) = (answer.status(), answer.headers().clone());
        Answer { status, headers, text: answer.text().await.expect("a body") }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.send("POST", path, &json, &body.to_string()).await
    }

    async fn patch(&self, path: &str, body: &Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.send("PATCH", path, &json, &body.to_string()).await
    }

    async fn publish(&self, name: &str, version: &str) {
        let answer = self.post("/v0.1/publish", &server(name, version)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// A minimal `server.json`.
fn server(name: &str, version: &str) -> Value {
    json!({ "name": name, "version": version, "description": "Does what it says" })
}

/// A `server.json` with all optional members.
fn complete(name: &str, version: &str) -> Value {
    let input = json!({
        "name": "API_KEY", "description": "A key", "isRequired": true, "isSecret": true,
        "format": "string", "placeholder": "k-…", "choices": ["a", "b"], "default": "a",
    });
    json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": name, "version": version, "title": "Documents", "description": "Finds documents",
        "websiteUrl": "https://example.com/docs",
        "repository": { "url": "https://github.com/example/docs", "source": "github", "subfolder": "s" },
        "icons": [{ "src": "https://example.com/i.svg", "mimeType": "image/svg+xml", "sizes": ["any"] }],
        "packages": [{
            "registryType": "npm", "identifier": "@example/docs", "version": "1.0.2",
            "registryBaseUrl": "https://registry.npmjs.org", "runtimeHint": "npx",
            "transport": { "type": "stdio" },
            "runtimeArguments": [{ "type": "named", "name": "-y" }],
            "packageArguments": [
                { "type": "positional", "valueHint": "dir", "format": "filepath" },
                { "type": "named", "name": "--port", "value": "{port}", "isRepeated": false,
                  "variables": { "port": { "format": "number", "default": "80" } } },
            ],
            "environmentVariables": [input.clone()],
        }],
        "remotes": [
            { "type": "streamable-http", "url": "https://{tenant}.example.com/mcp",
              "headers": [input], "variables": { "tenant": { "isRequired": true } } },
            { "type": "sse", "url": "https://example.com/sse" },
        ],
        "_meta": { "io.modelcontextprotocol.registry/publisher-provided": { "tool": "ci", "n": [1] } },
    })
}

/// Schema violations of a served document.
fn invalid(server: &Value) -> Vec<String> {
    static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
        let path = root().join("crates/mcp-registry/tests/data/server.schema.json");
        let schema = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        jsonschema::validator_for(&schema).unwrap()
    });
    SCHEMA.iter_errors(server).map(|error| format!("{}: {error}", error.instance_path())).collect()
}
