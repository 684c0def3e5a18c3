//! MCP with the official SDK, in both eras: who the server is, and all pages of its tools.
//!
//! The SDK keeps what the standard knows of a tool and drops other fields. Deliberately absent:
//! sampling, elicitation and roots; a server that asks for them is told that there are none.

use std::{collections::HashSet, fmt, time::Duration};

use registry_core::{import::LiveServer, limits};
use rmcp::{
    ClientLifecycleMode, ClientServiceExt as _, RoleClient, ServiceError,
    model::{ClientConfig, Implementation, PaginatedRequestParams, ProtocolVersion},
    service::{ClientInitializeError, RunningService},
    transport::{
        IntoTransport, StreamableHttpClientTransport,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::Value;
use tokio::time::timeout;

use super::{BYTES, PAGES, Place, Target, child::Child, http};
use crate::failure::{Failure, root_cause};

/// How long saying good-bye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// Asks a server who it is and which tools it has.
pub(crate) async fn ask(target: &Target) -> Result<LiveServer, Failure> {
    match &target.place {
        Place::Http(url) => {
            let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                .custom_headers(http::headers(target)?)
                .max_sse_event_size(BYTES);
            if let Some(bearer) = &target.bearer {
                config = config.auth_header(bearer);
            }
            let client = http::client(target)?;
            in_time(target, StreamableHttpClientTransport::with_client(client, config)).await
        }
        Place::Program(words) => {
            let (child, stdout, stdin) = Child::start(target, words)?;
            let asked = in_time(target, (stdout, stdin)).await;
            let last_words = child.end().await;
            asked.map_err(|failure| failure.with_last_words(&last_words))
        }
    }
}

/// The whole conversation; the user may also end it.
async fn in_time<T, E, A>(target: &Target, transport: T) -> Result<LiveServer, Failure>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    tokio::select! {
        asked = timeout(target.patience, converse(target, transport)) => asked.unwrap_or_else(|_| {
            let seconds = target.patience.as_secs();
            Err(target.unreachable(format!("it did not say everything in {seconds} s (--timeout)")))
        }),
        _ = tokio::signal::ctrl_c() => Err(target.unreachable("interrupted")),
    }
}

async fn converse<T, E, A>(target: &Target, transport: T) -> Result<LiveServer, Failure>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let own = Implementation::new("registryctl", env!("CARGO_PKG_VERSION"));
    let eras = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    let config = ClientConfig::new(rmcp::model::ClientCapabilities::default(), own);
    let serving = config.serve_with_lifecycle(transport, eras).await;
    let mut service = serving.map_err(|e| unanswered(target, &e))?;
    let said = listen(target, &service).await;
    // The answers are there; a server that does not say good-bye is ended all the same.
    let _ = service.close_with_timeout(GOODBYE).await;
    said
}

async fn listen(
    target: &Target,
    service: &RunningService<RoleClient, ClientConfig>,
) -> Result<LiveServer, Failure> {
    let Some(peer) = service.peer_info() else {
        return Err(target.lies("it did not say who it is"));
    };
    if !ProtocolVersion::KNOWN_VERSIONS.contains(&peer.protocol_version) {
        let version = peer.protocol_version.as_str();
        return Err(target.lies(format!("it speaks `{version}`, which is no version of MCP")));
    }
    let info = peer.server_info.as_ref().map_or(Value::Null, as_json);
    Ok(LiveServer { info, tools: tools(target, service).await? })
}

async fn tools(
    target: &Target,
    service: &RunningService<RoleClient, ClientConfig>,
) -> Result<Vec<Value>, Failure> {
    let (mut tools, mut bytes, mut seen) = (Vec::new(), 0, HashSet::new());
    let mut cursor = None;
    for _ in 0..PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let page = service.list_tools(Some(page)).await.map_err(|e| no_list(target, &e))?;
        for tool in &page.tools {
            let tool = as_json(tool);
            bytes += tool.to_string().len();
            tools.push(tool);
        }
        if bytes > BYTES {
            return Err(target.lies(format!("its tools have more than {} MiB", BYTES >> 20)));
        }
        if tools.len() > limits::LIST_ITEMS {
            return Err(target.lies(format!("it has more than {} tools", limits::LIST_ITEMS)));
        }
        cursor = page.next_cursor;
        match &cursor {
            None => return Ok(tools),
            Some(next) if !seen.insert(next.clone()) => {
                return Err(target.lies("its list of tools goes round in a circle"));
            }
            Some(_) => {}
        }
    }
    Err(target.lies(format!("its list of tools does not end after {PAGES} pages")))
}

/// What the SDK read, as the JSON that it came from.
fn as_json(said: &impl serde::Serialize) -> Value {
    serde_json::to_value(said).unwrap_or_default()
}

fn unanswered(target: &Target, error: &ClientInitializeError) -> Failure {
    use ClientInitializeError::{ConnectionClosed, LegacyFallbackFailed, TransportError};
    match error {
        LegacyFallbackFailed { fallback, .. } => unanswered(target, fallback),
        TransportError { error, .. } => {
            target.unreachable(short(&root_cause(error.error.as_ref())))
        }
        ConnectionClosed(_) => target.unreachable("it closed the connection"),
        other => target.lies(format!("it does not speak MCP: {}", short(other))),
    }
}

fn no_list(target: &Target, error: &ServiceError) -> Failure {
    match error {
        ServiceError::UnexpectedResponse => target.lies(
            "its list of tools cannot be read: a tool without a name, or with an `inputSchema` \
             that is no object",
        ),
        ServiceError::TransportSend(sent) => {
            let cause = root_cause(sent.error.as_ref());
            target.lies(format!("it does not list its tools: {}", short(&cause)))
        }
        other => target.lies(format!("it does not list its tools: {}", short(other))),
    }
}

/// The start of a message, which may repeat what the server sent.
fn short(message: &impl fmt::Display) -> String {
    message.to_string().chars().take(300).collect()
}
