//! An agent on the command line that lists and calls tools through a gateway with the official SDK.
//!
//! It is meant for demos and experiments.

use std::{
    collections::HashMap,
    error::Error,
    fs,
    io::{self, Write as _},
    process::ExitCode,
};

use axum::http::{HeaderName, HeaderValue};
use clap::{Parser, Subcommand};
use reqwest::{Certificate, redirect::Policy};
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
    /// Identity of the client: NAME@VERSION of a registered agent.
    #[arg(long, value_name = "NAME@VERSION", value_parser = agent)]
    agent: Option<Agent>,
    /// API key or bearer token. Other users of this machine can see arguments: prefer
    /// `GATEWAY_TOKEN` or `--token-file`.
    #[arg(long, value_name = "TOKEN", env = "GATEWAY_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// File with the API key or bearer token. It takes precedence over `--token`.
    #[arg(long, value_name = "FILE", value_parser = token_in)]
    token_file: Option<String>,
    /// CA bundle (PEM) used to verify the gateway's certificate [default: the system's CAs].
    #[arg(long, value_name = "FILE", value_parser = client_trusting)]
    ca_cert: Option<reqwest::Client>,
    /// Speak the session-based protocol of 2025-11-25 instead of 2026-07-28.
    #[arg(long)]
    legacy: bool,
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// The token to send. An empty variable is no token.
    fn token(&self) -> Option<&str> {
        let token = self.token.as_deref().map(str::trim).filter(|token| !token.is_empty());
        self.token_file.as_deref().or(token)
    }
}

fn token_in(file: &str) -> Result<String, String> {
    let text = fs::read_to_string(file).map_err(|e| e.to_string())?;
    match text.trim() {
        "" => Err("the file is empty; write the token into it".to_owned()),
        token => Ok(token.to_owned()),
    }
}

/// A client that trusts only the CAs in a file. It follows no redirects, because the credentials are
/// for one address.
fn client_trusting(file: &str) -> Result<reqwest::Client, String> {
    let bundle = fs::read(file).map_err(|e| e.to_string())?;
    let authorities = Certificate::from_pem_bundle(&bundle).map_err(|e| with_causes(&e))?;
    if authorities.is_empty() {
        return Err("the file has no certificate in PEM format".to_owned());
    }
    let client = reqwest::Client::builder().tls_certs_only(authorities).redirect(Policy::none());
    client.build().map_err(|e| with_causes(&e))
}

/// The claimed identity.
#[derive(Debug, Clone)]
struct Agent {
    name: String,
    version: String,
}

fn agent(text: &str) -> Result<Agent, String> {
    let (name, version) = text.split_once('@').ok_or("write NAME@VERSION")?;
    Ok(Agent { name: name.to_owned(), version: version.to_owned() })
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
    if let Some(Agent { name, version }) = &cli.agent {
        for (header, value) in [("x-agent-name", name), ("x-agent-version", version)] {
            let value = HeaderValue::from_str(value).map_err(|e| e.to_string())?;
            headers.insert(HeaderName::from_static(header), value);
        }
    }
    let config = StreamableHttpClientTransportConfig::with_uri(cli.url.as_str());
    let mut config = config.custom_headers(headers);
    config.auth_header = cli.token().map(str::to_owned);
    let transport = match &cli.ca_cert {
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
    let Some(StreamableHttpError::Client(error)) = http else { return whole() };
    let mut text = with_causes(error);
    let untrusted = ["UnknownIssuer", "BadSignature", "UnsupportedSignatureAlgorithmForPublicKey"];
    if untrusted.iter().any(|reason| text.contains(reason)) {
        text +=
            "; pass --ca-cert FILE with the CA bundle (PEM) that verifies the server's certificate";
    }
    text
}

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
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

    /// A file without certificates.
    const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");

    #[test]
    fn unusable_files_of_credentials_are_rejected() {
        for (option, file) in [
            ("--token-file", "/dev/null"),
            ("--token-file", "/no/such/file"),
            ("--ca-cert", MANIFEST),
            ("--ca-cert", "/no/such/file"),
        ] {
            let parsed = Cli::try_parse_from(["demo-client", option, file, "list"]);
            let rejected = parsed.unwrap_err();
            let text = rejected.to_string();
            assert_eq!(rejected.exit_code(), 2, "{text}");
            assert!(text.contains(option) && text.contains(file), "{text}");
        }
    }

    #[test]
    fn token_file_takes_precedence_over_token() {
        let parsed = |arguments: &[&str]| {
            let all = ["demo-client"].iter().chain(arguments).chain(&["list"]);
            Cli::try_parse_from(all).unwrap().token().map(str::to_owned)
        };
        let in_file = fs::read_to_string(MANIFEST).unwrap().trim().to_owned();
        assert_eq!(parsed(&["--token", "a", "--token-file", MANIFEST]), Some(in_file));
        assert_eq!(parsed(&["--token", " a "]).as_deref(), Some("a"));
        assert_eq!(parsed(&["--token", ""]), None);
    }
}
