//! An agent on the command line that lists and calls tools through a gateway with the official SDK.
//!
//! It is meant for demos and experiments.

use std::{
    collections::HashMap,
    io::{self, Write as _},
    process::ExitCode,
};

use axum::http::{HeaderName, HeaderValue};
use clap::{Parser, Subcommand};
use demo_backend::client_options::{ClientOptions, describe_http_error};
use rmcp::{
    ClientLifecycleMode, ClientServiceExt, RoleClient,
    model::{CallToolRequestParams, ProtocolVersion, Tool},
    service::{ClientInitializeError, RunningService},
    transport::{
        StreamableHttpClientTransport,
        streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};
use serde_json::{Map, Value};

/// Lists and calls tools at an MCP endpoint.
#[derive(Debug, Parser)]
#[command(
    name = "demo-client",
    version,
    after_help = "Exit codes: 0 ok, 1 the tool or the gateway refused, 2 invalid arguments, 3 cannot \
                  connect"
)]
struct Cli {
    /// The MCP endpoint.
    #[arg(long, default_value = "http://127.0.0.1:7080/mcp")]
    url: String,
    #[command(flatten)]
    client: ClientOptions,
    /// Speak the session-based protocol of 2025-11-25 instead of 2026-07-28.
    #[arg(long)]
    legacy: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the tools of this agent.
    List,
    /// Calls one tool.
    Call {
        /// Name of the tool.
        tool: String,
        /// Arguments as a JSON object.
        #[arg(default_value = "{}", value_parser = object)]
        arguments: Map<String, Value>,
    },
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => {
            Err("expected a JSON object, such as {\"url\": \"https://example.com\"}".to_owned())
        }
        Err(e) => Err(format!("not JSON: {e}")),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let client = match connect(&cli).await {
        Ok(client) => client,
        Err(e) => {
            eprintln!("cannot connect to {}: {e}", cli.url);
            return ExitCode::from(3);
        }
    };
    match run(&client, &cli.command).await {
        Ok(text) => {
            // The reader may have ended, such as `head`.
            let _ = writeln!(io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

type Client = RunningService<RoleClient, ()>;

async fn connect(cli: &Cli) -> Result<Client, String> {
    let mut headers = HashMap::new();
    for (name, value) in cli.client.identity_headers() {
        let value = HeaderValue::from_str(value).map_err(|e| e.to_string())?;
        headers.insert(HeaderName::from_static(name), value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(cli.url.as_str());
    let mut config = config.custom_headers(headers);
    config.auth_header = cli.client.token().map(str::to_owned);
    let transport = match cli.client.http_client() {
        Some(client) => StreamableHttpClientTransport::with_client(client.clone(), config),
        None => StreamableHttpClientTransport::from_config(config),
    };
    let lifecycle = if cli.legacy {
        ClientLifecycleMode::Initialize
    } else {
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
    };
    ().serve_with_lifecycle(transport, lifecycle).await.map_err(|e| described(&e))
}

/// Describes a failed connection. rmcp omits the causes of an HTTP error.
fn described(error: &ClientInitializeError) -> String {
    if error.is_authorization_required() {
        return format!("{error}; set GATEWAY_TOKEN to a valid token, or pass --token-file FILE");
    }
    let whole = || error.to_string();
    let ClientInitializeError::TransportError { error, .. } = error else { return whole() };
    let http = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
    match http {
        Some(StreamableHttpError::Client(error)) => describe_http_error(error),
        _ => whole(),
    }
}

async fn run(client: &Client, command: &Command) -> Result<String, String> {
    match command {
        Command::List => {
            let tools = client.list_all_tools().await.map_err(|e| e.to_string())?;
            if tools.is_empty() {
                return Ok("no tools".to_owned());
            }
            Ok(tools.iter().map(line).collect::<Vec<_>>().join("\n"))
        }
        Command::Call { tool, arguments } => {
            let mut call = CallToolRequestParams::new(tool.clone());
            call.arguments = Some(arguments.clone());
            let result = client.call_tool(call).await.map_err(|e| e.to_string())?;
            let text = result.content.iter().filter_map(|block| block.as_text());
            let text = text.map(|text| text.text.as_str()).collect::<Vec<_>>().join("\n");
            if result.is_error == Some(true) { Err(text) } else { Ok(text) }
        }
    }
}

/// A tool as one line: its name and the first sentence of its description.
fn line(tool: &Tool) -> String {
    let description = tool.description.as_deref().unwrap_or_default();
    let sentence = description.split(['.', '\n']).next().unwrap_or_default();
    format!("  {:<22} {sentence}", tool.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_must_be_an_object() {
        let parsed = |arguments| Cli::try_parse_from(["demo-client", "call", "t", arguments]);
        for (arguments, problem) in
            [("[1]", "expected a JSON object"), ("1", "expected a JSON object"), ("{", "not JSON")]
        {
            let rejected = parsed(arguments).unwrap_err().to_string();
            assert!(rejected.contains(problem), "{rejected}");
        }
        assert!(parsed("{\"a\": 1}").is_ok());
    }
}
