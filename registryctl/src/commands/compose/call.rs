//! `compose run`: calls a tool at a gateway and prints the steps of its composition.
//!
//! Elicitation is not supported.

use std::{fs, time::Duration};

use registry_core::document::parse_json;
use reqwest::{Client, StatusCode, Url, redirect::Policy};
use serde_json::{Value, json};

use super::super::Session;
use crate::{
    cli::{ComposeRunArgs, Format},
    diagnose::live_remedy,
    failure::{Failure, root_cause},
    screen::TextTable,
    style::{Paint, printable},
};

const VERSION: &str = "2026-07-28";
/// Timeout of the call.
const TIMEOUT: Duration = Duration::from_mins(10);
/// Maximum size of a response, in bytes.
const BYTES: usize = 64 << 20;

pub(super) async fn run(session: &Session, args: &ComposeRunArgs) -> Result<(), Failure> {
    let arguments = parse_json(args.arguments.as_bytes())
        .map_err(|e| Failure::Usage(format!("invalid arguments of the tool: {e}")))?;
    check_url(&args.gateway)?;
    let message = call(args, &arguments).await?;
    if let Some(error) = message.get("error") {
        let message = error["message"].as_str().unwrap_or("the call failed");
        return Err(Failure::Rejected(message.to_owned()));
    }
    let result = &message["result"];
    if session.screen.format == Format::Json {
        session.screen.json(result)?;
    } else {
        show(session, result)?;
    }
    if result["isError"] == true {
        let text = result["content"][0]["text"].as_str().unwrap_or("the tool failed");
        return Err(Failure::Rejected(text.to_owned()));
    }
    Ok(())
}

fn check_url(text: &str) -> Result<(), Failure> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    match url {
        Some(url) if url.has_host() => Ok(()),
        _ => Err(Failure::Usage(format!(
            "invalid --gateway `{text}`: not an HTTP URL; write http://HOST:PORT/mcp"
        ))),
    }
}

async fn call(args: &ComposeRunArgs, arguments: &Value) -> Result<Value, Failure> {
    let target = || format!("the gateway at {}", args.gateway);
    let broken = |e: reqwest::Error| {
        let reason = root_cause(&e);
        let help = if reason.contains("Connection refused") {
            Some("start the gateway, or correct --gateway or GATEWAY_MCP_URL")
        } else {
            live_remedy(&reason)
        };
        Failure::LiveUnreachable { target: target(), reason }.with_known_help(help)
    };
    let client = Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .timeout(TIMEOUT)
        .user_agent(concat!("registryctl/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(broken)?;
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo":
            { "name": "registryctl", "version": env!("CARGO_PKG_VERSION") } });
    let params = json!({ "name": args.tool, "arguments": arguments, "_meta": meta });
    let mut request = client
        .post(&args.gateway)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", VERSION)
        .header("mcp-method", "tools/call")
        .header("mcp-name", &args.tool)
        .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }));
    if let Some(agent) = &args.agent {
        let (name, version) = agent
            .rsplit_once('@')
            .ok_or_else(|| Failure::Usage("--agent requires NAME@VERSION".to_owned()))?;
        request = request.header("x-agent-name", name).header("x-agent-version", version);
    }
    if let Some(path) = &args.bearer_file {
        let token = fs::read_to_string(path).map_err(|e| Failure::unreadable(path, e))?;
        request = request.bearer_auth(token.trim());
    }
    let mut response = request.send().await.map_err(broken)?;
    let (status, mut bytes) = (response.status(), Vec::new());
    while let Some(part) = response.chunk().await.map_err(broken)? {
        bytes.extend_from_slice(&part);
        if bytes.len() > BYTES {
            let reason = format!("the response exceeds {} MiB", BYTES >> 20);
            return Err(Failure::InvalidLiveResponse { target: target(), reason });
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    // The last event of a stream has the response.
    let last = text.lines().rev().find_map(|line| line.strip_prefix("data:")).unwrap_or(&text);
    let reason = match serde_json::from_str::<Value>(last) {
        Ok(message) if message["jsonrpc"] == "2.0" => return Ok(message),
        _ if !status.is_success() => format!("HTTP status {status}"),
        Ok(_) => "not a JSON-RPC message".to_owned(),
        Err(e) => e.to_string(),
    };
    let failure = Failure::InvalidLiveResponse { target: target(), reason };
    // Other HTTP errors do not indicate a wrong URL.
    if status.is_success()
        || matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
    {
        let help = "the MCP endpoint of a gateway is http://HOST:7080/mcp by default; correct \
                    --gateway or GATEWAY_MCP_URL";
        return Err(failure.with_help(help.to_owned()));
    }
    Err(failure)
}

fn show(session: &Session, result: &Value) -> Result<(), Failure> {
    let text = |value: &Value| value.as_str().map(str::to_owned).unwrap_or_default();
    let steps = &result["_meta"]["registry/steps"];
    let mut table = TextTable::new(&["STEP", "TOOL", "OUTCOME", "MS", "MESSAGE"]);
    for call in steps["calls"].as_array().into_iter().flatten() {
        let outcome = text(&call["outcome"]);
        let took = call["durationMs"].to_string();
        let cells = [
            text(&call["step"]),
            text(&call["tool"]),
            outcome.clone(),
            took,
            text(&call["message"]),
        ];
        match outcome.as_str() {
            "ok" => table.row(cells),
            _ => table.painted(Paint::Bad, cells),
        }
    }
    if steps.is_object() {
        session.screen.table(&table)?;
    }
    for saga in steps["sagas"].as_array().into_iter().flatten() {
        let outcomes = saga["steps"].as_array().into_iter().flatten();
        let outcomes = outcomes.map(|s| format!("{} {}", text(&s["id"]), text(&s["outcome"])));
        let outcomes: Vec<_> = outcomes.collect();
        let line = format!("saga {}: {}", text(&saga["status"]), outcomes.join(", "));
        session.screen.line(&printable(&line))?;
    }
    match result.get("structuredContent") {
        Some(value) if result["isError"] != true => {
            session.screen.line(&printable(&value.to_string()))
        }
        _ => Ok(()),
    }
}
