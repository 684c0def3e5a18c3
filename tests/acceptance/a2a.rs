//! A2A through the gateway: the official SDKs as clients and as agents, faulty agents, and the
//! tasks of several callers.

mod bad_input;
mod cards;
mod demo;
mod faults;
mod grpc_faults;
mod grpc_tls;
mod memory;
mod push;
mod sdks;
mod tasks;

use std::path::PathBuf;

use acceptance::{Gateway, GatewayOptions, root};
use gateway_testkit::{Received, Reply, empty};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A file in this directory.
fn fixture(file: &str) -> PathBuf {
    root().join("tests/acceptance/a2a").join(file)
}

/// An agent that the gateway calls at `url`, with skills of these ids. The registered URL differs
/// from the configured one.
struct Agent {
    name: String,
    url: String,
    skills: Vec<Value>,
    /// More options of its target, each after a comma.
    options: String,
}

impl Agent {
    fn new(name: &str, url: &str, skills: Vec<Value>) -> Self {
        Self { name: name.to_owned(), url: url.to_owned(), skills, options: String::new() }
    }

    /// The same agent with another option of its target.
    fn with_option(mut self, option: &str) -> Self {
        self.options.push_str(", ");
        self.options.push_str(option);
        self
    }

    /// The same agent over gRPC.
    fn over_grpc(self) -> Self {
        self.with_option("transport: grpc")
    }

    fn document(&self) -> Value {
        json!({ "name": self.name, "version": "1.0.0", "description": "An agent of the tests",
            "url": "https://registered.example/", "protocolVersion": "1.0",
            "defaultInputModes": ["text/plain", "application/json"],
            "defaultOutputModes": ["text/plain", "application/json"],
            "capabilities": { "streaming": true, "pushNotifications": true, "extensions": [{ "uri": "urn:example:loud" }] },
            "skills": self.skills })
    }

    fn target(&self) -> String {
        let Self { name, url, options, .. } = self;
        format!("  - {{ agent: {name}, version: 1.0.0, http: \"{url}\"{options} }}\n")
    }
}

/// The replies of an agent of 1.0 over JSON-RPC that answers each message.
fn good_reply(received: &Received) -> Reply {
    match received.rpc_method() {
        "SendMessage" => received.result(&json!({ "message": { "messageId": "reply-1",
            "role": "ROLE_AGENT", "parts": [{ "text": "good" }] } })),
        "" => empty(404),
        _ => received.error(200, &json!({ "code": -32001, "message": "Task not found" })),
    }
}

/// A skill without schemas.
fn skill(id: &str) -> Value {
    json!({ "id": id, "name": id, "description": id, "tags": ["test"] })
}

/// A gateway in front of agents, and its two callers, `caller` and `other`, which declare all
/// skills. `stranger` declares none.
struct Scene {
    gateway: Gateway,
    options: GatewayOptions,
    _dir: TempDir,
}

impl Scene {
    /// `more` is appended to the configuration of the gateway.
    async fn start(agents: &[Agent], more: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let catalog = dir.path().join("registry.json");
        std::fs::write(&catalog, registry(agents).to_string()).expect("a registry file");
        let targets: String = agents.iter().map(Agent::target).collect();
        let options = GatewayOptions {
            source: format!("file://{}", catalog.display()),
            targets: format!("targets:\n{targets}"),
            runtime: Some(
                "{ undeclaredDependency: deny, inputValidation: deny, outputValidation: deny }"
                    .to_owned(),
            ),
            more: more.to_owned(),
        };
        let gateway = Gateway::start(&options);
        gateway.ready().await;
        gateway.upstreams_up(agents.len()).await;
        Self { gateway, options, _dir: dir }
    }

    /// The address of an agent for callers.
    fn url(&self, agent: &str) -> String {
        format!("{}/a2a/{agent}", self.gateway.url())
    }

    fn caller(&self, name: &'static str, agent: &str) -> Caller {
        Caller { http: reqwest::Client::new(), url: self.url(agent), name }
    }
}

fn registry(agents: &[Agent]) -> Value {
    let depends = agents.iter().flat_map(|agent| {
        agent.skills.iter().map(move |skill| {
            json!({ "type": "agent", "name": agent.name, "version": "1.0.0", "skill": skill["id"] })
        })
    });
    let depends: Vec<_> = depends.collect();
    let caller = |name: &str, depends: &[Value]| {
        let mut caller = Agent::new(name, "", vec![skill("work")]).document();
        let extension = json!({ "uri": "urn:agentgateway:sbom", "params": { "depends": depends } });
        caller["capabilities"]["extensions"] = json!([extension]);
        caller
    };
    let callers = [caller("caller", &depends), caller("other", &depends), caller("stranger", &[])];
    let documents = agents.iter().map(Agent::document).chain(callers);
    json!({ "schemaVersion": "2.0", "agents": documents.collect::<Vec<_>>() })
}

/// A caller of one agent, in 1.0 over JSON-RPC, with access to the exact answers. Without a name,
/// it is unknown.
#[derive(Clone)]
struct Caller {
    http: reqwest::Client,
    url: String,
    name: &'static str,
}

/// The status of HTTP and the message of JSON-RPC.
#[derive(Debug)]
struct Answer {
    status: u16,
    message: Value,
}

impl Answer {
    /// The result. Panics without one.
    fn result(&self) -> &Value {
        self.message.get("result").unwrap_or_else(|| panic!("no result in {self:?}"))
    }

    /// The task of the result. Panics without one.
    fn task(&self) -> &Value {
        self.result().get("task").unwrap_or_else(|| panic!("no task in {self:?}"))
    }

    /// The error code, or null.
    fn code(&self) -> &Value {
        &self.message["error"]["code"]
    }

    /// The state of a task that is the result itself, as of `GetTask`.
    fn state(&self) -> &str {
        self.result()["status"]["state"].as_str().unwrap_or_default()
    }
}

impl Caller {
    async fn open(&self, method: &str, params: &Value) -> reqwest::Response {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut request = self
            .http
            .post(&self.url)
            .header("content-type", "application/json")
            .header("a2a-version", "1.0");
        if !self.name.is_empty() {
            request = request.header("x-agent-name", self.name).header("x-agent-version", "1.0.0");
        }
        request.body(body.to_string()).send().await.expect("the gateway answers")
    }

    async fn call(&self, method: &str, params: &Value) -> Answer {
        let mut events = Events::of(self.open(method, params).await);
        let message = events.next().await.expect("a message of JSON-RPC");
        Answer { status: events.status, message }
    }

    async fn send(&self, skill: &str, text: &str) -> Answer {
        self.call("SendMessage", &message(skill, text)).await
    }

    /// Starts a task, and returns its id while it is running.
    async fn begin(&self, skill: &str, text: &str) -> String {
        let mut params = message(skill, text);
        params["configuration"] = json!({ "returnImmediately": true });
        let answer = self.call("SendMessage", &params).await;
        answer.task()["id"].as_str().expect("an id").to_owned()
    }

    async fn get(&self, task: &str) -> Answer {
        self.call("GetTask", &json!({ "id": task })).await
    }

    async fn stream(&self, skill: &str, text: &str) -> Events {
        Events::of(self.open("SendStreamingMessage", &message(skill, text)).await)
    }

    async fn subscribe(&self, task: &str) -> Events {
        Events::of(self.open("SubscribeToTask", &json!({ "id": task })).await)
    }
}

/// The parameters of a message with one part of text.
fn message(skill: &str, text: &str) -> Value {
    json!({ "message": { "messageId": "message-1", "role": "ROLE_USER",
        "parts": [{ "text": text }], "metadata": { "skillId": skill } } })
}

/// The events of a stream as they arrive.
struct Events {
    status: u16,
    response: reqwest::Response,
    buffer: Vec<u8>,
    /// The length of the start of the buffer that has no end of a line.
    searched: usize,
}

impl Events {
    fn of(response: reqwest::Response) -> Self {
        let status = response.status().as_u16();
        Self { status, response, buffer: Vec::new(), searched: 0 }
    }

    /// The next message of JSON-RPC, also one that is no event. `None` at the end of the stream.
    async fn next(&mut self) -> Option<Value> {
        loop {
            let rest = &self.buffer[self.searched..];
            if let Some(length) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=self.searched + length).collect();
                self.searched = 0;
                let data = line.strip_prefix(b"data:").unwrap_or_default().trim_ascii();
                if !data.is_empty() {
                    return Some(serde_json::from_slice(data).expect("an event of JSON"));
                }
                continue;
            }
            self.searched = self.buffer.len();
            let Ok(Some(chunk)) = self.response.chunk().await else {
                // An answer that is no stream has no line ends.
                self.searched = 0;
                return serde_json::from_slice(&std::mem::take(&mut self.buffer)).ok();
            };
            self.buffer.extend_from_slice(&chunk);
        }
    }

    /// All messages until the end of the stream.
    async fn rest(mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(message) = self.next().await {
            all.push(message);
        }
        all
    }
}
