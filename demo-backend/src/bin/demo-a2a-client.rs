//! An agent on the command line that uses other agents through a gateway, in A2A 1.0 over JSON-RPC.
//!
//! It is meant for demos and experiments.

use std::{
    fmt::Display,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use demo_backend::client_options::{ClientOptions, describe_http_error};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

/// Discovers and uses agents at a gateway.
#[derive(Debug, Parser)]
#[command(
    name = "demo-a2a-client",
    version,
    after_help = "Exit codes: 0 ok, 1 the agent or the gateway refused, 2 invalid arguments, 3 cannot \
                  connect"
)]
struct Cli {
    /// The address of the gateway.
    #[arg(long, default_value = "http://127.0.0.1:7080")]
    url: String,
    #[command(flatten)]
    client: ClientOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the agents that this agent may use.
    List,
    /// Shows the card of an agent.
    Card {
        /// Name of the agent.
        name: String,
    },
    /// Sends a message and shows the answer.
    Send {
        #[command(flatten)]
        message: Message,
        /// Return a running task without waiting for its end.
        #[arg(long)]
        no_wait: bool,
    },
    /// Sends a message and shows the events of its task.
    Stream(Message),
    /// Shows a task.
    Get(Task),
    /// Cancels a task.
    Cancel(Task),
}

#[derive(Debug, clap::Args)]
struct Message {
    /// Name of the agent.
    name: String,
    /// Id of the skill.
    skill: String,
    /// A JSON object, sent as data, or a text.
    content: String,
}

#[derive(Debug, clap::Args)]
struct Task {
    /// Name of the agent.
    name: String,
    /// Id of the task. It can begin with a hyphen.
    #[arg(allow_hyphen_values = true)]
    id: String,
}

/// Why a command fails.
enum Failure {
    NotConnected(String),
    Refused(String),
    /// The reader of standard output has ended, such as `head`.
    NotRead,
}

impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        Self::NotConnected(describe_http_error(&error))
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    match Client::new(&cli).run(&cli.command).await {
        Ok(()) | Err(Failure::NotRead) => ExitCode::SUCCESS,
        Err(Failure::Refused(message)) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
        Err(Failure::NotConnected(message)) => {
            eprintln!("cannot connect to {}: {message}", cli.url);
            ExitCode::from(3)
        }
    }
}

struct Client<'a> {
    http: reqwest::Client,
    url: &'a str,
    options: &'a ClientOptions,
}

impl<'a> Client<'a> {
    fn new(cli: &'a Cli) -> Self {
        let http = cli.client.http_client().cloned().unwrap_or_default();
        Self { http, url: cli.url.trim_end_matches('/'), options: &cli.client }
    }

    async fn run(&self, command: &Command) -> Result<(), Failure> {
        match command {
            Command::List => {
                let list = self.get("/.well-known/agents").await?;
                for agent in list["agents"].as_array().into_iter().flatten() {
                    let text = |name: &str| agent[name].as_str().unwrap_or_default();
                    show(&format!("  {:<22} {}", text("name"), text("description")))?;
                }
            }
            Command::Card { name } => {
                let path = format!("/a2a/{name}/.well-known/agent-card.json");
                show(&format!("{:#}", self.get(&path).await?))?;
            }
            Command::Send { message, no_wait } => {
                let params = message.params(*no_wait);
                show(&format!("{:#}", self.call(&message.name, "SendMessage", &params).await?))?;
            }
            Command::Stream(message) => self.stream(message).await?,
            Command::Get(task) => self.show(task, "GetTask").await?,
            Command::Cancel(task) => self.show(task, "CancelTask").await?,
        }
        Ok(())
    }

    async fn show(&self, task: &Task, method: &str) -> Result<(), Failure> {
        let params = json!({ "id": task.id });
        show(&format!("{:#}", self.call(&task.name, method, &params).await?))
    }

    async fn get(&self, path: &str) -> Result<Value, Failure> {
        let request = self.http.get(format!("{}{path}", self.url));
        let response = self.identified(request).send().await?;
        let is_success = response.status().is_success();
        let text = response.text().await?;
        match serde_json::from_str(&text) {
            Ok(value) if is_success => Ok(value),
            _ => Err(Failure::Refused(text)),
        }
    }

    async fn call(&self, name: &str, method: &str, params: &Value) -> Result<Value, Failure> {
        let text = self.open(name, method, params).await?.text().await?;
        result_of(&text)
    }

    /// Shows one event per line.
    async fn stream(&self, message: &Message) -> Result<(), Failure> {
        let params = message.params(false);
        let mut response = self.open(&message.name, "SendStreamingMessage", &params).await?;
        let mut buffer = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            buffer.extend_from_slice(&chunk);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                if let Some(data) = line.strip_prefix("data:") {
                    show(&result_of(data)?)?;
                }
            }
        }
        // An error before the stream is one answer.
        if buffer.is_empty() {
            Ok(())
        } else {
            result_of(&String::from_utf8_lossy(&buffer)).map(drop)
        }
    }

    async fn open(&self, name: &str, method: &str, params: &Value) -> Result<Response, Failure> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = self
            .http
            .post(format!("{}/a2a/{name}", self.url))
            .header("content-type", "application/json")
            .body(body.to_string());
        Ok(self.identified(request).send().await?)
    }

    fn identified(&self, request: RequestBuilder) -> RequestBuilder {
        let mut request = request.header("a2a-version", "1.0");
        for (name, value) in self.options.identity_headers() {
            request = request.header(name, value);
        }
        match self.options.token() {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }
}

impl Message {
    fn params(&self, no_wait: bool) -> Value {
        let part = match serde_json::from_str::<Value>(&self.content) {
            Ok(data @ Value::Object(_)) => json!({ "data": data }),
            _ => json!({ "text": self.content }),
        };
        json!({
            "message": { "messageId": "message-1", "role": "ROLE_USER", "parts": [part],
                "metadata": { "skillId": self.skill } },
            "configuration": { "returnImmediately": no_wait },
        })
    }
}

fn show(text: &impl Display) -> Result<(), Failure> {
    writeln!(io::stdout(), "{text}").map_err(|_| Failure::NotRead)
}

/// The result of a JSON-RPC message, or its error.
fn result_of(text: &str) -> Result<Value, Failure> {
    let mut message: Value =
        serde_json::from_str(text).map_err(|_| Failure::Refused(text.to_owned()))?;
    if let Some(error) = message.get("error") {
        return Err(Failure::Refused(format!("{error:#}")));
    }
    let result = message.get_mut("result").map(Value::take);
    result.ok_or_else(|| Failure::Refused(text.to_owned()))
}
