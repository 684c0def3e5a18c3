//! MCP with the official SDK, in both eras: who the server is, and all pages of its tools.
//!
//! The SDK keeps what the standard knows of a tool and drops other fields. Deliberately absent:
//! sampling, elicitation and roots; a server that asks for them is told that there are none.

use std::{collections::HashSet, error::Error, fmt, iter, time::Duration};

use registry_core::{import::LiveServer, limits};
use rmcp::{
    ClientLifecycleMode, ClientServiceExt as _, RoleClient, ServiceError,
    model::{
        ClientConfig, ClientRequest, Implementation, ListToolsRequest, PaginatedRequestParams,
        ProtocolVersion,
    },
    service::{ClientInitializeError, RunningService},
    transport::{
        IntoTransport, StreamableHttpClientTransport,
        streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};
use serde_json::Value;
use tokio::time::timeout;

use super::{
    BYTES, PAGES, Place, Target,
    child::Child,
    http,
    page::{self, NoTool},
};
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
        asked = timeout(target.patience, converse(target, transport)) => {
            asked.unwrap_or_else(|_| Err(target.late()))
        }
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
    let info = peer.server_info.as_ref().map_or(Value::Null, page::as_json);
    tools(target, service, info).await
}

/// All pages; each tool is judged by itself.
async fn tools(
    target: &Target,
    service: &RunningService<RoleClient, ClientConfig>,
    info: Value,
) -> Result<LiveServer, Failure> {
    let mut said = LiveServer { info, ..LiveServer::default() };
    let (mut bytes, mut cursor, mut seen) = (0, None, HashSet::new());
    for _ in 0..PAGES {
        let request = ListToolsRequest::with_param(
            PaginatedRequestParams::default().with_cursor(cursor.take()),
        );
        let answer = service.send_request(ClientRequest::ListToolsRequest(request)).await;
        let page = page::read(answer.map_err(|e| no_list(target, &e))?);
        let page =
            page.map_err(|e| target.lies(format!("its list of tools cannot be read: {e}")))?;
        for tool in page.tools {
            let tool = tool.unwrap_or_else(|NoTool { raw, reason }| {
                said.unread.insert(said.tools.len(), short(&reason));
                raw
            });
            bytes += tool.to_string().len();
            said.tools.push(tool);
        }
        if bytes > BYTES {
            return Err(target.lies(format!("its tools have more than {} MiB", BYTES >> 20)));
        }
        if said.tools.len() > limits::LIST_ITEMS {
            return Err(target.lies(format!("it has more than {} tools", limits::LIST_ITEMS)));
        }
        match page.next {
            None => return with_some_tool(target, said),
            Some(next) if !seen.insert(next.clone()) => {
                return Err(target.lies("its list of tools goes round in a circle"));
            }
            next => cursor = next,
        }
    }
    Err(target.lies(format!("its list of tools does not end after {PAGES} pages")))
}

/// Refuses a server of whose tools none can be read.
fn with_some_tool(target: &Target, said: LiveServer) -> Result<LiveServer, Failure> {
    match said.unread.first_key_value() {
        Some((i, reason)) if said.unread.len() == said.tools.len() => {
            let reason = format!("none of its tools can be read; the first, /tools/{i}: {reason}");
            Err(target.lies(reason))
        }
        _ => Ok(said),
    }
}

fn unanswered(target: &Target, error: &ClientInitializeError) -> Failure {
    use ClientInitializeError::{ConnectionClosed, LegacyFallbackFailed, TransportError};
    match error {
        LegacyFallbackFailed { fallback, .. } => unanswered(target, fallback),
        TransportError { error, .. } => match http_error(error) {
            Some(StreamableHttpError::Client(error)) => http::broken(target, error),
            Some(answer) => target.lies(short(answer)),
            None => target.unreachable(short(&root_cause(error))),
        },
        ConnectionClosed(_) => target.unreachable("it closed the connection"),
        other => target.lies(format!("it does not speak MCP: {}", short(other))),
    }
}

/// What went wrong over HTTP; the SDK wraps it, and hides its cause.
fn http_error<'a>(
    error: &'a (dyn Error + 'static),
) -> Option<&'a StreamableHttpError<reqwest::Error>> {
    iter::successors(Some(error), |&error| error.source()).find_map(<dyn Error>::downcast_ref)
}

fn no_list(target: &Target, error: &ServiceError) -> Failure {
    match error {
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
